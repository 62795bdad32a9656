package stricttoml

import (
	"strconv"
	"strings"
)

// Positions knows in which line of a document each key and each element of a
// list stands.
type Positions struct{ lines map[string]int }

// Locate reads where things stand in a document that toml accepts. Of any
// other document it knows what comes before the first mistake.
func Locate(data []byte) Positions {
	s := &scanner{text: string(data), line: 1, lines: map[string]int{}, tables: map[string]int{}}
	s.document()
	return Positions{s.lines}
}

// Line returns the line of what path leads to: keys are strings and elements
// of lists are numbers from 0. For what is not there it is the line of the
// nearest thing around it, and 0 at the top.
func (p Positions) Line(path ...any) int {
	for n := len(path); n > 0; n-- {
		if line, ok := p.lines[join("", path[:n]...)]; ok {
			return line
		}
	}
	return 0
}

// join extends an encoded path. Keys are quoted, so no key looks like an index.
func join(path string, parts ...any) string {
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			path += "." + strconv.Quote(part)
		case int:
			path += "#" + strconv.Itoa(part)
		}
	}
	return path
}

// A scanner walks over a document that is known to be TOML, so it looks for
// the ends of things only. Every loop moves forward or stops.
type scanner struct {
	text   string
	i      int
	line   int
	depth  int
	lines  map[string]int
	tables map[string]int // how many tables an array of tables has so far

	spanning bool // collect spans
	spans    []Span
	table    string // of the last header
}

func (s *scanner) document() {
	table := ""
	for {
		s.space(true)
		switch {
		case s.i >= len(s.text):
			return
		case s.text[s.i] == '[':
			start, array := s.i, strings.HasPrefix(s.text[s.i:], "[[")
			s.skip(1)
			if array {
				s.skip(1)
			}
			line := s.line
			keys := s.keys()
			if len(keys) == 0 {
				return
			}
			table = s.resolve("", keys[:len(keys)-1], line)
			table = join(table, keys[len(keys)-1])
			s.note(table, line)
			if array {
				n := s.tables[table]
				s.tables[table]++
				table = join(table, n)
				s.note(table, line)
			} else if n := s.tables[table]; n > 0 {
				table = join(table, n-1)
			}
			end := s.begin(table, true, start)
			for s.i < len(s.text) && s.text[s.i] == ']' {
				s.skip(1)
			}
			end()
		default:
			if !s.pair(table) {
				return
			}
		}
	}
}

// resolve follows keys from a table: through an array of tables to its last.
func (s *scanner) resolve(table string, keys []string, line int) string {
	for _, k := range keys {
		table = join(table, k)
		s.note(table, line)
		if n := s.tables[table]; n > 0 {
			table = join(table, n-1)
		}
	}
	return table
}

func (s *scanner) note(path string, line int) {
	if _, known := s.lines[path]; !known {
		s.lines[path] = line
	}
}

// pair reads key = value.
func (s *scanner) pair(table string) bool {
	s.space(false)
	start, line := s.i, s.line
	keys := s.keys()
	if len(keys) == 0 || s.i >= len(s.text) || s.text[s.i] != '=' {
		return false
	}
	s.skip(1)
	for _, k := range keys {
		table = join(table, k)
		s.note(table, line)
	}
	s.space(false)
	end := s.begin(table, false, start)
	defer end()
	return s.value(table)
}

// keys reads a dotted key and the space around it.
func (s *scanner) keys() []string {
	var keys []string
	for {
		s.space(false)
		start := s.i
		if s.i < len(s.text) && (s.text[s.i] == '"' || s.text[s.i] == '\'') {
			quote := s.text[s.i]
			s.quoted()
			k := s.text[start:s.i]
			if quote == '"' {
				k = unquote(k)
			} else {
				k = strings.Trim(k, "'")
			}
			keys = append(keys, k)
		} else {
			for s.i < len(s.text) && !strings.ContainsRune(" \t\r\n.=]#", rune(s.text[s.i])) {
				s.skip(1)
			}
			if s.i == start {
				return nil
			}
			keys = append(keys, s.text[start:s.i])
		}
		s.space(false)
		if s.i >= len(s.text) || s.text[s.i] != '.' {
			return keys
		}
		s.skip(1)
	}
}

// unquote reads a basic string. TOML's escapes are Go's but for \e and \/.
func unquote(k string) string {
	if u, err := strconv.Unquote(strings.ReplaceAll(k, `\e`, `\x1b`)); err == nil {
		return u
	}
	return k
}

// value passes over one value and notes what is inside it.
func (s *scanner) value(path string) bool {
	if s.i >= len(s.text) || s.depth > 1000 {
		return false
	}
	s.depth++
	defer func() { s.depth-- }()
	switch s.text[s.i] {
	case '"', '\'':
		s.quoted()
		return true
	case '[':
		s.skip(1)
		for n := 0; ; n++ {
			s.space(true)
			if s.i < len(s.text) && s.text[s.i] == ']' {
				s.skip(1)
				return true
			}
			element := join(path, n)
			s.note(element, s.line)
			if !s.value(element) || !s.comma(']') {
				return false
			}
		}
	case '{':
		s.skip(1)
		for {
			s.space(true)
			if s.i < len(s.text) && s.text[s.i] == '}' {
				s.skip(1)
				return true
			}
			if !s.pair(path) || !s.comma('}') {
				return false
			}
		}
	}
	start := s.i
	for s.i < len(s.text) && !strings.ContainsRune(",]}#\r\n", rune(s.text[s.i])) {
		s.skip(1)
	}
	return s.i > start
}

// comma passes over the comma before another element, or stays before end.
func (s *scanner) comma(end byte) bool {
	s.space(true)
	switch {
	case s.i >= len(s.text):
		return false
	case s.text[s.i] == ',':
		s.skip(1)
		return true
	}
	return s.text[s.i] == end
}

// quoted passes over a string of any of the four kinds.
func (s *scanner) quoted() {
	quote := s.text[s.i : s.i+1]
	long := strings.HasPrefix(s.text[s.i:], strings.Repeat(quote, 3))
	if long {
		quote = strings.Repeat(quote, 3)
	}
	s.skip(len(quote))
	for s.i < len(s.text) {
		switch {
		case quote[0] == '"' && s.text[s.i] == '\\':
			s.skip(2)
		case strings.HasPrefix(s.text[s.i:], quote):
			s.skip(len(quote))
			for long && s.i < len(s.text) && s.text[s.i] == quote[0] {
				s.skip(1) // up to two quotes may stand before the closing ones
			}
			return
		case s.text[s.i] == '\n' && !long:
			return
		default:
			s.skip(1)
		}
	}
}

// space passes over blanks, and with lines also over line ends and comments.
func (s *scanner) space(lines bool) {
	for s.i < len(s.text) {
		switch c := s.text[s.i]; {
		case c == ' ' || c == '\t':
		case lines && (c == '\n' || c == '\r'):
		case lines && c == '#':
			for s.i+1 < len(s.text) && s.text[s.i+1] != '\n' {
				s.skip(1)
			}
		case s.i == 0 && strings.HasPrefix(s.text, "\ufeff"):
			s.skip(2)
		default:
			return
		}
		s.skip(1)
	}
}

func (s *scanner) skip(n int) {
	for ; n > 0 && s.i < len(s.text); n-- {
		if s.text[s.i] == '\n' {
			s.line++
		}
		s.i++
	}
}
