// Package runner does what schedule decides: it begins runs of jobs, watches
// and ends them, keeps what became of them, and tells whom the job names. One
// process of a home does so at a time; see ledger.TakeClaim.
package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/internal/redact"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/ledger"
	"github.com/bestof-dev/bestof/orchestrator/schedule/runner/webhook"
	"github.com/bestof-dev/bestof/orchestrator/schedule/slots"
)

// An Invocation is a run of this program, as a job is when it fires.
type Invocation struct {
	Argv    []string // the program and its arguments
	Dir     string   // absolute, to start in
	Stdin   []byte
	Run     string          // id that its run has, "" for none
	Batch   string          // directory of the batch that it makes, "" for none
	Notices []string        // what is different from when the job was added
	GoesOn  int64           `json:",omitempty"` // the run whose batch it goes on with, 0 for none
	Before  schedule.Budget // what that batch used before: it is not this run's
}

// An Attempted is an earlier attempt at a fire.
type Attempted struct {
	Run        int64
	Job        schedule.Job // as it was then
	Invocation Invocation
}

// Produced is what an invocation left.
type Produced struct {
	Document  json.RawMessage // of the run or of the batch; nil if there is none
	Record    string          // where it is kept
	Reason    string          // why it ended so, one line
	Branch    string          // that was made of the winner
	Commit    string
	Used      schedule.Budget
	Reported  bool
	Patches   []Patch // of winners, when the job asks for them
	Fruitless bool    // it ended well, and nothing was solved
}

// A Patch is a winner's change.
type Patch struct {
	Name string // of the file: the run's id, or the task's
	Data []byte
}

// A StatusError is a fault with the exit status of this program that it is.
type StatusError struct {
	Status int
	Err    error
}

func (e *StatusError) Error() string { return e.Err.Error() }
func (e *StatusError) Unwrap() error { return e.Err }

// A Program is what the command line knows and the runner does not. Its
// functions are called concurrently.
type Program interface {
	// Plan looks at the job's repository and its task as they are now. dir is
	// the run's own. What it logs is shown with the run. A StatusError says
	// what is wrong with them. before is what the last attempt at the same fire
	// was about to be, nil for none: what it left is gone on with where that can be.
	Plan(ctx context.Context, j schedule.Job, r schedule.Run, before *Attempted, dir string, log io.Writer) (Invocation, error)
	// Read finds what an invocation left, from what it printed on stdout.
	Read(ctx context.Context, j schedule.Job, inv Invocation, stdout []byte) (Produced, error)
	// Recover finds what an invocation left that ran to its end although its
	// runner died before it was read, and its exit status; ok is false when it did
	// not come to its end. What the job does with a winner and is not done is done.
	// None of the invocation's processes is alive.
	Recover(ctx context.Context, j schedule.Job, inv Invocation) (p Produced, status int, ok bool, err error)
	// Used is what a run of an invocation used so far, as far as its agents say;
	// reported is false when nothing is known.
	Used(j schedule.Job, inv Invocation) (used schedule.Budget, reported bool)
	// Hold is the right to work on the job's repository, among all processes of
	// this machine, until release. held says that others have it.
	Hold(ctx context.Context, j schedule.Job) (release func(), held bool, err error)
	// Finish runs the job's own program with a document on its stdin, and
	// returns its exit status.
	Finish(ctx context.Context, j schedule.Job, dir string, env map[string]string, document []byte, log io.Writer) (int, error)
	// Secret is the value that a webhook is signed with, by its name.
	Secret(name string) (value string, ok bool)
}

// An Observer is told what happens, for metrics and traces. Its methods must
// not block.
type Observer interface {
	// Began returns what the run's program is given as TRACEPARENT, "" for what
	// the environment has.
	Began(j schedule.Job, r schedule.Run) (traceparent string)
	Ended(j schedule.Job, r schedule.Run, e ledger.End)
	Queue(waiting, running int)
}

// A Clock is the time and a way to be woken at one, or when somebody sets it.
type Clock struct {
	Now   func() time.Time
	Alarm func(at time.Time) (rings <-chan struct{}, stop func(), err error) // a zero time rings only when the clock is set
}

