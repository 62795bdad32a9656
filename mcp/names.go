package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxWireName is the longest tool name that every model provider takes; the
// characters are [A-Za-z0-9_-].
const MaxWireName = 64

const wirePrefix = "mcp__"

// CheckName says why a name cannot be an entry's name in mcp.toml: "an entry
// name can't contain __ and can't start or end with _".
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("a server's name is empty")
	case strings.Contains(name, "__"):
		return fmt.Errorf("server name %q contains __, which separates server and tool in a tool's name: rename the entry", name)
	case strings.HasPrefix(name, "_"), strings.HasSuffix(name, "_"):
		return fmt.Errorf("server name %q starts or ends with _, which would make tool names ambiguous: rename the entry", name)
	case len(name) > 128:
		return fmt.Errorf("server name %.20q… is longer than 128 bytes: rename the entry", name)
	}
	for _, r := range name {
		if r < 0x20 || r == 0x7f || r == '\uFFFD' {
			return fmt.Errorf("server name %q contains a control character: rename the entry", name)
		}
	}
	return nil
}

// WireName is what a tool is advertised as: mcp__<server>__<tool>, where that
// is within what model providers take. Any other name is made of its legal
// characters and a digest of the whole, so that two different tools do not
// meet; a Table still checks that they did not.
func WireName(server, tool string) string {
	plain := wirePrefix + server + "__" + tool
	if len(plain) <= MaxWireName && tool != "" && strings.IndexFunc(plain, illegal) < 0 {
		return plain
	}
	sum := sha256.Sum256([]byte(server + "\x00" + tool))
	digest := "-" + hex.EncodeToString(sum[:6])
	// The server's part is cut by itself, so that its end can still be seen.
	name := wirePrefix + cut(legal(server), maxServerPart) + "__" + legal(tool)
	return cut(name, MaxWireName-len(digest)) + digest
}

// maxServerPart is how much of a server's name a name with a digest keeps.
const maxServerPart = 32

// SplitWireName gives the two parts of a wire name: what stands between mcp__
// and the __ after it, which is the server's name where that is legal and not
// long, and the rest. Agents that make mcp__<server>__<tool> of a configured
// name and an advertised one get the wire name back from these two.
func SplitWireName(name string) (server, tool string, ok bool) {
	rest, ok := strings.CutPrefix(name, wirePrefix)
	if !ok {
		return "", "", false
	}
	server, tool, ok = strings.Cut(rest, "__")
	return server, tool, ok && server != "" && tool != ""
}

func legal(s string) string {
	return strings.Map(func(r rune) rune {
		if illegal(r) {
			return '-'
		}
		return r
	}, s)
}

func cut(s string, n int) string { return s[:min(len(s), n)] }

func illegal(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
}

// A Route is where a wire name leads.
type Route struct{ Server, Tool string }

// Table maps wire names to routes. It is built once; names that two routes
// claim lead nowhere and are in Colliding.
type Table struct {
	routes    map[string]Route
	Names     []string // sorted
	Colliding []string // sorted
}

// NewTable names every route. A route given twice is one claim.
func NewTable(routes []Route) *Table {
	t := &Table{routes: map[string]Route{}}
	colliding := map[string]bool{}
	for _, r := range routes {
		name := WireName(r.Server, r.Tool)
		if other, ok := t.routes[name]; ok && other != r {
			colliding[name] = true
		}
		t.routes[name] = r
	}
	for name := range t.routes {
		if colliding[name] {
			delete(t.routes, name)
			t.Colliding = append(t.Colliding, name)
			continue
		}
		t.Names = append(t.Names, name)
	}
	slices.Sort(t.Names)
	slices.Sort(t.Colliding)
	return t
}

// Route finds the route of a name exactly as it was advertised.
func (t *Table) Route(name string) (Route, bool) {
	r, ok := t.routes[name]
	return r, ok
}
