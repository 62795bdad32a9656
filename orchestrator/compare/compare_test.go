package compare

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

func change(tree, normalised string, files ...record.FileChange) *record.Change {
	c := &record.Change{Tree: tree, Normalised: normalised, Files: files}
	for _, f := range files {
		c.Added, c.Deleted = c.Added+f.Added, c.Deleted+f.Deleted
	}
	return c
}

func edit(path, old, new string) record.FileChange {
	f := record.FileChange{Path: bytestring.String(path), Status: "modified", OldMode: "100644", NewMode: "100644", Old: old, New: new, Added: 1, Deleted: 1}
	if old == "" {
		f.OldMode, f.Status = "", "added"
	}
	if new == "" {
		f.NewMode, f.Status = "", "deleted"
	}
	return f
}

func TestBuildGroupsAndOrders(t *testing.T) {
	two := 2
	doc := record.Document{Run: "r", Winner: &two,
		Candidates: []record.Candidate{
			{Number: 1, Change: change("t1", "n1", edit("a", "a0", "a1"))},
			{Number: 2, Change: change("t2", "n2", edit("a", "a0", "a2"), edit("b", "b0", "b1"))},
			{Number: 3, Change: change("t2", "n2", edit("a", "a0", "a2"), edit("b", "b0", "b1"))},
			{Number: 4, Change: change("t4", "n2", edit("a", "a0", "a3"))},
			{Number: 10},
		},
		Ranking: []record.Rank{{Place: 1, Candidate: 2}, {Place: 1, Candidate: 3, Ties: true}, {Place: 3, Candidate: 4, Because: "more lines"}},
	}
	m := Build(doc)
	var order []int
	for _, c := range m.Candidates {
		order = append(order, c.Number)
	}
	if d := cmp.Diff([]int{2, 3, 4, 1, 10}, order); d != "" {
		t.Errorf("order: %s", d)
	}
	want := []Cluster{
		{Candidates: []int{2, 3, 4}, Exact: [][]int{{2, 3}, {4}}, Basis: ByWhiteSpace},
		{Candidates: []int{1}, Exact: [][]int{{1}}, Basis: ByBytes},
	}
	if d := cmp.Diff(want, m.Clusters); d != "" {
		t.Errorf("clusters: %s", d)
	}
	if m.Candidates[4].Cluster != -1 || m.Candidates[0].Cluster != 0 || m.Candidates[3].Cluster != 1 {
		t.Errorf("cluster of each: %+v", m.Candidates)
	}
	if m.Files[0].Path != "a" || m.Files[0].By != 4 || m.Files[0].Same || m.Files[1].By != 2 || !m.Files[1].Same {
		t.Errorf("files: %+v", m.Files)
	}
	o := m.Overlaps()
	if o[0][1] != (Overlap{Shared: 2, Same: 2, Either: 2}) || o[0][3] != (Overlap{Shared: 1, Either: 2}) || o[4][4] != (Overlap{}) {
		t.Errorf("overlaps: %v", o)
	}
}

func TestPairs(t *testing.T) {
	mode := edit("m", "m0", "m0")
	mode.NewMode = "100755"
	zeros := edit("z", "", "z1")
	zeros.OldMode = "000000"
	doc := record.Document{Candidates: []record.Candidate{
		{Number: 1, Change: change("t1", "", edit("a", "a0", "a1"), edit("gone", "g0", ""), edit("moved/there", "", "g0"), mode, zeros)},
		{Number: 2, Change: change("t2", "", edit("a", "a0", "a1"), edit("only2", "", "o1"))},
		{Number: 3},
	}}
	say := func(from, to int) string {
		ps, err := Pairs(doc, from, to)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, p := range ps {
			fmt.Fprintf(&b, "%s %s %s>%s\n", p.Status(), p.Path(), p.Old.Blob, p.New.Blob)
		}
		return b.String()
	}
	for _, c := range []struct {
		from, to int
		want     string
	}{
		{0, 1, "modified a a0>a1\nmode m m0>m0\nrenamed moved/there g0>g0\nadded z >z1\n"},
		{1, 0, "modified a a1>a0\nrenamed gone g0>g0\nmode m m0>m0\ndeleted z z1>\n"},
		{1, 2, "renamed gone g0>g0\nmode m m0>m0\nadded only2 >o1\ndeleted z z1>\n"},
		{2, 2, ""},
		{3, 0, ""},
	} {
		if d := cmp.Diff(c.want, say(c.from, c.to)); d != "" {
			t.Errorf("%d to %d: %s", c.from, c.to, d)
		}
	}
	if _, err := Pairs(doc, 0, 9); err == nil {
		t.Error("a candidate that does not exist was compared")
	}
}

