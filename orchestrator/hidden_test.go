package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/internal/testreport"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/wire"
)

const hiddenPatch = "diff --git a/hidden_want b/hidden_want\nnew file mode 100644\n--- /dev/null\n+++ b/hidden_want\n@@ -0,0 +1 @@\n+right\n"

// hiddenCheck passes when value is what hidden_want says, which only
// verification has. What it leaves in its home would tell.
func hiddenCheck(_ context.Context, p *fake.Process) fake.Exit {
	want, err := os.ReadFile(filepath.Join(p.Dir, "hidden_want"))
	if err != nil {
		return fake.Exit{Code: 1}
	}
	if err := os.WriteFile(filepath.Join(p.Spec.Home, "tested"), want, 0o644); err != nil {
		return fake.Exit{Code: 1}
	}
	got, err := os.ReadFile(filepath.Join(p.Dir, "value"))
	fmt.Fprintf(p.Stdout, "ok same %v\nok other %v\n", string(got) == string(want), string(got) != "")
	if err != nil || string(got) != string(want) {
		return fake.Exit{Code: 1}
	}
	return fake.Exit{}
}

// readOK reads lines of "ok NAME true|false".
func readOK(stdout, _ []byte) (Reported, error) {
	results := map[string]testreport.Status{}
	for line := range strings.Lines(string(stdout)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "ok" {
			switch s := testreport.Status(f[2]); s {
			case "true":
				results[f[1]] = testreport.Passed
			case "false":
				results[f[1]] = testreport.Failed
			default:
				results[f[1]] = s
			}
		}
	}
	return func(id string) testreport.Status { return results[id] }, nil
}

// TestHazardsHiddenTests: hidden tests decide, no candidate sees them, and what
// a candidate puts in their place counts for nothing.
func TestHazardsHiddenTests(t *testing.T) {
	var saw atomic.Int32
	look := func(then fake.Program) fake.Program {
		return func(ctx context.Context, p *fake.Process) fake.Exit {
			for _, at := range []string{filepath.Join(p.Dir, "hidden_want"), filepath.Join(p.Spec.Home, "tested")} {
				if _, err := os.Lstat(at); err == nil {
					saw.Add(1)
				}
			}
			for _, word := range append(slices.Clone(p.Spec.Argv), string(p.Spec.Stdin)) {
				if strings.Contains(word, "hidden") {
					saw.Add(1)
				}
			}
			return then(ctx, p)
		}
	}
	forge := func(ctx context.Context, p *fake.Process) fake.Exit {
		if err := os.WriteFile(filepath.Join(p.Dir, "hidden_want"), []byte("forged\n"), 0o644); err != nil {
			return fake.Exit{Code: 1}
		}
		return writes("forged\n")(ctx, p)
	}
	honest := func(ctx context.Context, p *fake.Process) fake.Exit {
		if err := os.WriteFile(filepath.Join(p.Dir, "hidden_want"), []byte("a test of its own\n"), 0o644); err != nil {
			return fake.Exit{Code: 1}
		}
		return writes("right\n")(ctx, p)
	}
	sb := fake.New(sandbox.Options{}, map[string]fake.Program{
		"check": hiddenCheck, "fix": look(writes("right\n")), "bad": look(writes("worse\n")), "forge": look(forge), "honest": look(honest),
	})
	s := newStage(t, sb, "fix", "bad", "forge", "honest")
	s.cfg.Hidden = Hidden{Patch: []byte(hiddenPatch)}
	s.cfg.Named = &Named{Fail: []string{"same"}, Pass: []string{"other"}, Read: readOK}
	s.cfg.Settings.MaxHolds = 3
	doc := s.run(t)
	want := []candidate.Outcome{candidate.Met, candidate.Unmet, candidate.Unmet, candidate.Met}
	if got := outcomes(doc); !slices.Equal(got, want) || doc.Baseline.Status != string(wire.Failed) {
		t.Errorf("outcomes %v, want %v; baseline %+v", got, want, doc.Baseline)
	}
	for what, got := range map[string]*record.Tests{"the base": doc.Baseline.Tests, "one that fails": doc.Candidates[1].Evidence[0].Tests} {
		if got == nil || !slices.Equal(got.Failed, []bytestring.String{"same"}) || !slices.Equal(got.Passed, []bytestring.String{"other"}) {
			t.Errorf("the tests of %s are %+v", what, got)
		}
	}
	if why := doc.Candidates[1].Detail; !strings.HasSuffix(why, "; did not pass: same") {
		t.Errorf("the detail is %q", why)
	}
	if saw.Load() > 0 {
		t.Errorf("candidates saw hidden tests %d times", saw.Load())
	}
	for _, c := range doc.Candidates {
		if c.Rounds != 1 {
			t.Errorf("c%d was told about hidden tests in %d rounds", c.Number, c.Rounds)
		}
	}
	if c := doc.Candidates[0].Change; c == nil || len(c.Files) != 1 || c.Files[0].Path != "value" {
		t.Fatalf("the change is %+v: %s", c, doc.Reason)
	}

	s = newStage(t, sb, "fix")
	s.cfg.Hidden, s.cfg.Named = Hidden{Patch: []byte(hiddenPatch)}, &Named{Fail: []string{"same", "sane"}, Read: readOK}
	warned := func(line string) bool { return strings.Contains(line, "without a word of sane: ") }
	if doc := s.run(t); doc.Candidates[0].Outcome != candidate.Unmet || !strings.HasSuffix(doc.Candidates[0].Detail, "; not reported: sane") || !slices.ContainsFunc(doc.Notices, warned) || doc.Revision != nil {
		t.Errorf("a name that is wrong: %+v, %q", doc.Candidates[0], doc.Notices)
	}

	s = newStage(t, sb, "fix")
	s.cfg.Hidden = Hidden{Patch: []byte("diff --git a/value b/value\n--- a/value\n+++ b/value\n@@ -1 +1 @@\n-other\n+x\n")}
	if doc := s.run(t); doc.ExitCode != ExitUsage || doc.AnyStarted() || !strings.Contains(doc.Reason, "value: hunk 1") {
		t.Errorf("a patch that does not fit: %d, %s", doc.ExitCode, doc.Reason)
	}
}