// Config is what a runner needs to know.
type Config struct {
	Home     string
	Ledger   *ledger.Ledger
	Program  Program
	Environ  []string // of what it starts, as NAME=VALUE
	Redactor *redact.Redactor
	Clock    Clock
	Log      *slog.Logger
	Observer Observer    // may be nil
	Limit    int         // candidates that run at once on this machine; 0 for no limit
	Slots    *slots.Pool // those candidates' slots; nil without a limit
	Only     bool        // begin nothing but what somebody asked for, and end as with Once
	Once     bool        // end when nothing runs and nothing is due
	Drain    <-chan struct{}
	Sender   *webhook.Sender
	Ready    func()        // called once everything of before is settled and decided; may be nil
	Alive    func()        // called every Beat while decisions are made; may be nil
	Beat     time.Duration // 0 for never
}

// A Runner does what is decided. One goroutine decides; Health may be called by
// others.
type Runner struct {
	Config
	self    schedule.Process
	runs    map[int64]*attempt
	ended   chan *attempt
	unkept  []*attempt // ended, and that could not be written
	lack    error      // why not
	told    chan struct{}
	telling int
	working sync.WaitGroup
	held    map[string]schedule.Reason // by fire, so that a reason is logged once
	limited bool                       // a fire waits for what others have: a slot or a repository
	holds   map[string]func()          // by repository: lets go of it
	beat    <-chan time.Time

	mu     sync.Mutex
	health Health
}

// Health is how a runner is.
type Health struct {
	Schema   string        `json:"schema"` // bestof.daemon/1
	State    string        `json:"state"`  // running | draining
	Fault    string        `json:"fault,omitempty"`
	Since    time.Time     `json:"since"`
	Jobs     int           `json:"jobs"`
	Waiting  int           `json:"waiting"` // fires
	Running  []RunningRun  `json:"running"`
	Next     *time.Time    `json:"next,omitempty"` // when something is to be done
	Limit    int           `json:"limit,omitempty"`
	Process  proc.Identity `json:"process"`
	Telling  int           `json:"telling"` // results whose programs and webhooks are not done
	Turns    int64         `json:"turns"`   // how often it has decided
	Finished int64         `json:"finished"`
}

// A RunningRun is one that goes on.
type RunningRun struct {
	Run     int64     `json:"run"`
	Job     string    `json:"job"`
	Started time.Time `json:"started"`
}

// New makes a runner. The caller has the claim.
func New(c Config) (*Runner, error) {
	id, err := proc.Self()
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{runsDir(c.Home), outbox(c.Home)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the directories of jobs: %w", err)
		}
	}
	return &Runner{
		Config: c, self: schedule.Process(id), runs: map[int64]*attempt{}, ended: make(chan *attempt), told: make(chan struct{}), held: map[string]schedule.Reason{}, holds: map[string]func(){},
		health: Health{Schema: "bestof.daemon/1", State: "running", Since: c.Clock.Now(), Running: []RunningRun{}, Limit: c.Limit, Process: id},
	}, nil
}

func runsDir(home string) string { return filepath.Join(home, "jobs", "runs") }

// Dir is where a run of a job keeps its log and its result.
func Dir(home string, run int64) string {
	return filepath.Join(runsDir(home), strconv.FormatInt(run, 10))
}

// patience is how long a runner that could not write waits before it tries
// again.
const patience = 10 * time.Second

