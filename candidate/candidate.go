// Package candidate is the vocabulary of one candidate: its number, its
// states, how it can end, and the brief it is given. It is pure.
package candidate

import (
	"fmt"
	"strconv"
)

// A Number names a candidate within its run: 1, 2, 3 … It is compared as a
// number, so candidate 10 comes after candidate 2.
type Number int

// ID is the short name people type and read: "c1", "c12".
func (n Number) ID() string { return "c" + strconv.Itoa(int(n)) }

// Handle is the name a plugin sees on the wire: "candidate-1".
func (n Number) Handle() string { return "candidate-" + strconv.Itoa(int(n)) }

// ParseNumber reads "3", "c3" or "candidate-3".
func ParseNumber(s string) (Number, error) {
	digits := s
	for _, prefix := range []string{"candidate-", "c"} {
		if len(s) > len(prefix) && s[:len(prefix)] == prefix {
			digits = s[len(prefix):]
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || digits[0] == '0' || digits[0] == '+' {
		return 0, fmt.Errorf("%q is not a candidate: write its number, for example 2 or c2", s)
	}
	return Number(n), nil
}

// An Outcome is how a candidate ended; exactly one of the constants below.
// The zero value is no outcome yet.
type Outcome string

// The outcomes, as design.md lists them. Only Met can win, unless the operator
// asked for a ranking without evidence, which admits Undecided.
const (
	Met            Outcome = "met"            // every requirement was seen to hold
	Unmet          Outcome = "unmet"          // a requirement was seen not to hold
	Undecided      Outcome = "undecided"      // the evidence decides nothing
	Empty          Outcome = "empty"          // the candidate changed nothing
	AgentFailed    Outcome = "agent-failed"   // the agent could not run or gave up without a change
	TimedOut       Outcome = "timed-out"      // the candidate used up its time
	OverBudget     Outcome = "over-budget"    // a limit other than time was used up
	Tampered       Outcome = "tampered"       // a protected path was changed
	Compromised    Outcome = "compromised"    // the evidence could have been forged
	Escaped        Outcome = "escaped"        // something outside the shadow changed
	Infrastructure Outcome = "infrastructure" // the host failed, not the candidate
	Cancelled      Outcome = "cancelled"      // the run ended first
)

// Outcomes lists every outcome in the order of the documentation.
var Outcomes = []Outcome{Met, Unmet, Undecided, Empty, AgentFailed, TimedOut, OverBudget, Tampered, Compromised, Escaped, Infrastructure, Cancelled}

// A State is where a candidate is in its life.
type State string

// The states of a candidate, in the order of a life without incident.
const (
	Queued    State = "queued"
	Preparing State = "preparing" // its shadow and sandbox are being made
	Working   State = "working"   // the agent runs
	Sealing   State = "sealing"   // its tree is being read
	Verifying State = "verifying" // the plugins run on a fresh shadow
	Done      State = "done"      // it has an Outcome
)

// next is the whole state table; Verifying returns to Preparing when an
// arbiter holds the candidate for another round.
var next = map[State][]State{
	Queued:    {Preparing, Done},
	Preparing: {Working, Done},
	Working:   {Sealing, Done},
	Sealing:   {Verifying, Done},
	Verifying: {Preparing, Done},
	Done:      nil,
}

// Step returns to when the table allows the move from s, and an error that
// names both states otherwise.
func (s State) Step(to State) (State, error) {
	for _, t := range next[s] {
		if t == to {
			return to, nil
		}
	}
	return s, fmt.Errorf("a candidate cannot go from %q to %q", s, to)
}

// A Brief is what a candidate is told. It is the same for all candidates of a
// run but for Number, Round and Correction.
type Brief struct {
	Task       string    // what the user asked for
	Context    []Context // plugins' before_turn contributions, in order
	Test       []string  // the command that decides, empty when there is none
	Protected  []string  // globs whose changes are not accepted
	Number     Number
	Candidates int    // N
	Round      int    // 0-based
	Correction string // why the previous round was held, "" in round 0
}

// Context is one contribution to a brief.
type Context struct {
	Label string
	Text  string
}
