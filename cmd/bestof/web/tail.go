package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/cmd/bestof/view"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/event"
)

// Bounds of what is read of a file of events.
const (
	maxLine    = 1 << 20  // a longer one is left out
	maxHistory = 64 << 20 // of a larger file the end is read, so much of it
	maxSeats   = 1000
	pieceSize  = 64 << 10 // bytes that are read at a time
	maxText    = 400      // cells
)

// A tail reads the lines of events that are appended to a file.
type tail struct {
	from    io.Reader
	rest    []byte // the beginning of a line
	skip    bool   // the rest of a line that is too long
	scratch []byte
}

func newTail(from io.Reader) *tail { return &tail{from: from, scratch: make([]byte, pieceSize)} }

// next calls line for each whole line of the next piece. It is io.EOF when
// there is nothing more for now.
func (t *tail) next(line func([]byte)) error {
	n, err := t.from.Read(t.scratch)
	for b := t.scratch[:n]; len(b) > 0; {
		piece, more, whole := bytes.Cut(b, []byte("\n"))
		b = more
		if !t.skip {
			if t.rest = append(t.rest, piece...); len(t.rest) > maxLine {
				t.rest, t.skip = t.rest[:0], true
			}
		}
		if !whole {
			break
		}
		if !t.skip {
			line(t.rest)
		}
		t.rest, t.skip = t.rest[:0], false
	}
	if n > 0 && errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// fromEnd puts a file so near to its end that not more than most is left, at
// the beginning of a line.
func fromEnd(f io.ReadSeeker, most int64) (cut bool, t *tail, err error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return false, nil, err
	}
	at := max(0, size-most)
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return false, nil, err
	}
	t = newTail(f)
	t.skip = at > 0
	return at > 0, t, nil
}

// A message is what a stream tells the page.
type message struct {
	kind string // step | notice | candidate | end
	body any
}

type words struct {
	Text string `json:"text"` // cleaned
}

// A row is a candidate as the page shows it. All of it was cleaned.
type row struct {
	Number int    `json:"number"`
	ID     string `json:"id"`
	Agent  string `json:"agent"`
	State  string `json:"state"`
	Good   string `json:"good"` // class of the state
	Round  string `json:"round"`
	Files  string `json:"files"`
	Lines  string `json:"lines"`
	Said   string `json:"said"`
}

// progress is what events so far amount to, and what of it the page was not
// told yet.
type progress struct {
	seq    int64 // of the last event
	rows   map[int]*row
	step   string
	text   string
	notice string
	ended  string // why and how; "" while it goes on

	fresh    map[int]bool
	freshS   bool
	freshN   bool
	reported bool // the end was told
}

func newProgress() *progress { return &progress{rows: map[int]*row{}, fresh: map[int]bool{}} }

func (p *progress) row(number int) *row {
	if r := p.rows[number]; r != nil {
		return r
	}
	if number < 1 || len(p.rows) >= maxSeats {
		return nil
	}
	r := &row{Number: number, ID: candidate.Number(number).ID(), State: string(candidate.Queued)}
	p.rows[number] = r
	return r
}

// line folds one line of a file of events. What is no event is left out: the
// file may be torn, and it may be anybody's.
func (p *progress) line(b []byte) {
	var e struct {
		Seq  int64           `json:"seq"`
		Type string          `json:"type"`
		Body json.RawMessage `json:"body"`
	}
	if json.Unmarshal(b, &e) != nil || e.Seq <= p.seq {
		return
	}
	if p.fold(e.Type, e.Body) {
		p.seq = e.Seq
	}
}

// as reads the body of an event.
func as[T any](b []byte) (v T, ok bool) { return v, json.Unmarshal(b, &v) == nil }

func (p *progress) fold(kind string, body []byte) (understood bool) {
	switch kind {
	case "started":
		b, ok := as[event.Started](body)
		for _, s := range b.Candidates {
			if r := p.row(s.Number); ok && r != nil {
				r.Agent, p.fresh[s.Number] = short(s.Agent), true
			}
		}
		return ok
	case "step":
		b, ok := as[event.Step](body)
		switch {
		case !ok:
		case !b.Done:
			p.step, p.text, p.freshS = b.Name, short(b.Text), true
		case p.step == b.Name:
			p.step, p.text, p.freshS = "", "", true
		}
		return ok
	case "notice":
		b, ok := as[event.Notice](body)
		p.notice, p.freshN = short(b.Text), true
		return ok
	case "candidate":
		b, ok := as[event.Candidate](body)
		if r := p.row(b.Number); ok && r != nil {
			r.change(b)
			p.fresh[b.Number] = true
		}
		return ok
	case "activity":
		b, ok := as[event.Activity](body)
		if r := p.rows[b.Number]; ok && r != nil && r.State != string(candidate.Done) && r.Good == "" {
			r.Said = short(b.Text)
			p.fresh[b.Number] = true
		}
		return ok
	case "finished":
		b, ok := as[event.Finished](body)
		if ok {
			p.ended = endWords(b)
		}
		return ok
	}
	return true // of a newer version
}

func short(s string) string { return term.Clean(s, maxText).String() }

func (r *row) change(b event.Candidate) {
	r.State, r.Good = string(b.State), ""
	if b.State == candidate.Done {
		r.State, r.Good = short(string(b.Outcome)), view.OutcomeClass(b.Outcome)
	}
	if b.Detail != "" || b.State == candidate.Done {
		r.Said = short(b.Detail)
	}
	r.State = short(r.State)
	r.Round, r.Files, r.Lines = "", "", ""
	if b.Round > 0 {
		r.Round = fmt.Sprint(b.Round)
	}
	if b.Files > 0 {
		r.Files, r.Lines = fmt.Sprint(b.Files), lines(b.Added, b.Deleted)
	}
}

func lines(added, deleted int) string { return fmt.Sprintf("+%d −%d", added, deleted) }

func endWords(b event.Finished) string {
	if b.Winner == nil {
		return short("Ended without a winner: " + b.Reason)
	}
	return short("Ended. The winner is " + candidate.Number(*b.Winner).ID() + ": " + b.Reason)
}

// forget marks everything as told.
func (p *progress) forget() { clear(p.fresh); p.freshS, p.freshN = false, false }

// everything marks nothing as told.
func (p *progress) everything() {
	for n := range p.rows {
		p.fresh[n] = true
	}
	p.freshS, p.freshN = true, p.notice != ""
}

// news is what the page was not told yet, the end last.
func (p *progress) news() []message {
	var out []message
	if p.freshN {
		out = append(out, message{"notice", words{p.notice}})
	}
	if p.freshS && p.ended == "" {
		out = append(out, message{"step", words{p.text}})
	}
	for _, n := range slices.Sorted(maps.Keys(p.fresh)) {
		out = append(out, message{"candidate", *p.rows[n]})
	}
	p.forget()
	if p.ended != "" && !p.reported {
		p.reported = true
		out = append(out, message{"end", words{p.ended}})
	}
	return out
}
