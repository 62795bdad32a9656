package normalform

import (
	"slices"
	"strings"
)

// scanScript reads JavaScript and TypeScript. A line end is a token where it
// may end a statement. JSX, and slashes that could begin an expression as well
// as divide, are not read.
func scanScript(t *tokens) {
	if strings.HasPrefix(t.src, "#!") {
		t.emit(t.restOfLine())
		t.at = len(t.restOfLine())
	}
	if strings.Contains(t.src, "<!--") || strings.Contains(t.src, "-->") {
		t.lose() // a comment, in scripts that are no modules
	}
	s := &script{tokens: t}
	for t.more() {
		s.next()
	}
	if len(s.open) > 0 {
		t.lose()
	}
}

type script struct {
	*tokens
	open   []bracket
	ended  bool    // a line ended since the last token
	closed bracket // of the last token, where that closes one
}

// A bracket that is open: ( [ { or ` for what a template evaluates. Head is the
// word before it.
type bracket struct {
	kind byte
	head string
}

func (s *script) next() {
	c := s.peek(0)
	switch {
	case c == '\n' || strings.HasPrefix(s.rest(), "\u2028") || strings.HasPrefix(s.rest(), "\u2029"):
		s.ended = true
		s.at++
		if c != '\n' {
			s.at += 2
		}
	case isBlank(c):
		s.at++
	case s.sees("//"):
		s.at += len(s.restOfLine())
	case s.sees("/*"):
		from := s.at
		s.at += 2
		s.skipPast("*/")
		s.ended = s.ended || strings.Contains(s.src[from:s.at], "\n")
	default:
		s.token(c)
	}
}

// put emits a token, with the line end before it where that means something.
func (s *script) put(n int) {
	token := s.rest()[:n]
	if s.ended && s.breaks(token) {
		s.hash.put("\n")
	}
	s.ended, s.closed = false, bracket{}
	s.take(n)
}

var (
	// After these nothing can end, and before these nothing can begin.
	openEnded  = strings.Fields("{ ( [ , ; : = == === != !== && || ?? + - * / % & | ^ << <= >= += -= *= /= %= **= &= |= ^= <<= >>= >>>= &&= ||= ??= => . ?. ... ~ **")
	openBegun  = strings.Fields(") ] } , ; . ?. : ? = == === != !== && || ?? & | ^ => >= <= += -= *= /= %= **= &= |= ^= &&= ||= ??=")
	restricted = strings.Fields("return throw break continue yield async")
)

// breaks reports whether a line end before token may end a statement.
func (s *script) breaks(token string) bool {
	if n := len(s.open); s.last == "" || n > 0 && s.open[n-1].kind != '{' {
		return false
	}
	if slices.Contains(restricted, s.last) || token == "=>" {
		return true
	}
	return !slices.Contains(openEnded, s.last) && !slices.Contains(openBegun, token)
}

func (s *script) token(c byte) {
	switch {
	case c == '"' || c == '\'':
		if n := s.quoted(c, false); n > 0 {
			s.put(n)
			return
		}
		s.lose()
	case c == '`':
		s.put(1)
		s.template()
	case isDigit(c), c == '.' && isDigit(s.peek(1)):
		s.put(s.number())
	case isWord(c), c == '#' && isWord(s.peek(1)), c == '@':
		s.put(max(s.word(), 1))
	case c == '\\':
		s.lose() // a name that is written with escapes
	case strings.IndexByte("([{", c) >= 0:
		head := s.last
		s.put(1)
		s.open = append(s.open, bracket{c, head})
	case strings.IndexByte(")]}", c) >= 0:
		s.close(c)
	case c == '/':
		s.slash()
	case c == '<' && s.expects() && !strings.HasSuffix(s.name, "ts"):
		s.lose() // JSX, or a type
	default:
		s.put(s.operator())
	}
}

func (s *script) close(c byte) {
	n := len(s.open) - 1
	if n < 0 {
		s.lose()
		return
	}
	b := s.open[n]
	want := map[byte]byte{'(': ')', '[': ']', '{': '}', '`': '}'}[b.kind]
	if c != want {
		s.lose()
		return
	}
	s.open = s.open[:n]
	s.put(1)
	s.closed = b
	if b.kind == '`' {
		s.template()
	}
}

// template takes the text of a template up to its end or to what it evaluates.
func (s *script) template() {
	for i := s.at; i < len(s.src); i++ {
		switch {
		case s.src[i] == '\\':
			i++
		case s.src[i] == '`':
			s.emit(s.src[s.at : i+1])
			s.at, s.last, s.ended, s.closed = i+1, "`", false, bracket{}
			return
		case strings.HasPrefix(s.src[i:], "${"):
			s.emit(s.src[s.at : i+2])
			s.at, s.last, s.ended = i+2, "(", false
			s.open = append(s.open, bracket{kind: '`'})
			return
		}
	}
	s.lose()
}

var (
	beforeExpression = strings.Fields("return typeof instanceof in of new delete void throw case do else yield await extends default")
	conditions       = strings.Fields("if while for with")
)

// expects reports whether an expression is to begin here, as far as the last
// token tells.
func (s *script) expects() bool {
	switch last := s.last; {
	case s.prev == "." || s.prev == "?.":
		return false // a name, whatever else it is
	case last == "" || last == "/" || last == "/=" || slices.Contains(beforeExpression, last):
		return true
	case last == ")":
		return slices.Contains(conditions, s.closed.head)
	case last == "]" || last == "`" || last == "++" || last == "--":
		return false
	case last == "!" || last == ">" || last == "?":
		return true
	default:
		first := last[0]
		return !isWord(first) && strings.IndexByte("\"'/#@", first) < 0 && last != "}"
	}
}

// slash divides, or begins a regular expression.
func (s *script) slash() {
	switch {
	case s.last == "}" || s.last == "!" || s.last == "++" || s.last == "--" || s.last == ">":
		s.lose()
	case !s.expects():
		s.put(s.operator())
	default:
		s.regexp()
	}
}

func (s *script) regexp() {
	class := false
	for i := s.at + 1; i < len(s.src); i++ {
		switch c := s.src[i]; {
		case c == '\n':
			s.lose()
			return
		case c == '\\':
			i++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			for i++; i < len(s.src) && isWord(s.src[i]); i++ {
			}
			s.put(i - s.at)
			return
		}
	}
	s.lose()
}
