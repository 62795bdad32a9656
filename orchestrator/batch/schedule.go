package batch

import (
	"maps"
	"slices"
	"time"

	"github.com/bestof-dev/bestof/orchestrator"
)

// Limits are what a batch may use. Zero values of budgets are none.
type Limits struct {
	Jobs     int       // candidates that run at once, over all tasks
	CPU      int       // thousandths of a processor
	Memory   int64     // bytes
	Tokens   int64     // as agents report them, both directions together
	MicroUSD int64     // as agents report it
	Until    time.Time // after which nothing begins and what runs is stopped
	Need     Need      // of each candidate
}

// A Need is what one candidate takes of the machine. Zero values are not
// accounted for.
type Need struct {
	CPU    int   // thousandths of a processor
	Memory int64 // bytes
}

// slots is how many candidates may run at once.
func (l Limits) slots() int {
	n := max(1, l.Jobs)
	if l.CPU > 0 && l.Need.CPU > 0 {
		n = min(n, max(1, l.CPU/l.Need.CPU))
	}
	if l.Memory > 0 && l.Need.Memory > 0 {
		n = min(n, int(max(1, l.Memory/l.Need.Memory)))
	}
	return n
}

// A phase is how far a task has come in this start of the batch.
type phase int

const (
	waiting   phase = iota // to be opened
	preparing              // its base and baseline are made; it takes the place of a candidate
	open                   // its candidates ask to begin
	closed                 // done, or not to be tried again in this start
)

// A taskState is what the scheduler knows of a task.
type taskState struct {
	phase   phase
	image   string          // of its containers, where it names one
	since   int             // when it was opened, among the tasks
	after   time.Time       // it is not opened before
	asking  []int           // candidates that want to begin, in the order in which they asked
	running map[int]running // by candidate
	replies map[int]request // of those that ask
}

// A request is how a candidate that asks is answered.
type request struct {
	reply chan error
	soon  func() // that it is among the next ones; may be called again
}

// running is a candidate that runs.
type running struct {
	reserved orchestrator.Usage // what it is expected to use at most
	used     orchestrator.Usage // what it reports so far
}

// A schedule is all that decisions rest on. Next reads it; the methods that
// change it are told what happened.
type schedule struct {
	limits   Limits
	tasks    []taskState
	opened   int
	spent    orchestrator.Usage // by candidates that are done
	most     orchestrator.Usage // of any candidate that is done and reported
	draining bool               // nothing more begins
	short    bool               // of disk: tasks of one image at a time
	image    string             // of the task that was opened last
}

// An act is what a decision says to do.
type act int

const (
	wait   act = iota // for something to happen, at most until the decision's time
	begin             // open the task: make its base, run its baseline
	admit             // let the candidate of the task run
	refuse            // tell the candidate of the task that it may not begin
	stop              // end everything that runs: a budget is spent
	done              // nothing is left to do, and nothing runs
)

// A decision is the next thing to do.
type decision struct {
	act       act
	task      int
	candidate int
	until     time.Time // of wait; zero for no limit
}

// next decides. It is a function of the schedule and the time alone: among the
// open tasks the one with the fewest running candidates goes first, the oldest
// of equal ones; a task is opened only when no open one asks.
func (s *schedule) next(now time.Time) decision {
	over := s.overspent() || s.late(now)
	busy := false
	for i := range s.tasks {
		t := &s.tasks[i]
		if (over || s.draining) && len(t.asking) > 0 {
			return decision{act: refuse, task: i, candidate: t.asking[0]}
		}
		busy = busy || t.phase == preparing || t.phase == open
	}
	switch {
	case over && busy:
		return decision{act: stop}
	case over || s.draining:
		if busy {
			return decision{act: wait}
		}
		return decision{act: done}
	}
	if s.taken() < s.limits.slots() && s.affords() {
		if i, ok := s.fairest(); ok {
			return decision{act: admit, task: i, candidate: s.tasks[i].asking[0]}
		}
		if i, ok := s.first(now); ok {
			return decision{act: begin, task: i}
		}
	}
	if !busy && (!s.affords() || !s.left()) {
		return decision{act: done}
	}
	if !s.affords() && s.runs() == 0 {
		// Nothing that runs can give back what it reserved.
		for i := range s.tasks {
			if t := &s.tasks[i]; len(t.asking) > 0 {
				return decision{act: refuse, task: i, candidate: t.asking[0]}
			}
		}
	}
	return decision{act: wait, until: s.wake(now)}
}

