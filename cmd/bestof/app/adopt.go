package app

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/worktree"
)

// An adoptMode is a parsed --adopt; mode is empty for none.
type adoptMode struct {
	mode   worktree.AdoptMode
	branch string // "" makes a name from the run's
}

func parseAdopt(s string) (adoptMode, error) {
	word, branch, named := strings.Cut(s, "=")
	switch {
	case s == "none":
		return adoptMode{}, nil
	case s == "apply":
		return adoptMode{mode: worktree.AdoptApply}, nil
	case word == "branch" && (!named || branch != ""):
		return adoptMode{mode: worktree.AdoptBranch, branch: branch}, nil
	}
	return adoptMode{}, usagef("--adopt: write none, apply, branch or branch=NAME")
}

type adoptOptions struct {
	branch   string
	override string
}

// ownBranch is what --branch without a name means.
const ownBranch = "bestof/RUN"

func (a *app) adoptCommand() *cobra.Command {
	var o adoptOptions
	c := &cobra.Command{
		Use:   "adopt RUN [CANDIDATE]",
		Short: "Take a candidate's change into your tree, or onto a branch",
		Long: `Writes exactly the changed paths of the winner, or of the candidate named, into
your work tree: all of them or none, and only where your file still is what the
candidate started from. The files that result are compared with what was
verified. --branch commits them on a new branch and leaves your tree alone.
A candidate that was not met is refused; --override says why you want it all
the same, and the record keeps who said so.`,
		Example: `  bestof adopt last
  bestof adopt last --branch=fix-parser
  bestof adopt 3f0k2 c2 --override "the test is wrong, see issue 12"`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("branch") && strings.TrimSpace(o.branch) == "" {
				return usagef("--branch= names no branch: write --branch=NAME, or --branch alone for a name made from the run's")
			}
			return a.runAdopt(c.Context(), o, args)
		},
	}
	c.Flags().StringVar(&o.branch, "branch", "", "commit on a new branch `NAME` instead of writing into your tree")
	c.Flags().Lookup("branch").NoOptDefVal = ownBranch
	c.Flags().StringVar(&o.override, "override", "", "adopt a candidate that was not met, and say `WHY`")
	c.ValidArgsFunction = a.completeRuns
	return c
}

func (a *app) runAdopt(ctx context.Context, o adoptOptions, args []string) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	doc, err := s.load(args[0])
	if err != nil {
		return err
	}
	mode := adoptMode{mode: worktree.AdoptApply}
	if o.branch != "" {
		mode = adoptMode{mode: worktree.AdoptBranch, branch: o.branch}
		if o.branch == ownBranch {
			mode.branch = ""
		}
	}
	if len(args) > 1 && o.branch == ownBranch {
		if _, err := candidate.ParseNumber(args[1]); err != nil {
			return usagef("%w; a branch is named with --branch=%s", err, args[1])
		}
	}
	if doc, err = a.adopt(ctx, s, doc, args[1:], mode, o.override); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(doc.Adopted)
	}
	_, err = fmt.Fprintln(a.Out, term.Clean(adoptedWords(doc), 0))
	return err
}

// adopt adopts the winner, or the candidate that args name, and returns the
// record in which that is written down.
func (a *app) adopt(ctx context.Context, s *site, doc record.Document, args []string, mode adoptMode, why string) (record.Document, error) {
	if mode.mode == worktree.AdoptBranch {
		if err := a.canBranch(ctx, s, mode.branch, doc.Run); err != nil {
			return doc, err
		}
	}
	number, override, err := a.adoptable(ctx, s, doc, args, why)
	if err != nil {
		return doc, err
	}
	before := doc.Adopted
	release, err := a.aboutToAdopt(ctx, s)
	if err != nil {
		return doc, err
	}
	defer release()
	if err := a.adoptWinner(ctx, s, &doc, number, mode, override); err != nil {
		return doc, adoptRefused(doc, number, mode, before, err)
	}
	return doc, nil
}

// aboutToAdopt keeps jobs from beginning to work on the repository, and from
// adopting into it, until release.
func (a *app) aboutToAdopt(ctx context.Context, s *site) (release func(), err error) {
	return s.repo.HoldTree(ctx, false, func() { a.warn("a job is adopting into %s: waiting for it", s.repo.Root()) })
}

// adoptOwn adopts the winner of a run that has just ended. A job's waits until
// nobody else is about to adopt.
func (a *app) adoptOwn(ctx context.Context, s *site, doc *record.Document, mode adoptMode, job bool) error {
	if job {
		release, err := s.repo.HoldTree(ctx, true, func() { a.warn("somebody is about to adopt into %s: waiting", s.repo.Root()) })
		if err != nil {
			return err
		}
		defer release()
	}
	return a.adoptWinner(ctx, s, doc, *doc.Winner, mode, nil)
}

// adoptRefused says that what is in the way is an earlier adoption, where it
// is.
func adoptRefused(doc record.Document, number int, mode adoptMode, before *record.Adoption, err error) error {
	var moved *worktree.MovedError
	if errors.As(err, &moved) && before != nil && before.Mode == string(mode.mode) && before.Candidate == number {
		return refusedf("run %s: %s was adopted before, at %s: nothing was written", doc.Run, candidate.Number(number).ID(), before.At.Local().Format(time.DateTime))
	}
	return err
}

