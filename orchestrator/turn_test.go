package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/agent"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/internal/redact"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/verify"
	"github.com/bestof-dev/bestof/plugin/wire"
	"github.com/bestof-dev/bestof/worktree"
)

func TestMain(m *testing.M) {
	if worktree.HoldMounts() {
		return
	}
	goleak.VerifyTestMain(m)
}

// self is where the fake sandbox finds the built-in plugin.
const self = "/bestof"

// check is the test command of these tests: it passes when value says right.
func check(_ context.Context, p *fake.Process) fake.Exit {
	b, err := os.ReadFile(filepath.Join(p.Dir, "value"))
	if err != nil || string(b) != "right\n" {
		fmt.Fprintln(p.Stderr, "the value is not right")
		return fake.Exit{Code: 1}
	}
	return fake.Exit{}
}

// plugin answers as the built-in plugin does, with check as the test.
func plugin(ctx context.Context, p *fake.Process) fake.Exit {
	var request struct {
		Body struct {
			Candidate struct{ Test struct{ Baseline string } }
		}
	}
	if err := json.NewDecoder(p.Stdin).Decode(&request); err != nil {
		return fake.Exit{Code: 1}
	}
	e := wire.Evidence{Flip: judge.FlipNotAchieved, Measurements: map[string]uint64{verify.ExitCode: 1}}
	if check(ctx, p).Code == 0 {
		e.Measurements[verify.ExitCode] = 0
		if request.Body.Candidate.Test.Baseline == "failed" {
			e.Flip = judge.FlipAchieved
		}
	}
	out, err := wire.Response{After: &wire.AfterResponse{ProtocolVersion: wire.Version, Evidence: e}}.Encode()
	if err != nil {
		return fake.Exit{Code: 1}
	}
	p.Stdout.Write(out)
	return fake.Exit{}
}

// writes is an agent that writes text into value.
func writes(text string) fake.Program {
	return func(_ context.Context, p *fake.Process) fake.Exit {
		if err := os.WriteFile(filepath.Join(p.Dir, "value"), []byte(text), 0o644); err != nil {
			return fake.Exit{Code: 1}
		}
		return fake.Exit{}
	}
}

// A stage is a repository, a store and a record for one turn.
type stage struct {
	cfg    Config
	mu     sync.Mutex
	events []event.Event
}

