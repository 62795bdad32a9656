package stricttoml

import (
	"strconv"
	"strings"
)

// A Span is where a statement stands in a document, as offsets of bytes: a
// header in brackets, or a key with its value, which may stand inside an
// inline table.
type Span struct {
	Path   []any // keys are strings and elements of lists are numbers from 0
	Table  []any // of the header that the statement stands below, nil for the top; a header has itself
	Header bool
	Depth  int // how many inline tables and lists are around it; 0 is a statement with lines of its own
	Start  int
	Value  int // where the value begins; the End for a header
	End    int
}

// Spans lists the statements of a document that toml accepts, in the order in
// which they begin.
func Spans(data []byte) []Span {
	s := &scanner{text: string(data), line: 1, lines: map[string]int{}, tables: map[string]int{}, spanning: true}
	s.document()
	return s.spans
}

// begin notes a statement and returns how to note its end.
func (s *scanner) begin(path string, header bool, start int) (end func()) {
	if !s.spanning {
		return func() {}
	}
	n := len(s.spans)
	if header {
		s.table = path
	}
	s.spans = append(s.spans, Span{Path: split(path), Table: split(s.table), Header: header, Depth: s.depth, Start: start, Value: s.i})
	return func() {
		s.spans[n].End = s.spans[n].Value + len(strings.TrimRight(s.text[s.spans[n].Value:s.i], " \t"))
		if header {
			s.spans[n].End = s.i
			s.spans[n].Value = s.i
		}
	}
}

// split is the inverse of join.
func split(path string) []any {
	var parts []any
	for path != "" {
		if path[0] == '#' {
			digits := len(path) - len(strings.TrimLeft(path[1:], "0123456789"))
			n, _ := strconv.Atoi(path[1:digits])
			parts, path = append(parts, n), path[digits:]
			continue
		}
		quoted, err := strconv.QuotedPrefix(path[1:])
		if err != nil {
			return nil
		}
		key, _ := strconv.Unquote(quoted)
		parts, path = append(parts, key), path[1+len(quoted):]
	}
	return parts
}
