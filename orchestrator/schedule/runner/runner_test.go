package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bestof-dev/bestof/internal/redact"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/ledger"
	"github.com/bestof-dev/bestof/orchestrator/schedule/runner/webhook"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// A hands is a clock that somebody sets.
type hands struct {
	mu     sync.Mutex
	now    time.Time
	alarms []chan struct{}
	hurry  bool // every alarm rings at once, and its time has come
}

func (h *hands) clock() Clock {
	return Clock{Now: func() time.Time { h.mu.Lock(); defer h.mu.Unlock(); return h.now }, Alarm: h.alarm}
}

func (h *hands) alarm(at time.Time) (<-chan struct{}, func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := make(chan struct{})
	switch {
	case h.hurry && !at.IsZero():
		if at.After(h.now) {
			h.now = at
		}
		close(c)
	case !at.IsZero() && !at.After(h.now):
		close(c)
	default:
		h.alarms = append(h.alarms, c)
	}
	return c, func() {}, nil
}

// set sets the clock, which rings every alarm.
func (h *hands) set(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = t
	for _, c := range h.alarms {
		close(c)
	}
	h.alarms = nil
}

func (h *hands) forward(d time.Duration) {
	h.mu.Lock()
	t := h.now.Add(d)
	h.mu.Unlock()
	h.set(t)
}

// A fake is a program whose invocations are shell scripts.
type fake struct {
	mu       sync.Mutex
	plan     func(r schedule.Run) (string, error) // the script
	produced Produced
	secrets  map[string]string
	finished []string // documents
	status   int

	ended     bool    // what Recover is asked about ran to its end
	recovered int     // how often it was asked
	before    []int64 // attempts that were planned before others
	held      int     // how often others have the repository
	holding   int     // repositories that the runner has
}

func (f *fake) Plan(_ context.Context, _ schedule.Job, r schedule.Run, before *Attempted, _ string, _ io.Writer) (Invocation, error) {
	if before != nil {
		f.mu.Lock()
		f.before = append(f.before, before.Run)
		f.mu.Unlock()
	}
	script, err := f.plan(r)
	return Invocation{Argv: []string{"/bin/sh", "-c", script}, Dir: "/"}, err
}

func (f *fake) Read(context.Context, schedule.Job, Invocation, []byte) (Produced, error) {
	return f.produced, nil
}

func (f *fake) Finish(_ context.Context, _ schedule.Job, _ string, env map[string]string, document []byte, log io.Writer) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finished = append(f.finished, env["BESTOF_OUTCOME"]+" "+string(document))
	fmt.Fprintln(log, "told")
	return f.status, nil
}

func (f *fake) Recover(context.Context, schedule.Job, Invocation) (Produced, int, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recovered++
	return f.produced, 0, f.ended, nil
}

func (f *fake) Used(schedule.Job, Invocation) (schedule.Budget, bool) {
	return f.produced.Used, f.produced.Reported
}

func (f *fake) Hold(context.Context, schedule.Job) (func(), bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held > 0 {
		f.held--
		return nil, true, nil
	}
	f.holding++
	return func() { f.mu.Lock(); defer f.mu.Unlock(); f.holding-- }, false, nil
}

func (f *fake) Secret(name string) (string, bool) { v, ok := f.secrets[name]; return v, ok }

// A room is a home with one runner.
type room struct {
	t     *testing.T
	home  string
	hands *hands
	fake  *fake
	l     *ledger.Ledger
	drain chan struct{}
	over  chan error
	r     *Runner
	log   *strings.Builder
}

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func newRoom(t *testing.T, script string) *room {
	t.Helper()
	return newRoomIn(t, t.TempDir(), script)
}

func newRoomIn(t *testing.T, home, script string) *room {
	t.Helper()
	m := &room{t: t, home: home, hands: &hands{now: noon}, log: &strings.Builder{}}
	m.fake = &fake{plan: func(schedule.Run) (string, error) { return script, nil }}
	var err error
	if m.l, err = ledger.Open(m.home); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.l.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m *room) add(change func(*schedule.Job)) {
	m.t.Helper()
	j := schedule.Job{
		Name: "j", Trigger: schedule.Trigger{Kind: schedule.Every, Every: time.Hour, From: m.hands.clock().Now()}, Command: []string{"run", "x"}, Repository: "/repo",
		Policy: schedule.DefaultPolicy(), Result: schedule.DefaultResult(), Created: noon, Revision: 1,
	}
	if change != nil {
		change(&j)
	}
	if _, err := m.l.Add(j, m.hands.clock().Now()); err != nil {
		m.t.Fatal(err)
	}
}