func newStage(t *testing.T, sb sandbox.Sandbox, agents ...string) *stage {
	t.Helper()
	repo := t.TempDir()
	for name, text := range map[string]string{"value": "wrong\n", "check": "#\n"} {
		if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "First"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = repo
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	r, err := worktree.Open(t.Context(), repo)
	if err != nil {
		t.Fatal(err)
	}
	store, err := worktree.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	records, err := record.Open(repo, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { records.Close() })
	owner, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	w, err := records.Create(owner, func() string { return record.NewID(time.Now(), 1) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	s := &stage{}
	s.cfg = Config{
		Repo: r, Store: store, Sandbox: sb, Record: w, Self: self, Now: time.Now, Redactor: redact.New([]string{"the-secret-value"}),
		Publish: func(e event.Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events = append(s.events, e)
		},
		Task: "make the check pass", BaseKind: worktree.BaseSnapshot, Timeout: time.Minute, TestLimit: time.Minute,
		Settings: record.Settings{
			Candidates: len(agents), Test: []string{"check"}, Expect: ExpectFlip, History: 1, Isolation: sb.Isolation(), Jobs: 2, Repeat: 1,
			Stop: "all", MaxHolds: 0, Network: sandbox.NetworkNone,
		},
	}
	for i, name := range agents {
		s.cfg.Seats = append(s.cfg.Seats, Seat{Number: candidate.Number(i + 1), Agent: agent.Definition{Name: name, Command: []string{name}}})
	}
	return s
}

func (s *stage) run(t *testing.T) record.Document {
	t.Helper()
	doc, err := Run(t.Context(), s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func outcomes(doc record.Document) []candidate.Outcome {
	var out []candidate.Outcome
	for _, c := range doc.Candidates {
		out = append(out, c.Outcome)
	}
	return out
}

func TestTurn(t *testing.T) {
	sb := fake.New(sandbox.Options{}, map[string]fake.Program{
		"check": check, self: plugin, "fix": writes("right\n"), "bad": writes("worse\n"),
		"idle": func(context.Context, *fake.Process) fake.Exit { return fake.Exit{} },
		"dies": func(context.Context, *fake.Process) fake.Exit { return fake.Exit{Code: 3} },
		"eats": func(context.Context, *fake.Process) fake.Exit { return fake.Exit{Signal: 9, OOM: true} },
	})
	s := newStage(t, sb, "fix", "bad", "idle", "dies", "eats", "absent")
	doc := s.run(t)
	want := []candidate.Outcome{candidate.Met, candidate.Unmet, candidate.Empty, candidate.AgentFailed, candidate.OverBudget, candidate.AgentFailed}
	if got := outcomes(doc); !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
	if doc.Winner == nil || *doc.Winner != 1 || doc.ExitCode != ExitWinner || doc.Phase != record.Finished {
		t.Errorf("winner %v, exit code %d, %s: %s", doc.Winner, doc.ExitCode, doc.Phase, doc.Reason)
	}
	if m := sb.Misuse(); len(m) > 0 {
		t.Errorf("the sandbox was misused: %v", m)
	}
	homes := map[string]bool{}
	for _, spec := range sb.Runs() {
		homes[spec.Home] = true
	}
	if len(homes) != len(sb.Runs()) {
		t.Errorf("%d programs shared %d homes", len(sb.Runs()), len(homes))
	}
	s.checkEvents(t)
}

// checkEvents holds the stream to its contract.
func (s *stage) checkEvents(t *testing.T) {
	t.Helper()
	states := map[int]candidate.State{}
	for i, e := range s.events {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has the number %d", i+1, e.Seq)
		}
		if c, ok := e.Body.(event.Candidate); ok {
			from, seen := states[c.Number]
			if !seen {
				from = candidate.Queued
			}
			if _, err := from.Step(c.State); err != nil && from != c.State {
				t.Errorf("c%d: %v", c.Number, err)
			}
			states[c.Number] = c.State
		}
	}
	if _, ok := s.events[0].Body.(event.Started); !ok {
		t.Errorf("the first event is %T", s.events[0].Body)
	}
	if _, ok := s.events[len(s.events)-1].Body.(event.Finished); !ok {
		t.Errorf("the last event is %T", s.events[len(s.events)-1].Body)
	}
}

// broken is a sandbox that fails some of its runs itself.
type broken struct {
	sandbox.Sandbox
	fails func(sandbox.Spec) bool
}

func (b broken) Run(ctx context.Context, s sandbox.Spec) (sandbox.Result, error) {
	if b.fails(s) {
		return sandbox.Result{}, errors.New("the sandbox broke")
	}
	return b.Sandbox.Run(ctx, s)
}

// Infrastructure is tried again and is no candidate's fault.
func TestInfrastructureIsTriedAgain(t *testing.T) {
	programs := map[string]fake.Program{"check": check, self: plugin, "fix": writes("right\n"), "other": writes("right\n")}
	var failed atomic.Int32
	s := newStage(t, broken{fake.New(sandbox.Options{}, programs), func(spec sandbox.Spec) bool {
		return spec.Argv[0] == "fix" && failed.Add(1) == 1
	}}, "fix", "other")
	doc := s.run(t)
	if got := outcomes(doc); !slices.Equal(got, []candidate.Outcome{candidate.Met, candidate.Met}) {
		t.Errorf("outcomes %v", got)
	}

	s = newStage(t, broken{fake.New(sandbox.Options{}, programs), func(spec sandbox.Spec) bool { return spec.Argv[0] == "fix" }}, "fix", "other")
	doc = s.run(t)
	if got := outcomes(doc); !slices.Equal(got, []candidate.Outcome{candidate.Infrastructure, candidate.Met}) || *doc.Winner != 2 {
		t.Errorf("outcomes %v", got)
	}
	if !strings.Contains(doc.Candidates[0].Detail, "the sandbox broke") {
		t.Errorf("detail %q", doc.Candidates[0].Detail)
	}

	s = newStage(t, broken{fake.New(sandbox.Options{}, programs), func(spec sandbox.Spec) bool { return spec.Argv[0] == "fix" }}, "fix", "fix")
	if doc = s.run(t); doc.ExitCode != ExitInfrastructure {
		t.Errorf("exit code %d when all candidates fell to the host", doc.ExitCode)
	}
}

// A plugin that dies, prints nonsense or answers for another point leaves the
// candidate undecided, with the reason.
func TestFaultyPluginDecidesNothing(t *testing.T) {
	for name, program := range map[string]fake.Program{
		"dies":   func(context.Context, *fake.Process) fake.Exit { return fake.Exit{Code: 1} },
		"silent": func(context.Context, *fake.Process) fake.Exit { return fake.Exit{} },
		"nonsense": func(_ context.Context, p *fake.Process) fake.Exit {
			fmt.Fprint(p.Stdout, "all good")
			return fake.Exit{}
		},
		"smuggles": func(_ context.Context, p *fake.Process) fake.Exit {
			fmt.Fprint(p.Stdout, `{"point":"after_turn","body":{"protocol_version":1,"evidence":{"flip":"achieved","measurements":{"test-command-exit-code":0},"tamper":"clean"}}}`)
			return fake.Exit{}
		},
		"case": func(_ context.Context, p *fake.Process) fake.Exit {
			fmt.Fprint(p.Stdout, `{"point":"after_turn","body":{"protocol_version":1,"evidence":{"Flip":"achieved","measurements":{"test-command-exit-code":0}}}}`)
			return fake.Exit{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: program, "fix": writes("right\n")}), "fix")
			doc := s.run(t)
			c := doc.Candidates[0]
			if c.Outcome != candidate.Undecided || c.Evidence[0].Fault == "" || doc.Winner != nil || doc.ExitCode != ExitNoWinner {
				t.Errorf("%s: %s, fault %q, winner %v", c.Outcome, c.Detail, c.Evidence[0].Fault, doc.Winner)
			}
		})
	}
}

// What an agent prints reaches the record without the operator's secrets.
func TestSecretsAreRedacted(t *testing.T) {
	s := newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{
		"check": func(_ context.Context, p *fake.Process) fake.Exit {
			fmt.Fprintln(p.Stdout, "printed the-secret-value")
			return fake.Exit{Code: 1}
		},
		self: plugin,
		"fix": func(ctx context.Context, p *fake.Process) fake.Exit {
			fmt.Fprintln(p.Stdout, "I saw the-secret-value here")
			return writes("right\n")(ctx, p)
		},
	}), "fix")
	s.run(t)
	err := filepath.WalkDir(s.cfg.Record.Path(), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), "the-secret-value") {
			t.Errorf("%s holds the secret", filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// When the record cannot be kept, the run ends and says so.
func TestRunEndsWhenTheRecordCannotBeKept(t *testing.T) {
	var s *stage
	s = newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{
		"check": check, self: plugin,
		"fix": func(ctx context.Context, p *fake.Process) fake.Exit {
			if err := os.RemoveAll(s.cfg.Record.Path()); err != nil {
				t.Error(err)
			}
			return writes("right\n")(ctx, p)
		},
	}), "fix")
	if doc, err := Run(t.Context(), s.cfg); err == nil {
		t.Errorf("no error; winner %v", doc.Winner)
	}
}
