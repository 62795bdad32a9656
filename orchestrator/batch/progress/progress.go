// Package progress is the stream that a batch publishes, and what it adds up
// to. Renderers fold it and hold no truth of their own. Types are append-only.
package progress

import (
	"encoding/json"
	"time"
)

// An Event is one thing that happened. Seq counts from 1 without gaps within
// one start of a batch.
type Event struct {
	Seq  int64
	At   time.Time
	Body Body
}

// A Body is one of the types of this package.
type Body interface{ kind() string }

// Started opens every start of a batch.
type Started struct {
	Directory  string `json:"directory"`
	Tasks      int    `json:"tasks"`      // of the batch
	Left       int    `json:"left"`       // tasks that are not done
	Candidates int    `json:"candidates"` // of those that are left
	Jobs       int    `json:"jobs"`       // candidates that run at once
	Solved     int    `json:"solved"`     // by earlier starts, like the next three
	Unsolved   int    `json:"unsolved"`
	Invalid    int    `json:"invalid"`
	Failed     int    `json:"failed"`
	Spend      Spend  `json:"spend"` // of earlier starts
}

// Task reports a task's new state.
type Task struct {
	ID      string `json:"id"`
	State   string `json:"state"` // running | solved | unsolved | invalid | failed | again
	Attempt int    `json:"attempt,omitempty"`
	Run     string `json:"run,omitempty"`
	Winner  int    `json:"winner,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// Candidate reports that a candidate of a task began (no Outcome) or ended.
type Candidate struct {
	Task    string `json:"task"`
	Number  int    `json:"number"`
	Agent   string `json:"agent"`
	State   string `json:"state"`
	Outcome string `json:"outcome,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

// Spend is what was used so far, as far as agents report it.
type Spend struct {
	Tokens     int64 `json:"tokens"`
	MicroUSD   int64 `json:"micro_usd"`
	Unreported int   `json:"unreported"` // candidates whose agents said nothing
}

// Notice is something the user should know; one line.
type Notice struct {
	Text string `json:"text"`
}

// Finished closes every start of a batch.
type Finished struct {
	Reason   string `json:"reason"` // done | interrupted | over budget | out of time
	Left     int    `json:"left"`   // tasks that are not done
	ExitCode int    `json:"exit_code"`
}

func (Started) kind() string   { return "started" }
func (Task) kind() string      { return "task" }
func (Candidate) kind() string { return "candidate" }
func (Spend) kind() string     { return "spend" }
func (Notice) kind() string    { return "notice" }
func (Finished) kind() string  { return "finished" }

// MarshalJSON writes {"seq":…,"at":…,"type":…,"body":{…}}.
func (e Event) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Seq  int64     `json:"seq"`
		At   time.Time `json:"at"`
		Type string    `json:"type"`
		Body Body      `json:"body"`
	}{e.Seq, e.At, e.Body.kind(), e.Body})
}

// The states of a Task.
const (
	Running  = "running"
	Solved   = "solved"
	Unsolved = "unsolved"
	Invalid  = "invalid" // nothing can decide about it
	Failed   = "failed"  // the host failed it, as often as it was tried
	Again    = "again"   // it is not done, and waits to be tried again
)

// Totals are what a stream adds up to.
type Totals struct {
	Directory      string
	Tasks          int
	Counts         map[string]int // of tasks by state; those that wait are in none
	Jobs           int
	Candidates     int // of the tasks that were left at the start
	CandidatesDone int
	Working        []Work // candidates that run now, in the order in which they began
	Spend          Spend
	Notice         string
	Finished       *Finished
	Began          time.Time

	states map[string]string // of tasks in this start
}

// Work is one candidate that runs.
type Work struct {
	Task   string
	Number int
	Agent  string
	State  string
	Since  time.Time
}

// Fold takes the next event.
func (t *Totals) Fold(e Event) {
	if t.Counts == nil {
		t.Counts, t.states = map[string]int{}, map[string]string{}
	}
	switch b := e.Body.(type) {
	case Started:
		t.Began, t.Directory, t.Tasks, t.Jobs, t.Candidates, t.Spend = e.At, b.Directory, b.Tasks, b.Jobs, b.Candidates, b.Spend
		for state, n := range map[string]int{Solved: b.Solved, Unsolved: b.Unsolved, Invalid: b.Invalid, Failed: b.Failed} {
			t.Counts[state] += n
		}
	case Task:
		if old := t.states[b.ID]; old != "" && old != Again {
			t.Counts[old]--
		}
		t.states[b.ID] = b.State
		if b.State != Again {
			t.Counts[b.State]++
		}
	case Candidate:
		t.candidate(b, e.At)
	case Spend:
		t.Spend = b
	case Notice:
		t.Notice = b.Text
	case Finished:
		t.Finished, t.Working = &b, nil
	}
}

func (t *Totals) candidate(b Candidate, at time.Time) {
	for i, w := range t.Working {
		if w.Task != b.Task || w.Number != b.Number {
			continue
		}
		if t.Working[i].State = b.State; b.Outcome != "" {
			t.Working = append(t.Working[:i], t.Working[i+1:]...)
			t.CandidatesDone++
		}
		return
	}
	if b.Outcome == "" {
		t.Working = append(t.Working, Work{b.Task, b.Number, b.Agent, b.State, at})
	}
}

// Done is how many tasks came to an end.
func (t *Totals) Done() int {
	return t.Counts[Solved] + t.Counts[Unsolved] + t.Counts[Invalid] + t.Counts[Failed]
}

// Remaining is how long the rest takes if it goes on as it went; 0 when that
// cannot be told.
func (t *Totals) Remaining(now time.Time) time.Duration {
	if t.CandidatesDone == 0 || t.Finished != nil || t.Began.IsZero() || t.Done() >= t.Tasks {
		return 0
	}
	left := max(0, t.Candidates-t.CandidatesDone)
	return now.Sub(t.Began) * time.Duration(left) / time.Duration(t.CandidatesDone)
}
