package normalform

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// braces is a language in the manner of C: line ends are white space.
type braces struct {
	noComments   bool
	nested       bool // comments in comments
	preprocessed bool // C and C++
	rust         bool
	java         bool
	textBlocks   bool // strings of three quotes
}

// In Java such an escape is read before anything else, and may end a string.
var earlyEscape = regexp.MustCompile(`(?i)\\u+00(?:22|27|2a|2f|5c|0a|0d)`)

func (b braces) scan(t *tokens) {
	if b.java && earlyEscape.MatchString(t.src) || b.preprocessed && strings.Contains(t.src, "??/") {
		t.lose()
	}
	fresh := true // nothing but white space is before on the line
	for t.more() {
		c := t.peek(0)
		if c == '\n' {
			fresh = true
			t.at++
			continue
		}
		if isBlank(c) {
			t.at++
			continue
		}
		if b.comment(t) {
			continue
		}
		if fresh && c == '#' && b.preprocessed {
			b.directive(t)
			continue
		}
		fresh = false
		b.token(t, c)
	}
}

// comment goes behind a comment, if there is one.
func (b braces) comment(t *tokens) bool {
	switch {
	case b.noComments:
		return false
	case b.rust && (t.sees("///") && t.peek(3) != '/' || t.sees("//!")):
		t.emit(strings.TrimRight(t.restOfLine(), " \t")) // documentation is an attribute, which macros read
		t.at += len(t.restOfLine())
	case t.sees("//"):
		for {
			line := t.restOfLine()
			t.at += len(line)
			if !b.preprocessed || !strings.HasSuffix(line, "\\") || !t.more() {
				break
			}
			t.skipPast("\n")
		}
	case b.nested && t.sees("/*"):
		from, doc := t.at, (t.sees("/**") || t.sees("/*!")) && !t.sees("/**/") && !t.sees("/***")
		t.nestedComment()
		if doc && !t.lost {
			t.emit(t.src[from:t.at])
		}
	case t.sees("/*"):
		t.at += 2
		t.skipPast("*/")
	default:
		return false
	}
	return true
}

func (t *tokens) nestedComment() {
	depth := 0
	for t.more() {
		switch {
		case t.sees("/*"):
			depth++
			t.at += 2
		case t.sees("*/"):
			depth--
			t.at += 2
			if depth == 0 {
				return
			}
		default:
			t.at++
		}
	}
	t.lose()
}

func (b braces) token(t *tokens, c byte) {
	switch {
	case b.textBlocks && t.sees(`"""`):
		t.textBlock()
	case c == '"':
		t.takeQuoted('"', b.rust)
		if b.preprocessed && isWord(t.peek(0)) {
			t.emit("\x00suffix")
		}
	case c == '\'' && b.rust:
		t.charOrLifetime()
	case c == '\'' && b.noComments:
		t.lose()
	case c == '\'':
		t.takeQuoted('\'', false)
	case isDigit(c), c == '.' && isDigit(t.peek(1)):
		t.take(t.number())
	case isWord(c):
		b.name(t)
	default:
		t.take(t.operator())
	}
}

// textBlock is a string between three quotes.
func (t *tokens) textBlock() {
	for i := t.at + 3; i < len(t.src); i++ {
		if t.src[i] == '\\' {
			i++
		} else if strings.HasPrefix(t.src[i:], `"""`) {
			t.take(i + 3 - t.at)
			return
		}
	}
	t.lose()
}

// name is a word, or a string with something before its quote.
func (b braces) name(t *tokens) {
	n := t.word()
	word, next := t.rest()[:n], t.peek(n)
	switch {
	case b.rust && next == '\'' && word == "b":
		t.emit("b'")
		t.at++
		t.takeQuoted('\'', false)
		return
	case b.rust && (word == "r" || word == "br" || word == "cr") && (next == '"' || next == '#'):
		hashes := 0
		for t.peek(n+hashes) == '#' {
			hashes++
		}
		if t.peek(n+hashes) != '"' { // a raw identifier
			t.take(n)
			return
		}
		t.until(n+hashes+1, `"`+strings.Repeat("#", hashes))
		return
	case b.preprocessed && next == '"' && strings.HasSuffix(word, "R") && len(word) <= 3:
		delimiter, _, ok := strings.Cut(t.rest()[n+1:], "(")
		if !ok || len(delimiter) > 16 {
			t.lose()
			return
		}
		t.until(n+1+len(delimiter), ")"+delimiter+`"`)
		return
	case (b.rust || b.preprocessed) && (next == '"' || next == '\'' && b.preprocessed):
		t.emit(word + "\x00prefix") // what is before a quote belongs to it
		t.at += n
		t.takeQuoted(next, b.rust)
		return
	}
	t.take(n)
}

// until takes all up to an end, which is looked for from an offset.
func (t *tokens) until(offset int, end string) {
	i := strings.Index(t.rest()[offset:], end)
	if i < 0 {
		t.lose()
		return
	}
	t.take(offset + i + len(end))
}

// charOrLifetime tells 'a' from 'a.
func (t *tokens) charOrLifetime() {
	if t.peek(1) == '\\' {
		t.takeQuoted('\'', false)
		return
	}
	_, size := utf8.DecodeRuneInString(t.rest()[1:])
	if t.peek(1+size) == '\'' && t.peek(1) != '\'' {
		t.take(size + 2)
		return
	}
	t.at++
	n := t.word()
	if n == 0 {
		t.lose()
		return
	}
	t.emit("'" + t.rest()[:n])
	t.at += n
}

// Of these the rest of the line is no code.
var rawDirective = regexp.MustCompile(`^#\s*(?:include|include_next|import|error|warning|pragma|line|ident)\b`)

// directive is a line of the preprocessor with those that continue it. A blank
// before a parenthesis counts: #define F(x) is not #define F (x).
func (b braces) directive(t *tokens) {
	t.emit("\n")
	if rawDirective.MatchString(t.restOfLine()) {
		line := strings.TrimRight(t.restOfLine(), " \t")
		if strings.HasSuffix(line, "\\") || strings.Contains(line, "/*") && !strings.Contains(line, "<") {
			t.lose()
			return
		}
		t.emit(line)
		t.at += len(t.restOfLine())
		t.emit("\n")
		return
	}
	blank := false
	for t.more() && t.peek(0) != '\n' {
		c := t.peek(0)
		switch {
		case isBlank(c):
			blank = true
			t.at++
		case t.sees("\\\n"):
			blank = true
			t.at += 2
		case t.sees("\\\r\n"):
			blank = true
			t.at += 3
		case b.comment(t):
			blank = true
		default:
			if blank && c == '(' {
				t.emit(" ")
			}
			blank = false
			b.token(t, c)
		}
	}
	t.emit("\n")
}
