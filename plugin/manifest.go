// Package plugin reads what plugins declare: the manifest, the contents of a
// package, and the text that a person agrees to. It does no I/O. What a plugin
// does is never guessed from its code: the manifest is the whole contract.
package plugin

import (
	"time"

	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/plugin/run"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// ManifestName is the name of the manifest in a package.
const ManifestName = "plugin.toml"

// A Name identifies a plugin, whatever its directory is called.
type Name string

// A Manifest is what a plugin.toml declares. Parse makes one; its lists are in
// the file's order, its maps' entries in byte order of their names.
type Manifest struct {
	Name         Name
	Description  string
	Loop         Loop
	Requirements []judge.Requirement
	Oracle       *Oracle
	Subloop      []string // its stages
	Roles        []Role
	Wrapper      *Wrapper
	Runtime      *Runtime
	Capabilities []Capability
	Tools        []Declared
	Skills       []Declared
	Records      []Declared
	Configure    []Setting
	Driver       *Driver
}

// Loop is how much say the plugin asks for.
type Loop struct {
	Level          Level
	Hooks          []Hook       // exhaustive
	Points         []wire.Point // exhaustive
	Calls          []Call       // exhaustive
	MaxCalls       *uint32
	MaxFanoutWidth *uint32
	MaxHolds       *uint32 // nil: as often as the host allows
}

// An Oracle is how an arbiter's requirements are decided.
type Oracle struct {
	Command      *Command // shown, never run by the host; nil: the runtime's process
	Flip         judge.FlipPolicy
	Measurements []string
	Checks       []judge.Check
}

// A Command is a program with its arguments and its time.
type Command struct {
	Argv    []string
	Seconds uint64
}

// A Role is a name that the plugin gives to a tier of models.
type Role struct{ Name, Tier string }

// A Wrapper describes the turn that the plugin wants around the candidate's.
type Wrapper struct {
	ID         string
	Stages     []Stage
	Candidates int // how many candidates it asks for; 0 is no wish
}

// A Stage is one step of a wrapper.
type Stage struct {
	Name string
	If   string // the condition as written, "" for none
	Own  bool   // it is not one of the host's
}

// A Runtime is the plugin's process.
type Runtime struct {
	Argv     []string // as written, with ${plugin_dir}
	Seconds  uint64   // what it asks for; see Timeout
	Env      []string
	Protocol uint32 // 1 unless it says 2
}

// Timeout is how long an exchange may take.
func (r *Runtime) Timeout() time.Duration {
	if r.Seconds > uint64(run.MaxTimeout/time.Second) {
		return run.MaxTimeout
	}
	return run.Timeout(time.Duration(r.Seconds) * time.Second)
}

// A Capability is something that the plugin asks to reach outside the turn.
type Capability struct {
	Tool    string
	Risk    Risk
	Said    string // the risk as written
	Purpose string
	Scope   []string // the author's claims; nothing enforces them
}

// A Risk grades a capability.
type Risk int

// The risks in order. What a manifest calls anything else is the worst.
const (
	Low Risk = iota
	Medium
	High
	Destructive
)

func (r Risk) String() string { return [...]string{"low", "medium", "high", "destructive"}[r] }

func riskOf(word string) Risk {
	for r := Low; r < Destructive; r++ {
		if word == r.String() {
			return r
		}
	}
	return Destructive
}

// A Declared is content of the package that the manifest names: a tool by its
// name, a skill by its slug, a record by its lineage.
type Declared struct{ Name, Description string }

// A Setting is a change to the user's configuration that the plugin asks for.
type Setting struct {
	Key     string
	Value   string // as TOML writes it
	Purpose string
}

// A Driver asks to drive work that spans turns.
type Driver struct {
	Calls    []string
	MaxCalls *uint32
}

// Driven is the name under which the plugin is addressed on the wire and
// selected: its wrapper's id, or its own name.
func (m *Manifest) Driven() string {
	if m.Wrapper != nil && m.Wrapper.ID != "" {
		return m.Wrapper.ID
	}
	return string(m.Name)
}

// Rule is the plugin's definition of done, for the judge. A plugin that is no
// arbiter has none.
func (m *Manifest) Rule() judge.Rule {
	r := judge.Rule{Requirements: m.Requirements}
	if o := m.Oracle; o != nil {
		r.Oracle = &judge.Oracle{Flip: o.Flip, Measurements: o.Measurements, Checks: o.Checks}
	}
	return r
}

// Holds is what the plugin asks for as judge.Again takes it.
func (m *Manifest) Holds() *int {
	if m.Loop.MaxHolds == nil {
		return nil
	}
	n := int(*m.Loop.MaxHolds)
	return &n
}

// RoleNames lists the names that a before_turn response may choose from.
func (m *Manifest) RoleNames() []string {
	names := make([]string, len(m.Roles))
	for i, r := range m.Roles {
		names[i] = r.Name
	}
	return names
}
