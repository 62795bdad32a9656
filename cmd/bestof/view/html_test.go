package view

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"html"
	"io"
	"iter"
	"regexp"
	"slices"
	"strings"
	"testing"

	xhtml "golang.org/x/net/html"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

func htmlOf(doc record.Document, files []compare.FileDiff) HTML {
	return HTML{Model: compare.Build(doc), Files: func(from, to int) (iter.Seq[compare.FileDiff], error) { return slices.Values(files), nil }}
}

func page2(t testing.TB, h HTML) string {
	t.Helper()
	var b bytes.Buffer
	if err := CompareHTML(&b, h); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCompareHTMLGolden(t *testing.T) {
	h := htmlOf(won(), samples())
	h.Pairs = [][2]int{{1, 2}}
	golden(t, "compare.html", page2(t, h))
	golden(t, "compare-red.html", page2(t, HTML{Model: compare.Build(lost())}))
}

// The one thing that the policy allows is the page's own style.
func TestPolicyAllowsOnlyTheStyle(t *testing.T) {
	out := page2(t, htmlOf(won(), nil))
	policy := html.UnescapeString(regexp.MustCompile(`Security-Policy" content="([^"]*)"`).FindStringSubmatch(out)[1])
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(out)[1]
	sum := sha256.Sum256([]byte(style))
	want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
	if policy != want {
		t.Errorf("policy %q, want %q", policy, want)
	}
}

var attacks = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'-alert(1)-'`, `</title><svg onload=alert(1)>`, `</style><script>x</script>`,
	`javascript:alert(1)`, `<!--`, `]]>`, `{{.}}`, `{{template "pieces"}}`, "`${alert(1)}`", `&lt;script&gt;`, "\x00<b>", "\xff<i>", "\u202e<b>", `<a href="//evil">`,
	`</td></tr></table><iframe srcdoc="x">`, `<meta http-equiv=refresh content="0;url=//evil">`, `<base href=//evil>`, `<form action=//evil>`, `</bdi></code></pre><plaintext>`,
}

// hostile fills every text that a record or a diff holds with s.
func hostile(s string) (record.Document, []compare.FileDiff) {
	d := won()
	d.Run, d.Task, d.Reason, d.Notices = s, s, s, []string{s}
	d.RevisionOf, d.Revision = s, &record.Revision{Task: s, Causes: []string{s}}
	d.Base.Kind, d.Base.Commit, d.Base.Notes = s, s, []string{s}
	d.Baseline.Status, d.Baseline.Reason = s, s
	d.Settings.Test, d.Settings.Protect = []string{s}, []string{s}
	d.Settings.Isolation.Name, d.Settings.Isolation.Summary, d.Settings.Isolation.Missing = s, s, []string{s}
	d.Adopted = &record.Adoption{Candidate: 2, Mode: s, Branch: s, Commit: s, Tree: s, Override: &record.Override{Why: s, Who: s}}
	for i := range d.Candidates {
		c := &d.Candidates[i]
		c.Agent, c.Detail, c.Handle, c.Sandbox = s, s, s, s
		c.Tampered = []bytestring.String{bytestring.String(s)}
		c.Usage = map[string]any{s: s}
		c.AgentEnd = &record.AgentEnd{End: "x", Reason: s}
		c.Evidence = []record.Evidence{{Plugin: s, Fault: s}, {Plugin: s, OutputTail: s, Compromised: s, Evidence: judge.Evidence{Flip: judge.Flip(s), FlipReason: s, Tamper: judge.Tamper{Status: judge.TamperStatus(s)}, Measurements: map[string]uint64{s: 1}}}}
		c.Verdict = &judge.Verdict{Requirements: []judge.RequirementVerdict{{Name: s, Statement: s, Decision: judge.Decision(s), Findings: []judge.Finding{
			{Cause: judge.CauseTampered, Artifact: s}, {Cause: judge.CauseBudget, Check: s}, {Cause: judge.Cause(s)},
		}}}}
		if i > 2 {
			c.Outcome = candidate.Outcome(s)
		}
		if c.Change != nil {
			c.Change.Notes = []string{s}
			for j := range c.Change.Files {
				f := &c.Change.Files[j]
				f.Path, f.Status, f.OldMode, f.NewMode, f.Added, f.Deleted = bytestring.String(s), s, s, s, 0, 0
			}
		}
	}
	d.Ranking[2].Because = s
	blobs := func(id string) ([]byte, error) {
		if id == "err" {
			return nil, errors.New(s)
		}
		return []byte(s + id + "\n" + s), nil
	}
	files := slices.Collect(compare.Diffs([]compare.Pair{
		{Old: compare.Side{Path: s + ".go", Mode: "100644", Blob: "a"}, New: compare.Side{Path: s + "x.go", Mode: s, Blob: "b"}},
		{Old: compare.Side{Path: s + ".go", Mode: "100644", Blob: "err"}, New: compare.Side{Path: s + ".go", Mode: "120000", Blob: "b"}},
		{New: compare.Side{Path: s + ".html", Mode: "100644", Blob: "b"}},
	}, blobs, 3))
	return d, files
}