// Run settles what an earlier runner left, and then does what is decided until
// Drain is closed and nothing runs any more, or, with Once or Only, until
// nothing is left to do. When ctx ends, what runs is stopped first.
func (r *Runner) Run(ctx context.Context) error {
	if err := r.settle(ctx); err != nil {
		return err
	}
	watching, done := context.WithCancel(context.WithoutCancel(ctx))
	defer done()
	changes, err := watch(watching, filepath.Join(r.Home, "jobs"))
	if err != nil {
		return err
	}
	r.resend(ctx)
	if r.Beat > 0 && r.Alive != nil {
		ticker := time.NewTicker(r.Beat)
		defer ticker.Stop()
		r.beat = ticker.C
	}
	ready := r.Ready
	seen, drain := int64(-1), r.Drain
	var fault error
	for {
		seen, _ = r.Ledger.Version() // an error shows in the turn
		next, err := r.turn(ctx, drain == nil && r.Drain != nil)
		r.fault(errors.Join(err, r.lack))
		if err != nil && fault == nil && (r.Once || r.Only || errors.Is(err, ledger.ErrDamaged)) {
			fault = err // somebody waits for an answer, or it does not become better
		}
		if ready != nil && err == nil {
			ready()
			ready = nil
			words := []any{"home", r.Home, "jobs", r.health.Jobs}
			if !next.IsZero() {
				words = append(words, "next", next)
			}
			r.Log.Info("ready", words...)
		}
		ending := ctx.Err() != nil || drain == nil && r.Drain != nil
		if ending && len(r.unkept) > 0 && len(r.runs)+r.telling == len(r.unkept) {
			r.working.Wait()
			return fmt.Errorf("%w: how %d ended is not kept: who runs jobs next settles it", r.lack, len(r.unkept))
		}
		over := len(r.runs)+r.telling+len(r.unkept) == 0
		if over && (ending || fault != nil || err == nil && !r.limited && (r.Once || r.Only)) {
			r.working.Wait()
			return fault
		}
		if err != nil || len(r.unkept) > 0 {
			if soon := r.Clock.Now().Add(patience); next.IsZero() || soon.Before(next) {
				next = soon
			}
		}
		if drain, err = r.wait(ctx, next, changes, drain, seen); err != nil {
			return err
		}
	}
}

// wait returns when there may be something to decide.
func (r *Runner) wait(ctx context.Context, next time.Time, changes <-chan struct{}, drain <-chan struct{}, seen int64) (<-chan struct{}, error) {
	rings, stop, err := r.Clock.Alarm(next)
	if err != nil {
		return drain, fmt.Errorf("set the alarm: %w", err)
	}
	defer stop()
	done := ctx.Done()
	if ctx.Err() != nil {
		done = nil // everything was told; only the ends are waited for
	}
	var look <-chan time.Time
	looks := 0
	for {
		select {
		case a := <-r.ended:
			r.keep(ctx, a)
		case <-r.told:
			r.telling--
		case <-rings:
		case <-r.beat:
			r.Alive()
			continue
		case <-changes:
			if !r.changed(seen) {
				look, looks = time.After(commitWaits[0]), 1
				continue
			}
		case <-look:
			if !r.changed(seen) {
				if look = nil; looks < len(commitWaits) {
					look, looks = time.After(commitWaits[looks]), looks+1
				}
				continue
			}
		case <-drain:
			r.drained("begins nothing more and lets finish what runs")
			return nil, nil
		case <-done:
			r.drained("stops what runs")
		}
		return drain, nil
	}
}

// commitWaits are how long after a change of the ledger's files it is looked at
// again: a transaction is written before it is committed, and only the former is
// told. What this process writes itself is told too.
var commitWaits = []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 3 * time.Second}

// changed reports whether another process wrote to the ledger.
func (r *Runner) changed(seen int64) bool {
	v, err := r.Ledger.Version()
	return err != nil || v != seen
}

func (r *Runner) drained(how string) {
	r.Log.Info("draining", "how", how, "running", len(r.runs))
	r.mu.Lock()
	r.health.State = "draining"
	r.mu.Unlock()
}

// fault keeps whether the ledger can be used, and logs when that changes.
func (r *Runner) fault(err error) {
	r.mu.Lock()
	before := r.health.Fault
	r.health.Fault = ""
	if err != nil {
		r.health.Fault = err.Error()
	}
	now := r.health.Fault
	r.mu.Unlock()
	if now != "" && now != before {
		r.Log.Error("the ledger of jobs cannot be used", "error", now)
	}
}

