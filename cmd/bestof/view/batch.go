package view

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/batch/report"
)

//go:embed batch.html
var batchSource string

//go:embed numbers.html
var numbersSource string

//go:embed batch.css
var batchStyle string

func batchStyles() string { return pageStyle + batchStyle }

var batchTemplate = sync.OnceValue(func() *template.Template {
	t := template.Must(template.New("batch").Parse(strings.Replace(batchSource, "/*style*/", batchStyles(), 1)))
	return template.Must(t.Parse(numbersSource))
})

// BatchHTML writes report.html: one page that needs nothing but itself, with no
// script and no request, under a policy that forbids both.
func BatchHTML(w io.Writer, r report.Report) error {
	if err := batchTemplate().Execute(w, &batchPage{r}); err != nil {
		return fmt.Errorf("report of the batch %s: %w", r.Batch, err)
	}
	return nil
}

// NumbersBody is the data of the blocks "numbers-head" and "numbers".
func NumbersBody(r report.Report) any { return &batchPage{r} }

type batchPage struct{ r report.Report }

// Policy allows the page's own style and nothing else.
func (p *batchPage) Policy() string {
	sum := sha256.Sum256([]byte(batchStyles()))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}

func (p *batchPage) Batch() term.Safe        { return clean(p.r.Batch) }
func (p *batchPage) Headline() []report.Line { return p.r.Headline() }
func (p *batchPage) TaskCount() int          { return len(p.r.Rows) }
func (p *batchPage) TaskWords() string       { return count(len(p.r.Rows), "task", "tasks") }
func (p *batchPage) Spend() string           { return p.r.SpendWords() }

func (p *batchPage) Summary() string {
	return fmt.Sprintf("%d of %s solved by the judge's choice. %s, %s asked for on each.", p.r.Tasks.Solved, count(p.r.Tasks.Graded, "graded task", "graded tasks"),
		count(p.r.Tasks.Total, "task", "tasks"), count(p.r.Candidates, "candidate", "candidates"))
}

func (p *batchPage) Method() string {
	return fmt.Sprintf("Intervals of %.0f %% resample tasks %d times with the seed %d. Written by bestof %s.", p.r.Confidence*100, p.r.Resamples, p.r.Seed, clean(p.r.Version))
}

func (p *batchPage) Notes() []term.Safe {
	var out []term.Safe
	for _, n := range p.r.Notes {
		out = append(out, clean(n))
	}
	return out
}

type batchPoint struct {
	K          int
	Pass, Best report.Estimate
}

// Curve is the numbers of the chart.
func (p *batchPage) Curve() []batchPoint {
	var out []batchPoint
	for i, k := range p.r.PassK {
		point := batchPoint{K: k.K, Pass: k.Estimate}
		if i < len(p.r.BestOfK) {
			point.Best = p.r.BestOfK[i].Estimate
		}
		out = append(out, point)
	}
	return out
}

type batchAgent struct {
	Name                       term.Safe
	Candidates, Counted, Right int
	Share, Interval            string
	Chosen                     int
	Median, Time, Tokens, Cost string
}

func (p *batchPage) Agents() []batchAgent {
	var out []batchAgent
	for _, a := range p.r.Agents {
		out = append(out, batchAgent{
			Name: clean(a.Name), Candidates: a.Candidates, Counted: a.Counted, Right: a.Right, Share: a.Pass1.Share(), Interval: a.Pass1.Interval(), Chosen: a.Chosen,
			Median: report.Duration(a.MedianMS), Time: report.Duration(a.Spend.CandidateMS), Tokens: a.Spend.TokenWords(), Cost: a.Spend.CostWords(),
		})
	}
	return out
}

type batchCount struct {
	What  term.Safe
	Good  string // class
	Count int
}

func (p *batchPage) Choices() []batchCount {
	c := p.r.Choices
	return []batchCount{
		{clean("chose one that is right"), class(green), c.Right}, {clean("chose one that is not"), class(red), c.Wrong},
		{clean("chose nobody, and somebody was right"), class(yellow), c.Missed}, {clean("chose nobody, and nobody was right"), "", c.None},
	}
}

func (p *batchPage) Agreement() []report.Agreed { return p.r.Agreement }

func (p *batchPage) Outcomes() []batchCount {
	var out []batchCount
	for _, o := range p.r.Outcomes {
		out = append(out, batchCount{clean(string(o.Outcome)), class(outcomeStyle(o.Outcome)), o.Count})
	}
	return out
}

type batchTask struct {
	ID, State, Choice, Run, Why term.Safe
	Chosen, Good                string
	Right                       string
	Changes                     int
	Time, Cost                  string
}

// Tasks yields one row at a time: a batch may have many.
func (p *batchPage) Tasks() iter.Seq[batchTask] {
	return func(yield func(batchTask) bool) {
		for _, t := range p.r.Rows {
			row := batchTask{
				ID: clean(t.ID), State: clean(string(t.State)), Choice: clean(string(t.WinnerRight)), Run: clean(t.Run), Why: clean(t.Reason), Chosen: t.Chosen(),
				Right: fmt.Sprintf("%d/%d", t.Right, t.Counted), Changes: t.Changes, Time: report.Duration(t.Spend.WallMS), Cost: t.Spend.CostWords(),
			}
			row.Good = map[report.Rightness]string{report.Right: class(green), report.Wrong: class(red), report.Unknown: class(yellow)}[t.WinnerRight]
			if !yield(row) {
				return
			}
		}
	}
}
