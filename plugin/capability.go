package plugin

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Two capabilities whose names say what they ask for, whatever the host.
const (
	// NetworkTool asks for a network. Without it a plugin's process, its hooks
	// and its tools have none.
	NetworkTool = "network"
	// SpawnTool asks to start programs. A plugin's process can do that without
	// asking: what it starts is in its sandbox, has nothing that the process has
	// not, and ends with it.
	SpawnTool = "process_spawn"
)

// A Use is what asking for a capability comes to on this host. What was not
// asked for and agreed to is refused when it is used; a capability that is
// neither of the first three is refused although it was asked for, since there
// is nothing here that it could name.
type Use int

// The uses.
const (
	NotHere Use = iota // this host has no such tool for plugins
	Reaches            // the network
	Inside             // within the plugin's own sandbox, where it takes nothing to be allowed
	OwnTool            // a tool of the package, up to the risk that is named
)

// UseOf says what a capability comes to. It depends on nothing but its name:
// how much say the plugin has in a turn does not widen or narrow it.
func (m *Manifest) UseOf(c Capability) Use {
	switch {
	case c.Tool == NetworkTool:
		return Reaches
	case c.Tool == SpawnTool:
		return Inside
	case slices.ContainsFunc(m.Tools, func(d Declared) bool { return d.Name == c.Tool }):
		return OwnTool
	}
	return NotHere
}

// Network reports whether the manifest asks for the network.
func (m *Manifest) Network() bool {
	return slices.ContainsFunc(m.Capabilities, func(c Capability) bool { return c.Tool == NetworkTool })
}

// RiskOf is the grade of a tool of the package: its own word, else that of the
// capability that names it, else medium, since it can change its candidate's
// files and nothing else.
func (m *Manifest) RiskOf(t Tool) Risk {
	if t.Said != "" {
		return t.Risk
	}
	if c, ok := m.capability(t.Name); ok {
		return c.Risk
	}
	return Medium
}

// Refuses says why a tool of the package may not be called, "" when it may. To
// ship a tool is to ask for it, and people agree to it by its name; but an author
// who graded it in [[capabilities]] is held to that grade.
func (m *Manifest) Refuses(t Tool) string {
	c, ok := m.capability(t.Name)
	if !ok || t.Said == "" || t.Risk <= c.Risk {
		return ""
	}
	return fmt.Sprintf("its tool %s is refused when it is called: it says that its risk is %s, and [[capabilities]] asks for it as %s", word(t.Name), t.Risk, c.Risk)
}

func (m *Manifest) capability(tool string) (Capability, bool) {
	i := slices.IndexFunc(m.Capabilities, func(c Capability) bool { return c.Tool == tool })
	if i < 0 {
		return Capability{}, false
	}
	return m.Capabilities[i], true
}

// Schema is the tool's input schema in JSON. A tool that has none takes any
// object.
func (t Tool) Schema() json.RawMessage {
	if t.InputSchema != nil {
		if b, err := json.Marshal(t.InputSchema); err == nil {
			return b
		}
	}
	return json.RawMessage(`{"type":"object"}`)
}
