package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/agent"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/internal/redact"
	"github.com/bestof-dev/bestof/internal/testreport"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch/progress"
	"github.com/bestof-dev/bestof/orchestrator/batch/task"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/worktree"
)

func TestMain(m *testing.M) {
	if worktree.HoldMounts() {
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"))
}

// A stage is a repository, a store and a batch of tasks on it.
type stage struct {
	t        *testing.T
	dir      string
	repo     *worktree.Repository
	store    *worktree.Store
	state    *State
	records  *record.Store
	programs map[string]fake.Program
	agents   []string
	sandbox  func(sandbox.Sandbox) sandbox.Sandbox
	now      atomic.Int64 // nanoseconds since noon
	alarms   chan time.Duration
	mu       sync.Mutex
	totals   progress.Totals
	events   []progress.Event
	runs     atomic.Int64
}

// pass is a test that passes when value says right.
func pass(_ context.Context, p *fake.Process) fake.Exit {
	b, err := os.ReadFile(filepath.Join(p.Dir, "value"))
	if err != nil || string(b) != "right\n" {
		fmt.Fprintln(p.Stdout, "not ok 1 - t")
		return fake.Exit{Code: 1}
	}
	fmt.Fprintln(p.Stdout, "ok 1 - t")
	return fake.Exit{}
}

func writes(text string) fake.Program {
	return func(_ context.Context, p *fake.Process) fake.Exit {
		if err := os.WriteFile(filepath.Join(p.Dir, "value"), []byte(text), 0o644); err != nil {
			return fake.Exit{Code: 1}
		}
		return fake.Exit{}
	}
}

func newStage(t *testing.T, tasks int, programs map[string]fake.Program, agents ...string) *stage {
	t.Helper()
	s := &stage{t: t, dir: filepath.Join(t.TempDir(), "out"), programs: programs, agents: agents, alarms: make(chan time.Duration, 100), sandbox: func(sb sandbox.Sandbox) sandbox.Sandbox { return sb }}
	programs["check"] = pass
	repo := t.TempDir()
	if err := os.WriteFile(filepath.Join(repo, "value"), []byte("wrong\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "First"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = repo
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	var err error
	if s.repo, err = worktree.Open(t.Context(), repo); err != nil {
		t.Fatal(err)
	}
	if s.store, err = worktree.OpenStore(filepath.Join(t.TempDir(), "store")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.store.Wait)
	var specs []Spec
	for i := range tasks {
		specs = append(specs, Spec{Task: task.Task{ID: fmt.Sprintf("t%d", i+1), Statement: "mend it", Test: []string{"check"}}, Dir: repo, Commit: s.repo.Head()})
	}
	if s.state, err = Create(s.dir, map[string]string{"a": "b"}, specs); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.state.Close() })
	if s.records, err = record.OpenIn(s.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.records.Close() })
	return s
}

func (s *stage) clock() Clock {
	return Clock{
		Now: func() time.Time { return noon.Add(time.Duration(s.now.Load())) },
		After: func(d time.Duration) <-chan time.Time {
			s.alarms <- d
			s.now.Add(int64(d)) // it passes at once
			c := make(chan time.Time, 1)
			c <- noon
			return c
		},
	}
}

func (s *stage) config(limits Limits) Config {
	return Config{
		State: s.state, Records: s.records, Limits: limits, Seats: len(s.agents), Retries: 2, Clock: s.clock(),
		Backoff: func(n int) time.Duration { return time.Duration(n) * time.Minute },
		NewID:   func() string { return record.NewID(noon, uint32(s.runs.Add(1))) },
		Publish: func(e progress.Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.totals.Fold(e)
			s.events = append(s.events, e)
		},
		Turn: func(_ context.Context, spec Spec) (orchestrator.Config, error) {
			sb := s.sandbox(fake.New(sandbox.Options{}, s.programs))
			cfg := orchestrator.Config{
				Repo: s.repo, Store: s.store, Sandbox: sb, Self: "/bestof", Now: time.Now, Redactor: redact.New(nil),
				Task: spec.Task.Statement, BaseKind: worktree.BaseRev, BaseRev: spec.Commit, Timeout: time.Minute, TestLimit: time.Minute,
				Settings: record.Settings{Candidates: len(s.agents), Test: spec.Task.Test, Expect: orchestrator.ExpectFlip, History: 1, Isolation: sb.Isolation(), Jobs: 9, Repeat: 1, Stop: "all", Network: sandbox.NetworkNone},
				Named: &orchestrator.Named{Fail: []string{"t"}, Read: func(out, _ []byte) (orchestrator.Reported, error) {
					report, err := testreport.Parse(testreport.TAP, bytes.NewReader(out))
					return report.Of, err
				}},
			}
			for i, name := range s.agents {
				cfg.Seats = append(cfg.Seats, orchestrator.Seat{Number: candidate.Number(i + 1), Agent: agent.Definition{Name: name, Command: []string{name}}})
			}
			return cfg, nil
		},
	}
}

