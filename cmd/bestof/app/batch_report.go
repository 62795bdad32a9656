package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/cmd/bestof/view"
	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch"
	"github.com/bestof-dev/bestof/orchestrator/batch/report"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// maxPatch bounds a patch that is exported, in bytes.
const maxPatch = 256 << 20

// A recordedBatch is a batch as it was written down.
type recordedBatch struct {
	dir     string
	state   *batch.State
	records *record.Store
	rows    []batch.Row
	docs    map[string]record.Document // by task; without one: none was kept
	given   map[string]string          // the input's own ids, where they are other ones
	costs   map[int][]batch.Cost       // by task
	notes   []string
}

func (a *app) openRecorded(name string, own bool) (*recordedBatch, error) {
	dir, err := a.batchDir(name)
	if err != nil {
		return nil, err
	}
	open := batch.View
	if own {
		open = batch.Open
	}
	b := &recordedBatch{dir: dir, docs: map[string]record.Document{}, given: map[string]string{}, costs: map[int][]batch.Cost{}}
	if b.state, err = open(dir); err != nil {
		return nil, asBatchError(err)
	}
	if b.records, err = record.OpenIn(dir); err != nil {
		return nil, errors.Join(statusError{orchestrator.ExitInfrastructure, err}, b.state.Close())
	}
	if err := b.read(); err != nil {
		return nil, errors.Join(asBatchError(err), b.close())
	}
	return b, nil
}

func (b *recordedBatch) close() error { return errors.Join(b.records.Close(), b.state.Close()) }

func (b *recordedBatch) read() (err error) {
	if b.rows, err = b.state.Rows(); err != nil {
		return err
	}
	if b.given, err = b.state.Given(); err != nil {
		return err
	}
	costs, err := b.state.Costs()
	if err != nil {
		return err
	}
	for _, c := range costs {
		b.costs[c.Task] = append(b.costs[c.Task], c)
	}
	for _, r := range b.rows {
		if r.Run == "" {
			continue
		}
		doc, err := b.records.Load(r.Run)
		if err != nil {
			b.notes = append(b.notes, fmt.Sprintf("task %s: %v", r.ID, err))
			continue
		}
		b.docs[r.ID] = doc
	}
	return nil
}

// input is the batch as the report wants it.
func (b *recordedBatch) input() report.Input {
	in := report.Input{Batch: shown(b.dir), Version: version(), Notes: b.notes}
	for _, r := range b.rows {
		t := report.Task{ID: r.ID, Instance: b.given[r.ID], Run: r.Run, Winner: r.Winner, Reason: r.Reason, State: report.Pending}
		switch r.State {
		case batch.Done:
			t.State = report.Done
		case batch.Invalid:
			t.State = report.Invalid
		case batch.Failed:
			t.State = report.Infrastructure
		}
		if doc, ok := b.docs[r.ID]; ok {
			t.WallMS = doc.DurationMS
			in.Candidates = max(in.Candidates, len(doc.Candidates))
			for _, c := range doc.Candidates {
				t.Candidates = append(t.Candidates, reported(doc, c))
			}
		}
		t.Earlier = earlier(r, b.costs[r.Seq])
		in.Tasks = append(in.Tasks, t)
	}
	return in
}

// earlier are the candidates of a task that used something and are not those of
// whom the task's run tells.
func earlier(r batch.Row, costs []batch.Cost) (all []report.Candidate) {
	for _, c := range costs {
		cut := c.Outcome == "" || c.Outcome == string(candidate.Cancelled)
		again := cut || c.Outcome == string(candidate.Infrastructure)
		if c.Run == r.Run && r.State != batch.Done && cut || c.Run != r.Run && again {
			one := report.Candidate{Number: c.Candidate, Agent: c.Agent, DurationMS: c.Took.Milliseconds()}
			one.Tokens, one.CostMicros = told(c.Usage)
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b report.Candidate) int { return a.Number - b.Number })
	return all
}

// told is what an agent said that it used, nil for what it did not say.
func told(u orchestrator.Usage) (tokens, micro *int64) {
	if !u.Reported {
		return nil, nil
	}
	n := u.Tokens()
	if u.MicroUSD > 0 {
		micro = &u.MicroUSD
	}
	return &n, micro
}

// reported is a candidate as the report wants it.
func reported(doc record.Document, c record.Candidate) report.Candidate {
	out := report.Candidate{
		Number: c.Number, Agent: c.Agent, Outcome: c.Outcome, Right: rightness(c.Outcome), DurationMS: c.DurationMS,
		Eligible: c.Outcome == candidate.Met || doc.Settings.AllowUndecided && c.Outcome == candidate.Undecided,
	}
	if c.Change != nil {
		out.Change = c.Change.Normalised
	}
	out.Tokens, out.CostMicros = told(orchestrator.UsageOf(c.Usage))
	return out
}

