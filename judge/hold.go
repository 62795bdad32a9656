package judge

import (
	"strconv"
	"strings"
)

// DefaultHolds is the ceiling of a host that was given none.
const DefaultHolds = 2

// A HoldReason is why a candidate is held for another round, or is not.
type HoldReason string

const (
	HoldUnmet          HoldReason = "unmet"           // held
	StopMet            HoldReason = "met"             // not held, as all below
	StopUndecided      HoldReason = "undecided"       // another round would not help anyone to tell
	StopNotArbiter     HoldReason = "not-an-arbiter"  // unmet, but this plugin has no say in it
	StopAllowanceSpent HoldReason = "allowance-spent" // unmet, and held as often as allowed
)

// A Hold is the decision whether a candidate gets another round.
type Hold struct {
	Hold    bool       `json:"hold"`
	Reason  HoldReason `json:"reason"`
	Spent   int        `json:"spent"`   // holds so far, this one included
	Allowed int        `json:"allowed"` // how many there may be
}

// Again decides whether an unmet verdict holds the candidate. A plugin asks
// for at most ask holds (nil: as many as the host has); ceiling is the host's
// limit, below which an ask is clamped, and spent is how many holds the
// candidate has had already, from whichever plugin.
func Again(v Verdict, arbiter bool, ask *int, ceiling, spent int) Hold {
	h := Hold{Spent: spent, Allowed: max(ceiling, 0)}
	if ask != nil {
		h.Allowed = max(min(*ask, h.Allowed), 0)
	}
	switch {
	case v.Decision == Met:
		h.Reason = StopMet
	case v.Decision != Unmet:
		h.Reason = StopUndecided
	case !arbiter:
		h.Reason = StopNotArbiter
	case spent >= h.Allowed:
		h.Reason = StopAllowanceSpent
	default:
		h.Hold, h.Reason, h.Spent = true, HoldUnmet, spent+1
	}
	return h
}

// Correction is what a held candidate is told: one line for each reason that a
// requirement is unmet. It is empty when nothing is. Text that comes from
// elsewhere cannot add a line to it.
func Correction(v Verdict) string {
	var b strings.Builder
	for _, r := range v.Requirements {
		for _, f := range r.Findings {
			if !f.Cause.denies() {
				continue
			}
			if b.Len() == 0 {
				b.WriteString("The change is not accepted yet. Keep what is right in it, and make each of these true:\n")
			}
			b.WriteString("- " + plain(r.Name) + ": " + plain(r.Statement) + " — " + f.because() + "\n")
		}
	}
	return b.String()
}

func (f Finding) because() string {
	switch f.Cause {
	case CauseNoFlip:
		return "the test did not go from failing to passing"
	case CauseTampered:
		return strconv.Quote(plain(f.Artifact)) + ", which decides this, was changed; leave it as it was"
	default:
		reported := "nothing"
		if f.Reported != nil {
			reported = strconv.FormatUint(*f.Reported, 10)
		}
		return "\"" + plain(f.Check) + "\" does not hold: " + reported + " was measured"
	}
}

// plain puts text on one line: runs of white space become a space; control
// characters, bytes that are not UTF-8, and characters that are invisible or
// change the direction of writing are dropped.
func plain(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\v' || r == '\f' || r == '\r' || r == 0x85 || r == 0x2028 || r == 0x2029:
			return ' '
		case r < 0x20, r >= 0x7f && r < 0xa0, r == 0xad, r == 0x61c, r == 0x180e, r == 0xfeff, r == 0xfffd,
			r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r >= 0xfe00 && r <= 0xfe0f,
			r >= 0xfff9 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe01ef:
			return -1
		}
		return r
	}, s)), " ")
}
