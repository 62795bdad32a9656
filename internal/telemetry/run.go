package telemetry

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/orchestrator/event"
)

// Used is what a candidate's agent reported.
type Used struct {
	Candidate     int
	Input, Output int64 // tokens
	MicroUSD      int64
}

// A Run follows the events of one run. A nil one does nothing.
type Run struct {
	t *Telemetry

	mu    sync.Mutex
	place place
	root  span
	steps map[string]time.Time
	lives map[int]*life
	ended []span // of candidates, until it is known what they used
	over  bool
}

// Run begins to follow a run.
func (t *Telemetry) Run() *Run {
	if t == nil {
		return nil
	}
	return &Run{t: t, steps: map[string]time.Time{}, lives: map[int]*life{}}
}

// stepNames are those of steps that may get out.
var stepNames = []string{"base", "image", "setup", "baseline", "before", "tools"}

// Publish takes the next event.
func (r *Run) Publish(e event.Event) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch b := e.Body.(type) {
	case event.Started:
		r.started(b, e.At)
	case event.Step:
		r.step(b, e.At)
	case event.Candidate:
		if l := r.lives[b.Number]; l != nil {
			r.candidate(l, b, e.At)
		}
	case event.Finished:
		r.finished(b, e.At)
	}
}

func (r *Run) started(b event.Started, at time.Time) {
	r.t.numbers.add(runsNow, 1)
	r.root = r.t.root("run", b.Run, at)
	r.place = place{r.root.trace, r.root.id}
	r.root.attrs = append(r.root.attrs, attr{"bestof.run", named(b.Run)}, attr{"bestof.candidates", int64(len(b.Candidates))})
	for _, seat := range b.Candidates {
		r.lives[seat.Number] = &life{t: r.t, place: r.place, name: "candidate " + strconv.Itoa(seat.Number), agent: named(seat.Agent), number: seat.Number}
	}
}

// root is a span that nothing else of this process holds.
func (t *Telemetry) root(name, id string, at time.Time) span {
	s := span{trace: newTrace(id, at), name: name, start: at}
	if p := t.settings.parent; p != (place{}) {
		s.trace, s.parent = p.trace, p.span
	}
	s.id = s.trace.child(name + " " + id)
	return s
}

func (r *Run) step(b event.Step, at time.Time) {
	start, begun := r.steps[b.Name]
	switch {
	case !b.Done && !begun:
		r.steps[b.Name] = at
		return
	case !b.Done, !begun:
		return
	}
	delete(r.steps, b.Name)
	name := known(b.Name, stepNames)
	r.t.numbers.observe(stepSeconds, at.Sub(start).Seconds(), name)
	r.t.emit(span{trace: r.place.trace, id: r.place.trace.child("step " + b.Name), parent: r.place.span, name: name, start: start, end: at})
}

func (r *Run) candidate(l *life, b event.Candidate, at time.Time) {
	l.state(b.State, b.Round, at)
	if b.State != candidate.Done {
		return
	}
	s := l.done(b.Outcome, at)
	s.attrs = append(s.attrs, attr{"bestof.rounds", int64(b.Round) + 1}, attr{"bestof.files", int64(b.Files)}, attr{"bestof.added", int64(b.Added)}, attr{"bestof.deleted", int64(b.Deleted)})
	r.ended = append(r.ended, s)
}

func (r *Run) finished(b event.Finished, at time.Time) {
	if r.root.name == "" || r.over {
		return
	}
	r.over = true
	for _, name := range slices.Sorted(maps.Keys(r.steps)) { // which the end cut off
		r.step(event.Step{Name: name, Done: true}, at)
	}
	for _, n := range slices.Sorted(maps.Keys(r.lives)) {
		r.lives[n].cut()
	}
	r.root.end, r.root.failed = at, failedExit(b.ExitCode)
	r.root.attrs = append(r.root.attrs, attr{"bestof.exit_code", int64(b.ExitCode)})
	if b.Winner != nil {
		r.root.attrs = append(r.root.attrs, attr{"bestof.winner", int64(*b.Winner)})
	}
	r.t.numbers.add(runsNow, -1)
	r.t.numbers.add(runsTotal, 1, strconv.Itoa(b.ExitCode))
	r.t.numbers.observe(runSeconds, at.Sub(r.root.start).Seconds())
}

