// Package report makes the numbers of a batch from what was recorded of its
// candidates, and writes them as JSON, Markdown, CSV and the official harness's
// predictions. It is pure: the same record, seed and rule give the same bytes.
package report

import (
	"github.com/bestof-dev/bestof/candidate"
)

// Schema names the version of Report. Fields are only ever added to it.
const Schema = "bestof.batch-report/1"

// A Rightness is what the tests of a task say about a candidate, whatever the
// judge made of it. The zero value counts as Unknown.
type Rightness string

// The values of Rightness.
const (
	Right   Rightness = "right"
	Wrong   Rightness = "wrong"
	Unknown Rightness = "unknown" // the tests were not seen: never taken for right
)

// A State is how far a task of a batch has come.
type State string

// The states of a task.
const (
	Done           State = "done"
	Pending        State = "pending"        // not begun, or not finished
	Invalid        State = "invalid"        // the base is not as the task says: nobody can be judged by it
	Infrastructure State = "infrastructure" // the host failed, and retries are used up
)

// A Candidate is what was recorded of one candidate.
type Candidate struct {
	Number     int
	Agent      string
	Outcome    candidate.Outcome
	Right      Rightness
	Eligible   bool   // the judge may choose it
	Change     string // equal for equal changes; "" when nothing was changed
	DurationMS int64
	Tokens     *int64 // nil: the agent does not say
	CostMicros *int64 // millionths of a US dollar; nil: the agent does not say
}

// counts tells whether the candidate had its chance. What the host got wrong
// and what was stopped from outside is no vote for or against anybody.
func (c Candidate) counts() bool {
	return c.Outcome != candidate.Infrastructure && c.Outcome != candidate.Cancelled
}

func (c Candidate) right() bool { return c.Right == Right }

// A Task is what was recorded of one task.
type Task struct {
	ID         string
	Instance   string // the input's own id; "" when it is ID
	State      State
	Run        string // id of the run's record, "" when there is none
	Winner     int    // number of the candidate that the judge chose, 0 for none
	Reason     string
	Candidates []Candidate
	WallMS     int64
	// Earlier are candidates of whom nothing is left but what they used: they
	// were cut off, or the host failed them, and they are run again. They are in
	// no other number than time, tokens and cost.
	Earlier []Candidate
}

func (t Task) graded() bool {
	if t.State != Done {
		return false
	}
	for _, c := range t.Candidates {
		if c.counts() {
			return true
		}
	}
	return false
}

// Input is a batch as it was recorded.
type Input struct {
	Batch      string // its name or directory, for people
	Version    string // of bestof
	Candidates int    // asked for per task
	Tasks      []Task // in the order of the batch
	Notes      []string
}

// Options say how numbers are made.
type Options struct {
	Seed      uint64
	Resamples int // of the bootstrap; 0: 1000
	// Choose is the judge's rule on a part of a task's candidates: the number
	// of the one it would have chosen among those, or 0. It is pure, chooses
	// only who is Eligible, and somebody whenever one is; numbers are sorted and
	// not to be kept. Without it there is no
	// curve of best-of-k.
	Choose func(t Task, numbers []int) int
	// MaxSubsets is how many parts of a task's candidates are judged for one
	// size; of more, so many are drawn. 0: 256.
	MaxSubsets int
}

// A Report is the numbers of a batch.
type Report struct {
	Schema     string    `json:"schema"`
	Batch      string    `json:"batch"`
	Version    string    `json:"version"`
	Candidates int       `json:"candidates"` // asked for per task
	Seed       uint64    `json:"seed"`
	Resamples  int       `json:"resamples"`
	Confidence float64   `json:"confidence"` // of the intervals
	Tasks      Counts    `json:"tasks"`
	Pass1      Estimate  `json:"pass_1"`
	BestOfN    Estimate  `json:"best_of_n"`   // the judge's choice is right
	OracleOfN  Estimate  `json:"oracle_of_n"` // any candidate is right
	PassK      []Point   `json:"pass_k"`      // the unbiased estimator: any of k is right
	BestOfK    []Point   `json:"best_of_k"`   // the judge's choice of k is right
	Choices    Choices   `json:"choices"`
	Agents     []Agent   `json:"agents"`   // by name
	Outcomes   []Outcome `json:"outcomes"` // of all candidates
	Integrity  Integrity `json:"integrity"`
	Agreement  []Agreed  `json:"agreement"` // by size
	Spend      Spend     `json:"spend"`
	Rows       []Row     `json:"rows"` // one for each task, in the batch's order
	Notes      []string  `json:"notes"`
}