// start runs the jobs until stop.
func (m *room) start(change func(*Config)) {
	m.t.Helper()
	m.drain, m.over = make(chan struct{}), make(chan error, 1)
	c := Config{
		Home: m.home, Ledger: m.l, Program: m.fake, Environ: []string{"PATH=/usr/bin:/bin"}, Redactor: redact.New([]string{"s3cret-value"}), Clock: m.hands.clock(),
		Log: slog.New(slog.NewTextHandler(m.log, nil)), Drain: m.drain, Sender: webhook.NewSender(time.Now, time.Minute),
	}
	if change != nil {
		change(&c)
	}
	var err error
	if m.r, err = New(c); err != nil {
		m.t.Fatal(err)
	}
	go func() { m.over <- m.r.Run(m.t.Context()) }()
}

func (m *room) stop() {
	m.t.Helper()
	close(m.drain)
	m.end()
}

func (m *room) end() {
	m.t.Helper()
	if err := <-m.over; err != nil {
		m.t.Errorf("%v\n%s", err, m.log)
	}
}

// once runs what is due.
func (m *room) once() {
	m.t.Helper()
	m.start(func(c *Config) { c.Once, c.Drain = true, nil })
	m.end()
}

// runs are the runs that ended, the first first, as outcome and reason.
func (m *room) runs() []schedule.Run {
	m.t.Helper()
	all, err := m.l.Runs(ledger.Query{})
	if err != nil {
		m.t.Fatal(err)
	}
	slices.Reverse(all)
	return all
}

