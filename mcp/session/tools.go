package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bestof-dev/bestof/mcp"
)

// maxToolName is the longest name of a tool in bytes. Titles are cut at
// maxTitle characters.
const (
	maxToolName = 256
	maxTitle    = 200
)

var anyObject = json.RawMessage(`{"type":"object"}`)

// A surface gathers what a server lists, within the limits of package mcp.
type surface struct {
	tools   []mcp.Tool
	seen    map[string]bool
	dropped mcp.Dropped
}

// page takes the entries of one page. It reports whether another page is of
// use: discovery stops where the limit on the number of tools is reached.
func (s *surface) page(entries []json.RawMessage) (more bool) {
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	for _, raw := range entries {
		tool, ok := parseTool(raw)
		switch {
		case !ok:
			s.dropped.Invalid++
		case s.seen[tool.Name]:
			s.dropped.Duplicate++
		case len(s.tools) == mcp.MaxTools:
			s.dropped.OverCount++
		default:
			s.seen[tool.Name] = true
			s.tools = append(s.tools, tool)
		}
	}
	return s.dropped.OverCount == 0
}

// done returns the tools that can be called, sorted by name: as many as fit
// into what a server may advertise, and always the first.
func (s *surface) done() ([]mcp.Tool, mcp.Dropped) {
	slices.SortFunc(s.tools, func(a, b mcp.Tool) int { return cmp.Compare(a.Name, b.Name) })
	kept, size := s.tools[:0:0], 0
	for _, t := range s.tools {
		n := len(t.Name) + len(t.Title) + len(t.Description) + len(t.InputSchema) + len(t.OutputSchema)
		if size+n > mcp.MaxAdvertised && len(kept) > 0 {
			s.dropped.OverBudget = append(s.dropped.OverBudget, t.Name)
			continue
		}
		size += n
		kept = append(kept, t)
	}
	return kept, s.dropped
}

// parseTool reads one entry of tools/list. It reports false for what is no
// tool: without a name that can be shown and sent back, or with a schema that
// is no object.
func parseTool(raw json.RawMessage) (mcp.Tool, bool) {
	var entry struct {
		Name         string          `json:"name"`
		Title        string          `json:"title"`
		Description  string          `json:"description"`
		InputSchema  json.RawMessage `json:"inputSchema"`
		OutputSchema json.RawMessage `json:"outputSchema"`
		Annotations  json.RawMessage `json:"annotations"`
	}
	if json.Unmarshal(raw, &entry) != nil || !toolName(entry.Name) {
		return mcp.Tool{}, false
	}
	t := mcp.Tool{
		Name:        entry.Name,
		Title:       cut(entry.Title, maxTitle),
		Description: cut(entry.Description, mcp.MaxDescription),
		Annotations: annotations(entry.Annotations),
	}
	var ok bool
	if t.InputSchema, ok = schema(entry.InputSchema); !ok {
		return mcp.Tool{}, false
	}
	if n := len(t.InputSchema); n > mcp.MaxSchema {
		t.InputSchema, t.Replaced = anyObject, true
		t.Description = strings.TrimSpace(t.Description + fmt.Sprintf(" [its input schema of %d bytes is left out: over the limit of %d]", n, mcp.MaxSchema))
	}
	if t.InputSchema == nil {
		t.InputSchema = anyObject
	}
	// What a result looks like is only a help, so it can be left out.
	if out, ok := schema(entry.OutputSchema); ok && len(out) <= mcp.MaxSchema {
		t.OutputSchema = out
	}
	return t, true
}

func toolName(name string) bool {
	return name != "" && len(name) <= maxToolName && utf8.ValidString(name) &&
		strings.IndexFunc(name, func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) }) < 0
}

// schema is raw without white space; nil when there is none.
func schema(raw json.RawMessage) (json.RawMessage, bool) {
	if isNull(raw) {
		return nil, true
	}
	var b bytes.Buffer
	if !isObject(raw) || json.Compact(&b, raw) != nil {
		return nil, false
	}
	return b.Bytes(), true
}

func annotations(raw json.RawMessage) *mcp.Annotations {
	var a mcp.Annotations
	if isNull(raw) || json.Unmarshal(raw, &a) != nil {
		return nil
	}
	a.Title = cut(a.Title, maxTitle)
	return &a
}

func isNull(raw json.RawMessage) bool {
	b := bytes.TrimSpace(raw)
	return len(b) == 0 || string(b) == "null"
}

func isObject(raw json.RawMessage) bool {
	b := bytes.TrimSpace(raw)
	return len(b) > 0 && b[0] == '{'
}

// cut returns at most n characters of s, with … for what was cut.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}