// TestNamed: what the base must show for named tests to decide, and what they
// then say about a candidate.
func TestNamed(t *testing.T) {
	n := &Named{Fail: []string{"f1", "f2"}, Pass: []string{"p"}, Read: readOK}
	only := &Named{Pass: []string{"p"}, Read: readOK}
	unreadable := &Named{Fail: []string{"f"}, Read: func([]byte, []byte) (Reported, error) { return nil, errors.New("no report") }}
	for _, c := range []struct {
		named  *Named
		out    string
		code   int
		end    sandbox.End
		base   wire.Baseline
		reason string
		flip   judge.Flip
		not    uint64
	}{
		{n, "ok f1 false\nok f2 false\nok p true", 1, sandbox.Exited, wire.Failed, "", judge.FlipNotAchieved, 2},
		{n, "ok f1 true\nok f2 true\nok p true", 0, sandbox.Exited, wire.Unobserved, "f1 passes, and should fail", judge.FlipAchieved, 0},
		{n, "ok f1 true\nok f2 true\nok p true", 1, sandbox.Exited, wire.Unobserved, "f1 passes, and should fail", judge.FlipAchieved, 0},
		{n, "ok f1 true\nok f2 true\nok p false", 1, sandbox.Exited, wire.Unobserved, "p fails, and should pass", judge.FlipAchieved, 1},
		{n, "ok f1 false\nok p true", 1, sandbox.Exited, wire.Failed, "", judge.FlipNotAchieved, 2},
		{n, "ok f1 false\nok p true", 0, sandbox.Exited, wire.Unobserved, "f2 is not reported", judge.FlipNotAchieved, 2},
		{n, "", 0, sandbox.Exited, wire.Unobserved, "f1 is not reported", judge.FlipNotAchieved, 3},
		{n, "ok f1 error\nok f2 false\nok p expected-failure", 1, sandbox.Exited, wire.Failed, "", judge.FlipNotAchieved, 2},
		{n, "ok f1 skipped\nok f2 false\nok p true", 1, sandbox.Exited, wire.Unobserved, "f1 is skipped, and should fail", judge.FlipNotAchieved, 2},
		{n, "ok f1 expected-failure\nok f2 false\nok p skipped", 1, sandbox.Exited, wire.Unobserved, "f1 is marked to fail, and should fail, p is skipped, and should pass", judge.FlipNotAchieved, 3},
		{n, "ok f1 true\nok f2 true", 0, sandbox.Exited, wire.Unobserved, "p is not reported, and should pass", judge.FlipAchieved, 1},
		{only, "ok p true", 1, sandbox.Exited, wire.Passed, "", judge.FlipNotAchieved, 0},
		{n, "ok f1 true\nok f2 true\nok p true", 0, sandbox.Deadline, wire.Unobserved, "did not end in its time", judge.FlipUnobservable, 0},
		{unreadable, "", 1, sandbox.Exited, wire.Unobserved, "no report", judge.FlipUnobservable, 0},
	} {
		res := sandbox.Result{End: c.end, Code: c.code, Stdout: sandbox.Output{Head: []byte(c.out)}}
		if b := c.named.baseline(res); b.Status != c.base || !strings.Contains(b.Reason, c.reason) || (b.Reason == "") != (c.reason == "") {
			t.Errorf("base of %q, %d: %+v", c.out, c.code, b)
		}
		if e := c.named.evidence(res); e.Flip != c.flip || e.Measurements[NotPassed] != c.not {
			t.Errorf("evidence of %q, %d: %+v", c.out, c.code, e)
		}
	}
	// Never met unless every named test passed; a mark that says that it should
	// fail is a pass where the base had it, of those that pass there.
	statuses := []testreport.Status{testreport.Missing, testreport.Passed, testreport.Expected, testreport.Skipped, testreport.Failed, testreport.Error}
	rapid.Check(t, func(t *rapid.T) {
		n := &Named{Fail: []string{"f1", "f2"}, Pass: []string{"p", "x"}, Read: readOK}
		if b := n.baseline(sandbox.Result{End: sandbox.Exited, Code: 1, Stdout: sandbox.Output{Head: []byte("ok f1 false\nok f2 error\nok p true\nok x expected-failure\n")}}); b.Status != wire.Failed {
			t.Fatalf("base: %+v", b)
		}
		all := true
		var out strings.Builder
		for _, id := range n.ids() {
			s := rapid.SampledFrom(statuses).Draw(t, id)
			all = all && (s == testreport.Passed || id == "x" && s == testreport.Expected)
			if s != testreport.Missing {
				fmt.Fprintf(&out, "ok %s %s\n", id, s)
			}
		}
		e := n.evidence(sandbox.Result{End: sandbox.Exited, Code: rapid.IntRange(0, 3).Draw(t, "code"), Stdout: sandbox.Output{Head: []byte(out.String())}})
		v := judge.Decide(n.rule(), judge.Evidence{Provenance: judge.HostObserved, Flip: e.Flip, Tamper: judge.Tamper{Status: judge.Clean}, Measurements: e.Measurements})
		if (v.Decision == judge.Met) != all {
			t.Fatalf("%s: %v", out.String(), v)
		}
	})
}