func TestWordsKnowsEveryCause(t *testing.T) {
	n := uint64(7)
	for _, c := range []judge.Cause{
		judge.CauseNoFlip, judge.CauseTampered, judge.CauseBudget, judge.CauseNoOracle, judge.CauseTamperUnchecked,
		judge.CauseWitnessUnsatisfiable, judge.CauseFlipUnobservable, judge.CauseUnreadableCheck, judge.CauseMeasurementMissing, judge.CauseUndecidable,
	} {
		got := Words(judge.Finding{Cause: c, Check: "files <= 3", Reported: &n, Artifact: "t.py"})
		if got == "" || strings.Contains(got, "does not know") {
			t.Errorf("%s: %q", c, got)
		}
	}
	if got, want := Words(judge.Finding{Cause: judge.CauseBudget, Check: "files <= 3", Reported: &n}), "“files <= 3” was asked for and 7 was measured"; got != want {
		t.Errorf("%q", got)
	}
	if got := Words(judge.Finding{Cause: "new"}); !strings.Contains(got, "new") {
		t.Errorf("%q", got)
	}
}

func blobs(m map[string]string) Blobs {
	return func(id string) ([]byte, error) {
		b, ok := m[id]
		if !ok {
			return nil, errors.New("no such blob")
		}
		return []byte(b), nil
	}
}

func text(a, b string) (Pair, Blobs) {
	p := Pair{Old: Side{"f", "100644", "a"}, New: Side{"f", "100644", "b"}}
	return p, blobs(map[string]string{"a": a, "b": b})
}

func TestDiffOfOddFiles(t *testing.T) {
	for name, c := range map[string]struct {
		a, b    string
		omitted string
	}{
		"binary":    {"a\x00", "b", "binary"},
		"too large": {strings.Repeat("x", MaxBytes+1), "b", "too large: more than 1048576 bytes"},
		"too long":  {"x", strings.Repeat("\n", MaxLines+1), "too large: more than 20000 lines"},
	} {
		d := Diff(text2(c.a, c.b))
		if d.Omitted != c.omitted || len(d.Hunks) != 0 {
			t.Errorf("%s: %q, %d hunks", name, d.Omitted, len(d.Hunks))
		}
	}
	d := Diff(Pair{Old: Side{"f", "100644", "lost"}, New: Side{"f", "100644", "b"}}, blobs(nil), 3)
	if d.Omitted != "unreadable: no such blob" {
		t.Errorf("%q", d.Omitted)
	}
	d = Diff(Pair{Old: Side{"f", "100644", "a"}, New: Side{"f", "100755", "a"}}, blobs(map[string]string{"a": "x"}), 3)
	if d.Status() != "mode" || d.Omitted != "" || d.Added != 0 {
		t.Errorf("%+v", d)
	}
	d = Diff(Pair{Old: Side{"f", "100644", "a"}, New: Side{"f", "120000", "b"}}, blobs(map[string]string{"a": "x\n", "b": "target"}), 3)
	if d.Status() != "type" || d.Hunks[0].Rows[0].New.Text != "target" || !d.Hunks[0].Rows[0].New.NoEOL {
		t.Errorf("%+v", d)
	}
	d = Diff(text2("a\r\nb\r\n", "a\nb\r\n"))
	if r := d.Hunks[0].Rows[0]; r.Kind != Change || !r.Old.CR || r.New.CR {
		t.Errorf("%+v", r)
	}
}

func text2(a, b string) (Pair, Blobs, int) { p, r := text(a, b); return p, r, 3 }

func TestWordMarks(t *testing.T) {
	mark := func(s string, spans []Span) string {
		for i := len(spans) - 1; i >= 0; i-- {
			s = s[:spans[i].Start] + "[" + s[spans[i].Start:spans[i].End] + "]" + s[spans[i].End:]
		}
		return s
	}
	for _, c := range []struct{ a, b, wantA, wantB string }{
		{"if n < max {", "if n <= max {", "if n < max {", "if n <[=] max {"},
		{"return count_all(x)", "return count_one(x)", "return [count_all](x)", "return [count_one](x)"},
		{"nothing alike", "wholly()", "nothing alike", "wholly()"},
		{"größe = 1", "größe = 2", "größe = [1]", "größe = [2]"},
	} {
		a, b := words(c.a, c.b)
		if mark(c.a, a) != c.wantA || mark(c.b, b) != c.wantB {
			t.Errorf("%q | %q", mark(c.a, a), mark(c.b, b))
		}
	}
}

