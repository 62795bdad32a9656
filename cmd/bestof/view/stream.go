package view

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/event"
)

// Plain writes one line for each change of state, for logs, pipes and dumb
// terminals. The first word of a line says what it is about: "run", "note",
// "done" or a candidate such as "c2".
type Plain struct {
	mu   sync.Mutex
	w    io.Writer
	page page
	run  run
	err  error
}

// NewPlain writes to w what look allows; its colours and width are not used.
func NewPlain(w io.Writer, look term.Look) *Plain {
	return &Plain{w: w, page: page{look: term.Look{UTF8: look.UTF8}}}
}

// Publish writes the event's line, if it has one.
func (p *Plain) Publish(e event.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.run.at(e.Body)
	p.run.fold(e)
	pg := &p.page
	switch b := e.Body.(type) {
	case event.Started:
		pg.say(normal, "run   %s: %s, isolation: %s", b.Run, count(len(b.Candidates), "candidate", "candidates"), b.Isolation)
		for _, m := range b.Missing {
			pg.say(normal, "note  not kept by this isolation: %s", m)
		}
	case event.Step:
		word := "starts"
		if b.Done {
			word = "done"
		}
		if b.Text != "" {
			pg.say(normal, "run   %s %s: %s", b.Name, word, b.Text)
		} else {
			pg.say(normal, "run   %s %s", b.Name, word)
		}
	case event.Notice:
		pg.say(normal, "note  %s", b.Text)
	case event.Candidate:
		now := p.run.seats[b.Number]
		if before == *now {
			return
		}
		p.candidate(e.At, now, b)
	case event.Finished:
		if b.Winner != nil {
			pg.say(normal, "done  winner %s: %s", candidate.Number(*b.Winner).ID(), b.Reason)
		} else {
			pg.say(normal, "done  no winner: %s", b.Reason)
		}
	}
	if err := pg.flush(p.w); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *Plain) candidate(at time.Time, s *seat, b event.Candidate) {
	pg := &p.page
	id := pg.text("%-5s", candidate.Number(b.Number).ID()).String()
	round := ""
	if b.Round > 0 {
		round = " round " + pg.text("%d", b.Round+1).String()
	}
	if b.State != candidate.Done {
		pg.say(normal, "%s %s%s (%s)", id, b.State, round, s.agent)
		return
	}
	detail := ""
	if b.Detail != "" {
		detail = ": " + b.Detail
	}
	pg.say(normal, "%s %s%s after %s, %s, %s%s", id, b.Outcome, round, elapsed(s.elapsed(at)),
		count(b.Files, "file", "files"), pg.lines(b.Added, b.Deleted), detail)
}

// Close reports the first error of writing.
func (p *Plain) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Quiet shows nothing of a run; errors are the caller's to print.
type Quiet struct{}

// Publish does nothing.
func (Quiet) Publish(event.Event) {}

// Close does nothing.
func (Quiet) Close() error { return nil }

// JSONL writes every event as one line of JSON.
type JSONL struct {
	mu  sync.Mutex
	enc *json.Encoder
	err error
}

// NewJSONL writes to w.
func NewJSONL(w io.Writer) *JSONL {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &JSONL{enc: enc}
}

// Publish writes the event.
func (j *JSONL) Publish(e event.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.enc.Encode(e); err != nil && j.err == nil {
		j.err = err
	}
}

// Close reports the first error of writing.
func (j *JSONL) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}