// turn decides once and does it.
func (r *Runner) turn(ctx context.Context, draining bool) (next time.Time, err error) {
	waiting := r.unkept
	r.unkept, r.lack = nil, nil
	for _, a := range waiting {
		r.keep(ctx, a)
	}
	now := r.Clock.Now()
	state, err := r.Ledger.State(now)
	if err != nil {
		return next, err
	}
	r.complete(&state, draining || ctx.Err() != nil)
	jobs := map[string]schedule.Job{}
	for _, j := range state.Jobs {
		jobs[j.Job.Name] = j.Job
	}
	decisions := r.decide(ctx, &state, jobs, now)
	defer r.letGo()
	if err := r.Ledger.Apply(decisions, now); err != nil {
		return next, err
	}
	begun := false
	r.limited = limited(state, decisions) || len(state.Locked) > 0
	for _, d := range decisions {
		r.log(d)
		switch d.Act {
		case schedule.Start:
			if err := r.begin(ctx, jobs[d.Job], d, now); err != nil {
				return next, err
			}
			begun = true
		case schedule.Stop:
			if a := r.runs[d.Run]; a != nil && !a.stopping {
				a.stopping = true
				a.cancel(&stopped{d.Outcome, d.Reason})
			}
		case schedule.Wait:
			next = d.Until
		}
	}
	if begun {
		next = now // when a run that has begun goes too far is decided in a turn that sees it
	}
	if soon := now.Add(slotWait); r.limited && (next.IsZero() || soon.Before(next)) {
		next = soon // what somebody else lets go of tells nobody
	}
	r.picture(state, next)
	return next, nil
}

// decide decides with the repositories that runs are to begin on held: one that
// others hold is decided about again.
func (r *Runner) decide(ctx context.Context, state *schedule.State, jobs map[string]schedule.Job, now time.Time) []schedule.Decision {
	for {
		decisions := schedule.Decide(*state, now)
		if r.Only {
			decisions = only(decisions)
		}
		before := len(state.Locked)
		for _, d := range decisions {
			if d.Act == schedule.Start {
				r.hold(ctx, state, jobs[d.Job])
			}
		}
		if len(state.Locked) == before {
			return decisions
		}
	}
}

// hold takes a job's repository, or notes that others have it. A repository that
// cannot be looked at is the run's to complain of.
func (r *Runner) hold(ctx context.Context, state *schedule.State, j schedule.Job) {
	if r.holds[j.Repository] != nil || j.Policy.Share || j.Repository == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	release, held, err := r.Program.Hold(ctx, j)
	switch {
	case held:
		if state.Locked == nil {
			state.Locked = map[string]string{}
		}
		state.Locked[j.Repository] = "another process"
	case err == nil:
		r.holds[j.Repository] = release
	}
}

// letGo lets go of the repositories that no run of this process works on.
func (r *Runner) letGo() {
	used := map[string]bool{}
	for _, a := range r.runs {
		used[a.job.Repository] = true
	}
	for repository, release := range r.holds {
		if !used[repository] {
			release()
			delete(r.holds, repository)
		}
	}
}

// limited reports whether a fire waits for a candidate's slot after decisions.
// That it goes on waiting is not decided again.
func limited(s schedule.State, decisions []schedule.Decision) bool {
	waits := map[string]bool{}
	name := func(f schedule.Fire) string { return fmt.Sprint(f.Job, f.Manual, f.Instant.UnixNano()) }
	for _, j := range s.Jobs {
		for _, f := range j.Waiting {
			waits[name(f)] = f.Reason.Code == schedule.ByLimit
		}
	}
	for _, d := range decisions {
		if d.Act != schedule.Wait {
			waits[name(d.Fire)] = d.Act == schedule.Hold && d.Reason.Code == schedule.ByLimit
		}
	}
	for _, w := range waits {
		if w {
			return true
		}
	}
	return false
}

// slotWait is how long a fire that waits for what others have waits before it
// looks again.
const slotWait = 2 * time.Second

