package view

import (
	"maps"
	"slices"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/orchestrator/event"
)

// A run is what events so far amount to.
type run struct {
	id        string
	isolation string
	step      string // the latest step that began and is not done
	stepText  string
	notice    string // the latest
	began     time.Time
	seats     map[int]*seat
	finished  *event.Finished
}

// A seat is one candidate's line.
type seat struct {
	number   int
	agent    string
	state    candidate.State
	outcome  candidate.Outcome
	round    int
	files    int
	added    int
	deleted  int
	activity string // its last sign of life, or the outcome's detail
	began    time.Time
	ended    time.Time
}

// elapsed is how long the candidate has been at work at that time.
func (s *seat) elapsed(now time.Time) time.Duration {
	switch {
	case s.began.IsZero():
		return 0
	case !s.ended.IsZero():
		return s.ended.Sub(s.began)
	default:
		return now.Sub(s.began)
	}
}

// at is a copy of the seat that a body is about, as it is now.
func (r *run) at(b event.Body) seat {
	if c, ok := b.(event.Candidate); ok && r.seats[c.Number] != nil {
		return *r.seats[c.Number]
	}
	return seat{}
}

func (r *run) seat(number int) *seat {
	if r.seats == nil {
		r.seats = map[int]*seat{}
	}
	if r.seats[number] == nil {
		r.seats[number] = &seat{number: number, state: candidate.Queued}
	}
	return r.seats[number]
}

func (r *run) fold(e event.Event) {
	switch b := e.Body.(type) {
	case event.Started:
		r.id, r.isolation, r.began = b.Run, b.Isolation, e.At
		if len(b.Missing) > 0 {
			r.notice = "not kept by this isolation: " + b.Missing[0]
		}
		for _, s := range b.Candidates {
			r.seat(s.Number).agent = s.Agent
		}
	case event.Step:
		switch {
		case !b.Done:
			r.step, r.stepText = b.Name, b.Text
		case r.step == b.Name:
			r.step, r.stepText = "", ""
		}
	case event.Notice:
		r.notice = b.Text
	case event.Candidate:
		s := r.seat(b.Number)
		if s.began.IsZero() && b.State != candidate.Queued {
			s.began = e.At
		}
		if b.State == candidate.Done && s.ended.IsZero() {
			s.ended = e.At
		}
		s.state, s.outcome, s.round = b.State, b.Outcome, b.Round
		s.files, s.added, s.deleted = b.Files, b.Added, b.Deleted
		if b.Detail != "" || b.State == candidate.Done {
			s.activity = b.Detail
		}
	case event.Activity:
		if s := r.seat(b.Number); s.state != candidate.Done {
			s.activity = b.Text
		}
	case event.Finished:
		r.finished = &b
	}
}

// sorted are the seats by number.
func (r *run) sorted() []*seat {
	out := make([]*seat, 0, len(r.seats))
	for _, n := range slices.Sorted(maps.Keys(r.seats)) {
		out = append(out, r.seats[n])
	}
	return out
}
