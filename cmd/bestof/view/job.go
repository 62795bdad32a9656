package view

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/internal/term"
	batchreport "github.com/bestof-dev/bestof/orchestrator/batch/report"
	"github.com/bestof-dev/bestof/orchestrator/schedule/report"
)

//go:embed job.html
var jobSource string

var jobTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("job").Parse(strings.Replace(jobSource, "/*style*/", pageStyle, 1)))
})

// JobHTML writes what jobs did as one page that needs nothing but itself, with
// no script and no request, under a policy that forbids both.
func JobHTML(w io.Writer, r report.Report, zone *time.Location) error {
	if err := jobTemplate().Execute(w, jobPage{r, zone}); err != nil {
		return fmt.Errorf("report of jobs: %w", err)
	}
	return nil
}

type jobPage struct {
	r    report.Report
	zone *time.Location
}

// Policy allows the page's own style and nothing else.
func (jobPage) Policy() string { return policy() }

func (p jobPage) time(t time.Time) string { return t.In(p.zone).Format("Mon 2006-01-02 15:04 MST") }

func (p jobPage) Span() string  { return p.time(p.r.From) + " – " + p.time(p.r.To) }
func (p jobPage) Words() string { return p.r.Total.Words() }
func (p jobPage) Spend() string { return p.r.Total.Spend() }
func (p jobPage) Left() bool    { return p.r.Left }

type jobRow struct {
	Name                            term.Safe
	Words, Spend, Last, Good        string
	Run                             int64
	When, Took, How, Outcome        string
	Reason, Result, Record, Through term.Safe
	Notes                           []term.Safe
}

func (p jobPage) Jobs() []jobRow {
	var out []jobRow
	for _, j := range p.r.Jobs {
		out = append(out, jobRow{Name: clean(j.Name), Words: j.Total.Words(), Spend: j.Total.Spend(), Last: outcomeWord(j.Last), Good: goodClass(j.Last)})
	}
	return out
}

func (p jobPage) Runs() []jobRow {
	var out []jobRow
	for _, r := range p.r.Runs {
		row := jobRow{
			Name: clean(r.Job), Run: r.ID, When: p.time(r.Started), Took: r.Took(p.r.To).String(), How: runHow(r), Outcome: outcomeWord(r.Outcome), Good: goodClass(r.Outcome),
			Reason: clean(r.Reason), Result: clean(runResult(r)), Record: clean(r.Record), Spend: report.Dollars(r.MicroUSD),
		}
		for _, n := range r.Notes {
			row.Notes = append(row.Notes, clean(n))
		}
		out = append(out, row)
	}
	return out
}

func (p jobPage) Skips() []jobRow {
	var out []jobRow
	for _, s := range p.r.Skips {
		out = append(out, jobRow{Name: clean(s.Job), When: p.time(s.Instant), Through: clean(skipThrough(s, p)), Reason: clean(s.Reason), Outcome: skipWord(s)})
	}
	return out
}

func (p jobPage) Next() []jobRow {
	var out []jobRow
	for _, n := range p.r.Next {
		out = append(out, jobRow{Name: clean(n.Job), When: p.time(n.At)})
	}
	return out
}

func outcomeWord(s string) string {
	if s == "" {
		return "goes on"
	}
	return clean(s).String()
}

func goodClass(outcome string) string {
	switch report.Good(outcome) {
	case 1:
		return class(green)
	case -1:
		return class(red)
	}
	return class(yellow)
}

func runHow(r report.Run) string {
	how := "by time"
	if r.Manual {
		how = "by hand"
	}
	if r.Attempt > 1 {
		how += fmt.Sprintf(", attempt %d", r.Attempt)
	}
	return how
}

func runResult(r report.Run) string {
	var parts []string
	if r.Branch != "" {
		parts = append(parts, "branch "+r.Branch)
	}
	for _, p := range r.Patches {
		parts = append(parts, "patch "+p)
	}
	return strings.Join(parts, ", ")
}

func skipWord(s report.Skip) string {
	if s.Waiting {
		return "waits"
	}
	return "skipped"
}

func skipThrough(s report.Skip, p jobPage) string {
	if s.Count < 2 {
		return ""
	}
	return fmt.Sprintf("%d fires, up to %s", s.Count, p.time(s.Through))
}

// JobMarkdown writes what jobs did for a place that shows Markdown.
func JobMarkdown(w io.Writer, r report.Report, zone *time.Location) error {
	page, md := jobPage{r, zone}, batchreport.MarkdownText
	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("# Jobs\n\n%s: %s. %s.\n\n", md(page.Span()), md(page.Words()), md(page.Spend()))
	if len(r.Runs) > 0 {
		p("| run | job | began | took | how | outcome | result | why |\n|---|---|---|---|---|---|---|---|\n")
	}
	for _, row := range page.Runs() {
		p("| %d | %s | %s | %s | %s | %s | %s | %s |\n", row.Run, md(row.Name.String()), md(row.When), row.Took, row.How, md(row.Outcome), md(row.Result.String()), md(row.Reason.String()))
	}
	for _, s := range page.Skips() {
		p("\n- %s, %s: %s", md(s.Name.String()), md(s.When), md(strings.Join(words(s.Outcome, s.Through.String(), s.Reason.String()), ", ")))
	}
	for _, n := range page.Next() {
		p("\n- next: %s, %s", md(n.Name.String()), md(n.When))
	}
	if r.Left {
		p("\n\nThere was more than fits here.")
	}
	p("\n")
	_, err := w.Write(b.Bytes())
	return err
}

// words are the texts that say something.
func words(all ...string) (out []string) {
	for _, s := range all {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

// JobText writes what jobs did for a terminal.
func JobText(w io.Writer, r report.Report, zone *time.Location) error {
	page := jobPage{r, zone}
	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("%s: %s\n%s\n", page.Span(), page.Words(), page.Spend())
	for _, row := range page.Runs() {
		p("%6d  %-16s %s  %-8s %s\n", row.Run, row.Name, row.When, row.Took, strings.Join(words(row.Outcome, row.Reason.String(), row.Result.String()), "; "))
		for _, n := range row.Notes {
			p("        %s\n", n)
		}
	}
	for _, s := range page.Skips() {
		p("%6s  %-16s %s  %s\n", s.Outcome, s.Name, s.When, strings.Join(words(s.Through.String(), s.Reason.String()), "; "))
	}
	for _, n := range page.Next() {
		p("%6s  %-16s %s\n", "next", n.Name, n.When)
	}
	if r.Left {
		p("there was more than fits here\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}
