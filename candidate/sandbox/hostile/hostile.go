// Package hostile holds candidates that mean harm: one small attack for each
// name, what it is allowed to reach in each sandbox, and how it may end. The
// tests beside it run every one through the real command line, with honest
// siblings, and then look for harm. docs/sandboxes.md says in a table what
// they prove.
package hostile

import (
	"slices"

	"github.com/bestof-dev/bestof/candidate"
)

// Reach is whether an attack gets what it is after.
type Reach int

// What can be expected of an attack. The zero value expects nothing: the
// attack is noise, or it depends on the machine, and only harm counts.
const (
	Any Reach = iota
	Can
	Cannot
)

// A Want is the right outcome of one attack in one sandbox.
type Want struct {
	Reach    Reach
	Outcomes []candidate.Outcome // none means Met: the honest fix beside the attack counts
	Says     string              // has to be in what the record says of the candidate
	Not      string              // why the attack is not made there; then nothing else counts
}

// A Phase is when an attack is made.
type Phase int

// The phases. Solo is InAgent by a candidate that runs alone, because what it
// does to a shared thing is put down to everyone who runs at that time.
const (
	InAgent  Phase = iota
	InTest         // by the candidate's code while the test runs
	Held           // over two rounds: the first attacks and does not mend, the second mends
	Slow           // it has to be ended by its time limit
	ByTools        // in a run that offers tools of a server
	ByPython       // against a test of Python's unittest
	Solo
	SoloTest // Solo, from inside the test
	Poison   // Solo, and what it does ends the run for all after it
)

// The sandboxes, as the command line spells them.
const (
	Process = "process"
	Bwrap   = "bwrap"
	Docker  = "docker"
)

// An Attack is one candidate that means harm.
type Attack struct {
	Name   string // a name for an agent
	What   string // one line, after "a candidate that …"
	Threat string // the row of docs/sandboxes.md that it backs
	Phase  Phase
	NoFix  bool // it does not mend the fault beside its attack
	Do     func(*Place) error
	Wants  map[string]Want // by sandbox
}

// Want is what is right in a sandbox.
func (a Attack) Want(sandbox string) Want { return a.Wants[sandbox] }

// Allows reports whether an outcome is right.
func (w Want) Allows(o candidate.Outcome) bool {
	if len(w.Outcomes) == 0 {
		return o == candidate.Met
	}
	return slices.Contains(w.Outcomes, o)
}

// Quiet attacks of an agent are refused what they are after and change nothing:
// several can be made by one candidate. The others are made by one each.
func (a Attack) Quiet(sandbox string) bool {
	w := a.Want(sandbox)
	return a.Phase == InAgent && !a.NoFix && w.Reach == Cannot && len(w.Outcomes) == 0 && w.Says == ""
}

// alike wants the same in every sandbox.
func alike(w Want) map[string]Want { return map[string]Want{Process: w, Bwrap: w, Docker: w} }

// kept wants one thing of plain processes and another where there is a file
// system and a process space of the candidate's own.
func kept(plain, isolated Want) map[string]Want {
	return map[string]Want{Process: plain, Bwrap: isolated, Docker: isolated}
}

func ends(says string, outcomes ...candidate.Outcome) Want {
	return Want{Outcomes: outcomes, Says: says}
}

// refused is the end of a candidate whose tree cannot be taken.
func refused(says string) map[string]Want { return alike(ends(says, candidate.AgentFailed)) }

var (
	can    = Want{Reach: Can}
	cannot = Want{Reach: Cannot}
	noise  = Want{}
)

// lost is every outcome that cannot win.
var lost = slices.DeleteFunc(slices.Clone(candidate.Outcomes), func(o candidate.Outcome) bool {
	return o == candidate.Met || o == candidate.Infrastructure
})

// Attacks lists all of them.
func Attacks() []Attack {
	return slices.Concat(outside(), secrets(), gitDisguises(), names(), treeThings(), processes(), kernel(), calls(), resources(), network(), tools(), terminal(), during(), cheats(), rounds())
}

// Named finds an attack.
func Named(name string) (Attack, bool) {
	all := Attacks()
	i := slices.IndexFunc(all, func(a Attack) bool { return a.Name == name })
	if i < 0 {
		return Attack{}, false
	}
	return all[i], true
}
