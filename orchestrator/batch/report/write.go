package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/term"
)

// JSON writes report.json.
func JSON(w io.Writer, r Report) error {
	e := encoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// encoder writes JSON without the escapes that are for HTML.
func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// ResultSchema names the version of a line of results.jsonl.
const ResultSchema = "bestof.batch-result/1"

type result struct {
	Schema string `json:"schema"`
	Row
	Candidates []resultCandidate `json:"candidates"`
}

type resultCandidate struct {
	Number     int               `json:"number"`
	Agent      string            `json:"agent"`
	Outcome    candidate.Outcome `json:"outcome"`
	Right      Rightness         `json:"right"`
	Eligible   bool              `json:"eligible"`
	Change     string            `json:"change,omitempty"`
	DurationMS int64             `json:"duration_ms"`
	Tokens     *int64            `json:"tokens"`
	CostMicros *int64            `json:"cost_micros"`
}

// Results writes results.jsonl: one task a line, with its candidates.
func Results(w io.Writer, tasks []Task) error {
	e := encoder(w)
	for _, t := range tasks {
		line := result{Schema: ResultSchema, Row: rowOf(t), Candidates: make([]resultCandidate, len(t.Candidates))}
		for i, c := range t.Candidates {
			if c.Right == "" {
				c.Right = Unknown
			}
			line.Candidates[i] = resultCandidate(c)
		}
		if err := e.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// A Prediction is what a task's winner changed; Patch is empty when nobody won.
type Prediction struct {
	Instance string
	Patch    []byte
}

// Predictions writes predictions.jsonl as the official harness reads it: the
// instance, the model and the patch, an empty one where nobody won. JSON cannot
// carry a patch that is not UTF-8: such tasks are left out and their instances
// returned, since a patch with other bytes than the winner's would be graded as
// something that was never verified. It stops at the first error that all
// yields.
func Predictions(w io.Writer, model string, all iter.Seq2[Prediction, error]) (leftOut []string, err error) {
	e := encoder(w)
	for p, err := range all {
		if err != nil {
			return leftOut, err
		}
		if !utf8.Valid(p.Patch) {
			leftOut = append(leftOut, p.Instance)
			continue
		}
		line := struct {
			Instance string `json:"instance_id"`
			Model    string `json:"model_name_or_path"`
			Patch    string `json:"model_patch"`
		}{p.Instance, model, string(p.Patch)}
		if err := e.Encode(line); err != nil {
			return leftOut, err
		}
	}
	return leftOut, nil
}

// csvHeader names the columns of CSV; columns are only ever added at the end.
var csvHeader = []string{
	"instance_id", "state", "run", "candidate", "agent", "outcome", "right", "eligible", "winner", "change", "duration_ms", "tokens", "cost_micros",
}

// CSV writes one row for each candidate, and one for each task that has none.
// Text that a spreadsheet would take for a formula gets a quote before it.
func CSV(w io.Writer, tasks []Task) error {
	out := csv.NewWriter(w)
	if err := out.Write(csvHeader); err != nil {
		return err
	}
	number := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	for _, t := range tasks {
		row := rowOf(t)
		instance := t.ID
		if t.Instance != "" {
			instance = t.Instance
		}
		head := []string{cell(instance), cell(string(row.State)), cell(t.Run)}
		if len(t.Candidates) == 0 {
			if err := out.Write(append(head, make([]string, len(csvHeader)-len(head))...)); err != nil {
				return err
			}
		}
		for _, c := range t.Candidates {
			if c.Right == "" {
				c.Right = Unknown
			}
			line := append(head[:3:3], strconv.Itoa(c.Number), cell(c.Agent), cell(string(c.Outcome)), cell(string(c.Right)), strconv.FormatBool(c.Eligible),
				strconv.FormatBool(c.Number == t.Winner), cell(c.Change), strconv.FormatInt(c.DurationMS, 10), number(c.Tokens), number(c.CostMicros))
			if err := out.Write(line); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

func cell(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r\n", rune(s[0])) {
		return "'" + s
	}
	return s
}

// Markdown writes report.md.
func Markdown(w io.Writer, r Report) error {
	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("# Batch %s\n\n", md(r.Batch))
	p("%d of %s solved by the judge's choice. %s, %s each.\n\n", r.Tasks.Solved, count(r.Tasks.Graded, "graded task"), count(r.Tasks.Total, "task"), count(r.Candidates, "candidate"))
	p("%s\n\n", md(r.SpendWords()))
	for _, n := range r.Notes {
		p("- %s\n", md(n))
	}
	if len(r.Notes) > 0 {
		p("\n")
	}
	p("| number | value | %.0f %% interval | tasks |\n|---|---|---|---|\n", r.Confidence*100)
	for _, l := range r.Headline() {
		p("| %s | %s | %s | %d |\n", l.Name, l.Share(), l.Interval(), l.Tasks)
	}
	p("\n## By number of candidates\n\n| k | any right (pass@k) | interval | the choice right (best-of-k) | interval | tasks |\n|---|---|---|---|---|---|\n")
	for i, k := range r.PassK {
		best := Estimate{}
		if i < len(r.BestOfK) {
			best = r.BestOfK[i].Estimate
		}
		p("| %d | %s | %s | %s | %s | %d |\n", k.K, k.Share(), k.Interval(), best.Share(), best.Interval(), k.Tasks)
	}
	p("\n## By agent\n\n| agent | candidates | had their chance | right | pass@1 | interval | chosen | median time | time | tokens | cost |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, a := range r.Agents {
		p("| %s | %d | %d | %d | %s | %s | %d | %s | %s | %s | %s |\n", md(a.Name), a.Candidates, a.Counted, a.Right, a.Pass1.Share(), a.Pass1.Interval(), a.Chosen,
			Duration(a.MedianMS), Duration(a.Spend.CandidateMS), a.Spend.TokenWords(), a.Spend.CostWords())
	}
	p("\n## Choices\n\n| the judge | tasks |\n|---|---|\n| chose one that is right | %d |\n| chose one that is not | %d |\n| chose nobody, and somebody was right | %d |\n| chose nobody, and nobody was right | %d |\n",
		r.Choices.Right, r.Choices.Wrong, r.Choices.Missed, r.Choices.None)
	p("\n## Agreement\n\n| candidates that made the chosen change | tasks | right |\n|---|---|---|\n")
	for _, a := range r.Agreement {
		p("| %d | %d | %d |\n", a.Size, a.Tasks, a.Right)
	}
	p("\n## Outcomes\n\n| outcome | candidates |\n|---|---|\n")
	for _, o := range r.Outcomes {
		p("| %s | %d |\n", md(string(o.Outcome)), o.Count)
	}
	p("\n## Tasks\n\n| task | state | chosen | right | candidates right | changes | time | cost | why |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, t := range r.Rows {
		p("| %s | %s | %s | %s | %d/%d | %d | %s | %s | %s |\n", md(t.ID), md(string(t.State)), t.Chosen(), md(string(t.WinnerRight)), t.Right, t.Counted, t.Changes,
			Duration(t.Spend.WallMS), t.Spend.CostWords(), md(t.Reason))
	}
	p("\nIntervals resample tasks %d times with the seed %d.\n", r.Resamples, r.Seed)
	_, err := w.Write(b.Bytes())
	return err
}

// MarkdownText is a text of others as it stands for itself in a line of
// Markdown, also in a cell of a table.
func MarkdownText(s string) string { return md(s) }

// md makes a text safe in a cell: one line, nothing hidden, no markup.
func md(s string) string {
	s = term.Clean(s, 1000).String()
	return mdEscapes.Replace(s)
}

var mdEscapes = strings.NewReplacer(`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "~", `\~`, "!", `\!`, "#", `\#`)