// fairest is the open task whose candidate runs next.
func (s *schedule) fairest() (best int, found bool) {
	for i := range s.tasks {
		t := &s.tasks[i]
		if t.phase != open || len(t.asking) == 0 {
			continue
		}
		b := &s.tasks[best]
		if !found || len(t.running) < len(b.running) || len(t.running) == len(b.running) && t.since < b.since {
			best, found = i, true
		}
	}
	return best, found
}

// A turn is a candidate of a task.
type turn struct{ task, candidate int }

// coming are the candidates that ask and are admitted next if none ends, at most n.
func (s *schedule) coming(n int) (next []turn) {
	if s.draining {
		return nil
	}
	then := schedule{tasks: slices.Clone(s.tasks)}
	for i := range then.tasks {
		then.tasks[i].running = maps.Clone(then.tasks[i].running)
	}
	for len(next) < n {
		i, ok := then.fairest()
		if !ok {
			break
		}
		t := &then.tasks[i]
		next = append(next, turn{i, t.asking[0]})
		t.running[t.asking[0]], t.asking = running{}, t.asking[1:]
	}
	return next
}

// first is the task that is opened next. When the disk is short it is one of
// the image that is in use, and one of another image only when no task is open.
func (s *schedule) first(now time.Time) (int, bool) {
	ready := func(t taskState) bool { return t.phase == waiting && !t.after.After(now) }
	i := slices.IndexFunc(s.tasks, ready)
	if !s.short || i < 0 {
		return i, i >= 0
	}
	if same := slices.IndexFunc(s.tasks, func(t taskState) bool { return ready(t) && t.image == s.image }); same >= 0 {
		return same, true
	}
	busy := slices.ContainsFunc(s.tasks, func(t taskState) bool { return t.phase == preparing || t.phase == open })
	return i, !busy
}

// images is how many images the tasks that are not done name.
func (s *schedule) images() int {
	all := map[string]bool{}
	for _, t := range s.tasks {
		if t.phase != closed {
			all[t.image] = true
		}
	}
	return len(all)
}

// left reports whether any task waits to be opened, now or later.
func (s *schedule) left() bool {
	return slices.ContainsFunc(s.tasks, func(t taskState) bool { return t.phase == waiting })
}

// taken is how many places are in use.
func (s *schedule) taken() int {
	n := s.runs()
	for i := range s.tasks {
		if s.tasks[i].phase == preparing {
			n++
		}
	}
	return n
}

// runs is how many candidates run.
func (s *schedule) runs() (n int) {
	for i := range s.tasks {
		n += len(s.tasks[i].running)
	}
	return n
}

// late reports whether the time is up.
func (s *schedule) late(now time.Time) bool {
	return !s.limits.Until.IsZero() && !now.Before(s.limits.Until)
}

// overspent reports whether more was used than may be.
func (s *schedule) overspent() bool {
	used := s.spent
	for i := range s.tasks {
		for _, r := range s.tasks[i].running {
			used = used.Add(r.used)
		}
	}
	return s.limits.Tokens > 0 && used.Tokens() > s.limits.Tokens || s.limits.MicroUSD > 0 && used.MicroUSD > s.limits.MicroUSD
}

// committed is what was used and what those that run may still use.
func (s *schedule) committed() orchestrator.Usage {
	sum := s.spent
	for i := range s.tasks {
		for _, r := range s.tasks[i].running {
			more := r.used
			more.Input, more.Output = max(r.used.Input, r.reserved.Tokens()-r.used.Output), r.used.Output
			more.MicroUSD = max(r.used.MicroUSD, r.reserved.MicroUSD)
			sum = sum.Add(more)
		}
	}
	return sum
}