// canBranch refuses, before anything is made, a branch that cannot be.
func (a *app) canBranch(ctx context.Context, s *site, branch, run string) error {
	if branch == "" {
		branch = "bestof/" + run
	}
	if err := s.repo.FreeBranch(ctx, branch); err != nil {
		return usagef("--branch: %w", err)
	}
	if _, _, err := s.repo.Identity(ctx); err != nil {
		return usagef("--branch makes a commit in your name, and git does not know it: set user.name and user.email")
	}
	return nil
}

// adoptedWords say what an adoption made and what to do next.
func adoptedWords(doc record.Document) string {
	d := doc.Adopted
	id := candidate.Number(d.Candidate).ID()
	if d.Mode == string(worktree.AdoptBranch) {
		return fmt.Sprintf("%s of run %s is commit %s on the new branch %s: `git merge %s` takes it", id, doc.Run, d.Commit[:min(12, len(d.Commit))], d.Branch, d.Branch)
	}
	return fmt.Sprintf("%s of run %s is in your work tree, not yet committed: `git status` shows it", id, doc.Run)
}

// adoptable decides which candidate may be adopted, and on whose word.
func (a *app) adoptable(ctx context.Context, s *site, doc record.Document, args []string, why string) (int, *record.Override, error) {
	number := 0
	if doc.Winner != nil {
		number = *doc.Winner
	}
	if len(args) > 0 {
		n, err := candidate.ParseNumber(args[0])
		if err != nil {
			return 0, nil, usageError{err}
		}
		number = int(n)
	}
	if number == 0 {
		return 0, nil, refusedf("run %s has no winner (%s): `bestof revise %s` starts the next attempt from what was learned", doc.Run, doc.Reason, doc.Run)
	}
	c, err := candidateOf(doc, number)
	if err != nil {
		return 0, nil, err
	}
	id := candidate.Number(number).ID()
	if c.Change == nil {
		return 0, nil, refusedf("run %s: %s changed nothing, so there is nothing to adopt", doc.Run, id)
	}
	met := c.Outcome == candidate.Met || doc.Winner != nil && *doc.Winner == number
	if met && doc.Phase == record.Finished {
		return number, nil, nil
	}
	if strings.TrimSpace(why) == "" {
		return 0, nil, refusedf("run %s: %s is %s, not met: a red candidate is not adopted (--override \"why\" takes it on your word)", doc.Run, id, c.Outcome)
	}
	name, email, err := s.repo.Identity(ctx)
	who := strings.TrimSpace(name + " <" + email + ">")
	if err != nil || name == "" {
		who = a.getenv("USER")
	}
	return number, &record.Override{Why: why, Who: who}, nil
}

func candidateOf(doc record.Document, number int) (record.Candidate, error) {
	for _, c := range doc.Candidates {
		if c.Number == number {
			return c, nil
		}
	}
	return record.Candidate{}, usagef("run %s has no candidate %d: it has %d", doc.Run, number, len(doc.Candidates))
}

// adoptWinner adopts and writes it down.
func (a *app) adoptWinner(ctx context.Context, s *site, doc *record.Document, number int, mode adoptMode, override *record.Override) error {
	c, err := candidateOf(*doc, number)
	if err != nil {
		return err
	}
	objects, err := s.objects(*doc)
	if err != nil {
		return err
	}
	change, err := objects.Diff(ctx, worktree.TreeID(doc.Base.Tree), worktree.TreeID(c.Change.Tree))
	if err != nil {
		return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("run %s: read the change of %s: %w", doc.Run, candidate.Number(number).ID(), err)}
	}
	if mode.mode == worktree.AdoptBranch && mode.branch == "" {
		mode.branch = "bestof/" + doc.Run
	}
	_, err = s.repo.Adopt(ctx, objects, change, worktree.AdoptOptions{
		Mode: mode.mode, Branch: mode.branch, Message: commitMessage(*doc, c, override), BaseCommit: doc.Base.Commit,
		BaseKind: worktree.BaseKind(doc.Base.Kind), RunID: doc.Run, JournalDir: s.journal(),
		Done: func(done worktree.Adopted) error {
			noted := *doc
			noted.Adopted = &record.Adoption{
				Candidate: number, Mode: string(mode.mode), Branch: done.Branch, Commit: done.Commit, Tree: string(done.Tree), At: time.Now(), Override: override,
			}
			if err := s.records.Update(noted); err != nil {
				return fmt.Errorf("write it down: %w", err)
			}
			*doc = noted
			return nil
		},
	})
	if err != nil {
		return fmt.Errorf("run %s, %s: %w", doc.Run, candidate.Number(number).ID(), err)
	}
	return nil
}

var blanks = regexp.MustCompile(`\s+`)

// commitMessage says where a commit comes from: first the task's first line.
func commitMessage(doc record.Document, c record.Candidate, override *record.Override) string {
	subject := term.Clean(blanks.ReplaceAllString(strings.TrimSpace(firstLine(doc.Task)), " "), 0).String()
	if r := []rune(subject); len(r) > 72 {
		subject = string(r[:71]) + "…"
	}
	b := subject + "\n\n"
	b += fmt.Sprintf("Candidate %d of %d (%s) of bestof run %s: %s.\n", c.Number, len(doc.Candidates), c.Agent, doc.Run, c.Outcome)
	if override != nil {
		b += fmt.Sprintf("Adopted all the same by %s: %s\n", override.Who, term.Clean(override.Why, 0))
	} else if doc.Reason != "" {
		b += doc.Reason + ".\n"
	}
	return b
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