// rightness is what the tests say, as far as what they say can be believed.
func rightness(o candidate.Outcome) report.Rightness {
	switch o {
	case candidate.Met:
		return report.Right
	case candidate.Unmet, candidate.Empty, candidate.AgentFailed, candidate.TimedOut, candidate.OverBudget:
		return report.Wrong
	}
	return report.Unknown
}

// choose is the judge's rule on some of a task's candidates.
func (b *recordedBatch) choose(t report.Task, numbers []int) int {
	doc := b.docs[t.ID]
	doc.Candidates = slices.DeleteFunc(slices.Clone(doc.Candidates), func(c record.Candidate) bool { return !slices.Contains(numbers, c.Number) })
	if w := orchestrator.Choose(doc).Winner; w != nil {
		return *w
	}
	return 0
}

func (a *app) batchReportCommand() *cobra.Command {
	var page string
	var seed uint64
	c := &cobra.Command{
		Use:   "report [flags] DIR",
		Short: "Say in numbers how agents and judge did",
		Long: `Makes the numbers of the batch in DIR from what is recorded of it, prints them and
writes report.json, report.md, report.html, results.jsonl and predictions.jsonl
into DIR. Nothing is run.`,
		Example: "  bestof batch report out\n  bestof batch report out --html report.html\n  bestof batch report out --json | jq .best_of_n",
		Args:    oneDirectory,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.batchReport(args[0], page, seed)
		},
		ValidArgsFunction: completeDirectories,
	}
	c.Flags().StringVar(&page, "html", "", "write the page to this `FILE` too")
	c.Flags().Uint64Var(&seed, "seed", 1, "the `NUMBER` by which intervals are drawn")
	return c
}