func (s *stage) run(cfg Config) Result {
	s.t.Helper()
	r, err := Run(s.t.Context(), cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *stage) states() string {
	s.t.Helper()
	rows, err := s.state.Rows()
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, r := range rows {
		out = append(out, fmt.Sprintf("%s:%s:%d", r.ID, r.State, r.Winner))
	}
	return strings.Join(out, " ")
}

// hiding is a sandbox that says of itself that it hides the host's files, so
// that bases may be shared.
type hiding struct{ sandbox.Sandbox }

func (h hiding) Isolation() sandbox.Isolation {
	i := h.Sandbox.Isolation()
	i.Filesystem = true
	return i
}

func (h hiding) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Result, error) {
	spec.Seen = sandbox.Place{}
	return h.Sandbox.Run(ctx, spec)
}

// TestOneLimit: candidates of all tasks share one limit, whatever the runs do.
func TestOneLimit(t *testing.T) {
	var running, most atomic.Int32
	s := newStage(t, 4, map[string]fake.Program{"fix": func(ctx context.Context, p *fake.Process) fake.Exit {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		return writes("right\n")(ctx, p)
	}}, "fix", "fix", "fix")
	s.sandbox = func(sb sandbox.Sandbox) sandbox.Sandbox { return hiding{sb} }
	r := s.run(s.config(Limits{Jobs: 2}))
	if r != (Result{Reason: "done"}) || most.Load() > 2 || s.states() != "t1:done:1 t2:done:1 t3:done:1 t4:done:1" {
		t.Errorf("%+v, %d at once, %s", r, most.Load(), s.states())
	}
	if s.totals.CandidatesDone != 12 || s.totals.Counts[progress.Solved] != 4 || s.totals.Spend.Unreported != 12 {
		t.Errorf("totals %+v", s.totals)
	}
	for i, e := range s.events {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has the number %d", i+1, e.Seq)
		}
	}
	// All four runs had one base.
	s.store.Wait()
	if u, err := s.store.Usage(t.Context()); err != nil || u.Bases != 1 || u.Runs != 0 {
		t.Errorf("left in the store: %+v, %v", u, err)
	}
	// There is nothing left for another start.
	before := s.runs.Load()
	if r := s.run(s.config(Limits{Jobs: 2})); r.Reason != "done" || s.runs.Load() != before {
		t.Errorf("again: %+v, %d runs more", r, s.runs.Load()-before)
	}
}

// unreliable is a sandbox that fails runs of one program.
type unreliable struct {
	sandbox.Sandbox
	fails func(program string) bool
}

func (u unreliable) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Result, error) {
	if u.fails(spec.Argv[0]) {
		return sandbox.Result{}, errors.New("the engine is away")
	}
	return u.Sandbox.Run(ctx, spec)
}

