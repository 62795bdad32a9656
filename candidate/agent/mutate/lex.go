package mutate

import (
	"slices"
	"strings"
)

type kind uint8

const (
	identKind kind = iota
	keywordKind
	numberKind
	stringKind
	opKind
)

// A token is a span of the text that is neither space nor comment.
type token struct {
	kind       kind
	text       string
	start, end int
	line       int // 1-based
}

// operators of all languages, longest first. Splitting more finely than a
// language does is harmless: edits are only proposals.
var operators = []string{">>>=", "===", "!==", "**=", "//=", "<<=", ">>=", ">>>", "...", "&^=", "&&=", "||=", "??=",
	"==", "!=", "<=", ">=", "&&", "||", "??", "?.", "->", "=>", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
	":=", "<<", ">>", "**", "//", "<-", "::", "&^"}

func isIdent(c byte) bool {
	return c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// lex splits src. It accepts any bytes and always ends.
func (l *language) lex(src string) []token {
	var toks []token
	line := 1
	for i := 0; i < len(src); {
		start, c := i, src[i]
		rest := src[i:]
		switch {
		case c == '\n':
			line++
			i++
			continue
		case c == ' ' || c == '\t' || c == '\r' || c == '\\' || c == '\f':
			i++
			continue
		case l.commented(rest):
			if n := strings.IndexByte(rest, '\n'); n >= 0 {
				i += n
			} else {
				i = len(src)
			}
			continue
		case l.blockComment[0] != "" && strings.HasPrefix(rest, l.blockComment[0]):
			i = spanEnd(src, i+2, l.blockComment[1])
			line += strings.Count(src[start:i], "\n")
			continue
		}
		k := opKind
		switch {
		case isDigit(c) || c == '.' && len(rest) > 1 && isDigit(rest[1]) && (start == 0 || !isIdent(src[start-1])):
			k = numberKind
			for i < len(src) && (isIdent(src[i]) || src[i] == '.' && i+1 < len(src) && isDigit(src[i+1])) {
				i++
			}
		case isIdent(c):
			for i < len(src) && isIdent(src[i]) {
				i++
			}
			k = identKind
			if slices.Contains(l.keywords, src[start:i]) {
				k = keywordKind
			}
			if i < len(src) && l.indent && i-start <= 2 && (src[i] == '"' || src[i] == '\'') && strings.Trim(strings.ToLower(src[start:i]), "rbfu") == "" {
				k, i = stringKind, l.quoted(src, i)
			}
		default:
			if end := l.quoted(src, i); end > i {
				k, i = stringKind, end
				break
			}
			i++
			for _, op := range operators {
				if (op != "//" || l.indent) && strings.HasPrefix(rest, op) {
					i = start + len(op)
					break
				}
			}
		}
		toks = append(toks, token{k, src[start:i], start, i, line})
		line += strings.Count(src[start:i], "\n")
	}
	return toks
}

func (l *language) commented(rest string) bool {
	for _, c := range l.lineComment {
		if strings.HasPrefix(rest, c) {
			return true
		}
	}
	return false
}

// quoted returns the end of the string that begins at i, or i when none does.
func (l *language) quoted(src string, i int) int {
	if l.rawQuote != "" && strings.HasPrefix(src[i:], l.rawQuote) {
		return spanEnd(src, i+len(l.rawQuote), l.rawQuote)
	}
	for _, q := range l.quotes {
		if !strings.HasPrefix(src[i:], q) {
			continue
		}
		for j := i + len(q); j < len(src); j++ {
			switch {
			case src[j] == '\\':
				j++
			case strings.HasPrefix(src[j:], q):
				return j + len(q)
			case src[j] == '\n' && len(q) == 1:
				return j
			}
		}
		return len(src)
	}
	return i
}

func spanEnd(src string, from int, end string) int {
	if from > len(src) {
		return len(src)
	}
	if n := strings.Index(src[from:], end); n >= 0 {
		return from + n + len(end)
	}
	return len(src)
}

// balanced reports whether the brackets of toks match.
func balanced(toks []token) bool {
	var open []byte
	for _, t := range toks {
		if t.kind != opKind || len(t.text) != 1 {
			continue
		}
		switch c := t.text[0]; c {
		case '(', '[', '{':
			open = append(open, c)
		case ')', ']', '}':
			if len(open) == 0 || pair(open[len(open)-1]) != c {
				return false
			}
			open = open[:len(open)-1]
		}
	}
	return len(open) == 0
}

func pair(open byte) byte {
	switch open {
	case '(':
		return ')'
	case '[':
		return ']'
	}
	return '}'
}
