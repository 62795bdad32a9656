// Package normalform brings the text of a file to a form in which formatting
// and comments are gone: two files of equal form have the same tokens. It is
// made to err on one side. Where a language leaves it open what a character
// means, as JavaScript does with a slash after a brace, the file is not taken
// for code at all, and its words are its form. It is pure.
package normalform

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/bestof-dev/bestof/internal/wordform"
)

// A Form is what a file comes to.
type Form struct {
	Sum [sha256.Size]byte
	// Known is whether the file was read as code: then files of equal form have
	// equal tokens. Otherwise they have equal words.
	Known bool
}

// Of is the form of a file by its name and its text. The name's ending says
// which language it is; a file without one may say so in its first line.
func Of(name string, text []byte) Form {
	scan := language(name, text)
	if scan != nil && utf8.Valid(text) {
		t := &tokens{src: strings.TrimPrefix(string(text), "\ufeff"), hash: newDigest(), name: path.Base(name)}
		scan(t)
		if !t.lost {
			return Form{Sum: t.hash.sum(), Known: true}
		}
	}
	h := newDigest()
	wordform.Put(name, text, func(part []byte) { h.put(string(part)) })
	return Form{Sum: h.sum()}
}

// language finds how a file is read, nil where no language is known.
func language(name string, text []byte) func(*tokens) {
	base := path.Base(name)
	switch strings.ToLower(path.Ext(base)) {
	case ".go":
		return scanGo
	case ".py", ".pyi":
		return scanPython
	case ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx":
		return scanScript
	case ".rs":
		return braces{nested: true, rust: true}.scan
	case ".java":
		return braces{textBlocks: true, java: true}.scan
	case ".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx":
		return braces{preprocessed: true}.scan
	case ".json":
		return braces{noComments: true}.scan
	case ".sh", ".bash", ".ksh", ".dash":
		return scanShell
	case ".rb", ".rake", ".gemspec":
		return scanRuby
	case "":
		line, _, _ := bytes.Cut(text[:min(len(text), 200)], []byte("\n"))
		if m := shebang.FindSubmatch(line); m != nil {
			switch string(m[1]) {
			case "python":
				return scanPython
			case "ruby":
				return scanRuby
			case "node":
				return scanScript
			}
			return scanShell
		}
	}
	return nil
}

var shebang = regexp.MustCompile(`^#!\s*/\S*?(?:/|/env\s+)(python|ruby|node|sh|bash|dash|ksh)[\d.]*\s*(?:\s-\S*\s*)*$`)

// A digest is a hash of parts that no other parts can add up to.
type digest struct {
	hash hash.Hash
	b    []byte // not yet hashed
}

func newDigest() *digest { return &digest{sha256.New(), make([]byte, 0, 8<<10)} }

func (d *digest) put(part string) {
	if len(d.b)+len(part)+binary.MaxVarintLen64 > cap(d.b) {
		d.hash.Write(d.b)
		d.b = d.b[:0]
	}
	d.b = binary.AppendUvarint(d.b, uint64(len(part)))
	if len(part) > cap(d.b)/2 {
		d.hash.Write(d.b)
		d.hash.Write([]byte(part))
		d.b = d.b[:0]
		return
	}
	d.b = append(d.b, part...)
}

func (d *digest) sum() (sum [sha256.Size]byte) {
	d.hash.Write(d.b)
	d.b = d.b[:0]
	d.hash.Sum(sum[:0])
	return sum
}

// tokens is a text that is read from left to right, and what was found in it.
type tokens struct {
	name string
	src  string
	at   int
	hash *digest
	last string // the token before, "" at the beginning
	prev string // the one before that
	lost bool   // it cannot be said what the text means
}

// emit adds a token to the form.
func (t *tokens) emit(token string) {
	t.hash.put(token)
	t.prev, t.last = t.last, token
}

// lastLine ends the last line, where lines are tokens.
func (t *tokens) lastLine() {
	if t.last != "\n" && t.last != "" {
		t.emit("\n")
	}
}

