package normalform

import (
	"regexp"
	"strings"
)

// scanShell reads shell scripts in the manner of sh and bash. Blanks between
// words and line ends are tokens; how many is not told.
func scanShell(t *tokens) {
	s := &shell{tokens: t}
	if t.sees("#!") {
		t.emit(t.restOfLine())
		t.at = len(t.restOfLine())
	}
	for t.more() {
		s.next()
	}
	if len(s.heredocs) > 0 {
		t.lose()
	}
	s.flush()
	s.lastLine()
}

type shell struct {
	*tokens
	part     strings.Builder // the word that is read
	blank    bool            // blanks are before the next word
	heredocs []heredoc       // that begin behind this line
}

type heredoc struct {
	end  string
	tabs bool // before its end
}

// flush ends a word.
func (s *shell) flush() {
	if s.part.Len() > 0 {
		s.emit(s.part.String())
		s.part.Reset()
	}
}

// separate puts one blank between words on a line.
func (s *shell) separate() {
	if s.blank && s.last != "" && s.last != "\n" {
		s.emit(" ")
	}
	s.blank = false
}

// add takes the next n bytes to the word.
func (s *shell) add(n int) {
	if s.part.Len() == 0 {
		s.separate()
	}
	s.part.WriteString(s.rest()[:n])
	s.at += n
}

// control takes the next n bytes as a token of their own.
func (s *shell) control(n int) {
	s.flush()
	s.separate()
	s.take(n)
}

var heredocWord = regexp.MustCompile(`^<<(-?)[ \t]*(?:'([^'\n]+)'|"([^"\n\\$` + "`" + `]+)"|\\?([A-Za-z_][A-Za-z0-9_.-]*))`)

func (s *shell) next() {
	c := s.peek(0)
	switch {
	case c == '\n':
		s.newline()
	case isBlank(c):
		s.flush()
		s.blank = true
		s.at++
	case c == '#' && s.part.Len() == 0 && (s.blank || s.last == "" || s.last == "\n" || s.last == ";" || s.last == "&" || s.last == "|"):
		s.at += len(s.restOfLine())
	case c == '#' && s.part.Len() == 0:
		s.lose() // after a bracket
	case c == '\\':
		s.add(min(2, len(s.rest())))
	case c == '\'':
		s.single()
	case s.sees("$'"):
		s.escaped()
	case c == '"', s.sees(`$"`):
		s.span(s.double(s.at + strings.IndexByte(s.rest(), '"')))
	case s.sees("${"):
		s.span(s.nest(s.at+2, '}') - s.at)
	case c == '`':
		s.span(s.backtick(s.at) - s.at)
	case s.sees("<<<"):
		s.control(3)
	case s.sees("<<"):
		s.heredoc()
	case strings.IndexByte(";&|()<>", c) >= 0:
		s.control(1)
	case c == '$' && s.peek(1) == '#':
		s.add(2)
	default:
		s.add(1)
	}
}

// span takes n bytes to the word; fewer than two are none that ended.
func (s *shell) span(n int) {
	if n < 2 || n > len(s.rest()) {
		s.lose()
		return
	}
	s.add(n)
}

func (s *shell) single() {
	i := strings.IndexByte(s.rest()[1:], '\'')
	s.span(i + 2)
	if i < 0 {
		s.lose()
	}
}

// escaped is a string in single quotes with escapes in it.
func (s *shell) escaped() {
	s.add(1)
	s.span(s.quoted('\'', true))
}

// newline ends a line, and takes the documents that stand behind it as they
// are.
func (s *shell) newline() {
	s.flush()
	s.blank = false
	s.at++
	if s.last != "\n" && s.last != "" {
		s.emit("\n")
	}
	for _, h := range s.heredocs {
		for {
			if !s.more() {
				s.lose()
				return
			}
			line := s.restOfLine()
			s.emit(line)
			s.at = min(s.at+len(line), len(s.src))
			for s.more() && s.peek(0) != '\n' {
				s.at++
			}
			s.at = min(s.at+1, len(s.src))
			if h.tabs {
				line = strings.TrimLeft(line, "\t")
			}
			if line == h.end {
				break
			}
		}
		s.last = "\n"
	}
	s.heredocs = nil
}

func (s *shell) heredoc() {
	m := heredocWord.FindStringSubmatch(s.rest())
	if m == nil {
		s.lose()
		return
	}
	s.heredocs = append(s.heredocs, heredoc{end: m[2] + m[3] + m[4], tabs: m[1] != ""})
	s.control(len(m[0]))
}

// double is the length from the next byte to the end of the string in double
// quotes that begins at i, 0 where it cannot be found.
func (s *shell) double(i int) int {
	end := s.endOfDouble(i)
	if end < 0 {
		return 0
	}
	return end - s.at
}

func (s *shell) endOfDouble(i int) int {
	for i++; i < len(s.src); i++ {
		switch c := s.src[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			i++
		case c == '`':
			if i = s.backtick(i) - 1; i < 0 {
				return -1
			}
		case strings.HasPrefix(s.src[i:], "${"):
			if i = s.nest(i+2, '}') - 1; i < 0 {
				return -1
			}
		case strings.HasPrefix(s.src[i:], "$("):
			if i = s.nest(i+2, ')') - 1; i < 0 {
				return -1
			}
		}
	}
	return -1
}

// backtick is behind the command that begins at i; one with quotes or comments
// in it is not read.
func (s *shell) backtick(i int) int {
	end := strings.IndexByte(s.src[i+1:], '`')
	if end < 0 || strings.ContainsAny(s.src[i+1:i+1+end], "\"'\\#") {
		return -1
	}
	return i + 2 + end
}

// nest is behind the close of what begins before i. Where a comment, a document
// or the patterns of a case may be inside, it is not read.
func (s *shell) nest(i int, close byte) int {
	open := map[byte]byte{'}': '{', ')': '('}[close]
	for depth := 1; i < len(s.src); i++ {
		switch c := s.src[i]; {
		case c == '\\':
			i++
		case c == '\'' && close == ')':
			end := strings.IndexByte(s.src[i+1:], '\'')
			if end < 0 {
				return -1
			}
			i += end + 1
		case c == '\'':
			return -1 // in double quotes it is none, outside it is one
		case c == '"':
			if i = s.endOfDouble(i) - 1; i < 0 {
				return -1
			}
		case c == '`':
			return -1
		case strings.HasPrefix(s.src[i:], "${") || strings.HasPrefix(s.src[i:], "$("):
			if i = s.nest(i+2, map[byte]byte{'{': '}', '(': ')'}[s.src[i+1]]) - 1; i < 0 {
				return -1
			}
		case c == '#' && close == ')' && isSpaceOrOpen(s.src[i-1]),
			close == ')' && (strings.HasPrefix(s.src[i:], "<<") || strings.HasPrefix(s.src[i:], "case")):
			return -1
		case c == open:
			depth++
		case c == close:
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

func isSpaceOrOpen(c byte) bool { return isBlank(c) || strings.IndexByte("\n(;&|", c) >= 0 }
