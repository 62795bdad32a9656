package app

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/cmd/bestof/view"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/worktree"
)

type diffOptions struct {
	stat       bool
	nameOnly   bool
	patch      bool
	sideBySide bool
	renames    bool
	tool       string // as given, untold for none
	batch      string
}

// What --tool is where nobody gave it, and where it names no tool.
const (
	untold    = ""
	ownChoice = "default"
)

func (a *app) diffCommand() *cobra.Command {
	var o diffOptions
	c := &cobra.Command{
		Use:   "diff RUN [CANDIDATE [CANDIDATE]]",
		Short: "Show a candidate's change, or what sets two candidates apart",
		Long: `Shows the winner's change, the change of the candidate named, or the difference
between the trees of two candidates. On a terminal it is coloured and cleaned;
elsewhere, or with --patch, it is the exact patch that git apply takes. With
--renames a file that went and one that came are one when at least half of the
content is the same. Where the objects of a run are gone, its recorded patch is
read: it has all but colours and what is between two candidates.

--tool opens one file after another in a program of yours: NAME, or what
$DIFFTOOL says, or diff.tool of your own git configuration. It gets read-only
copies, each alone in a directory that is removed afterwards. What a repository
configures is never run.`,
		Example: "  bestof diff last\n  bestof diff last 2 5 --side-by-side\n  bestof diff last 2 --patch > fix.patch\n  bestof diff last --renames --stat\n  bestof diff last 2 --tool=vimdiff\n  bestof diff --batch out task-7 1 2",
		Args:    cobra.RangeArgs(1, 3),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runDiff(c.Context(), o, args)
		},
		ValidArgsFunction: a.completeRuns,
	}
	c.Flags().BoolVar(&o.stat, "stat", false, "list files with their numbers of lines")
	c.Flags().BoolVar(&o.nameOnly, "name-only", false, "list files")
	c.Flags().BoolVarP(&o.patch, "patch", "p", false, "print the exact patch, also on a terminal")
	c.Flags().BoolVarP(&o.sideBySide, "side-by-side", "s", false, "show old and new beside each other")
	c.Flags().BoolVarP(&o.renames, "renames", "M", false, "show files that moved as renames")
	c.Flags().StringVar(&o.tool, "tool", untold, "open the files in a diff tool: vimdiff, meld, or another `NAME`")
	c.Flags().Lookup("tool").NoOptDefVal = ownChoice
	a.addBatchFlag(c, &o.batch)
	_ = c.RegisterFlagCompletionFunc("tool", cobra.FixedCompletions(sortedKeys(difftools), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) runDiff(ctx context.Context, o diffOptions, args []string) error {
	forms := 0
	for _, given := range []bool{o.stat, o.nameOnly, o.patch, o.sideBySide, o.tool != untold} {
		if given {
			forms++
		}
	}
	if forms > 1 || o.tool != untold && a.json {
		return usagef("choose one of --stat, --name-only, --patch, --side-by-side and --tool")
	}
	s, doc, err := a.openRun(ctx, o.batch, args[0])
	if err != nil {
		return err
	}
	defer s.Close()
	from, to, err := sides(doc, args[1:])
	if err != nil {
		return err
	}
	objects, change, err := between(ctx, s, doc, from, to)
	if err != nil {
		return a.recordedDiff(s, doc, o, from, to, err)
	}
	if o.renames {
		var note string
		if change, note, err = objects.Renames(ctx, change); err != nil {
			return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("run %s: %w", doc.Run, err)}
		}
		if note != "" {
			a.warn("%s", note)
		}
	}
	switch {
	case o.tool != untold:
		return a.openTool(ctx, o.tool, changedPairs(change), objects, from, to)
	case a.json:
		return a.printJSON(orchestrator.RecordChange(change, nil, ""))
	case o.nameOnly, o.stat:
		return a.printFiles(listed(change), o.stat)
	case o.patch || !a.streams().OutLook().Terminal && !o.sideBySide:
		return objects.Patch(ctx, a.Out, change)
	}
	files := compare.Diffs(changedPairs(change), blobs(objects), contextLines)
	if !o.renames {
		if files, err = pairs(doc, objects, from, to); err != nil {
			return err
		}
	}
	return view.Diff(a.Out, files, view.DiffOptions{Look: a.streams().OutLook(), SideBySide: o.sideBySide, Old: sideName(from), New: sideName(to)})
}