// reservation is what one more candidate is expected to use at most: as much as
// the dearest so far, and before any has reported, its share of what is there.
func (s *schedule) reservation() orchestrator.Usage {
	var r orchestrator.Usage
	slots := int64(s.limits.slots())
	if s.limits.Tokens > 0 {
		if r.Input = s.most.Tokens(); !s.most.Reported {
			r.Input = max(1, (s.limits.Tokens-s.spent.Tokens())/slots)
		}
	}
	if s.limits.MicroUSD > 0 {
		if r.MicroUSD = s.most.MicroUSD; !s.most.Reported {
			r.MicroUSD = max(1, (s.limits.MicroUSD-s.spent.MicroUSD)/slots)
		}
	}
	return r
}

// affords reports whether the budgets have room for one more candidate.
func (s *schedule) affords() bool {
	sum := s.committed().Add(s.reservation())
	return (s.limits.Tokens == 0 || sum.Tokens() <= s.limits.Tokens && s.spent.Tokens() < s.limits.Tokens) &&
		(s.limits.MicroUSD == 0 || sum.MicroUSD <= s.limits.MicroUSD && s.spent.MicroUSD < s.limits.MicroUSD)
}

// wake is when waiting ends although nothing happened.
func (s *schedule) wake(now time.Time) time.Time {
	wake := s.limits.Until
	for i := range s.tasks {
		if t := &s.tasks[i]; t.phase == waiting && t.after.After(now) && (wake.IsZero() || t.after.Before(wake)) {
			wake = t.after
		}
	}
	return wake
}

// begun notes that a task was opened.
func (s *schedule) begun(task int) {
	s.opened++
	s.image = s.tasks[task].image
	s.tasks[task] = taskState{phase: preparing, image: s.image, since: s.opened, running: map[int]running{}}
}

// asked notes that a candidate wants to begin: its task is prepared.
func (s *schedule) asked(task, candidate int) {
	t := &s.tasks[task]
	t.phase, t.asking = open, append(t.asking, candidate)
}

// answered takes a candidate off those that ask.
func (s *schedule) answered(task, candidate int) {
	t := &s.tasks[task]
	t.asking = slices.DeleteFunc(t.asking, func(n int) bool { return n == candidate })
}

// admitted notes that a candidate begins.
func (s *schedule) admitted(task, candidate int) {
	reserved := s.reservation()
	s.answered(task, candidate)
	s.tasks[task].running[candidate] = running{reserved: reserved}
}

// reports notes what a candidate used so far.
func (s *schedule) reports(task, candidate int, u orchestrator.Usage) {
	if r, ok := s.tasks[task].running[candidate]; ok {
		r.used = u
		s.tasks[task].running[candidate] = r
	}
}

// released notes that a candidate is done, and what it used in all.
func (s *schedule) released(task, candidate int) {
	r, ok := s.tasks[task].running[candidate]
	if !ok {
		return
	}
	delete(s.tasks[task].running, candidate)
	s.spent = s.spent.Add(r.used)
	s.learn(r.used)
}

// learn notes what a candidate used, for the reservations of others.
func (s *schedule) learn(u orchestrator.Usage) {
	if u.Reported {
		s.most.Reported = true
		s.most.Input, s.most.Output = max(s.most.Tokens(), u.Tokens()), 0
		s.most.MicroUSD = max(s.most.MicroUSD, u.MicroUSD)
	}
}

// ended notes that a task's run is over; again says that it is to be opened
// once more, not before after.
func (s *schedule) ended(task int, again bool, after time.Time) {
	image := s.tasks[task].image
	s.tasks[task] = taskState{phase: closed, image: image}
	if again {
		s.tasks[task] = taskState{phase: waiting, image: image, after: after}
	}
}