// inert parses a page as a browser does and fails on any element or attribute
// that the template does not write.
func inert(t testing.TB, out string) {
	t.Helper()
	elements := map[string]bool{}
	for e := range strings.FieldsSeq("html head meta title style body header h1 span p bdi code main details summary h2 div table thead tr th tbody td colgroup col aside pre") {
		elements[e] = true
	}
	attributes := map[string]bool{}
	for a := range strings.FieldsSeq("lang charset http-equiv content name id class role aria-labelledby aria-label tabindex scope open colspan") {
		attributes[a] = true
	}
	root, err := xhtml.Parse(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	metas := 0
	for n := range root.Descendants() {
		switch n.Type {
		case xhtml.CommentNode:
			t.Fatalf("a comment: %q", n.Data)
		case xhtml.ElementNode:
			if !elements[n.Data] {
				t.Fatalf("an element <%s>", n.Data)
			}
			if n.Data == "meta" {
				metas++
			}
			for _, a := range n.Attr {
				if !attributes[a.Key] {
					t.Fatalf("an attribute %s=%q on <%s>", a.Key, a.Val, n.Data)
				}
				if a.Key == "class" && !regexp.MustCompile(`^[a-z ]*$`).MatchString(a.Val) {
					t.Fatalf("class %q", a.Val)
				}
			}
		case xhtml.TextNode:
			if n.Parent.Data != "style" {
				harmless(t, n.Data, false)
			}
		}
	}
	if metas != 4 {
		t.Fatalf("%d meta elements", metas)
	}
}

func TestHostileTextIsInert(t *testing.T) {
	for _, s := range attacks {
		d, files := hostile(s)
		h := htmlOf(d, files)
		h.Pairs = [][2]int{{1, 2}}
		inert(t, page2(t, h))
		h.Files = func(int, int) (iter.Seq[compare.FileDiff], error) { return nil, errors.New(s) }
		inert(t, page2(t, h))
	}
}

// FuzzViews: whatever a document holds, a terminal sees no control but newline
// and our own colours, and a browser no element of anyone else's.
func FuzzViews(f *testing.F) {
	for _, s := range attacks {
		f.Add(s, 80)
	}
	f.Add("\x1b[31mred\x1b]52;c;AAAA\x07\n\r\t\b", 40)
	f.Add("日本語\u200b\u0301\u0301\u0301\u0301\u0301\u0301", 1)
	f.Add("", 0)
	f.Fuzz(func(t *testing.T, s string, width int) {
		if len(s) > 300 {
			s = s[:300] // thousands of copies of it are drawn
		}
		d, files := hostile(s)
		if width = width % 200; width < 0 {
			width = 0
		}
		red := d
		red.Winner = nil
		for _, l := range []term.Look{{Terminal: true, Width: width}, {UTF8: true, Color: true, Width: width}} {
			o := Options{Look: l}
			var b bytes.Buffer
			err := errors.Join(Show(&b, d, o), Verdict(&b, red, o), Compare(&b, compare.Build(d), o), Runs(&b, []Summary{Summarise(d), {Run: s, Fault: s}}, o),
				Diff(&b, slices.Values(files), DiffOptions{Look: l, Old: s, New: s}),
				Diff(&b, slices.Values(files), DiffOptions{Look: l, Old: s, New: s, SideBySide: true}))
			if err != nil {
				t.Fatal(err)
			}
			harmless(t, b.String(), l.Color)
			if !l.UTF8 && strings.IndexFunc(b.String(), func(r rune) bool { return r > 0x7e }) >= 0 {
				t.Fatalf("beyond ASCII: %q", b.String())
			}
		}
		inert(t, page2(t, htmlOf(d, files)))
	})
}

// A run of fifty candidates and thousands of files stays within the page's
// budget, and says what it left out.
func TestCompareHTMLIsBounded(t *testing.T) {
	d := won()
	d.Candidates = d.Candidates[:1]
	blob := strings.Repeat("x\n", 5000)
	pairs := make([]compare.Pair, 2000)
	for i := range pairs {
		pairs[i] = compare.Pair{New: compare.Side{Path: "f", Mode: "100644", Blob: "b"}}
	}
	h := HTML{Model: compare.Build(d), Files: func(int, int) (iter.Seq[compare.FileDiff], error) {
		return compare.Diffs(pairs, func(string) ([]byte, error) { return []byte(blob), nil }, 3), nil
	}}
	var n counter
	if err := CompareHTML(&n, h); err != nil {
		t.Fatal(err)
	}
	if n.rows < maxPageRows || n.rows > maxPageRows+1000 || n.left != 1 {
		t.Errorf("%d rows, said so %d times", n.rows, n.left)
	}
}

type counter struct{ rows, left int }

func (c *counter) Write(b []byte) (int, error) {
	c.rows += bytes.Count(b, []byte("<tr>"))
	c.left += bytes.Count(b, []byte("The page is full"))
	return len(b), nil
}

func BenchmarkCompareHTML(b *testing.B) {
	h := htmlOf(won(), samples())
	for b.Loop() {
		if err := CompareHTML(io.Discard, h); err != nil {
			b.Fatal(err)
		}
	}
}
