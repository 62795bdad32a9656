package view

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// crowd is a run of fifty candidates of which each changed forty files of two
// thousand, with a thousand tests.
func crowd() (record.Document, compare.Blobs) {
	const candidates, each, files = 50, 40, 2000
	d := won()
	first := d.Candidates[0]
	d.Candidates, d.Ranking = nil, nil
	texts := map[string][]byte{}
	body := strings.Repeat("func f(a int) int { return a + 1 } // as it was\n", 20)
	put := func(text string) string {
		id := fmt.Sprintf("%040x", len(texts))
		texts[id] = []byte(text)
		return id
	}
	base := put("package f\n" + body)
	for n := 1; n <= candidates; n++ {
		c := first
		c.Number, c.Outcome = n, candidate.Met
		c.Change = &record.Change{Tree: fmt.Sprint("t", n), Normalised: fmt.Sprint("n", n)}
		for i := range each {
			number, grammar := (n*17+i*41)%files, ".txt"
			if number%40 == 0 {
				grammar = ".go" // some are coloured; all of it would be most of the time
			}
			path := fmt.Sprintf("dir%d/file%d%s", i%7, number, grammar)
			c.Change.Files = append(c.Change.Files, record.FileChange{
				Path: bytestring.String(path), Status: "modified", OldMode: "100644", NewMode: "100644", Old: base, New: put(fmt.Sprintf("package f\nvar v%d = %d\n%s", n, i, body)), Added: 1,
			})
		}
		seen := map[string]record.TestStatus{}
		for i := range 1000 {
			seen[fmt.Sprintf("suite.case_%d", i)] = []record.TestStatus{record.TestPassed, record.TestFailed}[(n*i)%97/96]
		}
		c.Rounds, c.Evidence = 1, []record.Evidence{{Plugin: "verify", Tests: record.ListTests(seen)}}
		d.Candidates = append(d.Candidates, c)
		d.Ranking = append(d.Ranking, record.Rank{Place: n, Candidate: n, Agreement: 1, Because: "more"})
	}
	return d, func(id string) ([]byte, error) { return texts[id], nil }
}

func crowdPage(t testing.TB) HTML {
	d, blobs := crowd()
	m := compare.Build(d)
	compare.Look(&m, d, blobs)
	return HTML{Model: m, Files: func(from, to int) (iter.Seq[compare.FileDiff], error) {
		ps, err := compare.Pairs(d, from, to)
		return compare.Diffs(ps, blobs, 3), err
	}, Logs: func(int) []Log {
		return []Log{{Name: "agent.log", Text: strings.Repeat("line\n", 10_000), Left: "It goes on elsewhere."}}
	}}
}

// However many candidates, files and lines there are, what is shown stays small
// enough to be looked at, and says what it left out and how to see that.
func TestACrowdIsBounded(t *testing.T) {
	h := crowdPage(t)
	if m := h.Model; m.Looked.Left > 0 || m.Looked.Regions < 1500 || len(m.Regions) > compare.MaxRegions {
		t.Fatalf("%+v", m.Looked)
	}
	var b bytes.Buffer
	if err := Compare(&b, h.Model, Options{Look: term.Look{Width: 120, UTF8: true}}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(b.String(), "\n"); lines > 1500 || !strings.Contains(b.String(), "more files: bestof compare "+h.Model.Run+" --html FILE") {
		t.Errorf("%d lines on a terminal", lines)
	}
	b.Reset()
	if err := CompareHTML(&b, h); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	if b.Len() > 32<<20 {
		t.Errorf("a page of %d bytes", b.Len())
	}
	for _, said := range []string{"not listed here: bestof compare " + h.Model.Run + " --json", "It goes on elsewhere.", "50 candidates"} {
		if !strings.Contains(out, said) {
			t.Errorf("the page does not say %q", said)
		}
	}
	if strings.Index(out, "50 candidates") > 20_000 {
		t.Error("counts do not come first")
	}
	if strings.Count(out, "<details open>") > 5 {
		t.Errorf("%d parts are open at once", strings.Count(out, "<details open>"))
	}
}

func BenchmarkCrowd(b *testing.B) {
	for b.Loop() {
		if err := CompareHTML(io.Discard, crowdPage(b)); err != nil {
			b.Fatal(err)
		}
	}
}

// Blocks can be put into any layout, and show where the code is instead of it.
func TestBlocks(t *testing.T) {
	blocks, err := Blocks()
	if err != nil {
		t.Fatal(err)
	}
	h := htmlOf(won(), samples())
	h.Logs = func(int) []Log {
		return []Log{{Name: "a<b>.log", Text: "\x1b[31m<script>red</script>\x1b[0m\ttab\r\n\x07"}}
	}
	var b bytes.Buffer
	if err := blocks.ExecuteTemplate(&b, "changes", h.Changes(0, 1)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"&lt;script&gt;red&lt;/script&gt;    tab", "a&lt;b&gt;.log", "calc/divide.go", `\u{7}`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %s", want, b.String())
		}
	}
	b.Reset()
	h.Link = func(from, to int) string { return fmt.Sprintf("/diff/%d/%d", from, to) }
	if err := blocks.ExecuteTemplate(&b, "compare", h.Body()); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); !strings.Contains(s, `<a href="/diff/0/1">`) || strings.Contains(s, `class="code"`) || strings.Contains(s, "<main") {
		t.Error(s)
	}
	b.Reset()
	v := BatchView{Batch: compare.BuildBatch("<b>", []compare.BatchTask{{ID: "<script>", State: "done", Run: "r", Winner: 1, Right: []int{1}, Cells: []compare.BatchCell{{Number: 1, Outcome: "met", Change: 1}}}}), Command: func(run string) string { return "<i>" + run }}
	v.Link = func(string) string { return "javascript:alert(1)" }
	if err := CompareBatchHTML(&b, v); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); strings.Contains(s, "<script") || strings.Contains(s, "javascript:") || !strings.Contains(s, "met A*") {
		t.Error(s)
	}
}
