package normalform

import (
	"regexp"
	"strings"
)

// What a comment in the first two lines means to Python.
var pythonCoding = regexp.MustCompile(`^#.*?coding[:=]`)

// scanPython reads Python: how deep a line is indented is a token, how it is
// indented is not.
func scanPython(t *tokens) {
	p := &python{tokens: t, indents: []string{""}}
	for n := range 2 {
		line := t.restOfLine()
		if strings.HasPrefix(line, "#!") && n == 0 || pythonCoding.MatchString(line) {
			t.emit(line)
		}
		if !strings.HasPrefix(line, "#") {
			break
		}
		t.at = min(t.at+len(line)+1, len(t.src))
		if strings.HasPrefix(t.src[max(t.at-1, 0):], "\r") {
			t.at++
		}
	}
	for t.more() {
		p.line()
	}
	if p.depth > 0 {
		t.lose()
	}
	p.dedent("")
}

type python struct {
	*tokens
	indents []string
	depth   int // of brackets
}

// line reads one logical line.
func (p *python) line() {
	from := p.at
	for isBlank(p.peek(0)) {
		p.at++
	}
	indent := strings.TrimRight(p.src[from:p.at], "\r\f\v")
	if c := p.peek(0); c == '\n' || c == '#' || !p.more() {
		p.endOfLine() // a blank line has no depth
		return
	}
	p.dedent(indent)
	if top := p.indents[len(p.indents)-1]; indent != top {
		if !strings.HasPrefix(indent, top) {
			p.lose()
			return
		}
		p.indents = append(p.indents, indent)
		p.emit("\x00indent")
	}
	for p.more() {
		c := p.peek(0)
		switch {
		case c == '\n' && p.depth == 0:
			p.emit("\n")
			p.at++
			return
		case c == '\n' || isBlank(c):
			p.at++
		case c == '#':
			p.at += len(p.restOfLine())
		case p.sees("\\\n"):
			p.at += 2
		case p.sees("\\\r\n"):
			p.at += 3
		default:
			p.token(c)
		}
	}
	p.emit("\n")
}

func (p *python) endOfLine() {
	p.at = min(p.at+len(p.restOfLine()), len(p.src))
	for p.more() && p.peek(0) != '\n' {
		p.at++
	}
	if p.more() {
		p.at++
	}
}

// dedent closes blocks until indent is not left of the last one.
func (p *python) dedent(indent string) {
	for top := len(p.indents) - 1; top > 0 && len(indent) < len(p.indents[top]); top-- {
		p.indents = p.indents[:top]
		p.emit("\x00dedent")
		if len(indent) > len(p.indents[top-1]) {
			p.lose() // between two depths: an error of indentation
			return
		}
	}
}

func (p *python) token(c byte) {
	switch {
	case strings.IndexByte("([{", c) >= 0:
		p.depth++
		p.take(1)
	case strings.IndexByte(")]}", c) >= 0:
		p.depth = max(p.depth-1, 0)
		p.take(1)
	case c == '"' || c == '\'':
		p.text("")
	case isDigit(c), c == '.' && isDigit(p.peek(1)):
		p.take(p.number())
	case isWord(c):
		n := p.word()
		word, next := strings.ToLower(p.rest()[:n]), p.peek(n)
		if (next == '"' || next == '\'') && n <= 2 && strings.Trim(word, "rbuft") == "" {
			p.emit(word + "\x00prefix")
			p.at += n
			p.text(word)
			return
		}
		p.take(n)
	default:
		p.take(p.operator())
	}
}

// text is a string. A quote inside of what an f-string evaluates ends it or
// does not, as the version of Python is.
func (p *python) text(prefix string) {
	quote := p.rest()[:1]
	if p.sees(strings.Repeat(quote, 3)) {
		quote = p.rest()[:3]
	}
	formatted, braces := strings.ContainsAny(prefix, "ft"), 0
	for i := p.at + len(quote); i < len(p.src); i++ {
		switch c := p.src[i]; {
		case c == '\\':
			i++
		case c == '\n' && len(quote) == 1:
			p.lose()
			return
		case strings.HasPrefix(p.src[i:], quote):
			if braces > 0 {
				p.lose()
				return
			}
			p.take(i + len(quote) - p.at)
			return
		case formatted && (strings.HasPrefix(p.src[i:], "{{") || strings.HasPrefix(p.src[i:], "}}")) && braces == 0:
			i++
		case formatted && c == '{':
			braces++
		case formatted && c == '}':
			braces--
		}
	}
	p.lose()
}