// TestInfrastructure: what the host fails is tried again with growing waits,
// without running again what was done, and is reported apart in the end.
func TestInfrastructure(t *testing.T) {
	var good, tries atomic.Int32
	programs := map[string]fake.Program{
		"good":  func(ctx context.Context, p *fake.Process) fake.Exit { good.Add(1); return writes("worse\n")(ctx, p) },
		"frail": writes("right\n"),
	}
	s := newStage(t, 1, programs, "good", "frail")
	limit := int32(4) // of the first two attempts, each of which tries a candidate twice
	s.sandbox = func(sb sandbox.Sandbox) sandbox.Sandbox {
		return unreliable{sb, func(p string) bool { return p == "frail" && tries.Add(1) <= limit }}
	}
	r := s.run(s.config(Limits{Jobs: 1}))
	if r != (Result{Reason: "done"}) || s.states() != "t1:done:2" || good.Load() != 1 {
		t.Errorf("%+v, %s, the good one ran %d times", r, s.states(), good.Load())
	}
	if first, second := <-s.alarms, <-s.alarms; first != time.Minute || second != 2*time.Minute {
		t.Errorf("waits %v, %v", first, second)
	}
	// The record of the last attempt is whole.
	rows, err := s.state.Rows()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := s.records.Load(rows[0].Run)
	if err != nil || doc.Candidates[0].Outcome != candidate.Unmet || doc.Candidates[1].Outcome != candidate.Met {
		t.Errorf("%+v, %v", doc.Candidates, err)
	}
	if b, err := s.records.ReadFile(rows[0].Run, "candidates/c1/change.patch", 1<<20); err != nil || !strings.Contains(string(b), "+worse") {
		t.Errorf("the patch of the one that was kept: %s, %v", b, err)
	}

	s = newStage(t, 1, map[string]fake.Program{"frail": writes("right\n")}, "frail")
	limit = 1 << 30
	s.sandbox = func(sb sandbox.Sandbox) sandbox.Sandbox {
		return unreliable{sb, func(p string) bool { return p == "frail" && tries.Add(1) <= limit }}
	}
	if r := s.run(s.config(Limits{Jobs: 1})); r != (Result{Reason: "done", ExitCode: orchestrator.ExitInfrastructure}) || s.states() != "t1:failed:0" {
		t.Errorf("%+v, %s", r, s.states())
	}
	if n, err := s.state.Retry(); n != 1 || err != nil {
		t.Fatalf("retry: %d, %v", n, err)
	}
	limit = 0
	if r := s.run(s.config(Limits{Jobs: 1})); r.ExitCode != 0 || s.states() != "t1:done:1" {
		t.Errorf("after a retry: %+v, %s", r, s.states())
	}

	// No room for shadows is no task's failure: the batch ends, what to do is said
	// once, and it goes on from there.
	s = newStage(t, 2, map[string]fake.Program{"frail": writes("right\n")}, "frail")
	tries.Store(0)
	limit = 1 << 30
	s.sandbox = func(sb sandbox.Sandbox) sandbox.Sandbox {
		return full{unreliable{sb, func(p string) bool { return p == "frail" && tries.Add(1) <= limit }}}
	}
	cfg := s.config(Limits{Jobs: 1})
	cfg.Scratch = "/scratch"
	const says = "the disk is full where shadows are made (/scratch): make room there, or choose another place with --work-dir"
	if r := s.run(cfg); r.ExitCode != orchestrator.ExitInfrastructure || r.Reason != says || r.Left != 2 || strings.Contains(s.states(), Failed) {
		t.Errorf("%+v, %s", r, s.states())
	}
	said := 0
	for _, e := range s.events {
		if n, ok := e.Body.(progress.Notice); ok && n.Text == says {
			said++
		}
	}
	if said != 1 {
		t.Errorf("it is said %d times", said)
	}
	limit = 0
	if r := s.run(s.config(Limits{Jobs: 1})); r.ExitCode != 0 || s.states() != "t1:done:1 t2:done:1" {
		t.Errorf("with room: %+v, %s", r, s.states())
	}
}

// full is an unreliable sandbox that has no room, which an engine says in words.
type full struct{ unreliable }

func (f full) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Result, error) {
	res, err := f.unreliable.Run(ctx, spec)
	if err != nil {
		err = fmt.Errorf("engine: mkdir /x: %s", syscall.ENOSPC.Error())
	}
	return res, err
}

