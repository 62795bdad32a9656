package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch/progress"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// A Clock is the time, and a way to wait for it.
type Clock struct {
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
}

// Config is what a start of a batch needs to know.
type Config struct {
	State   *State
	Records *record.Store
	// Turn plans the run of one task, all but what the batch itself decides:
	// its record, admission, what is kept of earlier attempts, and events.
	Turn    func(ctx context.Context, spec Spec) (orchestrator.Config, error)
	NewID   func() string
	Limits  Limits
	Seats   int                              // candidates of each task
	Retries int                              // how often a task is begun again after the host failed it
	Backoff func(failures int) time.Duration // before that
	Clock   Clock
	Publish func(progress.Event) // in order, never concurrently; must not block for long
	Drain   <-chan struct{}      // closed: what runs is finished, and nothing begins
	Short   func() bool          // whether the disk has little room left; nil for never
	Scratch string               // where shadows are made, for people
}

// A Result is how a start of a batch ended.
type Result struct {
	Reason   string
	Left     int // tasks that are not done
	ExitCode int
}

// errRefused is what a candidate hears that may not begin.
var errRefused = errors.New("the batch begins nothing more")

// A batch is one start in progress.
type batch struct {
	Config
	ctx   context.Context
	stop  context.CancelCauseFunc
	owner proc.Identity
	calls chan func() // what happened, for the one goroutine that decides
	idle  sync.WaitGroup

	// Of the deciding goroutine.
	sched   *schedule
	rows    []Row // of the schedule's tasks
	counts  map[string]int
	stopped bool
	fault   error // the state cannot be kept
	full    bool  // shadows had no room, as often as it was tried

	mu    sync.Mutex // guards what follows, and keeps events in order
	seq   int64
	spend progress.Spend
	told  map[string]bool // what runs said
}

// Run runs what is left of a batch. ctx ends everything at once; an error means
// that the state could not be kept.
func Run(ctx context.Context, cfg Config) (Result, error) {
	b := &batch{Config: cfg, calls: make(chan func(), 256), counts: map[string]int{}, told: map[string]bool{}}
	var err error
	if b.owner, err = proc.Self(); err != nil {
		return Result{}, err
	}
	b.ctx, b.stop = context.WithCancelCause(ctx)
	defer b.stop(nil)
	if err := b.load(); err != nil {
		return Result{}, err
	}
	b.decide()
	b.idle.Wait()
	return b.result()
}

// load reads what is left to do and what was spent.
func (b *batch) load() error {
	rows, err := b.State.Rows()
	if err != nil {
		return err
	}
	costs, err := b.State.Costs()
	if err != nil {
		return err
	}
	images, err := b.State.Images()
	if err != nil {
		return err
	}
	b.sched = &schedule{limits: b.Limits}
	started := progress.Started{Directory: b.State.Dir(), Tasks: len(rows), Jobs: b.Limits.slots()}
	for _, r := range rows {
		switch r.State {
		case Done:
			if r.Winner > 0 {
				started.Solved++
			} else {
				started.Unsolved++
			}
		case Invalid:
			started.Invalid++
		case Failed:
			started.Failed++
		default:
			b.rows = append(b.rows, r)
			b.sched.tasks = append(b.sched.tasks, taskState{after: r.After, image: images[r.ID]})
		}
		b.counts[r.State]++
	}
	for _, c := range costs {
		b.sched.spent = b.sched.spent.Add(c.Usage)
		b.sched.learn(c.Usage)
		b.count(c.Usage, c.Outcome != "")
	}
	started.Left, started.Candidates, started.Spend = len(b.rows), len(b.rows)*b.Seats, b.spend
	b.emit(started)
	return nil
}

// decide does what the schedule says until nothing is left.
func (b *batch) decide() {
	drain := b.Drain
	for {
		if short := b.Short != nil && b.Short(); short != b.sched.short {
			if b.sched.short = short; short && b.sched.images() > 1 {
				b.notice("the disk has little room left: tasks of one image at a time")
			}
		}
		d := b.sched.next(b.Clock.Now())
		if b.fault != nil && d.act != done && d.act != refuse {
			d = decision{act: stop}
		}
		switch d.act {
		case done:
			return
		case begin:
			b.sched.begun(d.task)
			b.idle.Go(func() { b.attempt(d.task) })
			continue
		case admit:
			b.answer(d, nil)
			continue
		case refuse:
			b.answer(d, errRefused)
			continue
		case stop:
			if !b.stopped {
				b.end()
				continue
			}
		case wait:
			b.announce()
		}
		var alarm <-chan time.Time
		if !d.until.IsZero() && d.act == wait {
			alarm = b.Clock.After(d.until.Sub(b.Clock.Now()))
		}
		select {
		case f := <-b.calls:
			f()
		case <-alarm:
		case <-drain:
			drain, b.sched.draining = nil, true
			runs := "1 candidate"
			if n := b.sched.runs(); n != 1 {
				runs = fmt.Sprintf("%d candidates", n)
			}
			b.notice("finishing what runs (%s); interrupt again to stop at once", runs)
		}
	}
}

