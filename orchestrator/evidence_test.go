package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/plugin/wire"
	"github.com/bestof-dev/bestof/worktree"
)

func lines(c *record.Compared) string {
	var out []string
	for _, f := range c.Files {
		mark := ""
		if f.Differs {
			mark = "!"
		}
		out = append(out, fmt.Sprintf("%s %s>%s%s", f.Path, f.Before, f.After, mark))
	}
	return fmt.Sprintf("%d: %s", c.Count, strings.Join(out, ", "))
}

func TestCompared(t *testing.T) {
	watched := []witness{{"a_test", "1"}, {"b_test", "2"}, {"c\xff_test", "3"}}
	guard := func(path string) bool { return strings.HasSuffix(path, "_test") }
	for name, c := range map[string]struct {
		change []worktree.FileChange
		traces map[string]string
		want   string
	}{
		"nothing":    {nil, nil, "3: a_test 1>1, b_test 2>2, c\xff_test 3>3"},
		"not theirs": {[]worktree.FileChange{{Path: "a.go", Old: "8", New: "9"}}, nil, "3: a_test 1>1, b_test 2>2, c\xff_test 3>3"},
		"edited":     {[]worktree.FileChange{{Path: "b_test", Old: "2", New: "9"}}, nil, "3: b_test 2>9!, a_test 1>1, c\xff_test 3>3"},
		"only moded": {[]worktree.FileChange{{Path: "b_test", Old: "2", New: "2", OldMode: worktree.ModeFile, NewMode: worktree.ModeExec}}, nil, "3: b_test 2>2!, a_test 1>1, c\xff_test 3>3"},
		"gone":       {[]worktree.FileChange{{Path: "a_test", Old: "1"}}, nil, "3: a_test 1>!, b_test 2>2, c\xff_test 3>3"},
		"new":        {[]worktree.FileChange{{Path: "d_test", New: "4"}}, nil, "4: d_test >4!, a_test 1>1, b_test 2>2, c\xff_test 3>3"},
		"by its run": {nil, map[string]string{"c\xff_test": "7", "x_test": "8"}, "4: c\xff_test 3>7!, x_test >8!, a_test 1>1, b_test 2>2"},
	} {
		if got := lines(compared(watched, guard, c.change, c.traces)); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n, changed := rapid.IntRange(0, 200).Draw(t, "n"), rapid.IntRange(0, 100).Draw(t, "changed")
		var many []witness
		for i := range n {
			many = append(many, witness{fmt.Sprintf("%d_test", i), "x"})
		}
		traces := map[string]string{}
		for i := range min(changed, n) {
			traces[many[i].path] = "y"
		}
		got := compared(many, guard, nil, traces)
		differ := 0
		for _, f := range got.Files {
			if f.Differs {
				differ++
			}
		}
		if got.Count != n || len(got.Files) != min(n, maxCompared) || differ != min(len(traces), maxCompared) {
			t.Fatalf("%d files, %d of them listed, %d of %d that differ", got.Count, len(got.Files), differ, len(traces))
		}
	})
}

// TestComparedIsKept: the evidence says what the tamper finding rests on.
func TestComparedIsKept(t *testing.T) {
	s := newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "fix": writes("right\n")}), "fix")
	s.cfg.Protect = []string{"check", "value"}
	doc := s.run(t)
	e := doc.Candidates[0].Evidence[0]
	if e.Evidence.Tamper.Status != judge.Tampered || e.Compared == nil || e.Compared.Count != 2 || e.Compared.Files[0].Path != "value" || !e.Compared.Files[0].Differs ||
		e.Compared.Files[0].Before == e.Compared.Files[0].After || e.Compared.Files[1].Before != e.Compared.Files[1].After || len(e.Compared.Files[1].Before) != 40 {
		t.Errorf("%+v: %+v", e.Evidence.Tamper, e.Compared)
	}
	s = newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "fix": writes("right\n")}), "fix")
	s.cfg.Protect = []string{"check"}
	if e := s.run(t).Candidates[0].Evidence[0]; e.Evidence.Tamper.Status != judge.Clean || e.Compared == nil || e.Compared.Count != 1 || e.Compared.Files[0].Differs {
		t.Errorf("%+v: %+v", e.Evidence.Tamper, e.Compared)
	}
}