// check rebuilds both texts from the hunks and the lines between them.
func check(t interface{ Fatalf(string, ...any) }, a, b string, d FileDiff) {
	as, bs := splitLines(a), splitLines(b)
	x, y, added, deleted := 0, 0, 0, 0
	for _, h := range d.Hunks {
		start := h.OldStart // the line before, when the hunk has none of its own
		if h.OldLines > 0 {
			start--
		}
		for ; x < start; x, y = x+1, y+1 {
			if as[x] != bs[y] {
				t.Fatalf("line %d is outside of every hunk and differs", x)
			}
		}
		olds, news := 0, 0
		for _, r := range h.Rows {
			if r.Old.Number > 0 {
				if r.Old.Number != x+1 || end(r.Old) != as[x] {
					t.Fatalf("old line %d: %+v", x+1, r.Old)
				}
				x, olds = x+1, olds+1
			}
			if r.New.Number > 0 {
				if r.New.Number != y+1 || end(r.New) != bs[y] {
					t.Fatalf("new line %d: %+v", y+1, r.New)
				}
				y, news = y+1, news+1
			}
			for _, l := range []Line{r.Old, r.New} {
				for _, m := range l.Marks {
					if m.Start >= m.End || m.End > len(l.Text) {
						t.Fatalf("mark %v on %q", m, l.Text)
					}
				}
			}
			switch r.Kind {
			case Equal:
				if end(r.Old) != end(r.New) {
					t.Fatalf("equal row differs: %+v", r)
				}
			case Change:
				added, deleted = added+1, deleted+1
			case Delete:
				deleted++
			case Insert:
				added++
			}
		}
		if olds != h.OldLines || news != h.NewLines {
			t.Fatalf("a hunk of %d,%d lines has %d,%d", h.OldLines, h.NewLines, olds, news)
		}
	}
	if added != d.Added || deleted != d.Deleted {
		t.Fatalf("counted +%d -%d, said +%d -%d", added, deleted, d.Added, d.Deleted)
	}
	for ; x < len(as); x, y = x+1, y+1 {
		if as[x] != bs[y] {
			t.Fatalf("the rest differs at line %d", x)
		}
	}
	if y != len(bs) {
		t.Fatalf("%d lines of the new text are missing", len(bs)-y)
	}
}

func end(l Line) string {
	s := l.Text
	if l.CR {
		s += "\r"
	}
	if !l.NoEOL {
		s += "\n"
	}
	return s
}

func TestDiffRebuildsBothTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "d e\n", "d f\n", "\n", "x\r\n", "end", "\xff\n"})
		draw := func(name string) string {
			return strings.Join(rapid.SliceOfN(line, 0, 40).Draw(t, name), "")
		}
		a, b := draw("a"), draw("b")
		p, read := text(a, b)
		check(t, a, b, Diff(p, read, rapid.IntRange(0, 4).Draw(t, "context")))
	})
}

func FuzzDiff(f *testing.F) {
	f.Add("a\nb\n", "a\nc", 3)
	f.Add("", "x\r\n", 0)
	f.Add("\r", "\r\r\n", 1)
	f.Fuzz(func(t *testing.T, a, b string, context int) {
		if strings.Contains(a+b, "\x00") || a == b {
			return
		}
		p, read := text(a, b)
		check(t, a, b, Diff(p, read, max(context, 0)%8))
	})
}

// Scattered edits in a long file are found one by one: a renderer that shows
// the whole file as replaced hides what was changed.
func TestDiffOfALongFileIsSmall(t *testing.T) {
	var a, b strings.Builder
	for i := range MaxLines - 1 {
		fmt.Fprintf(&a, "line %d\n", i%3000)
		if i%50 == 7 {
			fmt.Fprintf(&b, "changed %d\n", i)
		} else {
			fmt.Fprintf(&b, "line %d\n", i%3000)
		}
	}
	p, read := text(a.String(), b.String())
	d := Diff(p, read, 3)
	check(t, a.String(), b.String(), d)
	if d.Added != 400 || d.Deleted != 400 {
		t.Errorf("+%d -%d for 400 changed lines", d.Added, d.Deleted)
	}
}

func BenchmarkDiff(b *testing.B) {
	var x, y strings.Builder
	for i := range MaxLines - 1 {
		fmt.Fprintf(&x, "line %d\n", i*7919%3000)
		fmt.Fprintf(&y, "line %d\n", i*104729%3000)
	}
	p, read := text(x.String(), y.String())
	for b.Loop() {
		Diff(p, read, 3)
	}
}

// Who never had a chance is in no count: whom the host failed, who was stopped and
// who has no outcome yet.
func TestWhoHadAChanceIsCounted(t *testing.T) {
	var doc record.Document
	for i, o := range []candidate.Outcome{candidate.Met, candidate.Unmet, candidate.Cancelled, candidate.Infrastructure, "", candidate.Tampered} {
		doc.Candidates = append(doc.Candidates, record.Candidate{Number: i + 1, Outcome: o})
	}
	var task BatchTask
	if task.Fill(doc); task.Counted != 3 || len(task.Cells) != 6 || len(task.Right) != 1 {
		t.Errorf("%+v", task)
	}
}