// end stops everything that runs.
func (b *batch) end() {
	if b.stopped {
		return
	}
	b.stopped, b.sched.draining = true, true
	switch {
	case b.fault != nil:
		b.stop(b.fault)
	case b.sched.overspent():
		b.notice("the budget is spent: what runs is stopped")
		b.stop(orchestrator.ErrOverBudget)
	default:
		b.notice("the time of the batch is up: what runs is stopped")
		b.stop(orchestrator.ErrDeadline)
	}
}

// answer tells a candidate that asked whether it may begin.
func (b *batch) answer(d decision, err error) {
	reply := b.sched.tasks[d.task].replies[d.candidate].reply
	delete(b.sched.tasks[d.task].replies, d.candidate)
	if err == nil {
		b.sched.admitted(d.task, d.candidate)
	} else {
		b.sched.answered(d.task, d.candidate)
	}
	reply <- err
}

// admitFor is what the runs of a task ask for each candidate.
func (b *batch) admitFor(i int) func(candidate.Number, func()) func(context.Context) (func(), error) {
	return func(number candidate.Number, soon func()) func(context.Context) (func(), error) {
		n := int(number)
		reply := make(chan error, 1)
		b.calls <- func() {
			b.sched.asked(i, n)
			if b.sched.tasks[i].replies == nil {
				b.sched.tasks[i].replies = map[int]request{}
			}
			b.sched.tasks[i].replies[n] = request{reply: reply, soon: soon}
		}
		return func(ctx context.Context) (func(), error) {
			select {
			case err := <-reply:
				return func() { b.calls <- func() { b.sched.released(i, n) } }, err
			case <-ctx.Done():
				gone := make(chan struct{})
				b.calls <- func() {
					// It may have been admitted meanwhile.
					b.sched.answered(i, n)
					delete(b.sched.tasks[i].replies, n)
					b.sched.released(i, n)
					close(gone)
				}
				<-gone
				return nil, context.Cause(ctx)
			}
		}
	}
}

// announce tells those that will be admitted next, once there is room.
func (b *batch) announce() {
	for _, c := range b.sched.coming(b.sched.limits.slots()) {
		b.sched.tasks[c.task].replies[c.candidate].soon()
	}
}

// attempt runs a task once.
func (b *batch) attempt(i int) {
	row := b.rows[i]
	now := b.Clock.Now()
	var e ending
	run, status := "", orchestrator.ExitInfrastructure
	w, cfg, err := b.prepare(i, row)
	if err == nil {
		run = w.ID()
		if err = b.State.begin(row.Seq, run, now); err == nil {
			b.emit(progress.Task{ID: row.ID, State: progress.Running, Attempt: row.Tries + 1, Run: run})
			var doc record.Document
			doc, err = orchestrator.Run(b.ctx, cfg)
			e, status = endingOf(doc), doc.ExitCode
			if err != nil {
				e = b.broken(err)
			}
			err = nil
			if e.end == endInfrastructure && row.Failures >= b.Retries && doc.Winner != nil {
				e.state, e.winner = Done, *doc.Winner // what the host failed is nobody's loss
			}
		} else {
			b.calls <- func() { b.fault = err }
			b.calls <- func() { b.sched.ended(i, false, time.Time{}) }
			w.Close()
			return
		}
		err = w.Close()
	}
	if err != nil {
		e = b.broken(err)
	}
	b.conclude(i, row, run, e, status)
}

// broken is how an attempt ended whose record could not be kept. Where the disk
// is full no other one fares better: the batch ends, and it is nobody's failure.
func (b *batch) broken(err error) ending {
	if !Full(err) {
		return ending{endInfrastructure, Pending, 0, oneLine(err)}
	}
	b.calls <- func() { b.fault = err }
	return ending{endInterrupted, Pending, 0, oneLine(err)}
}