// complete adds what the ledger does not know.
func (r *Runner) complete(s *schedule.State, draining bool) {
	s.Limit.Candidates, s.Draining = r.Limit, draining
	ours := 0
	for i := range s.Jobs {
		for k := range s.Jobs[i].Running {
			run := &s.Jobs[i].Running[k]
			ours += run.Places
			if a := r.runs[run.ID]; a != nil {
				run.Output, run.Stopping = a.lastOutput(), a.stopping
			}
		}
	}
	if r.Slots != nil {
		if taken, err := r.Slots.Taken(); err == nil {
			s.Taken = max(0, taken-ours)
		}
	}
}

// only leaves of decisions those about fires that somebody asked for.
func only(decisions []schedule.Decision) []schedule.Decision {
	return slices.DeleteFunc(decisions, func(d schedule.Decision) bool {
		return !d.Fire.Manual && d.Act != schedule.Wait && d.Act != schedule.Stop
	})
}

// log says what was decided; that a fire goes on waiting it says once.
func (r *Runner) log(d schedule.Decision) {
	fire := d.Job + "@" + d.Fire.Instant.UTC().Format(time.RFC3339)
	switch d.Act {
	case schedule.Wait:
		return
	case schedule.Hold:
		if r.held[fire] == d.Reason {
			return
		}
		r.held[fire] = d.Reason
	default:
		delete(r.held, fire)
	}
	r.Log.Info("decided", "act", string(d.Act), "job", d.Job, "instant", d.Fire.Instant, "run", d.Run, "code", string(d.Reason.Code), "reason", d.Reason.Detail)
}

// picture keeps what Health shows.
func (r *Runner) picture(s schedule.State, next time.Time) {
	waiting, running := 0, []RunningRun{}
	for _, j := range s.Jobs {
		waiting += len(j.Waiting)
	}
	for _, a := range r.runs {
		running = append(running, RunningRun{a.run.ID, a.job.Name, a.run.Started})
	}
	r.mu.Lock()
	r.health.Jobs, r.health.Waiting, r.health.Running, r.health.Next, r.health.Telling = len(s.Jobs), waiting, running, nil, r.telling
	r.health.Turns++
	if !next.IsZero() {
		r.health.Next = &next
	}
	r.mu.Unlock()
	if r.Observer != nil {
		r.Observer.Queue(waiting, len(running))
	}
}

// Health is how the runner is at this moment.
func (r *Runner) Health() Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health
}

// begin keeps that a run begins and lets it.
func (r *Runner) begin(ctx context.Context, j schedule.Job, d schedule.Decision, now time.Time) error {
	run, err := r.Ledger.Start(d, r.self, now)
	if errors.Is(err, ledger.ErrTaken) {
		return nil // somebody removed it meanwhile
	}
	if err != nil {
		return err
	}
	a := newAttempt(ctx, r, j, run)
	r.runs[run.ID] = a
	if r.Observer != nil {
		a.trace = r.Observer.Began(j, run)
	}
	r.Log.Info("run begins", "job", j.Name, "run", run.ID, "attempt", run.Attempt)
	r.working.Go(func() {
		a.live()
		r.ended <- a
	})
	return nil
}

// keep writes down how a run ended, and lets those know who are to.
func (r *Runner) keep(ctx context.Context, a *attempt) {
	err := a.kept
	if err == nil {
		err = r.Ledger.End(a.run.ID, a.end, r.Clock.Now())
	}
	if err != nil && !errors.Is(err, ledger.ErrNoRun) && !errors.Is(err, ledger.ErrOver) {
		r.lack = err
		r.unkept = append(r.unkept, a)
		if a.kept != nil {
			a.kept = a.write()
		}
		return
	}
	delete(r.runs, a.run.ID)
	r.letGo()
	r.Log.Info("run ended", "job", a.job.Name, "run", a.run.ID, "outcome", string(a.end.Outcome), "status", a.end.Status, "reason", a.end.Reason)
	if r.Observer != nil {
		r.Observer.Ended(a.job, a.run, a.end)
	}
	r.mu.Lock()
	r.health.Finished++
	r.mu.Unlock()
	r.tell(ctx, a.run.ID)
}
