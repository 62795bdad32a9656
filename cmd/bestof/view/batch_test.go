package view

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	xhtml "golang.org/x/net/html"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/orchestrator/batch/report"
)

// batchOf is a batch of n tasks with four candidates each, of whom more or
// less are right; every text of it holds s.
func batchOf(n int, s string) report.Report {
	in := report.Input{Batch: "demo" + s, Version: "v1" + s, Candidates: 4}
	if s != "" {
		in.Notes = []string{s}
	}
	for i := range n {
		t := report.Task{ID: fmt.Sprint("task-", i, s), State: report.Done, Run: "run" + s, Reason: "fewest lines" + s, WallMS: int64(1000 * i)}
		for k := 1; k <= 4; k++ {
			c := report.Candidate{Number: k, Agent: fmt.Sprint("agent-", k%2, s), Outcome: candidate.Unmet, Right: report.Wrong, Change: fmt.Sprint(k, s), DurationMS: int64(100 * k)}
			if (i+k)%3 == 0 {
				c.Outcome, c.Right, c.Eligible, c.Change = candidate.Met, report.Right, true, "same"
			} else if k == 4 && i%2 == 0 {
				c.Outcome, c.Eligible = candidate.Met, true
			}
			if s != "" && k == 1 {
				c.Outcome = candidate.Outcome(s)
			}
			if c.Eligible && t.Winner == 0 {
				t.Winner = k
			}
			t.Candidates = append(t.Candidates, c)
		}
		in.Tasks = append(in.Tasks, t)
	}
	in.Tasks = append(in.Tasks, report.Task{ID: "lost" + s, State: report.Infrastructure, Reason: "no engine" + s}, report.Task{ID: "later" + s, State: report.State(s)})
	return report.Build(in, report.Options{Seed: 1, Resamples: 100, Choose: func(t report.Task, numbers []int) int {
		for _, n := range numbers {
			if t.Candidates[n-1].Eligible {
				return n
			}
		}
		return 0
	}})
}

func batchHTML(t testing.TB, r report.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := BatchHTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The style and the policy, which is a digest of it, are left out: they have
// tests of their own.
func TestBatchHTMLGolden(t *testing.T) {
	out := regexp.MustCompile(`(?s)<style>.*?</style>|Security-Policy" content="[^"]*"`).ReplaceAllString(batchHTML(t, batchOf(6, "")), "…")
	golden(t, "batch.html", out)
}

func TestBatchPolicyAllowsOnlyTheStyle(t *testing.T) {
	out := batchHTML(t, batchOf(2, ""))
	policy := html.UnescapeString(regexp.MustCompile(`Security-Policy" content="([^"]*)"`).FindStringSubmatch(out)[1])
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(out)[1]
	sum := sha256.Sum256([]byte(style))
	if want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"; policy != want {
		t.Errorf("policy %q, want %q", policy, want)
	}
}

// shape is the elements and attributes of a page without its texts.
func shape(t testing.TB, out string) string {
	t.Helper()
	root, err := xhtml.Parse(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for n := range root.Descendants() {
		switch n.Type {
		case xhtml.CommentNode:
			t.Fatalf("a comment: %q", n.Data)
		case xhtml.TextNode:
			if n.Parent.Data != "style" {
				harmless(t, n.Data, false)
			}
		case xhtml.ElementNode:
			b.WriteString(n.Data)
			for _, a := range n.Attr {
				fmt.Fprintf(&b, " %s=%q", a.Key, a.Val)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Whatever texts a batch holds, the page has the elements and attributes that
// it has for plain ones.
func TestHostileTextInABatchIsInert(t *testing.T) {
	plain := shape(t, batchHTML(t, batchOf(4, "plain")))
	for _, forbidden := range []string{"script", "iframe", "href", "onload", "style="} {
		if strings.Contains(plain, forbidden) {
			t.Errorf("the page has %s", forbidden)
		}
	}
	for _, s := range attacks {
		if got := shape(t, batchHTML(t, batchOf(4, s))); got != plain {
			t.Errorf("%q changes the page's elements", s)
		}
	}
}

// The curves stand where their values say.
func TestBatchChart(t *testing.T) {
	r := batchOf(30, "")
	c := (&batchPage{r}).Chart()
	if len(c.Lines) != 2 || len(c.Lines[0].Dots) != 4 || c.Lines[0].Band == "" {
		t.Fatalf("%+v", c)
	}
	for i, p := range r.PassK {
		y, err := strconv.ParseFloat(c.Lines[0].Dots[i].Y, 64)
		if share := (chartBottom - y) / (chartBottom - chartTop); err != nil || math.Abs(share-*p.Value) > 0.001 {
			t.Errorf("k = %d is drawn at %v, its value is %v", p.K, share, *p.Value)
		}
	}
	if c.Lines[0].Dots[0].X != "48.0" || c.Lines[0].Dots[3].X != "620.0" {
		t.Errorf("from %s to %s", c.Lines[0].Dots[0].X, c.Lines[0].Dots[3].X)
	}
	if (&batchPage{report.Build(report.Input{}, report.Options{})}).Chart() != nil {
		t.Error("a chart of nothing")
	}
}

func TestBatchHTMLOfNothing(t *testing.T) {
	out := batchHTML(t, report.Build(report.Input{Batch: "x"}, report.Options{}))
	if !strings.Contains(out, "0 of 0 graded tasks solved") || strings.Contains(out, "<svg") {
		t.Error(out)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestBatchHTMLTellsWriteErrors(t *testing.T) {
	if err := BatchHTML(failing{}, batchOf(1, "")); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

// BenchmarkBatchHTML writes the page of 2,000 tasks.
func BenchmarkBatchHTML(b *testing.B) {
	r := batchOf(2000, "")
	for b.Loop() {
		if err := BatchHTML(io.Discard, r); err != nil {
			b.Fatal(err)
		}
	}
}
