package mcp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/internal/stricttoml"
)

// ErrNoServer means that a file has no entry of a name.
var ErrNoServer = errors.New("no such MCP server is configured")

// errByHand means that a file is TOML of a kind that no edit was found for.
var errByHand = errors.New("the file is written in a way that only a person can change: edit it by hand")

// A setting is one key of an entry and what it is to be; a nil value removes
// the key.
type setting struct {
	key   string
	value any // string, bool, []string, map[string]string or nil
}

// SetGranted writes the answer of a grant into the entry of a name, and leaves
// every other byte of the file as it is.
func SetGranted(text []byte, name string, granted bool) ([]byte, error) {
	return edit(text, name, []setting{{"granted", granted}})
}

// SetCandidateSafe writes whether candidates may reach a server.
func SetCandidateSafe(text []byte, name string, safe bool) ([]byte, error) {
	return edit(text, name, []setting{{"candidate_safe", safe}})
}

// PutServer writes a server: a new entry at the end of the file, or over the
// keys that the entry of its name has. Keys that an mcp.toml does not know,
// comments and order are left as they are.
func PutServer(text []byte, s Server) ([]byte, error) {
	if err := CheckServer(s); err != nil {
		return nil, err
	}
	raw, err := parse("mcp.toml", text)
	if err != nil {
		return nil, err
	}
	if _, exists := entryOf(raw, s.Name); !exists {
		return addServer(text, raw, s)
	}
	return edit(text, s.Name, s.settings())
}

// RemoveServer removes the entry of a name with all that is in it. Comments
// above it stay.
func RemoveServer(text []byte, name string) ([]byte, error) {
	raw, err := parse("mcp.toml", text)
	if err != nil {
		return nil, err
	}
	if _, exists := entryOf(raw, name); !exists {
		return nil, ErrNoServer
	}
	out := drop(string(text), []any{"servers", name})
	delete(raw["servers"].(map[string]any), name)
	return checked(out, raw)
}

// settings are all keys of a server.
func (s *Server) settings() []setting {
	list := []setting{{"transport", string(s.Transport)}, {"cmd", nil}, {"args", nil}, {"env", nil}, {"url", nil}, {"headers", nil}}
	if s.Transport == Stdio {
		list[1].value = s.Cmd
		if len(s.Args) > 0 {
			list[2].value = s.Args
		}
		if len(s.Env) > 0 {
			list[3].value = s.Env
		}
	} else {
		list[4].value = s.URL
		if len(s.Headers) > 0 {
			list[5].value = s.Headers
		}
	}
	list = append(list, setting{"candidate_safe", s.CandidateSafe}, setting{"granted", nil})
	if s.Granted != nil {
		list[len(list)-1].value = *s.Granted
	}
	for _, c := range s.card() {
		if list = append(list, setting{c.key, nil}); *c.field != "" {
			list[len(list)-1].value = *c.field
		}
	}
	return list
}

// addServer appends an entry.
func addServer(text []byte, raw map[string]any, s Server) ([]byte, error) {
	servers, ok := raw["servers"].(map[string]any)
	if !ok && raw["servers"] != nil {
		return nil, errByHand
	}
	if !ok {
		servers = map[string]any{}
		raw["servers"] = servers
	}
	table := map[string]any{}
	var lines, pairs []string
	for _, set := range s.settings() {
		if set.value != nil {
			table[set.key] = asRaw(set.value)
			pairs = append(pairs, set.key+" = "+literal(set.value))
		}
	}
	servers[s.Name] = table
	out := string(text)
	if inline := find(out, []any{"servers"}); inline != nil && !inline.Header {
		return checked(insertInline(out, *inline, writtenKey(s.Name)+" = { "+strings.Join(pairs, ", ")+" }"), raw)
	}
	nl := newlineOf(out)
	if out != "" {
		if !strings.HasSuffix(out, "\n") {
			out += nl
		}
		lines = append(lines, "")
	}
	lines = append(lines, "[servers."+writtenKey(s.Name)+"]")
	lines = append(lines, pairs...)
	return checked(out+strings.Join(lines, nl)+nl, raw)
}

// edit writes settings into an entry that exists.
func edit(text []byte, name string, settings []setting) ([]byte, error) {
	raw, err := parse("mcp.toml", text)
	if err != nil {
		return nil, err
	}
	table, exists := entryOf(raw, name)
	if !exists {
		return nil, ErrNoServer
	}
	out := string(text)
	for _, set := range settings {
		path := []any{"servers", name, set.key}
		old, had := table[set.key]
		switch {
		case set.value == nil && !had, had && sameRaw(old, asRaw(set.value)):
			continue
		case set.value == nil:
			out = drop(out, path)
			delete(table, set.key)
			continue
		}
		if out, err = put(out, path, literal(set.value)); err != nil {
			return nil, err
		}
		table[set.key] = asRaw(set.value)
	}
	return checked(out, raw)
}