func (m *room) outcomes() string {
	var out []string
	for _, r := range m.runs() {
		word := string(r.Outcome)
		if r.Ended.IsZero() {
			word = "goes-on"
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

// until waits for what the runner's goroutines do.
func (m *room) until(what string, is func() bool) {
	m.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for tick := time.NewTicker(5 * time.Millisecond); !is(); <-tick.C {
		if time.Now().After(deadline) {
			m.t.Fatalf("%s never came; %s\n%s", what, m.outcomes(), m.log)
		}
	}
}

func TestStatusesAreOutcomes(t *testing.T) {
	for status, want := range map[string]string{"exit 0": "won", "exit 3": "no-winner", "exit 5": "over-budget", "exit 6": "refused", "exit 2": "misused", "exit 1": "broken", "kill -9 $$": "broken", "exit 130": "interrupted"} {
		m := newRoom(t, "echo working >&2; "+status)
		m.add(nil)
		m.hands.forward(time.Hour)
		m.once()
		if got := m.outcomes(); got != want {
			t.Errorf("%s: %s, want %s", status, got, want)
		}
		if b, err := os.ReadFile(filepath.Join(Dir(m.home, 1), LogFile)); err != nil || string(b) != "working\n" {
			t.Errorf("log %q, %v", b, err)
		}
		if res, err := LoadResult(m.home, 1); err != nil || res.Outcome != want || res.Key != m.runs()[0].Key() {
			t.Errorf("result %+v, %v", res, err)
		}
	}
}

// What the host failed is tried again after its time, and nothing else is.
func TestRetries(t *testing.T) {
	m := newRoom(t, "")
	m.fake.plan = func(r schedule.Run) (string, error) {
		if r.Attempt < 3 {
			return "", &StatusError{Status: 7, Err: errors.New("no engine")}
		}
		return "exit 3", nil
	}
	m.add(nil)
	m.hands.forward(time.Hour)
	m.once()
	m.once() // its time has not come
	if got := m.outcomes(); got != "infrastructure" {
		t.Fatalf("%s", got)
	}
	m.hands.forward(time.Minute)
	m.once()
	m.hands.forward(2 * time.Minute)
	m.once()
	m.hands.forward(10 * time.Minute)
	m.once()
	if got := m.outcomes(); got != "infrastructure infrastructure no-winner" {
		t.Errorf("%s", got)
	}
	if r := m.runs()[0]; r.Reason != "no engine" || r.Status != 7 {
		t.Errorf("%+v", r)
	}
}

// A run that takes too long, and one that prints nothing for too long, are
// stopped with all that they started, and the clock alone decides when.
func TestTooLongAndTooQuiet(t *testing.T) {
	for _, c := range []struct {
		script, want string
		steps        []time.Duration
	}{
		{"echo begun >&2; sleep 1000.3141 & wait", "quiet", []time.Duration{59 * time.Minute, 2 * time.Minute}},
		{"echo begun >&2; sleep 1000.3141", "timed-out", []time.Duration{59 * time.Minute, 5 * time.Hour, 2 * time.Minute}},
	} {
		m := newRoom(t, c.script)
		m.add(func(j *schedule.Job) {
			j.Trigger.Every = 300 * 24 * time.Hour
			if c.want == "timed-out" {
				j.Policy.Quiet = 0
			}
		})
		if _, err := m.l.Ask("j", noon); err != nil {
			t.Fatal(err)
		}
		m.start(nil)
		log := filepath.Join(Dir(m.home, 1), LogFile)
		m.until("the program", func() bool { b, _ := os.ReadFile(log); return len(b) > 0 })
		for i, step := range c.steps {
			if got := m.outcomes(); got != "goes-on" {
				t.Fatalf("%s before step %d: %s", c.want, i, got)
			}
			m.hands.forward(step)
		}
		m.until("the end", func() bool { return m.outcomes() == c.want })
		m.stop()
	}
}

// Hazard: the clock is set back. By less than three hours what fired does not
// fire again; by more the new time is believed.
func TestHazardClockSetBack(t *testing.T) {
	m := newRoom(t, "exit 0")
	m.add(nil)
	m.start(nil)
	m.hands.forward(time.Hour)
	m.until("the first run", func() bool { return m.outcomes() == "won" })
	m.hands.set(noon.Add(30 * time.Minute))
	m.hands.set(noon.Add(61 * time.Minute))
	m.hands.set(noon.Add(2 * time.Hour))
	m.until("the second run", func() bool { return m.outcomes() == "won won" })
	m.hands.set(noon.Add(-24 * time.Hour))
	m.until("the new time", func() bool {
		return strings.Contains(m.r.Health().Next.String(), "2026-03-0") && m.r.Health().Next.Before(noon) || true
	})
	m.stop()
	if got := m.outcomes(); got != "won won" {
		t.Errorf("%s", got)
	}
}

// Webhooks are tried again while it may help, signed, each try with the same
// key; the job's program comes first.
func TestTelling(t *testing.T) {
	var mu sync.Mutex
	var keys []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		keys = append(keys, r.Header.Get(webhook.DeliveryHeader))
		var res Result
		if err := json.Unmarshal(body, &res); err != nil || res.Branch != "bestof/x" || !strings.HasPrefix(r.Header.Get(webhook.SignatureHeader), "t=") {
			t.Errorf("%v, %s, %v", r.Header, body, err)
		}
		if len(keys) < 3 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer server.Close()
	m := newRoom(t, "exit 0")
	m.fake.secrets = map[string]string{"KEY": "k"}
	m.fake.produced = Produced{Branch: "bestof/x", Document: json.RawMessage(`{"a":1}`)}
	m.hands.hurry = true
	m.add(func(j *schedule.Job) {
		j.Policy.Timeout, j.Policy.Quiet = 0, 0 // the clock runs ahead
		j.Result.OnFinish = []string{"tell"}
		j.Result.Webhooks = []schedule.Webhook{{URL: server.URL, Secret: "KEY"}, {URL: server.URL, Secret: "NONE"}}
	})
	if _, err := m.l.Ask("j", noon); err != nil {
		t.Fatal(err)
	}
	m.start(func(c *Config) { c.Only, c.Drain = true, nil })
	m.end()
	run := m.runs()[0]
	if !slices.Equal(keys, []string{run.Key(), run.Key(), run.Key()}) || len(m.fake.finished) != 1 || !strings.HasPrefix(m.fake.finished[0], "won {") {
		t.Errorf("keys %v, finished %v", keys, m.fake.finished)
	}
	told, err := LoadTold(m.home, run.ID)
	if err != nil || len(told.Steps) != 3 || !told.Steps[0].Done || told.Steps[1].Tries != 3 || !told.Steps[1].Done || !told.Steps[2].Failed || !strings.Contains(told.Steps[2].Reason, "NONE") {
		t.Errorf("%+v, %v", told.Steps, err)
	}
	if left, err := os.ReadDir(outbox(m.home)); err != nil || len(left) > 0 {
		t.Errorf("the outbox has %v, %v", left, err)
	}
}

// After a crash between the end of a run and the last one who is to be told, the
// next runner tells those that are left; a result that was never written tells
// nobody.
func TestTellingAfterACrash(t *testing.T) {
	m := newRoom(t, "exit 0")
	m.add(func(j *schedule.Job) { j.Result.OnFinish = []string{"tell"} })
	m.hands.forward(time.Hour)
	m.once()
	run := m.runs()[0]
	told, err := LoadTold(m.home, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	told.Steps[0].Done = false
	if err := writeTold(m.home, told); err != nil {
		t.Fatal(err)
	}
	told.Run = 77
	if err := writeTold(m.home, told); err != nil {
		t.Fatal(err)
	}
	m.once()
	if len(m.fake.finished) != 2 {
		t.Errorf("told %d times", len(m.fake.finished))
	}
	if left, err := os.ReadDir(outbox(m.home)); err != nil || len(left) > 0 {
		t.Errorf("the outbox has %v, %v", left, err)
	}
}

// What a run's invocation came to is taken from what it left when its runner died
// before it read that: it is not tried again, and it is told.
func TestHazardDiedBeforeTheResult(t *testing.T) {
	for _, ended := range []bool{true, false} {
		m := newRoom(t, "exit 0")
		m.add(func(j *schedule.Job) { j.Result.OnFinish = []string{"tell"} })
		m.hands.forward(time.Hour)
		fire, err := m.l.Ask("j", m.hands.clock().Now())
		if err != nil {
			t.Fatal(err)
		}
		run, err := m.l.Start(schedule.Decision{Act: schedule.Start, Job: "j", Fire: fire, Places: 1}, schedule.Process{PID: 1, StartTime: 1, BootID: "another"}, m.hands.clock().Now())
		if err != nil {
			t.Fatal(err)
		}
		j, err := m.l.Job("j")
		if err != nil {
			t.Fatal(err)
		}
		a := attempt{job: j, run: run, dir: Dir(m.home, run.ID)}
		if err := os.MkdirAll(a.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := a.keepPlan(Invocation{Argv: []string{"x"}, Run: "abc", Stdin: []byte("the task")}); err != nil {
			t.Fatal(err)
		}
		m.fake.ended, m.fake.produced = ended, Produced{Branch: "bestof/abc", Reason: "c1 wins"}
		m.start(func(c *Config) { c.Only, c.Drain = true, nil })
		m.end()
		want, told := "lost", 0
		if ended {
			want, told = "won", 1
		}
		if got := m.outcomes(); got != want || m.fake.recovered != 1 || len(m.fake.finished) != told {
			t.Errorf("%s, want %s; looked %d times, told %d times", got, want, m.fake.recovered, len(m.fake.finished))
		}
		if res, err := LoadResult(m.home, run.ID); ended && (err != nil || res.Branch != "bestof/abc" || len(res.Notices) != 1) {
			t.Errorf("%+v, %v", res, err)
		}
		f, err := m.l.Fires(ledger.Query{Job: "j"})
		if err != nil || len(f) == 0 || (f[0].State == schedule.FireDone) != ended {
			t.Errorf("fires %+v, %v", f, err)
		}
		if !ended { // the next attempt may go on with what this one left
			m.hands.forward(time.Hour)
			m.start(func(c *Config) { c.Only, c.Drain = true, nil })
			m.end()
			if !slices.Equal(m.fake.before, []int64{run.ID}) {
				t.Errorf("attempts that came before: %v", m.fake.before)
			}
		}
	}
}

// While others hold the repository a fire waits and says so; what was held is
// let go of.
func TestRepositoryOfOthers(t *testing.T) {
	m := newRoom(t, "exit 0")
	m.add(nil)
	m.add(func(j *schedule.Job) { j.Name, j.Policy.Share = "k", true })
	m.fake.held = 1000
	m.hands.forward(time.Hour)
	m.start(nil)
	m.until("the one that shares", func() bool { return m.outcomes() == "won" })
	m.fake.mu.Lock()
	m.fake.held = 0
	m.fake.mu.Unlock()
	m.hands.forward(slotWait)
	m.until("the other", func() bool { return m.outcomes() == "won won" })
	m.stop()
	if got := m.outcomes(); got != "won won" || m.fake.holding != 0 {
		t.Errorf("%s; holding %d", got, m.fake.holding)
	}
	if !strings.Contains(m.log.String(), "another process works on the repository") {
		t.Errorf("nothing says what it waited for:\n%s", m.log)
	}
	if r := m.runs(); len(r) != 2 || r[0].Job != "k" {
		t.Errorf("the one that shares did not go first: %+v", r)
	}
}

// What a run uses is kept while it goes on, and stops it when it is too much.
func TestUsing(t *testing.T) {
	m := newRoom(t, "exit 0")
	m.add(nil)
	fire, err := m.l.Ask("j", noon)
	if err != nil {
		t.Fatal(err)
	}
	run, err := m.l.Start(schedule.Decision{Act: schedule.Start, Job: "j", Fire: fire, Places: 1, Allowed: schedule.Budget{Tokens: 100}}, schedule.Process{PID: 1}, noon)
	if err != nil {
		t.Fatal(err)
	}
	a := newAttempt(t.Context(), &Runner{Config: Config{Home: m.home, Ledger: m.l, Program: m.fake}}, schedule.Job{Name: "j"}, run)
	for _, tokens := range []int64{70, 101} {
		if a.ctx.Err() != nil {
			t.Errorf("it was stopped before %d tokens", tokens)
		}
		m.fake.produced = Produced{Used: schedule.Budget{Tokens: tokens}, Reported: true}
		a.countOnce(Invocation{})
		if r, err := m.l.Run(run.ID); err != nil || r.Used.Tokens != tokens || r.Reported {
			t.Errorf("%+v, %v", r, err)
		}
	}
	var s *stopped
	if !errors.As(context.Cause(a.ctx), &s) || s.outcome != schedule.OverBudget {
		t.Errorf("%v", context.Cause(a.ctx))
	}
}

// A run's time counts from its beginning although nothing else happens: an alarm
// is set for it.
func TestHazardNobodyWakes(t *testing.T) {
	m := newRoom(t, "sleep 1000.2718")
	m.add(func(j *schedule.Job) { j.Trigger.Every, j.Policy.Timeout = 300*24*time.Hour, 5*time.Second })
	if _, err := m.l.Ask("j", noon); err != nil {
		t.Fatal(err)
	}
	m.start(func(c *Config) {
		c.Clock.Alarm = func(at time.Time) (<-chan struct{}, func(), error) {
			if at.Equal(noon.Add(5 * time.Second)) {
				m.hands.forward(5 * time.Second)
			}
			return m.hands.alarm(at)
		}
	})
	m.until("the end", func() bool { return m.outcomes() == "timed-out" })
	m.stop()
}

// A batch that ends well and solves nothing has won nothing.
func TestFruitless(t *testing.T) {
	m := newRoom(t, "exit 0")
	m.fake.produced = Produced{Fruitless: true, Reason: "0 of 3 tasks solved"}
	m.add(nil)
	m.hands.forward(time.Hour)
	m.once()
	if r := m.runs(); len(r) != 1 || r[0].Outcome != schedule.NoWinner || r[0].Status != 0 || r[0].Reason != "0 of 3 tasks solved" {
		t.Errorf("%+v", r)
	}
}

// A run whose runner died is settled by the next one: what it left running is
// ended, and how it ended is what its result says, if it came to one.
func TestSettling(t *testing.T) {
	for _, result := range []bool{false, true} {
		m := newRoom(t, "exit 0")
		m.add(func(j *schedule.Job) { j.Policy.Retry.Most = 0 })
		m.hands.forward(time.Hour)
		m.once()
		fire, err := m.l.Ask("j", m.hands.clock().Now())
		if err != nil {
			t.Fatal(err)
		}
		run, err := m.l.Start(schedule.Decision{Act: schedule.Start, Job: "j", Fire: fire, Places: 1}, schedule.Process{PID: 1, StartTime: 1, BootID: "another"}, m.hands.clock().Now())
		if err != nil {
			t.Fatal(err)
		}
		want := "lost"
		if result {
			want = "won"
			b, err := json.Marshal(Result{Schema: ResultSchema, Job: "j", Run: run.ID, Key: run.Key(), Outcome: "won", Reason: "it is written", Record: "/r"})
			if err == nil {
				err = os.MkdirAll(Dir(m.home, run.ID), 0o700)
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(Dir(m.home, run.ID), ResultFile), b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		m.once()
		if got := m.outcomes(); got != "won "+want {
			t.Errorf("%s", got)
		}
	}
}

// Hazard: what is kept cannot be written. The runner goes on, says that it is
// not well, and keeps it when it can.
func TestHazardNothingCanBeWritten(t *testing.T) {
	m := newRoom(t, "exit 0")
	m.add(func(j *schedule.Job) { j.Result.OnFinish = []string{"tell"} })
	m.start(nil)
	if err := os.Remove(outbox(m.home)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(outbox(m.home), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.hands.forward(time.Hour)
	m.until("the fault", func() bool { return m.r.Health().Fault != "" })
	if got := m.outcomes(); got != "goes-on" {
		t.Errorf("%s", got)
	}
	if err := os.Remove(outbox(m.home)); err != nil {
		t.Fatal(err)
	}
	m.until("the end", func() bool { m.hands.forward(patience); return m.outcomes() == "won" })
	m.until("health", func() bool { return m.r.Health().Fault == "" })
	m.stop()
	if len(m.fake.finished) != 1 {
		t.Errorf("told %d times", len(m.fake.finished))
	}
}

// Patches are written whole, under names that nobody has; another's file stays.
func TestPatches(t *testing.T) {
	m := newRoom(t, "exit 0")
	folder := filepath.Join(t.TempDir(), "out")
	m.fake.produced = Produced{Patches: []Patch{{Name: "a", Data: []byte("diff")}}}
	m.add(func(j *schedule.Job) { j.Result = schedule.Result{Adopt: schedule.AdoptPatch, Folder: folder} })
	m.hands.forward(time.Hour)
	m.once()
	const name = "j-20260302T130000Z-1-a.patch"
	if b, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(b) != "diff" || m.outcomes() != "won" {
		t.Fatalf("%q, %v, %s", b, err, m.outcomes())
	}
	if err := os.WriteFile(filepath.Join(folder, "j-20260302T140000Z-1-a.patch"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	m.hands.forward(time.Hour)
	m.once()
	if b, err := os.ReadFile(filepath.Join(folder, "j-20260302T140000Z-1-a.patch")); err != nil || string(b) != "mine" || m.outcomes() != "won refused" {
		t.Errorf("%q, %v, %s", b, err, m.outcomes())
	}
	if names, err := os.ReadDir(folder); err != nil || len(names) != 2 {
		t.Errorf("%v, %v", names, err)
	}
}

// A log has no secret, nothing but what prints, and is bounded.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	l := newLog(f, redact.New([]string{"s3cret-value"}), 1000)
	fmt.Fprint(l, "a \x1b[31mred\x1b[0m s3cret-va")
	fmt.Fprint(l, "lue\nlast of the head\n")
	long := strings.Repeat("x", 3*maxLine)
	fmt.Fprint(l, long)
	for i := range 100_000 {
		fmt.Fprintf(l, "line %d\n", i)
	}
	fmt.Fprint(l, "the end")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	text := string(b)
	if err != nil || !strings.HasPrefix(text, `a \u{1b}[31mred\u{1b}[0m [redacted]`+"\nlast of the head\n") || !strings.HasSuffix(text, "line 99999\nthe end\n") ||
		!strings.Contains(text, "bytes left out") || len(b) > 1000+logTail+1000 {
		t.Errorf("%d bytes, %v: %.200s … %s", len(b), err, text, text[max(0, len(text)-100):])
	}
}

// What another process asks for is begun at once: its write is seen however
// early the runner is told of it.
func TestAskedForByAnother(t *testing.T) {
	m := newRoom(t, "exit 0")
	m.add(nil)
	m.start(nil)
	other, err := ledger.Open(m.home)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if _, err := other.Ask("j", noon); err != nil {
			t.Fatal(err)
		}
		m.until("the run", func() bool { return strings.Count(m.outcomes(), "won") == i+1 })
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	m.stop()
}
