package batch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch/task"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

func someSpecs(n int) []Spec {
	var specs []Spec
	for i := range n {
		specs = append(specs, Spec{Task: task.Task{ID: fmt.Sprintf("t%d", i), Given: fmt.Sprintf("own/t%d", i), TestPatch: []byte{0, 0xff, 'x'}}, Dir: "/r", Commit: "c"})
	}
	return specs
}

func TestStateIsOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "batch")
	s, err := Create(dir, map[string]string{"a": "b"}, someSpecs(3))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("a second one: %v", err)
	}
	if owner, ok := Owner(dir); !ok || owner.PID != os.Getpid() {
		t.Errorf("owner %+v, %v", owner, ok)
	}
	if err := s.begin(1, "run1", noon); err != nil {
		t.Fatal(err)
	}
	cost := Cost{Task: 1, Candidate: 2, Run: "run1", Agent: "x", Usage: orchestrator.Usage{Input: 5, Reported: true}}
	if err := s.pay(cost); err != nil {
		t.Fatal(err)
	}
	cost.Outcome, cost.Usage, cost.Took = "met", orchestrator.Usage{Input: 7, Output: 1, Reported: true}, time.Second
	if err := s.pay(cost); err != nil {
		t.Fatal(err)
	}
	// Others can look while it is open.
	v, err := View(dir)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := v.Rows()
	if err != nil || len(rows) != 3 || rows[1].State != Running || rows[1].Run != "run1" || rows[1].Tries != 1 || rows[0].State != Pending {
		t.Errorf("rows %+v, %v", rows, err)
	}
	if err := v.pay(cost); err == nil {
		t.Error("who only looks can write")
	}
	if costs, err := v.Costs(); err != nil || len(costs) != 1 || costs[0] != cost {
		t.Errorf("costs %+v, %v", costs, err)
	}
	if given, err := v.Given(); err != nil || given["t2"] != "own/t2" {
		t.Errorf("given %v, %v", given, err)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if err := s.end(1, "run1", ending{endInfrastructure, Pending, 0, "away"}, 7, noon, noon.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok := Owner(dir); ok {
		t.Error("it has an owner after Close")
	}
	if s, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if rows, err = s.Rows(); err != nil || rows[1].State != Pending || rows[1].Failures != 1 || !rows[1].After.Equal(noon.Add(time.Minute)) || rows[1].Reason != "away" {
		t.Errorf("rows %+v, %v", rows, err)
	}
	if spec, err := s.Spec(2); err != nil || spec.Task.ID != "t2" || string(spec.Task.TestPatch) != "\x00\xffx" {
		t.Errorf("spec %+v, %v", spec, err)
	}
	if err := s.SetSettings(map[string]string{"a": "c"}); err != nil {
		t.Fatal(err)
	}
	if settings, err := s.Settings(); err != nil || settings["a"] != "c" {
		t.Errorf("settings %v, %v", settings, err)
	}
	if err := s.SetSettings(map[string]string{"b": "d"}, "a", "never there"); err != nil {
		t.Fatal(err)
	}
	if settings, err := s.Settings(); err != nil || !maps.Equal(settings, map[string]string{"b": "d"}) {
		t.Errorf("settings %v, %v", settings, err)
	}
	if _, err := Create(dir, nil, nil); !errors.Is(err, ErrBusy) {
		t.Errorf("made again: %v", err)
	}
}

func TestStateRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "batch")
	if _, err := Open(dir); !errors.Is(err, ErrNone) {
		t.Errorf("nothing there: %v", err)
	}
	if _, err := Create(dir, nil, append(someSpecs(1), someSpecs(1)...)); err == nil || !strings.Contains(err.Error(), "t0") {
		t.Errorf("two tasks of one id: %v", err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrNone) {
		t.Errorf("after a failure: %v", err)
	}
	s, err := Create(dir, nil, someSpecs(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func(string) (*State, error){"Open": Open, "View": View} {
		if _, err := open(dir); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "version 99") {
			t.Errorf("%s of a newer one: %v", name, err)
		}
	}
	if _, err := Create(dir, nil, nil); !errors.Is(err, ErrExists) {
		t.Errorf("made again: %v", err)
	}
}

func TestEnding(t *testing.T) {
	one := 1
	c := func(outcomes ...candidate.Outcome) (all []record.Candidate) {
		for i, o := range outcomes {
			all = append(all, record.Candidate{Number: i + 1, State: candidate.Done, Outcome: o, Detail: "d"})
		}
		return all
	}
	doc := func(code int, winner *int, stop string, cs []record.Candidate) record.Document {
		return record.Document{Phase: record.Finished, ExitCode: code, Winner: winner, Settings: record.Settings{Stop: stop}, Candidates: cs, Reason: "r"}
	}
	idle := func(code int, withheld string, kept ...candidate.Outcome) record.Document {
		d := doc(code, nil, "all", c(append(kept, candidate.Cancelled)...))
		d.Candidates[len(kept)].Detail, d.Withheld = record.NotStarted, withheld
		return d
	}
	refused := c(candidate.Met, candidate.Cancelled)
	refused[1].Detail = record.NotStarted
	cut := doc(7, nil, "all", c(candidate.Met, candidate.Cancelled))
	cut.Withheld = "r"
	late := doc(5, nil, "all", c(candidate.Met, candidate.Unmet))
	late.Withheld = "r"
	dead := doc(130, nil, "all", c(candidate.Met, candidate.Cancelled))
	dead.Phase = record.Interrupted
	for name, x := range map[string]struct {
		doc  record.Document
		want ending
		kept int
	}{
		"won":             {doc(0, &one, "all", c(candidate.Met, candidate.Unmet)), ending{endJudged, Done, 1, "r"}, 2},
		"nobody":          {doc(3, nil, "all", c(candidate.Unmet, candidate.Empty)), ending{endJudged, Done, 0, "r"}, 2},
		"first":           {doc(0, &one, "first", c(candidate.Met, candidate.Cancelled)), ending{endJudged, Done, 1, "r"}, 1},
		"cut off":         {doc(0, &one, "all", c(candidate.Met, candidate.Cancelled)), ending{endInterrupted, Pending, 0, "c2 was not finished: d"}, 1},
		"refused":         {doc(0, &one, "all", refused), ending{endInterrupted, Pending, 0, "c2 was not begun"}, 1},
		"killed":          {dead, ending{endInterrupted, Pending, 0, "r"}, 1},
		"nothing decides": {idle(orchestrator.ExitUsage, "r"), ending{endInvalid, Invalid, 0, "r"}, 0},
		"passes already":  {idle(orchestrator.ExitNoWinner, "r"), ending{endInvalid, Invalid, 0, "r"}, 0},
		"all refused":     {idle(orchestrator.ExitNoWinner, ""), ending{endInterrupted, Pending, 0, "r"}, 0},
		"no base":         {idle(orchestrator.ExitInfrastructure, "r"), ending{endInfrastructure, Pending, 0, "r"}, 0},
		"no base, later":  {idle(orchestrator.ExitInfrastructure, "r", candidate.Met), ending{endInfrastructure, Pending, 0, "r"}, 1},
		"state is gone":   {cut, ending{endInterrupted, Pending, 0, "r"}, 1},
		"host, some":      {doc(0, &one, "all", c(candidate.Met, candidate.Infrastructure)), ending{endInfrastructure, Pending, 0, "c2: d"}, 1},
		"host, all":       {doc(7, nil, "all", nil), ending{endInfrastructure, Pending, 0, "r"}, 0},
		"budget":          {doc(5, nil, "all", c(candidate.Cancelled)), ending{endInterrupted, Pending, 0, "r"}, 0},
		"not judged":      {late, ending{endInterrupted, Pending, 0, "r"}, 2},
		"cheated":         {doc(3, nil, "all", c(candidate.Tampered, candidate.Escaped)), ending{endJudged, Done, 0, "r"}, 2},
	} {
		if got := endingOf(x.doc); got != x.want {
			t.Errorf("%s: %+v, want %+v", name, got, x.want)
		}
		if got := kept(x.doc); len(got) != x.kept {
			t.Errorf("%s: %d candidates are kept, want %d", name, len(got), x.kept)
		}
	}
}

// TestSettle: after a crash, a run that had finished counts, one that had not
// is closed, and a record that belongs to no attempt goes away.
func TestSettle(t *testing.T) {
	s := newStage(t, 3, map[string]fake.Program{"fix": writes("right\n")}, "fix")
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	dead := self
	dead.StartTime++ // of a process that is gone
	number := uint32(0)
	made := func(owner proc.Identity, doc record.Document, finish bool) string {
		w, err := s.records.Create(owner, func() string { number++; return record.NewID(noon, number) })
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		doc.Schema, doc.Run, doc.Owner = record.Schema, w.ID(), &owner
		if finish {
			doc.Owner = nil
			err = w.Finish(doc)
		} else {
			err = w.Document(doc, true)
		}
		if err != nil {
			t.Fatal(err)
		}
		return w.ID()
	}
	one := 1
	usage := map[string]any{"input_tokens": 9.0, "output_tokens": 0.0, "cost_usd": 0.0}
	over := made(dead, record.Document{Phase: record.Finished, Winner: &one, Candidates: []record.Candidate{{Number: 1, Agent: "fix", State: candidate.Done, Outcome: candidate.Met, Usage: usage}}}, true)
	half := made(dead, record.Document{Phase: record.Running, Candidates: []record.Candidate{{Number: 1, Agent: "fix", State: candidate.Done, Outcome: candidate.Unmet, Usage: usage}, {Number: 2, Agent: "fix", State: candidate.Working, Rounds: 1}, {Number: 3, Agent: "fix", State: candidate.Queued}}}, false)
	stray := made(dead, record.Document{Phase: record.Running}, false)
	for seq, run := range map[int]string{0: over, 1: half, 2: "0000000000"} {
		if err := s.state.begin(seq, run, noon); err != nil {
			t.Fatal(err)
		}
	}
	done, err := Settle(t.Context(), s.state, s.records, s.store, noon)
	if err != nil || len(done) != 3 {
		t.Fatalf("%q, %v", done, err)
	}
	if got := s.states(); got != "t1:done:1 t2:pending:0 t3:pending:0" {
		t.Error(got)
	}
	names, err := s.records.Names()
	if err != nil || strings.Contains(strings.Join(names, " "), stray) || len(names) != 2 {
		t.Errorf("records %v, %v", names, err)
	}
	costs, err := s.state.Costs()
	sum := orchestrator.Usage{}
	for _, c := range costs {
		sum = sum.Add(c.Usage)
	}
	if err != nil || len(costs) != 3 || sum.Tokens() != 18 {
		t.Errorf("costs %+v, %v", costs, err)
	}
	if doc, err := s.records.Load(half); err != nil || doc.Phase != record.Interrupted {
		t.Errorf("the half record is %s, %v", doc.Phase, err)
	}
	if again, err := Settle(t.Context(), s.state, s.records, s.store, noon); err != nil || len(again) != 0 {
		t.Errorf("a second time: %q, %v", again, err)
	}
}

// TestKilledAsItBegan: an attempt that was written down and killed before it had a
// record takes nothing away from what the one before it did.
func TestKilledAsItBegan(t *testing.T) {
	var good atomic.Int32
	away := true
	s := newStage(t, 1, map[string]fake.Program{
		"good":  func(ctx context.Context, p *fake.Process) fake.Exit { good.Add(1); return writes("worse\n")(ctx, p) },
		"frail": writes("right\n"),
	}, "good", "frail")
	s.sandbox = func(sb sandbox.Sandbox) sandbox.Sandbox {
		return unreliable{sb, func(p string) bool { return p == "frail" && away }}
	}
	cfg := s.config(Limits{Jobs: 1})
	cfg.Retries = 0
	if r := s.run(cfg); r.ExitCode != orchestrator.ExitInfrastructure || s.states() != "t1:failed:0" {
		t.Fatalf("%+v, %s", r, s.states())
	}
	if _, err := s.state.Retry(); err != nil {
		t.Fatal(err)
	}
	dead, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	dead.StartTime++
	for range 2 {
		w, err := s.records.Create(dead, cfg.NewID)
		if err == nil {
			err = errors.Join(s.state.begin(0, w.ID(), noon), w.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		if done, err := Settle(t.Context(), s.state, s.records, s.store, noon); err != nil || len(done) != 1 {
			t.Fatalf("%q, %v", done, err)
		}
	}
	away = false
	if r := s.run(cfg); r.ExitCode != 0 || s.states() != "t1:done:2" || good.Load() != 1 {
		t.Errorf("%+v, %s, the good one ran %d times", r, s.states(), good.Load())
	}
}