// put writes the value of one key of an entry.
func put(text string, path []any, literal string) (string, error) {
	if s := find(text, path); s != nil && !s.Header {
		return text[:s.Value] + literal + text[s.End:], nil
	}
	text = drop(text, path) // a table of its own, or dotted keys
	entry := path[:2]
	if s := find(text, entry); s != nil && !s.Header {
		return insertInline(text, *s, writtenKey(path[2].(string))+" = "+literal), nil
	}
	var after *stricttoml.Span
	spans := stricttoml.Spans([]byte(text))
	for i, s := range spans {
		own := slices.Equal(s.Table, entry) // below its header, or the header itself
		dotted := !s.Header && len(s.Table) < len(entry) && hasPrefix(s.Path, entry)
		if s.Depth == 0 && (own || dotted) {
			after = &spans[i]
		}
	}
	if after == nil {
		return "", errByHand
	}
	keys := make([]string, 0, len(path))
	for _, k := range path[min(len(after.Table), len(path)):] {
		keys = append(keys, writtenKey(fmt.Sprint(k)))
	}
	begin, end := lineAround(text, *after)
	indent := text[begin:after.Start]
	nl := newlineOf(text)
	if line := indent + strings.Join(keys, ".") + " = " + literal; strings.HasSuffix(text[:end], "\n") {
		return text[:end] + line + nl + text[end:], nil
	} else {
		return text + nl + line, nil
	}
}

// drop removes everything that a path leads to.
func drop(text string, path []any) string {
	type cut struct{ from, to int }
	var cuts []cut
	inside := func(s stricttoml.Span) bool {
		return len(cuts) > 0 && s.Start < cuts[len(cuts)-1].to
	}
	spans := stricttoml.Spans([]byte(text))
	for i := 0; i < len(spans); i++ {
		s := spans[i]
		if !hasPrefix(s.Path, path) || inside(s) {
			continue
		}
		switch {
		case s.Header:
			last := s
			for _, next := range spans[i+1:] {
				if next.Header {
					break
				}
				if next.Depth == 0 {
					last = next
				}
			}
			from, _ := lineAround(text, s)
			_, to := lineAround(text, last)
			if rest := text[to:]; rest == "" || strings.HasPrefix(rest, "\n") || strings.HasPrefix(rest, "\r\n") {
				from = withBlankLine(text, from)
			}
			cuts = append(cuts, cut{from, to})
		case s.Depth == 0:
			from, to := lineAround(text, s)
			cuts = append(cuts, cut{from, to})
		default:
			from, to := elementAround(text, s)
			cuts = append(cuts, cut{from, to})
		}
	}
	for _, c := range slices.Backward(cuts) {
		text = text[:c.from] + text[c.to:]
	}
	return text
}

// withBlankLine moves the beginning of a line before an empty one.
func withBlankLine(text string, from int) int {
	for _, blank := range []string{"\r\n", "\n"} {
		if before, ok := strings.CutSuffix(text[:from], blank); ok && strings.HasSuffix(before, "\n") {
			return len(before)
		}
	}
	return from
}

// lineAround is where the lines of a statement begin and end, the end of the
// line included.
func lineAround(text string, s stricttoml.Span) (begin, end int) {
	begin = strings.LastIndexByte(text[:s.Start], '\n') + 1
	if begin == 0 && strings.HasPrefix(text, "\ufeff") {
		begin = len("\ufeff")
	}
	if n := strings.IndexByte(text[s.End:], '\n'); n >= 0 {
		return begin, s.End + n + 1
	}
	return begin, len(text)
}

// elementAround is where an element of an inline table begins and ends, with
// one of the commas around it.
func elementAround(text string, s stricttoml.Span) (from, to int) {
	if rest := strings.TrimLeft(text[s.End:], " \t"); strings.HasPrefix(rest, ",") {
		return s.Start, len(text) - len(strings.TrimLeft(rest[1:], " \t"))
	}
	if before := strings.TrimRight(text[:s.Start], " \t"); strings.HasSuffix(before, ",") {
		return len(before) - 1, s.End
	}
	return s.Start, s.End
}

// insertInline adds an element to the inline table that is the value of s.
func insertInline(text string, s stricttoml.Span, element string) string {
	last := -1
	for _, inner := range stricttoml.Spans([]byte(text)) {
		if inner.Start > s.Value && inner.End < s.End && inner.Depth == s.Depth+1 {
			last = inner.End
		}
	}
	if last < 0 {
		return text[:s.Value] + "{ " + element + " }" + text[s.End:]
	}
	return text[:last] + ", " + element + text[last:]
}

// find is the one statement that a path names, nil if there is none.
func find(text string, path []any) *stricttoml.Span {
	for _, s := range stricttoml.Spans([]byte(text)) {
		if slices.Equal(s.Path, path) {
			return &s
		}
	}
	return nil
}

func hasPrefix(path, prefix []any) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

func newlineOf(text string) string {
	if strings.Contains(text, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// checked returns the edited text if it says what it has to say.
func checked(text string, want map[string]any) ([]byte, error) {
	got, err := parse("mcp.toml", []byte(text))
	if err != nil || !sameRaw(withoutEmpty(got), withoutEmpty(want)) {
		return nil, errByHand
	}
	return []byte(text), nil
}

// withoutEmpty leaves out an empty table of servers, which is as good as none.
func withoutEmpty(raw map[string]any) map[string]any {
	if servers, ok := raw["servers"].(map[string]any); ok && len(servers) == 0 {
		raw = maps.Clone(raw)
		delete(raw, "servers")
	}
	return raw
}

// entryOf finds the table of an entry.
func entryOf(raw map[string]any, name string) (map[string]any, bool) {
	servers, _ := raw["servers"].(map[string]any)
	table, ok := servers[name].(map[string]any)
	return table, ok
}
