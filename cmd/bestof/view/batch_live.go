package view

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/batch/progress"
)

// QuietBatch shows nothing of a batch.
type QuietBatch struct{}

// Publish implements the display of a batch.
func (QuietBatch) Publish(progress.Event) {}

// Close implements the display of a batch.
func (QuietBatch) Close() error { return nil }

// BatchPlain writes one line for each thing that happens to a task.
type BatchPlain struct {
	mu     sync.Mutex
	w      io.Writer
	page   page
	totals progress.Totals
	err    error
}

// NewBatchPlain writes to w what look allows; its colours and width are not used.
func NewBatchPlain(w io.Writer, look term.Look) *BatchPlain {
	return &BatchPlain{w: w, page: page{look: term.Look{UTF8: look.UTF8}}}
}

// Publish writes the event's line, if it has one.
func (p *BatchPlain) Publish(e progress.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.totals.Fold(e)
	pg := &p.page
	switch b := e.Body.(type) {
	case progress.Started:
		pg.say(normal, "batch %s: %s, %d left, %s at once", b.Directory, count(b.Tasks, "task", "tasks"), b.Left, count(b.Jobs, "candidate", "candidates"))
	case progress.Task:
		if b.State == progress.Running {
			return
		}
		pg.say(normal, "task  %s %s", b.ID, taskWords(b))
		if b.State != progress.Again {
			pg.say(normal, "batch %s", tallyOf(&p.totals, e.At))
		}
	case progress.Notice:
		pg.say(normal, "note  %s", b.Text)
	case progress.Candidate:
		if b.Outcome == "" {
			return
		}
		pg.say(normal, "cand  %s %s %s: %s", b.Task, candidate.Number(b.Number).ID(), b.Agent, b.Outcome)
	case progress.Finished:
		pg.say(normal, "batch %s, %s left", b.Reason, count(b.Left, "task", "tasks"))
	default:
		return
	}
	if err := pg.flush(p.w); err != nil && p.err == nil {
		p.err = err
	}
}

// Close returns the first error of writing.
func (p *BatchPlain) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func taskWords(t progress.Task) string {
	switch t.State {
	case progress.Solved:
		return fmt.Sprintf("solved by %s", candidate.Number(t.Winner).ID())
	case progress.Again:
		return "is to be tried again: " + t.Reason
	}
	return t.State + ": " + t.Reason
}

// tallyOf is where a batch is, in one line.
func tallyOf(t *progress.Totals, now time.Time) string {
	parts := []string{
		fmt.Sprintf("%d of %s", t.Done(), count(t.Tasks, "task", "tasks")), fmt.Sprintf("%d solved", t.Counts[progress.Solved]),
	}
	for _, state := range []string{progress.Invalid, progress.Failed} {
		if n := t.Counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if t.Spend.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", t.Spend.Tokens))
	}
	if t.Spend.MicroUSD > 0 {
		parts = append(parts, fmt.Sprintf("$%.2f", float64(t.Spend.MicroUSD)/1e6))
	}
	if left := t.Remaining(now); left > 0 {
		parts = append(parts, "about "+elapsed(left)+" left")
	}
	return strings.Join(parts, ", ")
}

// BatchLive keeps a table of the candidates that run on a terminal, with the
// totals above it.
type BatchLive struct {
	*screen

	mu     sync.Mutex
	totals progress.Totals
}

// NewBatchLive starts a table on s.Err.
func NewBatchLive(s term.Streams, now func() time.Time) *BatchLive {
	l := &BatchLive{}
	l.screen = openScreen(s, l.drawing(now))
	return l
}

func (l *BatchLive) drawing(now func() time.Time) drawing {
	return func(look term.Look, height int) string {
		l.mu.Lock()
		defer l.mu.Unlock()
		return drawBatch(&l.totals, look, height, now())
	}
}

// Publish never waits for the terminal.
func (l *BatchLive) Publish(e progress.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals.Fold(e)
}

// drawBatch is a frame of at most height lines and look.Width cells.
func drawBatch(t *progress.Totals, look term.Look, height int, now time.Time) string {
	p := &page{look: look}
	if p.look.Width <= 0 {
		p.look.Width = 80
	}
	if height <= 0 {
		height = 24
	}
	head := "batch starts"
	if !t.Began.IsZero() {
		head = elapsed(now.Sub(t.Began)) + p.glyph(" · ", " | ") + tallyOf(t, now)
	}
	p.line(bit{p.cut(p.text("%s", head), p.look.Width), bold})
	room := height - 1
	if t.Notice != "" && room > 0 {
		p.fill(bit{p.cut(p.text("%s", oneLine(t.Notice)), p.look.Width), yellow})
		room--
	}
	working := t.Working
	rest := 0
	if len(working) > room {
		rest = len(working) - max(0, room-1)
		working = working[:max(0, room-1)]
	}
	for _, w := range working {
		p.fill(
			bit{p.cut(p.text("%s", oneLine(w.Task)), p.look.Width/2).Pad(p.look.Width/2 + 1), normal},
			bit{p.text("%-4s", candidate.Number(w.Number).ID()), bold},
			bit{p.cut(p.text("%s", w.Agent), 12).Pad(13), normal},
			bit{p.cut(p.text("%s", w.State), 10).Pad(11), dim},
			bit{p.text("%s", elapsed(now.Sub(w.Since))), normal},
		)
	}
	if rest > 0 && room > 0 {
		p.say(dim, "%s %d more", p.more(), rest)
	}
	return strings.TrimSuffix(p.b.String(), "\n")
}
