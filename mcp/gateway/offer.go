package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/mcp"
)

// Why a server or a tool is withheld from candidates. Each completes "withheld
// from candidates: …".
const (
	NotCandidateSafe = "its server is not marked candidate_safe in mcp.toml"
	NotGranted       = "its server is not granted (bestof mcp grant)"
	Changed          = "what its server declares has changed since it was granted (bestof mcp grant)"
)

// An Offer says what candidates may see of one server. What is withheld is
// never listed, and a call of it is answered with the reason.
type Offer struct {
	Server string
	Tools  []mcp.Tool

	// Withheld is why candidates may not use any tool of the server, "" if
	// they may. Then Tools may be empty.
	Withheld string

	// WithheldTools are single tools that they may not use, and why.
	WithheldTools map[string]string
}

// Offers decides what candidates see of what connected servers declared: the
// tools of servers that may be used and that somebody marked candidate_safe,
// but for those which changed, a reason for each route whose fingerprint is
// not what was granted. A route without a tool stands for the whole server.
func Offers(declared []mcp.Declared, changed map[mcp.Route]string) []Offer {
	offers := make([]Offer, 0, len(declared))
	for _, d := range declared {
		o := Offer{Server: d.Server.Name, Tools: d.Tools, WithheldTools: map[string]string{}}
		switch reason := changed[mcp.Route{Server: o.Server}]; {
		case !d.Server.CandidateSafe:
			o.Withheld = NotCandidateSafe
		case !d.Server.Usable():
			o.Withheld = NotGranted
		case reason != "":
			o.Withheld = reason
		}
		for _, t := range d.Tools {
			if reason := changed[mcp.Route{Server: o.Server, Tool: t.Name}]; reason != "" {
				o.WithheldTools[t.Name] = reason
			}
		}
		offers = append(offers, o)
	}
	return offers
}

// An entry is what a wire name leads to.
type entry struct {
	route    mcp.Route
	tool     mcp.Tool
	local    *Local
	withheld string // why a candidate may not call it
}

// A surface is what candidates see and what their names lead to. It is built
// once and the same for all of them.
type surface struct {
	entries   map[string]entry
	names     []string          // offered, sorted
	colliding []string          // sorted
	servers   map[string]string // part of a wire name → why the whole server is withheld
	groups    map[string]group  // part of a wire name → what /mcp/<part> lists
	list      json.RawMessage   // what /mcp lists
}

// A group is one /mcp/<part>: the tools whose wire name is mcp__<part>__….
type group struct {
	list    json.RawMessage
	offered int
}

// survey gives every tool its wire name and leads nowhere from names that two
// tools claim.
func survey(offers []Offer, locals []Local) (*surface, error) {
	s := &surface{entries: map[string]entry{}, servers: map[string]string{}, groups: map[string]group{}}
	claims := map[string]int{}
	claim := func(e entry) {
		name := mcp.WireName(e.route.Server, e.route.Tool)
		if old, ok := s.entries[name]; ok && old.route == e.route && old.local == nil && e.local == nil {
			return // one server's tool, said twice
		}
		claims[name]++
		s.entries[name] = e
	}
	for _, o := range offers {
		if o.Withheld != "" {
			part, _, _ := mcp.SplitWireName(mcp.WireName(o.Server, "x"))
			s.servers[part] = o.Withheld
		}
		for _, t := range o.Tools {
			reason := o.Withheld
			if reason == "" {
				reason = o.WithheldTools[t.Name]
			}
			claim(entry{route: mcp.Route{Server: o.Server, Tool: t.Name}, tool: t, withheld: reason})
		}
	}
	for i := range locals {
		l := &locals[i]
		claim(entry{route: mcp.Route{Server: l.Server, Tool: l.Tool.Name}, tool: l.Tool, local: l})
	}
	for name, n := range claims {
		if n > 1 {
			delete(s.entries, name)
			s.colliding = append(s.colliding, name)
		} else if s.entries[name].withheld == "" {
			s.names = append(s.names, name)
		}
	}
	slices.Sort(s.names)
	slices.Sort(s.colliding)
	return s, s.render()
}

// render writes the lists once: they are the same bytes for everybody.
func (s *surface) render() error {
	all, byPart := [][]byte{}, map[string][][]byte{}
	for _, name := range s.names {
		tool := s.entries[name].tool
		full, err := renderTool(tool, name)
		if err != nil {
			return err
		}
		all = append(all, full)
		part, short, ok := mcp.SplitWireName(name)
		if !ok {
			return fmt.Errorf("mcp tool %s has no server in its name", name)
		}
		cut, err := renderTool(tool, short)
		if err != nil {
			return err
		}
		byPart[part] = append(byPart[part], cut)
	}
	s.list = array(all)
	for part := range s.servers {
		s.groups[part] = group{list: array(nil)}
	}
	for name := range s.entries {
		if part, _, ok := mcp.SplitWireName(name); ok {
			s.groups[part] = group{list: array(byPart[part]), offered: len(byPart[part])}
		}
	}
	return nil
}

func renderTool(t mcp.Tool, name string) ([]byte, error) {
	t.Name = name
	if t.InputSchema == nil {
		t.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(t); err != nil {
		return nil, fmt.Errorf("mcp tool %s: %w", name, err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

func array(items [][]byte) json.RawMessage {
	return slices.Concat([]byte("["), bytes.Join(items, []byte(",")), []byte("]"))
}

// find says what a wire name leads to, or why to nothing.
func (s *surface) find(name string) (entry, *mcp.CallError) {
	e, ok := s.entries[name]
	if ok && e.withheld == "" {
		return e, nil
	}
	part, rest, _ := mcp.SplitWireName(name)
	refusal := &mcp.CallError{Server: oneName(part), Tool: oneName(rest), Kind: mcp.Withheld}
	withheld := func(reason string) (entry, *mcp.CallError) {
		refusal.Reason = "withheld from candidates: " + reason
		return e, refusal
	}
	if ok {
		refusal.Server, refusal.Tool = e.route.Server, e.route.Tool
		return withheld(e.withheld)
	}
	if _, found := slices.BinarySearch(s.colliding, name); found {
		return withheld("two tools claim this name")
	}
	if reason, ok := s.servers[part]; ok {
		return withheld(reason)
	}
	refusal.Kind, refusal.Reason = mcp.Unknown, "there is no tool "+oneName(name)
	if near := s.near(part); near != "" {
		refusal.Reason += "; there is: " + near
	}
	return e, refusal
}

func oneName(s string) string { return term.Clean(s, 80).String() }

// near names some tools that there are.
func (s *surface) near(part string) string {
	names := slices.DeleteFunc(slices.Clone(s.names), func(n string) bool { return !strings.HasPrefix(n, "mcp__"+part+"__") })
	if len(names) == 0 {
		names = s.names
	}
	if len(names) > 8 {
		return strings.Join(names[:8], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// parts are the groups that offer something, sorted.
func (s *surface) parts() []string {
	parts := []string{}
	for part, g := range s.groups {
		if g.offered > 0 {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return parts
}
