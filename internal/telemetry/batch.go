package telemetry

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/orchestrator/batch/progress"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

// A Batch follows the events of one start of a batch. A nil one does nothing.
type Batch struct {
	t *Telemetry

	mu     sync.Mutex
	root   span
	totals progress.Totals
	tasks  map[string]*task
	before progress.Spend // what was counted already
}

// A task is one attempt at a task of a batch.
type task struct {
	span  span
	lives map[int]*life
}

// Batch begins to follow a start of a batch.
func (t *Telemetry) Batch() *Batch {
	if t == nil {
		return nil
	}
	return &Batch{t: t, tasks: map[string]*task{}}
}

// Publish takes the next event.
func (b *Batch) Publish(e progress.Event) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.Fold(e)
	switch v := e.Body.(type) {
	case progress.Started:
		b.root = b.t.root("batch", e.At.UTC().Format(time.RFC3339Nano), e.At)
		b.root.attrs = []attr{{"bestof.tasks", int64(v.Tasks)}, {"bestof.tasks_left", int64(v.Left)}}
		b.before = v.Spend
		b.count()
	case progress.Task:
		b.task(v, e.At)
		b.count()
	case progress.Candidate:
		b.candidate(v, e.At)
	case progress.Spend:
		b.t.numbers.add(tokensTotal, float64(max(0, v.Tokens-b.before.Tokens)))
		b.t.numbers.add(costTotal, float64(max(0, v.MicroUSD-b.before.MicroUSD))/1e6)
		b.before = v
	case progress.Finished:
		b.finished(v, e.At)
	}
}

// taskStates are the words of progress, and waiting for those in none.
var taskStates = []string{progress.Running, progress.Solved, progress.Unsolved, progress.Invalid, progress.Failed}

// count says how many tasks are in which state.
func (b *Batch) count() {
	waiting := b.totals.Tasks
	for _, s := range taskStates {
		b.t.numbers.set(tasksNow, float64(b.totals.Counts[s]), s)
		waiting -= b.totals.Counts[s]
	}
	b.t.numbers.set(tasksNow, float64(max(0, waiting)), "waiting")
}

func (b *Batch) task(v progress.Task, at time.Time) {
	if v.State == progress.Running {
		t := &task{lives: map[int]*life{}, span: span{trace: b.root.trace, parent: b.root.id, name: "task", start: at}}
		t.span.id = t.span.trace.child("task " + v.ID + " " + strconv.Itoa(v.Attempt))
		t.span.attrs = []attr{{"bestof.attempt", int64(v.Attempt)}, {"bestof.run", named(v.Run)}}
		b.tasks[v.ID] = t
		b.t.numbers.add(runsNow, 1)
		return
	}
	t := b.tasks[v.ID]
	if t == nil {
		return
	}
	delete(b.tasks, v.ID)
	b.t.numbers.add(runsNow, -1)
	b.t.numbers.observe(runSeconds, at.Sub(t.span.start).Seconds())
	t.span.end, t.span.failed = at, v.State == progress.Failed || v.State == progress.Again
	t.span.attrs = append(t.span.attrs, attr{"bestof.task_state", known(v.State, append(taskStates, progress.Again))})
	for _, l := range t.lives {
		l.cut()
	}
	b.t.emit(t.span)
}

func (b *Batch) candidate(v progress.Candidate, at time.Time) {
	t := b.tasks[v.Task]
	if t == nil {
		return
	}
	l := t.lives[v.Number]
	if l == nil {
		place := place{t.span.trace, t.span.id}
		l = &life{t: b.t, place: place, name: string(t.span.id[:]) + " " + strconv.Itoa(v.Number), agent: named(v.Agent), number: v.Number}
		t.lives[v.Number] = l
	}
	state := candidate.State(v.State)
	if state == candidate.Preparing && l.now == candidate.Verifying {
		l.round++
	}
	l.state(state, l.round, at)
	if state == candidate.Done {
		b.t.emit(l.done(candidate.Outcome(v.Outcome), at))
	}
}

func (b *Batch) finished(v progress.Finished, at time.Time) {
	if b.root.name == "" {
		return
	}
	b.root.end, b.root.failed = at, failedExit(v.ExitCode)
	b.root.attrs = append(b.root.attrs, attr{"bestof.exit_code", int64(v.ExitCode)}, attr{"bestof.tasks_left_after", int64(v.Left)})
	b.t.numbers.add(runsTotal, 1, strconv.Itoa(v.ExitCode))
	b.t.emit(b.root)
}

// jobOutcomes are how runs of jobs end.
var jobOutcomes = []schedule.Outcome{
	schedule.Won, schedule.NoWinner, schedule.TimedOut, schedule.OverBudget, schedule.Refused, schedule.Infrastructure,
	schedule.Misused, schedule.Broken, schedule.Interrupted, schedule.Quiet, schedule.Replaced, schedule.Lost,
}

// Jobs takes how many fires wait and how many runs go on.
func (t *Telemetry) Jobs(waiting, running int) {
	if t == nil {
		return
	}
	t.numbers.set(jobQueue, float64(waiting))
	t.numbers.set(jobRunsNow, float64(running))
}

// JobParent is the span of a run of a job as TRACEPARENT names it, for what the
// run starts; "" without traces.
func (t *Telemetry) JobParent(r schedule.Run) string {
	if t == nil || t.queue == nil {
		return ""
	}
	s := t.root("job", r.Key(), r.Started)
	return fmt.Sprintf("00-%x-%x-01", s.trace[:], s.id[:])
}

// JobRun takes a run of a job that ended.
func (t *Telemetry) JobRun(r schedule.Run) {
	if t == nil || r.Ended.IsZero() {
		return
	}
	job, outcome := named(r.Job), known(r.Outcome, jobOutcomes)
	t.numbers.add(jobRunsTotal, 1, job, outcome)
	t.numbers.observe(jobRunSeconds, r.Ended.Sub(r.Started).Seconds(), job)
	t.numbers.add(tokensTotal, float64(r.Used.Tokens))
	t.numbers.add(costTotal, float64(r.Used.MicroUSD)/1e6)
	s := t.root("job", r.Key(), r.Started)
	s.end, s.failed = r.Ended, r.Outcome.Retried() || r.Outcome == schedule.Misused || r.Outcome == schedule.Broken
	s.attrs = []attr{
		{"bestof.job", job}, {"bestof.outcome", outcome}, {"bestof.attempt", int64(r.Attempt)}, {"bestof.exit_code", int64(r.Status)},
		{"bestof.tokens", r.Used.Tokens}, {"bestof.cost_usd", float64(r.Used.MicroUSD) / 1e6},
	}
	t.emit(s)
}
