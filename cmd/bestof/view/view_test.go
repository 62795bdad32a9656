package view

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The clock of chroma's regular expressions ends by itself after its last use.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dlclark/regexp2/v2.runClock"))
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got, -update writes it):\n%s", path, d)
	}
}

// looks are the terminals of the golden files.
var looks = map[string]term.Look{
	"40":        {Terminal: true, UTF8: true, Width: 40},
	"80":        {Terminal: true, UTF8: true, Width: 80},
	"120-color": {Terminal: true, UTF8: true, Color: true, Width: 120},
	"80-ascii":  {Terminal: true, Width: 80},
	"pipe":      {UTF8: true},
}

var began = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// won is a finished run with a winner, a tie broken by number, a cheat and a
// failure.
func won() record.Document {
	verdict := func(d judge.Decision, findings ...judge.Finding) *judge.Verdict {
		return &judge.Verdict{Decision: d, Requirements: []judge.RequirementVerdict{
			{Name: "test-passes", Statement: "the test goes from failing to passing", Decision: d, Findings: findings},
			{Name: "small", Statement: "the change is small", Decision: judge.Met},
		}}
	}
	file := func(path string, added, deleted int) record.FileChange {
		return record.FileChange{Path: bytestring.String(path), Status: "modified", OldMode: "100644", NewMode: "100644", Old: "old-" + path, New: fmt.Sprintf("new%d%d-%s", added, deleted, path), Added: added, Deleted: deleted}
	}
	change := func(tree, normalised string, files ...record.FileChange) *record.Change {
		c := &record.Change{Tree: tree, Normalised: normalised, Files: files}
		for _, f := range files {
			c.Added, c.Deleted = c.Added+f.Added, c.Deleted+f.Deleted
		}
		return c
	}
	done := func(n int, agent string, o candidate.Outcome, c *record.Change, v *judge.Verdict) record.Candidate {
		return record.Candidate{Number: n, Handle: candidate.Number(n).Handle(), Agent: agent, State: candidate.Done, Outcome: o, Rounds: 1, Change: c, Verdict: v, DurationMS: int64(n) * 61_000}
	}
	two := change("aaaa", "same", file("internal/calc/divide.go", 3, 1))
	cs := []record.Candidate{
		done(1, "claude", candidate.Met, change("bbbb", "other", file("internal/calc/divide.go", 9, 4), file("internal/calc/a/very/deep/folder/of/helpers/rounding.go", 12, 0)), verdict(judge.Met)),
		done(2, "claude", candidate.Met, two, verdict(judge.Met)),
		done(3, "codex", candidate.Met, two, verdict(judge.Met)),
		done(4, "codex", candidate.Tampered, change("cccc", "cheat", file("internal/calc/divide_test.go", 0, 20)), verdict(judge.Unmet, judge.Finding{Cause: judge.CauseTampered, Artifact: "internal/calc/divide_test.go"})),
		done(5, "mutate", candidate.AgentFailed, nil, nil),
	}
	cs[3].Tampered = []bytestring.String{"internal/calc/divide_test.go"}
	cs[4].Detail = "tried 412 edits, none passes"
	cs[4].AgentEnd = &record.AgentEnd{End: sandbox.Exited, Code: 1}
	cs[1].Evidence = []record.Evidence{{Plugin: "verify", Evidence: judge.Evidence{Flip: judge.FlipAchieved, Tamper: judge.Tamper{Status: judge.Clean}, Measurements: map[string]uint64{"duration-ms": 812}}}}
	cs[1].Usage = map[string]any{"tokens": 1200}
	return record.Document{
		Schema: record.Schema, Run: "20260301-030000-k7m2", Phase: record.Finished, Started: began, DurationMS: 312_000,
		Task:     "divide rounds the wrong way\n\nMake the failing test pass.",
		Settings: record.Settings{Candidates: 5, Test: []string{"go", "test", "./internal/calc"}, Protect: []string{"**/*_test.go"}, Isolation: sandbox.Isolation{Name: "process", Summary: "private HOME, no namespace", Missing: []string{"P3 and P4 against a program that goes looking: the user's files are visible"}}},
		Base:     record.Base{Kind: "snapshot", Commit: "3f2a1b0c9d8e7f6a5b4c", Tree: "dddd", Files: 812},
		Baseline: record.Baseline{Status: "failed", ExitCode: ptr(1), DurationMS: 2100}, Candidates: cs,
		Ranking: []record.Rank{
			{Place: 1, Candidate: 2, Agreement: 2}, {Place: 1, Candidate: 3, Agreement: 2, Ties: true},
			{Place: 3, Candidate: 1, Agreement: 1, Because: "1 candidate agrees, not 2"},
		},
		Winner: ptr(2), Tie: []int{2, 3}, Reason: "2 candidates arrived at this change, more than at any other.",
	}
}

