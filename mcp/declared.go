package mcp

import "time"

// Declared is what one connected server said of itself, bounded. It is frozen
// when the server has connected: what a server says later changes nothing.
type Declared struct {
	Server Server

	// What the server announced, for display only: never shown to an agent,
	// and cleaned when printed.
	Name, Version string
	Instructions  string // at most MaxDescription characters

	Protocol  string // the revision agreed upon
	Tools     []Tool // those that can be called, sorted by name
	Dropped   Dropped
	Connected time.Duration // from the start of the process or of the first request to the whole tool list
}

// Tool finds a tool that can be called by its name.
func (d Declared) Tool(name string) (Tool, bool) {
	for _, t := range d.Tools {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}

// Dropped says what a server listed and nobody can call.
type Dropped struct {
	OverCount  int      // tools over MaxTools; listing stopped there, so there may be more
	Duplicate  int      // tools whose name an earlier one has
	Invalid    int      // entries that are no tool
	OverBudget []string // names that did not fit into MaxAdvertised, sorted
}

// Any reports whether anything was dropped.
func (d Dropped) Any() bool {
	return d.OverCount+d.Duplicate+d.Invalid+len(d.OverBudget) > 0
}
