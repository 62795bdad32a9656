package tool

import (
	"fmt"
	"slices"
	"strings"
)

// An AllowList says which tools may be called. Without one of their own,
// operators have the built-in one: every native tool, the door among them. A
// list that was written replaces it whole.
type AllowList struct {
	Written bool
	Names   []string
}

// NewAllowList is the list of a configuration; nil is one that does not write
// any.
func NewAllowList(written []string, natives []string) AllowList {
	if written == nil {
		return AllowList{Names: natives}
	}
	return AllowList{Written: true, Names: written}
}

// listed is how refusals name the list.
const listed = "the allow-list ([tools] allow in $BESTOF_HOME/config.toml)"

// A NotAllowedError is a refusal that names the tool and the list.
type NotAllowedError struct {
	Tool   string
	Remedy string
}

func (e *NotAllowedError) Error() string {
	return fmt.Sprintf("the tool %q is not in %s: %s", e.Tool, listed, e.Remedy)
}

// Outer decides about a tool by its name on the wire.
func (l AllowList) Outer(name string) error {
	if slices.Contains(l.Names, name) {
		return nil
	}
	return &NotAllowedError{Tool: name, Remedy: "a list that is written replaces the built-in one whole, so add the name to it"}
}

// Inner decides about a tool behind the door: being live is an entry of its
// own in the list. pending says that a file of the name waits to be approved.
func (l AllowList) Inner(name Name, set Set, pending bool) error {
	if _, ok := set.Find(name); ok {
		return nil
	}
	if pending {
		return &NotAllowedError{Tool: string(name), Remedy: "it is pending, and only the operator makes it live, with `bestof tool approve`"}
	}
	return &NotAllowedError{Tool: string(name), Remedy: "no tool of that name is live; " + liveNames(set)}
}

// liveNames tells what could have been meant.
func liveNames(set Set) string {
	if len(set.Tools) == 0 {
		return "none is"
	}
	var names []string
	for _, n := range set.Names() {
		names = append(names, string(n))
	}
	return "live are " + strings.Join(names, ", ")
}
