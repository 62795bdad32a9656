// Package event is the stream a run publishes. Renderers fold it and hold no
// truth of their own; events.jsonl keeps it. Types are append-only.
package event

import (
	"encoding/json"
	"time"

	"github.com/bestof-dev/bestof/candidate"
)

// An Event is one thing that happened. Seq counts from 1 without gaps within a
// run.
type Event struct {
	Seq  int64
	At   time.Time
	Body Body
}

// A Body is one of the types of this package.
type Body interface{ kind() string }

// Started opens every run.
type Started struct {
	Run        string   `json:"run"`
	Candidates []Seat   `json:"candidates"`
	Isolation  string   `json:"isolation"` // what is in force, one line
	Missing    []string `json:"missing,omitempty"`
	Directory  string   `json:"directory"` // of the record
}

// Seat says which agent a candidate has.
type Seat struct {
	Number int    `json:"number"`
	Agent  string `json:"agent"`
}

// Step is a phase of the run that is not any candidate's: base, setup,
// baseline, judging, adopting. Done is false when it begins.
type Step struct {
	Name string `json:"name"`
	Text string `json:"text"` // one line for people
	Done bool   `json:"done"`
}

// Notice is something the user should know; one line.
type Notice struct {
	Text string `json:"text"`
}

// Candidate reports a candidate's new state. Outcome is set when State is done.
type Candidate struct {
	Number  int               `json:"number"`
	State   candidate.State   `json:"state"`
	Round   int               `json:"round"`
	Outcome candidate.Outcome `json:"outcome,omitempty"`
	Detail  string            `json:"detail,omitempty"`
	Files   int               `json:"files"`
	Added   int               `json:"added"`
	Deleted int               `json:"deleted"`
}

// Activity is a sign of life of a candidate's agent: its last line of output.
// It may be dropped.
type Activity struct {
	Number int    `json:"number"`
	Text   string `json:"text"`
}

// Finished closes every run.
type Finished struct {
	Winner   *int   `json:"winner"`
	Reason   string `json:"reason"`
	ExitCode int    `json:"exit_code"`
}

func (Started) kind() string   { return "started" }
func (Step) kind() string      { return "step" }
func (Notice) kind() string    { return "notice" }
func (Candidate) kind() string { return "candidate" }
func (Activity) kind() string  { return "activity" }
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