func (a *app) batchReport(name, page string, seed uint64) (err error) {
	b, err := a.openRecorded(name, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	in := b.input()
	r := report.Build(in, report.Options{Seed: seed, Choose: b.choose})
	pages := map[string]func(io.Writer) error{
		filepath.Join(b.dir, "report.json"):       func(w io.Writer) error { return report.JSON(w, r) },
		filepath.Join(b.dir, "report.md"):         func(w io.Writer) error { return report.Markdown(w, r) },
		filepath.Join(b.dir, "report.html"):       func(w io.Writer) error { return view.BatchHTML(w, r) },
		filepath.Join(b.dir, "results.jsonl"):     func(w io.Writer) error { return report.Results(w, in.Tasks) },
		filepath.Join(b.dir, "predictions.jsonl"): func(w io.Writer) error { return a.predictions(w, b, defaultModel) },
	}
	if page != "" {
		at := page
		if !filepath.IsAbs(at) {
			at = filepath.Join(a.dir, page)
		}
		pages[at] = func(w io.Writer) error { return view.BatchHTML(w, r) }
	}
	for _, at := range sortedKeys(pages) {
		var out bytes.Buffer
		if err := pages[at](&out); err != nil {
			return err
		}
		if err := atomicfile.Write(at, out.Bytes(), 0o644); err != nil {
			return usagef("write the report to %s: %w", at, pathless(err))
		}
	}
	if a.json {
		return report.JSON(a.Out, r)
	}
	return report.Markdown(a.Out, r)
}

// defaultModel is what predictions call whoever made them.
const defaultModel = "bestof"

func (a *app) predictions(w io.Writer, b *recordedBatch, model string) error {
	leftOut, err := report.Predictions(w, model, b.winners())
	for _, id := range leftOut {
		a.warn("task %s: its patch is not UTF-8 text, which predictions cannot carry: it is left out", id)
	}
	return err
}

// winners are what the winners of the tasks that are done changed.
func (b *recordedBatch) winners() iter.Seq2[report.Prediction, error] {
	return func(yield func(report.Prediction, error) bool) {
		for _, r := range b.rows {
			if r.State != batch.Done {
				continue
			}
			p := report.Prediction{Instance: r.ID}
			if given := b.given[r.ID]; given != "" {
				p.Instance = given
			}
			var err error
			if r.Winner > 0 {
				p.Patch, err = b.records.ReadFile(r.Run, path.Join("candidates", candidate.Number(r.Winner).ID(), "change.patch"), maxPatch)
				if err != nil {
					err = fmt.Errorf("task %s: the winner's patch: %w", r.ID, err)
				}
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

func (a *app) batchExportCommand() *cobra.Command {
	var format, model string
	c := &cobra.Command{
		Use:   "export --format FORMAT [flags] DIR",
		Short: "Print the results of a batch for another program",
		Long: `Prints what is recorded of the batch in DIR: the winners' patches as the official
SWE-bench harness reads predictions (swebench), or every candidate (csv, jsonl).`,
		Example: "  bestof batch export out --format swebench --model claude-x4 > predictions.jsonl\n  bestof batch export out --format csv > candidates.csv",
		Args:    oneDirectory,
		RunE: func(_ *cobra.Command, args []string) (err error) {
			if !slices.Contains(exportFormats, format) {
				return usagef("--format: write swebench, csv or jsonl")
			}
			b, err := a.openRecorded(args[0], false)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, b.close()) }()
			switch format {
			case "swebench":
				return a.predictions(a.Out, b, model)
			case "csv":
				return report.CSV(a.Out, b.input().Tasks)
			}
			return report.Results(a.Out, b.input().Tasks)
		},
		ValidArgsFunction: completeDirectories,
	}
	c.Flags().StringVar(&format, "format", "", "swebench | csv | jsonl")
	c.Flags().StringVar(&model, "model", defaultModel, "the `NAME` under which swebench files the predictions")
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(exportFormats, cobra.ShellCompDirectiveNoFileComp))
	return c
}

var exportFormats = []string{"swebench", "csv", "jsonl"}

func (a *app) batchRejudgeCommand() *cobra.Command {
	var rank []string
	var keep bool
	c := &cobra.Command{
		Use:   "rejudge [flags] DIR",
		Short: "Choose winners again, by another order of ranking",
		Long: `Judges the recorded candidates of every task again and says which winners would be
other ones. Nothing is run. Without --rank the order is that with which the batch
was run. With --keep the batch takes the winners.`,
		Example: "  bestof batch rejudge out --rank binary-size,throughput:higher\n  bestof batch rejudge out --keep",
		Args:    oneDirectory,
		RunE: func(c *cobra.Command, args []string) error {
			return a.batchRejudge(args[0], rank, c.Flags().Changed("rank"), keep)
		},
		ValidArgsFunction: completeDirectories,
	}
	c.Flags().StringSliceVar(&rank, "rank", nil, "`MEASUREMENTS` that rank before the size of the change, each better when lower, or NAME:higher (default those of the batch)")
	c.Flags().BoolVar(&keep, "keep", false, "keep the winners that are chosen now")
	return c
}

// rejudged is a task of which another candidate is chosen.
type rejudged struct {
	ID  string `json:"id"`
	Was int    `json:"was"`
	Is  int    `json:"is"`
}

func (a *app) batchRejudge(name string, rank []string, other, keep bool) (err error) {
	goals, err := fileConfig{Rank: rankSettings{Measurements: rank}}.goals()
	if err != nil {
		return err
	}
	b, err := a.openRecorded(name, keep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	changed, judged, measured := []rejudged{}, 0, map[string]bool{}
	for _, r := range b.rows {
		doc, ok := b.docs[r.ID]
		if !ok || r.State != batch.Done {
			continue
		}
		if other {
			doc.Settings.Rank = goals
			for _, c := range doc.Candidates {
				for _, e := range c.Evidence {
					for name := range e.Evidence.Measurements {
						measured[name] = true
					}
				}
			}
		}
		again, _ := orchestrator.Rejudge(doc)
		judged++
		is := 0
		if again.Winner != nil {
			is = *again.Winner
		}
		if is == r.Winner {
			continue
		}
		changed = append(changed, rejudged{r.ID, r.Winner, is})
		if keep {
			if err := b.state.Choose(r.Seq, is, again.Reason); err != nil {
				return asBatchError(err)
			}
		}
	}
	for _, g := range goals {
		if !measured[g.Measurement] && judged > 0 {
			a.warn("no candidate has the measurement %q: it ranks nobody", g.Measurement)
		}
	}
	if a.json {
		return a.printJSON(struct {
			Schema  string     `json:"schema"`
			Judged  int        `json:"judged"`
			Changed []rejudged `json:"changed"`
			Kept    bool       `json:"kept"`
		}{"bestof.batch-rejudge/1", judged, changed, keep})
	}
	for _, c := range changed {
		fmt.Fprintf(a.Out, "%s: %s, was %s\n", c.ID, winnerWord(c.Is), winnerWord(c.Was))
	}
	_, err = fmt.Fprintf(a.Out, "%s judged again, %d with another winner\n", count(judged, "task"), len(changed))
	return err
}

func winnerWord(n int) string {
	if n == 0 {
		return "nobody"
	}
	return candidate.Number(n).ID()
}