// A listedFile is one line of --stat and --name-only.
type listedFile struct {
	path, from, status string
	similarity         int
	binary             bool
	added, deleted     int
}

func listed(change worktree.Change) []listedFile {
	var out []listedFile
	for _, f := range change.Files {
		out = append(out, listedFile{f.Path, f.From, f.Status(), f.Similarity, f.Binary, f.Added, f.Deleted})
	}
	return out
}

// printFiles lists the files of a change, with their lines for stat.
func (a *app) printFiles(files []listedFile, stat bool) error {
	for _, f := range files {
		line := term.Clean(f.path, 0).String()
		if stat {
			lines := "binary"
			if !f.binary {
				lines = fmt.Sprintf("+%d -%d", f.added, f.deleted)
			}
			if f.from != "" {
				line = fmt.Sprintf("%s => %s (%d%%)", term.Clean(f.from, 0), line, f.similarity)
			}
			line = fmt.Sprintf("%9s  %-8s  %s", lines, f.status, line)
		}
		if _, err := fmt.Fprintln(a.Out, line); err != nil {
			return err
		}
	}
	return nil
}

// changedPairs are the files of a change, ready to be compared.
func changedPairs(change worktree.Change) []compare.Pair {
	side := func(path string, mode worktree.Mode, id string) compare.Side {
		if mode == worktree.ModeNone {
			return compare.Side{}
		}
		return compare.Side{Path: path, Mode: fmt.Sprintf("%06o", mode), Blob: id}
	}
	var out []compare.Pair
	for _, f := range change.Files {
		out = append(out, compare.Pair{Old: side(cmp.Or(f.From, f.Path), f.OldMode, f.Old), New: side(f.Path, f.NewMode, f.New), Binary: f.Binary})
	}
	return out
}

// sides reads which trees to compare; 0 is the base.
func sides(doc record.Document, args []string) (from, to int, err error) {
	var numbers []int
	for _, arg := range args {
		n, err := candidate.ParseNumber(arg)
		if err != nil {
			return 0, 0, usageError{err}
		}
		c, err := candidateOf(doc, int(n))
		if err != nil {
			return 0, 0, err
		}
		if c.Change == nil {
			return 0, 0, usagef("run %s: %s has no change (%s)", doc.Run, n.ID(), c.Outcome)
		}
		numbers = append(numbers, int(n))
	}
	switch len(numbers) {
	case 2:
		return numbers[0], numbers[1], nil
	case 1:
		return 0, numbers[0], nil
	}
	if doc.Winner == nil {
		return 0, 0, usagef("run %s has no winner: name a candidate, for example `bestof diff %s 1`", doc.Run, doc.Run)
	}
	return 0, *doc.Winner, nil
}

func sideName(n int) string {
	if n == 0 {
		return "base"
	}
	return candidate.Number(n).ID()
}

// between reads the change from one side to the other out of the record.
func between(ctx context.Context, s *site, doc record.Document, from, to int) (*worktree.Objects, worktree.Change, error) {
	objects, err := s.objects(doc)
	if err != nil {
		return nil, worktree.Change{}, err
	}
	trees := [2]worktree.TreeID{worktree.TreeID(doc.Base.Tree), worktree.TreeID(doc.Base.Tree)}
	for i, n := range []int{from, to} {
		if n == 0 {
			continue
		}
		c, err := candidateOf(doc, n)
		if err != nil {
			return nil, worktree.Change{}, err
		}
		trees[i] = worktree.TreeID(c.Change.Tree)
	}
	change, err := objects.Diff(ctx, trees[0], trees[1])
	if err != nil {
		return nil, worktree.Change{}, statusError{orchestrator.ExitInfrastructure, fmt.Errorf("run %s: %w", doc.Run, err)}
	}
	return objects, change, nil
}

// pairs are the files that differ, ready to be shown.
func pairs(doc record.Document, objects *worktree.Objects, from, to int) (iter.Seq[compare.FileDiff], error) {
	ps, err := compare.Pairs(doc, from, to)
	if err != nil {
		return nil, err
	}
	return compare.Diffs(ps, blobs(objects), contextLines), nil
}

// contextLines surround a change.
const contextLines = 3

func blobs(objects *worktree.Objects) compare.Blobs {
	return func(id string) ([]byte, error) {
		b, _, err := objects.Blob(id, compare.MaxBytes+1)
		return b, err
	}
}
