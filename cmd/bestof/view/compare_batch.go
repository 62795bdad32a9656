package view

import (
	"fmt"
	"io"
	"iter"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// Limits of the tasks that are listed. The JSON has all.
const (
	maxBatchRows  = 200   // on a terminal
	maxBatchTasks = 5_000 // on a page
)

// A BatchView is a comparison of a batch's tasks with how to look further.
type BatchView struct {
	Batch compare.Batch
	// Command shows one run, and all of the batch where the run is "".
	Command func(run string) string
	// Link is where one run is shown, "" where nowhere. It may be nil.
	Link func(run string) string
}

func (v BatchView) counts() string {
	b := v.Batch
	return fmt.Sprintf("%s, %d judged: %d solved by the judge's choice, %d by any candidate", count(len(b.Tasks), "task", "tasks"), b.Judged, b.Solved, b.Oracle)
}

// result is how a task ended, in a word.
func batchResult(t compare.BatchTask) (string, style) {
	switch {
	case t.State != "done":
		return t.State, yellow
	case t.Solved():
		return id(t.Winner) + " won", green
	case t.Winner > 0:
		return id(t.Winner) + " won, unproved", yellow
	case len(t.Right) > 0:
		return "missed", red
	default:
		return "unsolved", red
	}
}

func batchCell(t compare.BatchTask, c compare.BatchCell) string {
	text := string(c.Outcome)
	switch {
	case text == "":
		text = "unfinished"
	case c.Outcome == candidate.Cancelled && c.Detail == record.NotStarted:
		text = "not begun" // its task is invalid, or over
	}
	if c.Change > 0 {
		text += " " + variantLetter(c.Change)
	}
	if c.Number == t.Winner {
		text += "*"
	}
	return text
}

func batchWhy(t compare.BatchTask) string {
	if t.Unread != "" {
		return t.Unread
	}
	if t.State == "done" {
		return ""
	}
	return t.Reason
}

// CompareBatch writes tasks against candidates: who is right, who won, and which
// changes are the same.
func CompareBatch(w io.Writer, v BatchView, o Options) error {
	p := &page{look: o.Look}
	b := v.Batch
	p.para(bold, 0, "Batch %s: %s", b.Directory, v.counts())
	shown := b.Tasks[:min(len(b.Tasks), maxBatchRows)]
	columns := []column{{head: "task", shrink: 1, least: 8}, {head: "result"}, {head: "right", right: true, shrink: 4, least: 5}}
	narrow := o.Look.Width > 0 && o.Look.Width < 40+14*b.Candidates
	if !narrow {
		for n := range b.Candidates {
			columns = append(columns, column{head: id(n + 1)})
		}
	}
	columns = append(columns, column{head: "run", shrink: 3, least: 10})
	var rows [][]bit
	for _, t := range shown {
		result, st := batchResult(t)
		row := []bit{{p.text("%s", t.ID), normal}, {p.text("%s", result), st}, {p.text("%d/%d", len(t.Right), t.Counted), normal}}
		if !narrow {
			for n := range b.Candidates {
				cell := bit{}
				if n < len(t.Cells) {
					cell = bit{p.text("%s", batchCell(t, t.Cells[n])), outcomeStyle(t.Cells[n].Outcome)}
				}
				row = append(row, cell)
			}
		}
		rows = append(rows, append(row, bit{p.text("%s", t.Run), dim}))
	}
	p.line()
	p.table(columns, rows)
	for _, t := range shown {
		if why := batchWhy(t); why != "" {
			p.para(yellow, 0, "%s: %s", t.ID, why)
		}
	}
	p.line()
	if n := len(b.Tasks) - len(shown); n > 0 {
		p.para(dim, 0, "%s not listed: %s --json", count(n, "task is", "tasks are"), v.Command(""))
	}
	if narrow && b.Candidates > 0 {
		p.para(dim, 0, "The candidates need a wider terminal, or --html FILE.")
	}
	p.para(dim, 0, "* is the winner; equal letters are equal changes, but for white space. One run: %s", v.Command("RUN"))
	return p.flush(w)
}

// CompareBatchHTML writes the same as one page, as CompareHTML does of a run.
func CompareBatchHTML(w io.Writer, v BatchView) error {
	if err := shell("batch").Execute(w, v.Body()); err != nil {
		return fmt.Errorf("comparison of the batch %s: %w", v.Batch.Directory, err)
	}
	return nil
}

// Body is the data of the blocks "batch-head" and "batch-compare".
func (v BatchView) Body() any { return batchCompared{v} }

type batchCompared struct{ v BatchView }

func (b batchCompared) Policy() string       { return policy() }
func (b batchCompared) Title() term.Safe     { return clean("batch " + b.v.Batch.Directory) }
func (b batchCompared) Directory() term.Safe { return clean(b.v.Batch.Directory) }
func (b batchCompared) Counts() string       { return b.v.counts() }

func (b batchCompared) Columns() []string {
	var out []string
	for n := range b.v.Batch.Candidates {
		out = append(out, id(n+1))
	}
	return out
}

func (b batchCompared) Left() string {
	if n := len(b.v.Batch.Tasks) - maxBatchTasks; n > 0 {
		return count(n, "task is", "tasks are") + " not listed: " + b.v.Command("") + " --json"
	}
	return ""
}

type comparedTask struct {
	ID, Run, Command, Why term.Safe
	Result, Good, Link    string
	Right                 string
	Cells                 []comparedCell
}

type comparedCell struct {
	Text term.Safe
	Good string
}

// Tasks yields one row at a time.
func (b batchCompared) Tasks() iter.Seq[comparedTask] {
	return func(yield func(comparedTask) bool) {
		for i, t := range b.v.Batch.Tasks {
			if i == maxBatchTasks {
				return
			}
			result, st := batchResult(t)
			row := comparedTask{
				ID: clean(t.ID), Run: clean(t.Run), Why: clean(batchWhy(t)), Result: clean(result).String(), Good: class(st), Right: fmt.Sprintf("%d/%d", len(t.Right), t.Counted),
				Cells: make([]comparedCell, b.v.Batch.Candidates),
			}
			for n, c := range t.Cells {
				row.Cells[n] = comparedCell{clean(batchCell(t, c)), class(outcomeStyle(c.Outcome))}
			}
			if t.Run != "" {
				row.Command = clean(b.v.Command(t.Run))
				if b.v.Link != nil {
					row.Link = b.v.Link(t.Run)
				}
			}
			if !yield(row) {
				return
			}
		}
	}
}