// failedExit reports whether an exit status says that something went wrong. A
// run without a winner went well.
func failedExit(code int) bool { return code == 1 || code == 2 || code == 7 }

// End takes what candidates used, which is known when the run is over, and
// lets go of the rest.
func (r *Run) End(all []Used) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var tokens, cost int64
	for _, u := range all {
		tokens, cost = tokens+u.Input+u.Output, cost+u.MicroUSD
	}
	r.t.numbers.add(tokensTotal, float64(tokens))
	r.t.numbers.add(costTotal, float64(cost)/1e6)
	for _, s := range r.ended {
		for _, u := range all {
			if s.attrs[0].value == int64(u.Candidate) {
				s.attrs = append(s.attrs, attr{"gen_ai.usage.input_tokens", u.Input}, attr{"gen_ai.usage.output_tokens", u.Output}, attr{"bestof.cost_usd", float64(u.MicroUSD) / 1e6})
			}
		}
		r.t.emit(s)
	}
	r.ended = nil
	if r.over {
		r.t.emit(r.root)
	} else if r.root.name != "" { // the host failed it: nothing was published any more
		r.t.numbers.add(runsNow, -1)
		for _, n := range slices.Sorted(maps.Keys(r.lives)) {
			r.lives[n].cut()
		}
	}
}

// A life is one candidate.
type life struct {
	t      *Telemetry
	place  place
	name   string // within the trace
	agent  string
	number int

	began time.Time
	now   candidate.State
	since time.Time
	round int
}

// states are those in which a candidate is before it is done.
var states = []candidate.State{candidate.Queued, candidate.Preparing, candidate.Working, candidate.Sealing, candidate.Verifying}

// state notes that the candidate comes into a state.
func (l *life) state(to candidate.State, round int, at time.Time) {
	if to == l.now {
		return
	}
	l.leave(at)
	if l.began.IsZero() && to != candidate.Queued {
		l.began = at
	}
	l.now, l.since, l.round = to, at, round
	if to != candidate.Done {
		l.t.numbers.add(candsNow, 1, known(to, states))
	}
}

// leave ends the state that it is in.
func (l *life) leave(at time.Time) {
	if l.now == "" || l.now == candidate.Done {
		return
	}
	name := known(l.now, states)
	l.t.numbers.add(candsNow, -1, name)
	l.t.numbers.observe(phaseSeconds, at.Sub(l.since).Seconds(), name)
	if l.now == candidate.Queued {
		return
	}
	trace := l.place.trace
	l.t.emit(span{
		trace: trace, id: trace.child(l.name + " " + name + " " + strconv.Itoa(l.round)), parent: trace.child(l.name),
		name: name, start: l.since, end: at, attrs: []attr{{"bestof.candidate", int64(l.number)}, {"bestof.round", int64(l.round)}},
	})
}

// done is the candidate as a span.
func (l *life) done(outcome candidate.Outcome, at time.Time) span {
	word := known(outcome, candidate.Outcomes)
	l.t.numbers.add(candsTotal, 1, l.agent, word)
	start := l.began
	if start.IsZero() {
		start = at
	}
	return span{
		trace: l.place.trace, id: l.place.trace.child(l.name), parent: l.place.span, name: "candidate", start: start, end: at,
		failed: outcome == candidate.Infrastructure,
		attrs:  []attr{{"bestof.candidate", int64(l.number)}, {"gen_ai.agent.name", l.agent}, {"bestof.outcome", word}},
	}
}

// cut forgets a candidate that the end of everything cut off.
func (l *life) cut() {
	if l.now != "" && l.now != candidate.Done {
		l.t.numbers.add(candsNow, -1, known(l.now, states))
		l.now = candidate.Done
	}
}