// Counts is how the tasks went.
type Counts struct {
	Total          int `json:"total"`
	Done           int `json:"done"`
	Graded         int `json:"graded"` // done, with a candidate that had its chance: what shares are of
	Solved         int `json:"solved"` // graded, and the judge's choice is right
	Pending        int `json:"pending"`
	Invalid        int `json:"invalid"`
	Infrastructure int `json:"infrastructure"`
}

// An Estimate is a mean over tasks, from 0 to 1, with its interval. Value is
// nil when no task tells; Low and High are nil when fewer than two do.
type Estimate struct {
	Value *float64 `json:"value"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
	Tasks int      `json:"tasks"` // it rests on
}

// A Point is an estimate for k candidates, over tasks that have as many.
type Point struct {
	K int `json:"k"`
	Estimate
}

// Choices is what the judge's choices were worth, over graded tasks.
type Choices struct {
	Right  int `json:"right"`
	Wrong  int `json:"wrong"`
	Missed int `json:"missed"` // nobody was chosen, and somebody was right
	None   int `json:"none"`   // nobody was chosen, and nobody was right
}

// An Agent is how one agent did.
type Agent struct {
	Name       string    `json:"name"`
	Candidates int       `json:"candidates"`
	Counted    int       `json:"counted"` // had their chance
	Right      int       `json:"right"`
	Pass1      Estimate  `json:"pass_1"`
	Chosen     int       `json:"chosen"`
	Outcomes   []Outcome `json:"outcomes"`
	Spend      Spend     `json:"spend"`
	MedianMS   int64     `json:"median_ms"` // of a candidate
}

// An Outcome is how many candidates ended so.
type Outcome struct {
	Outcome candidate.Outcome `json:"outcome"`
	Count   int               `json:"count"`
}

// Integrity counts what says nothing about how good agents are, or speaks
// against trust in them.
type Integrity struct {
	Infrastructure int `json:"infrastructure"`
	Cancelled      int `json:"cancelled"`
	Tampered       int `json:"tampered"`
	Compromised    int `json:"compromised"`
	Escaped        int `json:"escaped"`
	Unknown        int `json:"unknown"` // candidates that had their chance and of whom the tests say nothing
}

// Agreed is the tasks whose chosen change was arrived at by so many candidates.
type Agreed struct {
	Size  int `json:"size"`
	Tasks int `json:"tasks"`
	Right int `json:"right"`
}

// Spend is time and money. What agents do not say is counted, not guessed.
type Spend struct {
	WallMS        int64 `json:"wall_ms,omitempty"` // of tasks, which may overlap
	CandidateMS   int64 `json:"candidate_ms"`
	Tokens        int64 `json:"tokens"`
	TokensUnknown int   `json:"tokens_unknown"` // candidates
	CostMicros    int64 `json:"cost_micros"`    // millionths of a US dollar
	CostUnknown   int   `json:"cost_unknown"`   // candidates
	Earlier       int   `json:"earlier"`        // candidates in these sums of whom nothing else is left
}

func (s *Spend) add(c Candidate) {
	s.CandidateMS += c.DurationMS
	if c.Tokens != nil {
		s.Tokens += *c.Tokens
	} else {
		s.TokensUnknown++
	}
	if c.CostMicros != nil {
		s.CostMicros += *c.CostMicros
	} else {
		s.CostUnknown++
	}
}

// addEarlier is add for one of whom nothing else is left.
func (s *Spend) addEarlier(c Candidate) {
	s.add(c)
	s.Earlier++
}

// A Row is one task.
type Row struct {
	ID          string    `json:"id"`
	Instance    string    `json:"instance,omitempty"`
	State       State     `json:"state"`
	Run         string    `json:"run,omitempty"`
	Winner      int       `json:"winner"`
	WinnerRight Rightness `json:"winner_right,omitempty"` // absent: nobody was chosen
	Counted     int       `json:"counted"`
	Right       int       `json:"right"`
	Changes     int       `json:"changes"` // different ones
	Reason      string    `json:"reason,omitempty"`
	Spend       Spend     `json:"spend"`
}