func lost() record.Document {
	d := won()
	d.Winner, d.Tie, d.Ranking, d.ExitCode = nil, nil, nil, 3
	d.Reason = "No candidate met every requirement."
	d.Candidates = d.Candidates[3:]
	d.Revision = &record.Revision{Causes: []string{"c4: the test goes from failing to passing: the protected file internal/calc/divide_test.go was changed", "c5: the agent failed: tried 412 edits, none passes"}}
	return d
}

func documents() map[string]record.Document {
	adopted := won()
	adopted.Tie = nil
	adopted.Adopted = &record.Adoption{Candidate: 2, Mode: "branch", Branch: "bestof/fix", Tree: "aaaa"}
	interrupted := won()
	interrupted.Phase, interrupted.Winner, interrupted.Tie, interrupted.Ranking, interrupted.Reason = record.Interrupted, nil, nil, nil, ""
	interrupted.Candidates[0].State, interrupted.Candidates[0].Outcome = candidate.Working, ""
	dry := record.Document{Run: "r1", Phase: record.Finished, Started: began, Base: record.Base{Kind: "head", Commit: "3f2a1b0c9d8e7f6a5b4c", Files: 3},
		Baseline: record.Baseline{Status: "passed", ExitCode: ptr(0), DurationMS: 900}, Reason: "The test already passes. To judge candidates on not breaking it, say --expect pass."}
	overridden := lost()
	overridden.Adopted = &record.Adoption{Candidate: 4, Mode: "apply", Tree: "cccc", Override: &record.Override{Who: "ann", Why: "the test itself was wrong"}}
	undecided := won()
	undecided.Settings.AllowUndecided, undecided.Tie = true, nil
	undecided.Candidates[1].Outcome = candidate.Undecided
	running := won()
	running.Phase, running.Winner = record.Running, nil
	return map[string]record.Document{"won": won(), "red": lost(), "adopted": adopted, "interrupted": interrupted, "dry": dry, "overridden": overridden, "undecided": undecided, "running": running}
}

func TestGoldens(t *testing.T) {
	docs := documents()
	for look, l := range looks {
		o := Options{Look: l}
		out := map[string]string{}
		for name, d := range docs {
			if look == "80" || name == "won" || name == "red" {
				out["verdict-"+name] = render(t, func(b *bytes.Buffer) error { return Verdict(b, d, o) })
			}
		}
		out["show"] = render(t, func(b *bytes.Buffer) error { return Show(b, won(), o) })
		out["compare"] = render(t, func(b *bytes.Buffer) error { return Compare(b, compare.Build(won()), o) })
		out["runs"] = render(t, func(b *bytes.Buffer) error {
			return Runs(b, []Summary{Summarise(won()), Summarise(docs["interrupted"]), Summarise(docs["adopted"]), Summarise(lost()), {Run: "x", Fault: "run.json: unexpected end"}}, o)
		})
		for _, side := range []bool{false, true} {
			name := map[bool]string{false: "unified", true: "sides"}[side]
			out["diff-"+name] = render(t, func(b *bytes.Buffer) error {
				return Diff(b, slices.Values(samples()), DiffOptions{Look: l, SideBySide: side, Old: "base", New: "c2"})
			})
		}
		for name, got := range out {
			golden(t, name+"-"+look, got)
			wide := l.Width
			if wide == 0 {
				wide = 1 << 20
			}
			for _, line := range strings.Split(sgr.ReplaceAllString(got, ""), "\n") {
				if w := term.Clean(line, 0).Width(); w > wide && !strings.HasPrefix(line, "  bestof ") {
					t.Errorf("%s at %s: a line of %d cells: %q", name, look, w, line)
				}
			}
			harmless(t, got, l.Color)
		}
	}
}