// TestSignals: a plugin is told what the host knows before the turn and what
// plugins before it published, and none of them changes a fact of the host.
func TestSignals(t *testing.T) {
	var told []string
	yes, no, three := true, false, uint64(3)
	asks := func(name string, publish ...wire.Published) Plugin {
		return Plugin{Name: name, Wrapper: name, Before: true, Ask: func(_ context.Context, _ sandbox.Sandbox, _ call.Place, r wire.Request) (wire.Response, sandbox.Result, error) {
			b, err := json.Marshal(r.Before.Published)
			if err != nil {
				return wire.Response{}, sandbox.Result{}, err
			}
			told = append(told, string(b))
			return wire.Response{Before: &wire.BeforeResponse{ProtocolVersion: wire.Version, Publish: publish}}, sandbox.Result{}, nil
		}}
	}
	s := newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "fix": writes("right\n")}), "fix", "fix")
	s.cfg.Plugins = []Plugin{
		asks("a", wire.Published{Signal: "candidates", Value: wire.Value{Count: &three}}, wire.Published{Signal: "verifies", Value: wire.Value{Boolean: &no}}),
		asks("b", wire.Published{Signal: "verifies", Value: wire.Value{Boolean: &yes}}), asks("c"),
	}
	s.run(t)
	host := `[{"signal":"test-command","value":{"boolean":true}},{"signal":"candidates","value":{"count":2}},{"signal":"budget-metered","value":{"boolean":false}}`
	if want := []string{host + `]`, host + `,{"signal":"verifies","value":{"boolean":false}}]`, host + `,{"signal":"verifies","value":{"boolean":true}}]`}; !slices.Equal(told, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
	told = nil
	s = newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{"fix": writes("right\n")}), "fix")
	s.cfg.Settings.Test, s.cfg.Settings.AllowUndecided, s.cfg.Plugins = nil, true, []Plugin{asks("a")}
	s.run(t)
	if len(told) != 1 || !strings.Contains(told[0], `{"signal":"test-command","value":{"boolean":false}},{"signal":"candidates","value":{"count":1}}`) {
		t.Errorf("%s", told)
	}
}

// TestTurnIsTold: after the turn a plugin is told the agent's last message and
// how the test was run.
func TestTurnIsTold(t *testing.T) {
	var told wire.Request
	s := newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "fix": func(ctx context.Context, p *fake.Process) fake.Exit {
		fmt.Fprintln(p.Stdout, `{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"hm"}]}}`)
		fmt.Fprintln(p.Stdout, `{"type":"result","result":"Fixed with the-secret-value."}`)
		return writes("right\n")(ctx, p)
	}}), "fix")
	s.cfg.Plugins = []Plugin{{Name: "ear", Wrapper: "ear", After: true, Ask: func(_ context.Context, _ sandbox.Sandbox, _ call.Place, r wire.Request) (wire.Response, sandbox.Result, error) {
		told = r
		return wire.Response{}, sandbox.Result{}, wire.Faultf(wire.ErrExit, "no")
	}}}
	s.run(t)
	turn, test := told.After.Turn, told.After.Candidate.Test
	if !strings.HasPrefix(turn.Answer, "Fixed with ") || strings.Contains(turn.Answer, "the-secret-value") || turn.Tools != nil || !slices.Equal(turn.ChangedFiles, []string{"value"}) {
		t.Errorf("%+v", turn)
	}
	if test.Cwd != "." || test.TimeoutMS != 60000 || test.Baseline != wire.Failed {
		t.Errorf("%+v", test)
	}
	if first := told.In(wire.Version).After.Candidate.Test; first.Cwd != "" || first.TimeoutMS != 0 {
		t.Errorf("protocol 1 is told %+v", first)
	}
}

// TestNarrowing: that a plugin may hold less often than it asks is said before
// anything is tried, and only then.
func TestNarrowing(t *testing.T) {
	two, four := 2, 4
	plugins := []Plugin{{Name: "a", Holds: &two}, {Name: "b", Holds: &four}, {Name: "c"}}
	for ceiling, want := range map[int]string{4: "", 3: "b", 1: "a b", 0: "a b"} {
		var names []string
		for _, line := range narrowed(plugins, ceiling) {
			names = append(names, strings.Fields(line)[2])
			if !strings.Contains(line, fmt.Sprintf("holds one %d times at most", ceiling)) {
				t.Errorf("%s", line)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%d: %q, want %q", ceiling, got, want)
		}
	}
	s := newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "fix": writes("right\n")}), "fix")
	s.cfg.Plugins = []Plugin{{Name: "b", Holds: &four}}
	if doc := s.run(t); len(doc.Notices) != 1 || !strings.Contains(doc.Notices[0], "asks to hold a candidate up to 4 times") {
		t.Errorf("%q", doc.Notices)
	}
}
