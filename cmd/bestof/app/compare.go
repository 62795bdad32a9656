package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/cmd/bestof/view"
	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

type compareOptions struct {
	page    string
	unified bool
	batch   string
}

func (a *app) compareCommand() *cobra.Command {
	var o compareOptions
	c := &cobra.Command{
		Use:   "compare RUN [CANDIDATE CANDIDATE]\n  bestof compare --batch DIR [RUN|TASK [CANDIDATE CANDIDATE]]",
		Short: "Compare the candidates of a run, or the tasks of a batch",
		Long: `Shows for each candidate its files, lines, requirements and tests, what the judge
ranked by and what decided, which candidates made the same change, and where
they overlap. Two candidates are shown side by side. --html writes one page that
needs nothing else, with the code and the logs of all of them.

--batch compares the tasks of a batch: which candidates of each are right, who
won, and which made the same change; with a task or a run of it, that one.`,
		Example: "  bestof compare last\n  bestof compare last 2 5\n  bestof compare last --html compare.html\n  bestof compare --batch out\n  bestof compare --batch out task-7 --html task-7.html",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 3 && (len(args) != 0 || o.batch == "") {
				return errors.New("name a run, or a run and two candidates, or a batch with --batch DIR")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return a.runCompare(c.Context(), o, args)
		},
		ValidArgsFunction: a.completeRuns,
	}
	c.Flags().StringVar(&o.page, "html", "", "write a page to `FILE`")
	c.Flags().BoolVar(&o.unified, "unified", false, "with --html, show the code of the page unified, and not side by side")
	a.addBatchFlag(c, &o.batch)
	return c
}

// shellWord is s as it can be pasted behind a command.
func shellWord(s string) string {
	return strings.TrimPrefix(argv.Join([]string{"bestof", s}), "bestof ")
}

func (a *app) addBatchFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "batch", "", "look for the run, by its id or its task, in the batch in `DIR`")
	_ = c.RegisterFlagCompletionFunc("batch", completeDirectories)
}

// openRun opens where a run is recorded and reads it: in the repository, or in
// a batch's directory, where its task names it too.
func (a *app) openRun(ctx context.Context, dir, name string) (*site, record.Document, error) {
	if dir == "" {
		s, err := a.open(ctx)
		if err != nil {
			return nil, record.Document{}, err
		}
		return loaded(s, name)
	}
	at, err := a.batchDir(dir)
	if err != nil {
		return nil, record.Document{}, err
	}
	if name, err = runOfTask(at, name); err != nil {
		return nil, record.Document{}, asBatchError(err)
	}
	records, err := record.OpenIn(at)
	if err != nil {
		return nil, record.Document{}, statusError{orchestrator.ExitInfrastructure, err}
	}
	return loaded(&site{records: records}, name)
}

func loaded(s *site, name string) (*site, record.Document, error) {
	doc, err := s.records.Load(name)
	if err != nil {
		return nil, doc, errors.Join(err, s.Close())
	}
	return s, doc, nil
}

// runOfTask is the run of the task of that name, or the name where no task has
// it.
func runOfTask(dir, name string) (string, error) {
	state, err := batch.View(dir)
	if err != nil {
		return "", err
	}
	defer state.Close()
	rows, err := state.Rows()
	if err != nil {
		return "", err
	}
	for _, r := range rows {
		if r.ID == name && r.Run == "" {
			return "", usagef("the task %s was not begun: there is nothing to compare", name)
		}
		if r.ID == name {
			return r.Run, nil
		}
	}
	return name, nil
}

func (a *app) runCompare(ctx context.Context, o compareOptions, args []string) error {
	if o.unified && o.page == "" {
		return usagef("--unified is about the page: add --html FILE (`bestof diff` is unified)")
	}
	if len(args) == 0 {
		return a.compareBatch(o)
	}
	if len(args) == 3 && o.page == "" {
		return a.runDiff(ctx, diffOptions{sideBySide: true, tool: untold, batch: o.batch}, args)
	}
	s, doc, err := a.openRun(ctx, o.batch, args[0])
	if err != nil {
		return err
	}
	defer s.Close()
	pair, err := pairOf(doc, args[1:])
	if err != nil {
		return err
	}
	model := compare.Build(doc)
	if o.batch != "" {
		model.Flags = "--batch " + shellWord(o.batch)
	}
	objects, missing := s.objects(doc)
	if missing == nil {
		compare.Look(&model, doc, blobs(objects))
	}
	switch {
	case o.page != "" && missing != nil:
		return missing
	case o.page != "":
		h := view.HTML{
			Model: model, Pairs: pair, Unified: o.unified,
			Files: func(from, to int) (iter.Seq[compare.FileDiff], error) { return pairs(doc, objects, from, to) },
			Logs:  func(n int) []view.Log { return candidateLogs(s.records.Path(doc.Run), candidate.Number(n).ID()) },
		}
		return a.writePage(o.page, func(w io.Writer) error { return view.CompareHTML(w, h) })
	case missing != nil:
		a.warn("the contents of the changes were not compared: %v", missing)
	}
	if a.json {
		return a.printJSON(struct {
			Schema string        `json:"schema"`
			Model  compare.Model `json:"comparison"`
		}{"bestof.compare/1", model})
	}
	return view.Compare(a.Out, model, a.viewOptions())
}

// pairOf is the two candidates that a page shows too.
func pairOf(doc record.Document, args []string) ([][2]int, error) {
	if len(args) == 0 {
		return nil, nil
	}
	from, to, err := sides(doc, args)
	return [][2]int{{from, to}}, err
}

// pathless is an error without the path that it names: that of a file which is
// there only until the right one is.
func pathless(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	if l := (*os.LinkError)(nil); errors.As(err, &l) {
		return l.Err
	}
	return err
}

// writePage writes the page beside its name first, so that a page that is
// there is whole.
func (a *app) writePage(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".bestof-*.html")
	if err != nil {
		return usagef("write the page to %s: %w", name, pathless(err))
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(usagef("write the page to %s: %w", name, pathless(err)), os.Remove(f.Name()))
	}
	a.warn("wrote %s", name)
	return nil
}

// compareBatch compares the tasks of a batch.
func (a *app) compareBatch(o compareOptions) (err error) {
	if o.unified {
		return usagef("--unified is about code: name a task of the batch, or leave it out")
	}
	b, err := a.openRecorded(o.batch, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	v := view.BatchView{Batch: b.compared(), Command: func(run string) string {
		if run != "" {
			run = " " + run
		}
		return "bestof compare --batch " + shellWord(o.batch) + run
	}}
	switch {
	case o.page != "":
		return a.writePage(o.page, func(w io.Writer) error { return view.CompareBatchHTML(w, v) })
	case a.json:
		return a.printJSON(struct {
			Schema string `json:"schema"`
			compare.Batch
		}{"bestof.compare-batch/1", v.Batch})
	}
	return view.CompareBatch(a.Out, v, a.viewOptions())
}

// compared is the batch with the candidates of each task.
func (b *recordedBatch) compared() compare.Batch {
	tasks := make([]compare.BatchTask, 0, len(b.rows))
	for _, r := range b.rows {
		t := compare.BatchTask{ID: r.ID, State: r.State, Reason: r.Reason, Run: r.Run, Winner: r.Winner}
		if doc, ok := b.docs[r.ID]; ok {
			t.Fill(doc)
		} else if r.Run != "" {
			t.Unread = fmt.Sprintf("the record of run %s cannot be read", r.Run)
		}
		tasks = append(tasks, t)
	}
	return compare.BuildBatch(shown(b.dir), tasks)
}