func render(t *testing.T, f func(*bytes.Buffer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := f(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// harmless fails when text for a terminal holds a control that is not a newline
// or, with colours, one of our own.
func harmless(t testing.TB, s string, color bool) {
	t.Helper()
	if color {
		s = sgr.ReplaceAllString(s, "")
	}
	if !utf8.ValidString(s) {
		t.Fatalf("not UTF-8: %q", s)
	}
	for l := range strings.SplitSeq(s, "\n") {
		for _, r := range l {
			if r < 0x20 || r >= 0x7f && r <= 0x9f || r == 0x61c || r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2060 && r <= 0x206f || r == 0xfeff {
				t.Fatalf("%U in %q", r, l)
			}
		}
	}
}

// samples are files of every kind that a diff can show.
func samples() []compare.FileDiff {
	blobs := map[string]string{
		"go0":  "package calc\n\nimport \"errors\"\n\n// Divide rounds towards zero.\nfunc Divide(a, b int) (int, error) {\n\tif b == 0 {\n\t\treturn 0, nil\n\t}\n\treturn a / b, nil\n}\n\nfunc one() int { return 1 }\n",
		"go1":  "package calc\n\nimport \"errors\"\n\n// Divide rounds to the nearest integer, and refuses to divide by zero because there is nothing to round.\nfunc Divide(a, b int) (int, error) {\n\tif b == 0 {\n\t\treturn 0, errors.New(\"division by zero\")\n\t}\n\treturn (a + b/2) / b, nil\n}\n\nfunc one() int { return 1 }\n",
		"t0":   "日本語の長い行がここにあります\nend",
		"t1":   "日本語の長い行はここにありません\nend\n",
		"crlf": "a\r\nb\r\n", "lf": "a\nb\r\n", "bin0": "\x00\x01", "bin1": "\x00\x01\x02", "link": "../target",
		"evil": "x := 1 // \u202e } \u2066 if admin\n\x1b]0;pwned\x07\x9b2J\n",
	}
	read := func(id string) ([]byte, error) { return []byte(blobs[id]), nil }
	pair := func(oldPath, oldMode, old, newPath, newMode, new string) compare.Pair {
		return compare.Pair{Old: compare.Side{Path: oldPath, Mode: oldMode, Blob: old}, New: compare.Side{Path: newPath, Mode: newMode, Blob: new}}
	}
	return slices.Collect(compare.Diffs([]compare.Pair{
		pair("calc/divide.go", "100644", "go0", "calc/divide.go", "100644", "go1"),
		pair("読.txt", "100644", "t0", "読.txt", "100644", "t1"),
		pair("ends.txt", "100644", "crlf", "ends.txt", "100644", "lf"),
		pair("image.png", "100644", "bin0", "image.png", "100644", "bin1"),
		pair("run.sh", "100644", "lf", "run.sh", "100755", "lf"),
		pair("old/name", "100644", "lf", "new/name", "100644", "lf"),
		pair("here", "", "", "here", "120000", "link"),
		pair("evil\x1b[2J\n\u202e.go", "", "", "evil\x1b[2J\n\u202e.go", "100644", "evil"),
		pair("gone.txt", "100644", "t0", "gone.txt", "", ""),
	}, read, 3))
}

// BenchmarkDiff is of two files of twenty thousand lines that share nothing.
func BenchmarkDiff(b *testing.B) {
	var x, y strings.Builder
	for i := range compare.MaxLines - 1 {
		fmt.Fprintf(&x, "\tresult = append(result, %d)\n", i)
		fmt.Fprintf(&y, "\tresult = append(result, f(%d))\n", i+1)
	}
	text := map[string]string{"x": x.String(), "y": y.String()}
	p := compare.Pair{Old: compare.Side{Path: "a.go", Mode: "100644", Blob: "x"}, New: compare.Side{Path: "a.go", Mode: "100644", Blob: "y"}}
	for b.Loop() {
		files := compare.Diffs([]compare.Pair{p}, func(id string) ([]byte, error) { return []byte(text[id]), nil }, 3)
		if err := Diff(io.Discard, files, DiffOptions{Look: looks["120-color"], SideBySide: true}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompare is of fifty candidates that touched two thousand files each.
func BenchmarkCompare(b *testing.B) {
	d := won()
	var files []record.FileChange
	for i := range 2000 {
		files = append(files, record.FileChange{Path: bytestring.String(fmt.Sprintf("dir%d/file%d.go", i%50, i)), Status: "modified", OldMode: "100644", NewMode: "100644", Old: "a", New: fmt.Sprint(i), Added: 1})
	}
	d.Candidates = nil
	for n := range 50 {
		d.Candidates = append(d.Candidates, record.Candidate{Number: n + 1, Agent: "a", Outcome: candidate.Met, Change: &record.Change{Tree: fmt.Sprint(n), Files: files}})
	}
	for b.Loop() {
		m := compare.Build(d)
		if err := Compare(io.Discard, m, Options{Look: looks["80"]}); err != nil {
			b.Fatal(err)
		}
		if err := CompareHTML(io.Discard, HTML{Model: m}); err != nil {
			b.Fatal(err)
		}
	}
}
