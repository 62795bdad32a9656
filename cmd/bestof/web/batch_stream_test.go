package web

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestABatchTellsHowItComesOn: at first how it stands, then only what is
// different, of the tasks that the page lists, and at last that it is over.
func TestABatchTellsHowItComesOn(t *testing.T) {
	b := newBench(t, nil)
	var mu sync.Mutex
	now := Batch{Place: "b", Directory: payload, Process: 7, State: "0 of 3", Count: 3}
	tasks := []BatchTask{{ID: "first", State: "pending"}, {ID: "second", State: "pending"}, {ID: "third", State: payload}}
	b.archive.batches = func() (Batch, error) {
		mu.Lock()
		defer mu.Unlock()
		now := now
		now.Tasks = slices.Values(slices.Clone(tasks))
		return now, nil
	}
	change := func(f func()) {
		mu.Lock()
		defer mu.Unlock()
		f()
	}
	b.enter()
	page := text(t, b.ask("GET", "/batches/b?from=1", nil, nil))
	if !strings.Contains(page, `data-events="/batches/b/events?from=1"`) || !strings.Contains(page, `data-task="2"`) || strings.Contains(page, `data-task="1"`) {
		t.Fatalf("the page: %s", page)
	}
	r := b.ask("GET", "/batches/b/events?from=1", nil, nil)
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Fatalf("the stream: %d %s", r.StatusCode, text(t, r))
	}
	c := &client{t: t, lines: bufio.NewReader(r.Body)}
	c.want("batch", `{"state":"0 of 3","process":"Process 7 runs it.","spend":""}`)
	c.want("task", `{"number":2,"state":"pending","run":"","reason":"","winner":"","link":""}`)
	c.want("task", `"number":3,"state":"\u003cscript\u003e`)
	change(func() { tasks[0].State, tasks[1].State, tasks[1].Run, tasks[1].Winner = "done", "done", runID, 2 })
	c.want("task", `{"number":2,"state":"done","run":"`+runID+`","reason":"","winner":"c2","link":"/runs/b/`+runID+`"}`)
	change(func() { now.State = "1 of 3" })
	c.want("batch", "1 of 3")
	change(func() { now.Process = 0 })
	c.want("batch", "Nobody runs it.")
	c.want("end", "Nobody runs it any more.")
	if kind, _, err := c.next(); err != io.EOF {
		t.Errorf("after the end: %s, %v", kind, err)
	}
	if page := text(t, b.ask("GET", "/batches/b", nil, nil)); strings.Contains(page, "data-events") {
		t.Error("the page of a batch that nobody runs waits for news")
	}
	b.archive.batches = nil
	if r := b.ask("GET", "/batches/none/events", nil, nil); r.StatusCode != http.StatusNotFound {
		t.Errorf("no batch: %d", r.StatusCode)
	}
}