// TestDrain: after the first signal nothing begins; the next start goes on and
// does nothing twice.
func TestDrain(t *testing.T) {
	drain := make(chan struct{})
	var once sync.Once
	var ran atomic.Int32
	s := newStage(t, 3, map[string]fake.Program{"fix": func(ctx context.Context, p *fake.Process) fake.Exit {
		ran.Add(1)
		once.Do(func() { close(drain) })
		return writes("right\n")(ctx, p)
	}}, "fix", "fix")
	cfg := s.config(Limits{Jobs: 1})
	cfg.Drain = drain
	r := s.run(cfg)
	if r.Reason != "interrupted" || r.ExitCode != orchestrator.ExitInterrupted || r.Left != 3 && r.Left != 2 {
		t.Errorf("%+v, %s", r, s.states())
	}
	if r = s.run(s.config(Limits{Jobs: 1})); r != (Result{Reason: "done"}) || ran.Load() != 6 {
		t.Errorf("%+v, %d candidates were run for 6, %s", r, ran.Load(), s.states())
	}

	// While the base is tested: no candidate began, and the task is still to do.
	drain = make(chan struct{})
	heard := make(chan struct{})
	s = newStage(t, 1, map[string]fake.Program{"fix": writes("right\n")}, "fix")
	s.programs["check"] = func(ctx context.Context, p *fake.Process) fake.Exit {
		close(drain)
		<-heard
		return pass(ctx, p)
	}
	cfg = s.config(Limits{Jobs: 1})
	publish := cfg.Publish
	cfg.Publish = func(e progress.Event) {
		if n, ok := e.Body.(progress.Notice); ok && strings.HasPrefix(n.Text, "finishing what runs") {
			close(heard)
		}
		publish(e)
	}
	cfg.Drain = drain
	if r = s.run(cfg); r.Reason != "interrupted" || r.Left != 1 {
		t.Errorf("%+v, %s", r, s.states())
	}
	s.programs["check"] = pass
	if r = s.run(s.config(Limits{Jobs: 1})); r != (Result{Reason: "done"}) {
		t.Errorf("%+v, %s", r, s.states())
	}
}

// TestBudget: a batch ends when its budget is spent, and goes on with more.
func TestBudget(t *testing.T) {
	var ran atomic.Int32
	s := newStage(t, 4, map[string]fake.Program{"fix": func(ctx context.Context, p *fake.Process) fake.Exit {
		ran.Add(1)
		io.WriteString(p.Stdout, `{"type":"bestof.usage","input_tokens":60,"output_tokens":40,"cost_usd":0.25}`+"\n")
		return writes("right\n")(ctx, p)
	}}, "fix")
	r := s.run(s.config(Limits{Jobs: 1, Tokens: 250}))
	if r.Reason != "over budget" || r.ExitCode != orchestrator.ExitOverBudget || r.Left != 2 || ran.Load() != 2 || s.totals.Spend.Tokens != 200 || s.totals.Spend.MicroUSD != 500_000 {
		t.Errorf("%+v after %d candidates, %+v", r, ran.Load(), s.totals.Spend)
	}
	if r = s.run(s.config(Limits{Jobs: 1, MicroUSD: 760_000})); r.Reason != "over budget" || ran.Load() != 3 {
		t.Errorf("%+v after %d candidates", r, ran.Load())
	}
	if r = s.run(s.config(Limits{Jobs: 1})); r.Reason != "done" || ran.Load() != 4 {
		t.Errorf("%+v after %d candidates", r, ran.Load())
	}
	costs, err := s.state.Costs()
	if err != nil || len(costs) != 4 || costs[0].Agent != "fix" || costs[0].Outcome != string(candidate.Met) || costs[0].Usage.Tokens() != 100 {
		t.Errorf("costs %+v, %v", costs, err)
	}

	// In flight: what runs is stopped, and paid.
	s = newStage(t, 2, map[string]fake.Program{"eats": func(ctx context.Context, p *fake.Process) fake.Exit {
		io.WriteString(p.Stdout, `{"type":"bestof.usage","input_tokens":1000}`+"\n")
		<-ctx.Done()
		return fake.Exit{}
	}}, "eats")
	if r := s.run(s.config(Limits{Jobs: 2, Tokens: 500})); r.ExitCode != orchestrator.ExitOverBudget || r.Left != 2 {
		t.Errorf("in flight: %+v, %s", r, s.states())
	}
	costs, err = s.state.Costs()
	if err != nil || !slices.ContainsFunc(costs, func(c Cost) bool { return c.Usage.Tokens() == 1000 }) { // the other may have been stopped first
		t.Errorf("in flight: costs %+v, %v", costs, err)
	}
}

// TestTimeOfABatch: when it is up, what runs is stopped.
func TestTimeOfABatch(t *testing.T) {
	s := newStage(t, 2, map[string]fake.Program{"sleeps": func(ctx context.Context, _ *fake.Process) fake.Exit {
		<-ctx.Done()
		return fake.Exit{}
	}}, "sleeps")
	if r := s.run(s.config(Limits{Jobs: 1, Until: noon.Add(time.Hour)})); r.Reason != "out of time" || r.ExitCode != orchestrator.ExitTimedOut || r.Left != 2 {
		t.Errorf("%+v, %s", r, s.states())
	}
}
