package view

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/batch/progress"
)

var batchNoon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func batchEvents(hostile string) []progress.Event {
	var all []progress.Event
	for i, b := range []progress.Body{
		progress.Started{Directory: "out", Tasks: 3, Left: 3, Candidates: 6, Jobs: 2},
		progress.Task{ID: "one" + hostile, State: progress.Running},
		progress.Candidate{Task: "one" + hostile, Number: 1, Agent: "x" + hostile, State: "working"},
		progress.Candidate{Task: "one" + hostile, Number: 2, Agent: "x", State: "working"},
		progress.Notice{Text: "note" + hostile},
		progress.Candidate{Task: "one" + hostile, Number: 1, Agent: "x", State: "done", Outcome: "met"},
		progress.Spend{Tokens: 1234, MicroUSD: 2_500_000},
		progress.Task{ID: "one" + hostile, State: progress.Solved, Winner: 1},
		progress.Task{ID: "two", State: progress.Invalid, Reason: "no test" + hostile},
	} {
		all = append(all, progress.Event{Seq: int64(i + 1), At: batchNoon.Add(time.Duration(i) * time.Minute), Body: b})
	}
	return all
}

func TestBatchPlain(t *testing.T) {
	var out bytes.Buffer
	p := NewBatchPlain(&out, term.Look{UTF8: true})
	for _, e := range append(batchEvents("\x1b[2J\u202e"), progress.Event{Body: progress.Finished{Reason: "interrupted", Left: 1}}) {
		p.Publish(e)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	for _, want := range []string{
		"batch out: 3 tasks, 3 left, 2 candidates at once\n", "c1 x: met\n", "solved by c1\n", "task  two invalid: no test",
		"batch 2 of 3 tasks, 1 solved, 1 invalid, 1234 tokens, $2.50, about", "batch interrupted, 1 task left\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.ContainsAny(got, "\x1b\u202e") {
		t.Errorf("raw control characters: %q", got)
	}
	out.Reset()
	p = NewBatchPlain(&out, term.Look{UTF8: true})
	p.Publish(progress.Event{At: batchNoon, Body: progress.Started{Directory: "out", Tasks: 1, Left: 1, Candidates: 1, Jobs: 1}})
	p.Publish(progress.Event{At: batchNoon, Body: progress.Task{ID: "one", State: progress.Solved, Winner: 1}})
	for _, want := range []string{"batch out: 1 task, 1 left, 1 candidate at once\n", "batch 1 of 1 task, 1 solved"} {
		if got := out.String(); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestBatchFrame: a frame stays within the screen, whatever is in it, and says
// how far the batch is and what runs.
func TestBatchFrame(t *testing.T) {
	var totals progress.Totals
	for _, e := range batchEvents("\x1b[2J") {
		totals.Fold(e)
	}
	for range 40 {
		totals.Working = append(totals.Working, progress.Work{Task: strings.Repeat("long-", 40), Number: len(totals.Working), Agent: "y", State: "verifying", Since: batchNoon})
	}
	for _, size := range [][2]int{{80, 24}, {40, 5}, {20, 2}, {200, 60}} {
		frame := drawBatch(&totals, term.Look{Width: size[0], UTF8: true}, size[1], batchNoon.Add(time.Hour))
		lines := strings.Split(frame, "\n")
		if len(lines) > size[1] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, l := range lines {
			if w := term.Clean(l, 10_000).Width(); w > size[0] {
				t.Errorf("%v: a line of %d cells: %q", size, w, l)
			}
		}
		if strings.Contains(frame, "\x1b[2J") {
			t.Errorf("%v: a raw escape", size)
		}
	}
	frame := drawBatch(&totals, term.Look{Width: 100, UTF8: true}, 10, batchNoon.Add(time.Hour))
	for _, want := range []string{"2 of 3 tasks", "1 solved", "c2", "working", "more"} {
		if !strings.Contains(frame, want) {
			t.Errorf("no %q in\n%s", want, frame)
		}
	}
}

func TestBatchLive(t *testing.T) {
	var out bytes.Buffer
	l := &BatchLive{}
	l.screen = startScreen(&out, term.Look{Motion: true, Width: 80, UTF8: true}, 80, 24, nil, l.drawing(func() time.Time { return batchNoon.Add(time.Hour) }))
	for _, e := range batchEvents("") {
		l.Publish(e)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if !strings.Contains(out.String(), "2 of 3 tasks") {
		t.Errorf("the last frame does not have the totals: %q", out.String())
	}
}