// conclude writes down how an attempt ended, and lets the schedule go on.
func (b *batch) conclude(i int, row Row, run string, e ending, status int) {
	now := b.Clock.Now()
	var after time.Time
	again := e.end == endInfrastructure && e.state == Pending
	// The words may be an engine's about something of its own, or a name in them.
	full := again && saysFull(e.reason) && (b.Short == nil || b.Short())
	if full {
		b.warn(b.noRoom())
	}
	if full && row.Failures >= b.Retries {
		again = false // nor would another task fare better
	} else if again && row.Failures >= b.Retries {
		e.state, again = Failed, false
	} else if again {
		after = now.Add(b.Backoff(row.Failures + 1))
	}
	err := b.State.end(row.Seq, run, e, status, now, after)
	b.emit(progress.Task{ID: row.ID, State: shownState(e), Attempt: row.Tries + 1, Run: run, Winner: e.winner, Reason: e.reason})
	b.calls <- func() {
		if err != nil {
			b.fault = err
		}
		if full && !again {
			b.full, b.sched.draining = true, true
		}
		r := &b.rows[i]
		b.counts[r.State]--
		b.counts[e.state]++
		r.State, r.Winner, r.After = e.state, e.winner, after
		if run != "" {
			r.Run = run
			r.Tries++
		}
		if e.end == endInfrastructure {
			r.Failures++
		}
		b.sched.ended(i, again && err == nil, after)
	}
}

func shownState(e ending) string {
	switch {
	case e.state == Done && e.winner > 0:
		return progress.Solved
	case e.state == Done:
		return progress.Unsolved
	case e.state == Invalid:
		return progress.Invalid
	case e.state == Failed:
		return progress.Failed
	}
	return progress.Again
}

// prepare makes the record of an attempt and what its run needs to know.
func (b *batch) prepare(i int, row Row) (*record.Writer, orchestrator.Config, error) {
	spec, err := b.State.Spec(row.Seq)
	if err != nil {
		return nil, orchestrator.Config{}, err
	}
	cfg, err := b.Turn(b.ctx, spec)
	if err != nil {
		return nil, cfg, err
	}
	w, err := b.Records.Create(b.owner, b.NewID)
	if err != nil {
		return nil, cfg, err
	}
	if row.Run != "" {
		if cfg.Kept, err = b.keep(row, w); err != nil {
			return nil, cfg, errors.Join(err, w.Close(), b.Records.Remove(w.ID()))
		}
	}
	cfg.Record, cfg.Salt, cfg.Settings.Jobs = w, row.Seq*(b.Seats+1), max(1, len(cfg.Seats))
	cfg.Admit = b.admitFor(i)
	watcher := newWatcher(b, i, row, w.ID(), cfg)
	cfg.Used, cfg.Publish = watcher.used, watcher.event
	return w, cfg, nil
}

// emit numbers an event and publishes it.
func (b *batch) emit(body progress.Body) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.publish(body)
}

// publish is emit with b.mu held.
func (b *batch) publish(body progress.Body) {
	b.seq++
	b.Publish(progress.Event{Seq: b.seq, At: b.Clock.Now(), Body: body})
}

func (b *batch) notice(format string, args ...any) {
	b.emit(progress.Notice{Text: fmt.Sprintf(format, args...)})
}

// tell passes on what a run says, the first time that any of them says it.
func (b *batch) tell(task, text string) { b.once(text, task+": "+text) }

// warn is a notice that is given once.
func (b *batch) warn(text string) { b.once(text, text) }

func (b *batch) once(text, shown string) {
	const most = 1000
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.told[text] && len(b.told) < most {
		b.told[text] = true
		b.publish(progress.Notice{Text: shown})
	}
}

// count adds to what is shown as spent.
func (b *batch) count(u orchestrator.Usage, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spend.Tokens += u.Tokens()
	b.spend.MicroUSD += u.MicroUSD
	if over && !u.Reported {
		b.spend.Unreported++
	}
}

// result says how it ended.
func (b *batch) result() (Result, error) {
	left := b.counts[Pending] + b.counts[Running]
	r := Result{Reason: "done", Left: left}
	now := b.Clock.Now()
	switch {
	case b.fault != nil:
		r.Reason, r.ExitCode = oneLine(b.fault), orchestrator.ExitInfrastructure
	case left > 0 && (b.sched.overspent() || !b.sched.affords()):
		r.Reason, r.ExitCode = "over budget", orchestrator.ExitOverBudget
	case left > 0 && b.sched.late(now):
		r.Reason, r.ExitCode = "out of time", orchestrator.ExitTimedOut
	case left > 0 && b.full:
		r.Reason, r.ExitCode = b.noRoom(), orchestrator.ExitInfrastructure
	case left > 0:
		r.Reason, r.ExitCode = "interrupted", orchestrator.ExitInterrupted
	case b.counts[Failed] > 0:
		r.ExitCode = orchestrator.ExitInfrastructure
	}
	b.emit(progress.Finished{Reason: r.Reason, Left: r.Left, ExitCode: r.ExitCode})
	return r, b.fault
}