// lose ends the reading.
func (t *tokens) lose() { t.lost, t.at = true, len(t.src) }

func (t *tokens) more() bool              { return t.at < len(t.src) }
func (t *tokens) rest() string            { return t.src[t.at:] }
func (t *tokens) sees(prefix string) bool { return strings.HasPrefix(t.src[t.at:], prefix) }

// peek is the byte n after the next, 0 beyond the end.
func (t *tokens) peek(n int) byte {
	if t.at+n < len(t.src) && t.at+n >= 0 {
		return t.src[t.at+n]
	}
	return 0
}

// take emits the next n bytes as one token.
func (t *tokens) take(n int) {
	t.emit(t.src[t.at : t.at+n])
	t.at += n
}

// skipPast goes behind the next end, which must be there.
func (t *tokens) skipPast(end string) {
	i := strings.Index(t.rest(), end)
	if i < 0 {
		t.lose()
		return
	}
	t.at += i + len(end)
}

// restOfLine is what is left of the line, without its end.
func (t *tokens) restOfLine() string {
	line, _, _ := strings.Cut(t.rest(), "\n")
	return strings.TrimSuffix(line, "\r")
}

// quoted is the length of the string that begins at the next byte, with
// escapes by backslash; it is 0 where the string does not end, or not on its
// line.
func (t *tokens) quoted(quote byte, lines bool) int {
	for i := t.at + 1; i < len(t.src); i++ {
		switch c := t.src[i]; {
		case c == quote:
			return i + 1 - t.at
		case c == '\\':
			i++
		case c == '\n' && !lines:
			return 0
		}
	}
	return 0
}

// takeQuoted takes the string that begins at the next byte.
func (t *tokens) takeQuoted(quote byte, lines bool) {
	n := t.quoted(quote, lines)
	if n == 0 {
		t.lose()
		return
	}
	t.take(n)
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= utf8.RuneSelf || isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v' }

// word is the length of the name that begins at the next byte.
func (t *tokens) word() int {
	n := 0
	for isWord(t.peek(n)) {
		n++
	}
	return n
}

// number is the length of the number that begins at the next byte.
func (t *tokens) number() int {
	n, hex := 0, t.sees("0x") || t.sees("0X")
	for {
		c := t.peek(n)
		prev := t.peek(n - 1)
		switch {
		case isWord(c):
		case c == '\'' && n > 0 && isWord(t.peek(n+1)) && isWord(prev): // C++ and its digit separators
		case c == '.' && t.fraction(n+1):
		case (c == '+' || c == '-') && n > 0 && (!hex && (prev == 'e' || prev == 'E') || hex && (prev == 'p' || prev == 'P')):
		default:
			return n
		}
		n++
	}
}

// fraction reports whether what is n bytes on goes on behind the point of a
// number: 1.5, 1., 1.e5 and 1.f, but not 1..5 and 1.max.
func (t *tokens) fraction(n int) bool {
	c, next := t.peek(n), t.peek(n+1)
	switch {
	case isDigit(c):
		return true
	case !isWord(c):
		return c != '.'
	case c == 'e' || c == 'E':
		return isDigit(next) || next == '+' || next == '-'
	}
	return strings.IndexByte("fFlLdDjJ", c) >= 0 && !isWord(next)
}

// operators that are one token, longest first.
var operators = []string{
	">>>=", "...", "===", "!==", "**=", "<<=", ">>=", ">>>", "&&=", "||=", "??=", "..=", "<=>", "->*", "//=",
	"=>", "->", "::", "++", "--", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
	"??", "?.", "**", "..", ".*", "//", ":=", "##", "@=",
}

// operator is the length of the operator, or the single character, that begins
// at the next byte.
func (t *tokens) operator() int {
	if next := t.peek(1); isWord(next) || isBlank(next) {
		return 1
	}
	for _, o := range operators {
		if t.sees(o) {
			return len(o)
		}
	}
	return 1
}
