package plugin

import (
	"fmt"
	"slices"

	"github.com/bestof-dev/bestof/plugin/wire"
)

// A Level is how much say a plugin has in a turn. Each includes those before
// it, and the zero value has none.
type Level int

const (
	None     Level = iota // never part of a turn
	Observer              // watches, changes nothing
	Steering              // adds context, and rewrites or refuses tool calls
	Arbiter               // also decides whether the turn is finished
)

func (l Level) String() string { return [...]string{"none", "observer", "steering", "arbiter"}[l] }

func levelOf(word string) (Level, bool) {
	for l := None; l <= Arbiter; l++ {
		if word == l.String() {
			return l, true
		}
	}
	return None, false
}

// A Hook is a moment of a session at which a plugin can be told or asked.
type Hook string

// The hooks, in the order in which they are listed to people.
const (
	SessionStart Hook = "SessionStart"
	PreToolUse   Hook = "PreToolUse"
	PostToolUse  Hook = "PostToolUse"
	Stop         Hook = "Stop"
	PreCompact   Hook = "PreCompact"
)

// Hooks lists them all.
func Hooks() []Hook { return []Hook{SessionStart, PreToolUse, PostToolUse, Stop, PreCompact} }

// lifecycle hooks belong to a loop around turns, which no plugin can join.
var lifecycle = []string{"PreIssueWork", "PostIssueWork"}

// A Call is something that a plugin may ask of the host while it answers.
type Call string

const (
	Recall          Call = "recall"
	ChildTurn       Call = "child_turn"
	RunTest         Call = "run_test"
	CandidateFanout Call = "candidate_fanout"
	AdoptCandidate  Call = "adopt_candidate"
)

var calls = []Call{Recall, ChildTurn, RunTest, CandidateFanout, AdoptCandidate}

// RunsHook reports whether the plugin may be called at a hook: it must have
// declared it, and its level must allow it.
func (l Loop) RunsHook(h Hook) bool {
	return l.Level >= needs(h) && slices.Contains(l.Hooks, h)
}

// Answers reports whether the plugin may be asked at a point.
func (l Loop) Answers(p wire.Point) bool { return l.Level >= Steering && slices.Contains(l.Points, p) }

// MayCall reports whether the plugin may make a call.
func (l Loop) MayCall(c Call) bool { return l.Level >= Steering && slices.Contains(l.Calls, c) }

// MayHold reports whether the plugin may hold a turn.
func (l Loop) MayHold() bool { return l.Level >= Arbiter }

func needs(h Hook) Level {
	if h == Stop {
		return Arbiter
	}
	return Steering
}

// A Host says what of a plugin's wishes a host acts on.
type Host struct {
	Hooks []Hook
	Calls []Call
	Tools bool // package tools are offered to candidates
}

// Unoffered says in plain words, one line each, what the package asks for that
// the host does not act on, or refuses.
func (p *Package) Unoffered(h Host) []string {
	lines := p.Manifest.Unoffered(h)
	for _, t := range p.PackageTools {
		if refused := p.Refuses(t); refused != "" {
			lines = append(lines, refused)
		}
	}
	return lines
}

// Unoffered is what can be said of a manifest alone.
func (m *Manifest) Unoffered(h Host) []string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, hook := range m.Loop.Hooks {
		if !slices.Contains(h.Hooks, hook) {
			say("it is not called at %s: this host does not call plugins there", hook)
		} else if hook == PreToolUse || hook == PostToolUse {
			say("it is not called at %s for tools that an agent brings itself, such as its shell: those calls happen inside the agent, where this host sees nothing. It is called for the tools that this host offers, which have names like mcp__server__tool", hook)
		}
	}
	for _, c := range m.Loop.Calls {
		if !slices.Contains(h.Calls, c) {
			say("it cannot call %s: this host does not offer that call, and answers it with a failed exchange", c)
		}
	}
	if m.Driver != nil {
		say("it is not run as a driver: this host runs one task at a time, which a person starts")
	}
	if len(m.Subloop) > 0 {
		say("its stages in [subloop] are not run: the agent of a candidate has its own")
	}
	if len(m.Roles) > 0 {
		say("the roles that it chooses are not followed: the operator chooses the agents")
	}
	if m.Wrapper != nil && len(m.Wrapper.Stages) > 0 {
		say("its stages in [wrapper] are not run one by one, and their conditions are not looked at: it is asked once before the candidates start, and after each of their turns")
	}
	if len(m.Configure) > 0 {
		say("no setting is changed: this host has no configuration that a plugin may change")
	}
	if len(m.Tools) > 0 && !h.Tools {
		say("its tools are not offered to candidates: `bestof plugin call` calls them")
	}
	for _, c := range m.Capabilities {
		if m.UseOf(c) == NotHere {
			say("it does not get %s: this host has no such tool for plugins, and their sandbox is all that they have", word(c.Tool))
		}
	}
	if m.Loop.Level == Observer && m.Runtime != nil {
		say("its process is never started: nothing is delivered to an observer")
	}
	return lines
}
