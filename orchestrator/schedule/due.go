package schedule

import (
	"fmt"
	"slices"
	"time"
)

// maxCounted is how many instants beyond the horizon are counted one by one.
const maxCounted = 100_000

// A span is instants of one job that share a fate.
type span struct {
	first, last time.Time
	count       int
}

func (s *span) add(t time.Time) {
	if s.count == 0 {
		s.first = t
	}
	s.last = t
	s.count++
}

// join is both, of which other is later.
func (s span) join(other span) span {
	switch {
	case s.count == 0:
		return other
	case other.count == 0:
		return s
	}
	return span{s.first, other.last, s.count + other.count}
}

// passed are the instants that came since the last decision.
type passed struct {
	old    span        // beyond the horizon
	many   span        // missed, and more than may be made up for
	missed []time.Time // missed; the last ones
	timely []time.Time
	ran    bool // one that would be timely has its fire already
}

func (p passed) all() span {
	s := p.old.join(p.many)
	for _, t := range append(slices.Clone(p.missed), p.timely...) {
		s.add(t)
	}
	return s
}

// queue decides about the instants of one job.
type queue struct {
	*planner
	job     *JobState
	waiting []Fire
	next    time.Time // the first instant that is not decided about; zero for none
}

func (q *queue) offset() time.Duration { return Offset(q.job.Job.Name, q.job.Job.Policy.Jitter) }

// collect sorts the instants whose time came. No more than a few are kept one
// by one, however long nobody was there.
func (q *queue) collect(seen time.Time) (p passed) {
	policy := q.job.Job.Policy.Missed
	keep := 1
	if policy.Mode == MissedAll {
		keep = policy.Most
	}
	until := q.now.Add(-q.offset())
	horizon := until.Add(-policy.Horizon)
	t, ok := q.job.When.Next(seen)
	for ; ok && !t.After(until); t, ok = q.job.When.Next(t) {
		switch late := until.Sub(t); {
		case t.Before(horizon) && q.fired(t):
		case t.Before(horizon):
			if p.old.add(t); p.old.count >= maxCounted {
				t = horizon.Add(-time.Second) // a clock that was far behind
				p.old.last = t
			}
		case late > policy.Grace:
			p.missed = append(p.missed, t)
			if len(p.missed) > keep {
				if !q.fired(p.missed[0]) {
					p.many.add(p.missed[0])
				}
				p.missed = p.missed[1:]
			}
		case q.fired(t):
			p.ran = true
		default:
			p.timely = append(p.timely, t)
		}
	}
	if ok {
		q.next = t
	}
	p.missed = slices.DeleteFunc(p.missed, q.fired) // those stand for the ones that they stood for before the clock was set back
	return p
}

// fired reports whether an instant has a fire already: the clock was set back.
func (q *queue) fired(t time.Time) bool { return slices.ContainsFunc(q.job.Ahead, t.Equal) }

// skip keeps instants that do not run as one fire.
func (q *queue) skip(s span, why Reason) {
	if s.count == 0 {
		return
	}
	f := q.fire(s.first)
	f.Through, f.Count = s.last, s.count
	q.planner.skip(f, why)
}

func (q *queue) fire(t time.Time) Fire {
	return Fire{Job: q.job.Job.Name, Instant: t, After: t.Add(q.offset()), State: FireWaiting, Through: t, Count: 1}
}

// missed decides about instants that nobody was there for.
func (q *queue) missed(p passed) {
	policy := q.job.Job.Policy
	skipped, made := p.many, p.missed
	nobody := "nobody was there when its time came"
	if policy.Missed.Mode == MissedSkip || policy.Missed.Mode == MissedOnce && (len(p.timely) > 0 || p.ran) {
		for _, t := range made {
			skipped.add(t)
		}
		made = nil
	}
	if stands := append(slices.Clone(made), p.timely...); policy.Missed.Mode == MissedOnce && len(stands) > 0 {
		nobody += fmt.Sprintf(": the fire of %s stands for it", show(q.job, stands[0]))
	}
	q.skip(skipped, Reason{ByMissed, nobody})
	for _, t := range made {
		f := q.fire(t)
		f.Made = true
		f.Reason = cause(f)
		if policy.Missed.Mode == MissedAll {
			q.enqueue(f) // one after another, whatever the policy says of later ones
		} else {
			q.overlap(f)
		}
	}
}

func (q *queue) timely(t time.Time) {
	f := q.fire(t)
	f.Reason = cause(f)
	q.overlap(f)
}

func (q *queue) enqueue(f Fire) {
	q.say(Decision{Act: Enqueue, Job: f.Job, Fire: f, Reason: f.Reason})
	q.waiting = append(q.waiting, f)
}

// overlap decides about a fire by what is not over of its job.
func (q *queue) overlap(f Fire) {
	why, busy := q.busy[f.Job]
	switch q.job.Job.Policy.Overlap {
	case OverlapQueue:
		if most := q.job.Job.Policy.Queue; len(q.waiting) >= max(1, most) {
			q.planner.skip(f, Reason{ByQueue, fmt.Sprintf("%d of the job's fires wait already", len(q.waiting))})
			return
		}
	case OverlapReplace:
		q.replace(f)
	default:
		if len(q.waiting) > 0 {
			why, busy = Reason{ByOverlap, fmt.Sprintf("the fire of %s is not over", show(q.job, q.waiting[0].Instant))}, true
		}
		if busy {
			q.planner.skip(f, why)
			return
		}
	}
	q.enqueue(f)
}

// replace makes way for a fire. What somebody asked for goes on waiting.
func (q *queue) replace(by Fire) {
	why := Reason{ByReplace, fmt.Sprintf("the fire of %s took its place", show(q.job, by.Instant))}
	q.waiting = slices.DeleteFunc(q.waiting, func(f Fire) bool {
		if !f.Manual {
			q.planner.skip(f, why)
		}
		return !f.Manual
	})
	for i := range q.job.Running {
		q.stop(&q.job.Running[i], Replaced, why)
	}
}
