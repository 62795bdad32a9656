package batch

import (
	"sync"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch/progress"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// A watcher follows the run of one attempt: what its candidates do and use.
type watcher struct {
	b    *batch
	i    int
	row  Row
	run  string
	kept map[int]bool

	mu    sync.Mutex
	seen  map[int]*Cost
	began map[int]time.Time
}

func newWatcher(b *batch, i int, row Row, run string, cfg orchestrator.Config) *watcher {
	w := &watcher{b: b, i: i, row: row, run: run, kept: map[int]bool{}, seen: map[int]*Cost{}, began: map[int]time.Time{}}
	for _, c := range cfg.Kept {
		w.kept[c.Number] = true
	}
	for _, s := range cfg.Seats {
		w.seen[int(s.Number)] = &Cost{Task: row.Seq, Candidate: int(s.Number), Run: run, Agent: s.Agent.Name}
	}
	return w
}

// used takes what an agent reports.
func (w *watcher) used(number candidate.Number, u orchestrator.Usage) {
	n := int(number)
	w.mu.Lock()
	w.seen[n].Usage = u
	cost := *w.seen[n]
	w.mu.Unlock()
	w.pay(cost)
	w.b.calls <- func() { w.b.sched.reports(w.i, n, u) }
}

// event takes what the run publishes.
func (w *watcher) event(e event.Event) {
	switch b := e.Body.(type) {
	case event.Candidate:
		if !w.kept[b.Number] {
			w.candidate(b, e.At)
		}
	case event.Notice:
		w.b.tell(w.row.ID, b.Text)
	}
}

func (w *watcher) candidate(c event.Candidate, at time.Time) {
	w.mu.Lock()
	cost := w.seen[c.Number]
	if w.began[c.Number].IsZero() {
		w.began[c.Number] = at
	}
	shown := progress.Candidate{Task: w.row.ID, Number: c.Number, Agent: cost.Agent, State: string(c.State), Outcome: string(c.Outcome), Detail: c.Detail}
	again := cost.Outcome != "" // what became of it was found out later
	ran := c.State == candidate.Done && c.Detail != record.NotStarted
	if c.State == candidate.Done {
		cost.Outcome, cost.Took = string(c.Outcome), at.Sub(w.began[c.Number])
	}
	paid := *cost
	w.mu.Unlock()
	if ran {
		w.pay(paid)
	}
	if ran && !again {
		w.b.count(paid.Usage, true)
	}
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	w.b.publish(shown)
	if c.State == candidate.Done {
		w.b.publish(w.b.spend)
	}
}

// pay writes down what a candidate cost.
func (w *watcher) pay(c Cost) {
	if err := w.b.State.pay(c); err != nil {
		w.b.calls <- func() { w.b.fault = err }
	}
}