// TestAdmit: candidates begin when they are admitted, and who is not admitted
// is not started and is not a failure.
func TestAdmit(t *testing.T) {
	sb := fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "fix": writes("right\n")})
	s := newStage(t, sb, "fix", "fix", "fix")
	s.cfg.Settings.Jobs = 3
	var running, most, released atomic.Int32
	gate := make(chan struct{}, 1)
	var asked []candidate.Number
	s.cfg.Admit = func(n candidate.Number, _ func()) func(context.Context) (func(), error) {
		asked = append(asked, n)
		return func(ctx context.Context) (func(), error) {
			if n == 3 {
				return nil, errors.New("the batch ends")
			}
			gate <- struct{}{}
			most.Store(max(most.Load(), running.Add(1)))
			return func() { running.Add(-1); released.Add(1); <-gate }, nil
		}
	}
	doc := s.run(t)
	if got := outcomes(doc); !slices.Equal(got, []candidate.Outcome{candidate.Met, candidate.Met, candidate.Cancelled}) || doc.Candidates[2].Detail != record.NotStarted {
		t.Errorf("outcomes %v", got)
	}
	if most.Load() != 1 || released.Load() != 2 || !slices.Equal(asked, []candidate.Number{1, 2, 3}) {
		t.Errorf("%d at once, %d released, asked in the order %v", most.Load(), released.Load(), asked)
	}
}

// TestKept: what an earlier record has is taken as it is, and never run again.
func TestKept(t *testing.T) {
	s := newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "fix": writes("right\n"), "bad": writes("worse\n")}), "fix", "bad")
	first := s.run(t)
	ran := atomic.Int32{}
	s = newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "bad": writes("worse\n"),
		"fix": func(context.Context, *fake.Process) fake.Exit { ran.Add(1); return fake.Exit{} }}), "fix", "bad")
	s.cfg.Kept = first.Candidates[:1]
	doc := s.run(t)
	if ran.Load() > 0 || doc.Winner == nil || *doc.Winner != 1 || doc.Candidates[0].Change.Tree != first.Candidates[0].Change.Tree || doc.Candidates[1].Outcome != candidate.Unmet {
		t.Errorf("ran %d times; winner %v, outcomes %v", ran.Load(), doc.Winner, outcomes(doc))
	}
}

// TestOverBudget: a run that is ended for its budget says so and has no winner.
func TestOverBudget(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	s := newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "fix": func(ctx context.Context, p *fake.Process) fake.Exit {
		fmt.Fprintln(p.Stdout, `{"type":"bestof.usage","input_tokens":70,"output_tokens":30,"cost_usd":0.5}`)
		<-ctx.Done()
		return fake.Exit{}
	}}), "fix")
	s.cfg.Used = func(n candidate.Number, u Usage) {
		if n == 1 && u.Tokens() == 100 && u.MicroUSD == 500_000 {
			stop(ErrOverBudget)
		}
	}
	doc, err := Run(ctx, s.cfg)
	if err != nil || doc.ExitCode != ExitOverBudget || doc.Winner != nil || doc.Candidates[0].Outcome != candidate.Cancelled {
		t.Errorf("%d, %s, %v, %v", doc.ExitCode, doc.Reason, outcomes(doc), err)
	}
	if u := UsageOf(doc.Candidates[0].Usage); u != (Usage{70, 30, 500_000, true}) {
		t.Errorf("usage %+v", u)
	}
}
