package view

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/event"
)

// Live keeps a table of the run on a terminal; where the cursor cannot be moved
// it is a Plain.
type Live struct {
	*screen
	plain *Plain

	mu  sync.Mutex
	run run
}

// NewLive starts a table on s.Err. now is the clock that elapsed times are read
// from.
func NewLive(s term.Streams, now func() time.Time) *Live {
	if look := s.ErrLook(); !look.Motion {
		return &Live{plain: NewPlain(s.Err, look)}
	}
	l := &Live{}
	l.screen = openScreen(s, l.drawing(now))
	return l
}

func (l *Live) drawing(now func() time.Time) drawing {
	return func(look term.Look, height int) string {
		l.mu.Lock()
		defer l.mu.Unlock()
		return drawTable(&l.run, look, height, now())
	}
}

// Publish never waits for the terminal: the event is folded now and shown with
// the next frame.
func (l *Live) Publish(e event.Event) {
	if l.plain != nil {
		l.plain.Publish(e)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run.fold(e)
}

// Close ends the display.
func (l *Live) Close() error {
	if l.plain != nil {
		return l.plain.Close()
	}
	return l.screen.Close()
}

// drawTable is a frame of at most height lines and look.Width cells.
func drawTable(r *run, look term.Look, height int, now time.Time) string {
	p := &page{look: look}
	if p.look.Width <= 0 {
		p.look.Width = 80
	}
	if height <= 0 {
		height = 24
	}
	p.header(r, now)
	room := height - 1
	if r.notice != "" {
		p.fill(bit{p.text("%s", oneLine(r.notice)), yellow})
		room--
	}
	seats, rest := choose(r.sorted(), room)
	agents := 5
	for _, s := range seats {
		agents = max(agents, min(p.text("%s", s.agent).Width(), p.look.Width/5))
	}
	for _, s := range seats {
		p.seat(s, agents, now)
	}
	if len(rest) > 0 {
		p.say(dim, "%s", p.cut(p.text("%s %d more: %s", p.more(), len(rest), tally(rest)), p.look.Width).String())
	}
	return strings.TrimSuffix(p.b.String(), "\n")
}

func (p *page) header(r *run, now time.Time) {
	step := r.step
	if r.stepText != "" {
		step = r.stepText
	}
	parts := []string{"run " + r.id}
	if r.id == "" {
		parts = []string{"run starts"}
	} else {
		parts = append(parts, elapsed(now.Sub(r.began)))
	}
	if r.finished != nil {
		step = "no winner"
		if r.finished.Winner != nil {
			step = "winner " + candidate.Number(*r.finished.Winner).ID()
		}
	}
	if step != "" {
		parts = append(parts, step)
	}
	if r.isolation != "" {
		parts = append(parts, "isolation: "+r.isolation)
	}
	p.line(bit{p.cut(p.text("%s", strings.Join(parts, p.glyph(" · ", " | "))), p.look.Width), bold})
}

// seat writes one candidate's line: number, agent, phase or outcome, time,
// lines, and what it said last where there is room.
func (p *page) seat(s *seat, agents int, now time.Time) {
	phase, st := string(s.state), normal
	switch s.state {
	case candidate.Done:
		phase, st = string(s.outcome), outcomeStyle(s.outcome)
	case candidate.Queued:
		st = dim
	default:
		if s.round > 0 {
			phase += fmt.Sprintf(" %d", s.round+1)
		}
	}
	lines := ""
	if s.files > 0 {
		lines = p.lines(s.added, s.deleted)
	}
	clock := ""
	if !s.began.IsZero() {
		clock = elapsed(s.elapsed(now))
	}
	wide := 14 // "infrastructure"
	if p.look.Width < 60 {
		wide = 11
	}
	bits := []bit{
		{p.text("%-4s", candidate.Number(s.number).ID()), bold},
		{p.cut(p.text("%s", s.agent), agents).Pad(agents + 1), normal},
		{p.cut(p.text("%s", phase), wide).Pad(wide + 1), st},
		{p.text("%s", clock).PadLeft(5).Pad(6), normal},
		{p.text("%s", lines).Pad(9), normal},
	}
	used := 0
	for _, b := range bits {
		used += b.text.Width()
	}
	if room := p.look.Width - used - 1; room >= 8 && s.activity != "" {
		bits = append(bits, bit{p.text(" "), normal}, bit{p.cut(p.text("%s", oneLine(s.activity)), room), dim})
	}
	p.fill(bits...)
}

// oneLine makes an agent's line readable before it is cleaned: what only
// decorates is dropped, and white space is one space.
func oneLine(s string) string {
	s = strings.NewReplacer("\ufe0e", "", "\ufe0f", "", "\u00a0", " ").Replace(s)
	return strings.Join(strings.Fields(s), " ")
}

// choose divides seats into those that fit into n lines, in their order, and
// the rest. Who works is shown before who waits or is done; when there is a
// rest, one of the lines is for it.
func choose(seats []*seat, n int) (shown, rest []*seat) {
	if len(seats) <= n {
		return seats, nil
	}
	n = max(n-1, 0)
	picked := map[*seat]bool{}
	for _, want := range []func(*seat) bool{
		func(s *seat) bool { return s.state != candidate.Queued && s.state != candidate.Done },
		func(s *seat) bool { return s.outcome == candidate.Met },
		func(s *seat) bool { return s.state == candidate.Done },
		func(*seat) bool { return true },
	} {
		for _, s := range seats {
			if len(picked) < n && want(s) {
				picked[s] = true
			}
		}
	}
	for _, s := range seats {
		if picked[s] {
			shown = append(shown, s)
		} else {
			rest = append(rest, s)
		}
	}
	return shown, rest
}

// tally counts seats by what they are doing, in the order of a life.
func tally(seats []*seat) string {
	n := map[string]int{}
	for _, s := range seats {
		if s.state == candidate.Done {
			n[string(s.outcome)]++
		} else {
			n[string(s.state)]++
		}
	}
	var parts []string
	add := func(key string) {
		if n[key] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[key], key))
		}
	}
	for _, s := range []candidate.State{candidate.Queued, candidate.Preparing, candidate.Working, candidate.Sealing, candidate.Verifying} {
		add(string(s))
	}
	for _, o := range candidate.Outcomes {
		add(string(o))
	}
	return strings.Join(parts, ", ")
}
