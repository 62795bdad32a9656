package normalform

import (
	"regexp"
	"slices"
	"strings"
)

// What a comment at the beginning means to Ruby.
var rubyMagic = regexp.MustCompile(`(?i)^#.*?(?:coding|frozen_string_literal|warn_indent|shareable_constant_value|typed)\s*[:=]`)

// scanRuby reads Ruby. Blanks and line ends are tokens, since a blank may tell
// a call from a difference. Literals with a percent sign, here documents
// without a tilde or a dash, and slashes and question marks that could be
// several things are not read.
func scanRuby(t *tokens) {
	r := &ruby{tokens: t}
	for t.sees("#") {
		line := t.restOfLine()
		if strings.HasPrefix(line, "#!") || rubyMagic.MatchString(line) {
			t.emit(line)
		}
		t.at += len(line)
		for t.more() && (t.peek(0) == '\n' || t.peek(0) == '\r') {
			t.at++
		}
	}
	fresh := true
	for t.more() {
		if fresh && r.block() {
			continue
		}
		fresh = t.peek(0) == '\n'
		r.next()
	}
	if len(r.heredocs) > 0 {
		t.lose()
	}
	t.lastLine()
}

type ruby struct {
	*tokens
	blank    bool
	heredocs []string
}

// block goes behind a comment between =begin and =end, and takes all behind
// __END__.
func (r *ruby) block() bool {
	switch {
	case r.sees("=begin") && !isWord(r.peek(6)):
		for !r.sees("=end") || isWord(r.peek(4)) {
			if r.skipPast("\n"); r.lost {
				return true
			}
		}
		r.at += len(r.restOfLine())
		return true
	case r.restOfLine() == "__END__":
		r.take(len(r.rest()))
		return true
	}
	return false
}

// put emits a token and the blank before it.
func (r *ruby) put(n int) {
	if r.blank && r.last != "" && r.last != "\n" {
		r.hash.put(" ")
	}
	r.blank = false
	r.take(n)
}

func (r *ruby) next() {
	c := r.peek(0)
	switch {
	case c == '\n':
		r.newline()
	case isBlank(c):
		r.blank = true
		r.at++
	case c == '#':
		r.at += len(r.restOfLine())
	case r.sees("<<"):
		r.heredoc()
	case c == '"' || c == '`':
		r.span(r.endOfText(r.at, c))
	case c == '\'':
		r.span(r.at + r.quoted('\'', true))
	case c == '%':
		r.percent()
	case c == '/':
		r.slash()
	case c == '?' && strings.IndexByte("#\"'`/", r.peek(1)) >= 0:
		r.lose()
	case c == '$' && r.peek(1) != 0 && !isWord(r.peek(1)):
		r.put(2)
	case isDigit(c):
		r.put(r.number())
	case isWord(c), c == '@' && (isWord(r.peek(1)) || r.peek(1) == '@'):
		r.put(max(r.word(), 1))
	case c == ':' && (r.peek(1) == '"' || r.peek(1) == '\''):
		r.put(1)
	case c == ':' && strings.IndexByte("/%`<?", r.peek(1)) >= 0:
		r.lose()
	default:
		r.put(r.operator())
	}
}

// span takes up to end, which is not behind the next byte where there is none.
func (r *ruby) span(end int) {
	if end <= r.at {
		r.lose()
		return
	}
	r.put(end - r.at)
}

func (r *ruby) newline() {
	r.blank = false
	r.at++
	if r.last != "\n" && r.last != "" {
		r.emit("\n")
	}
	for _, end := range r.heredocs {
		for line := ""; ; {
			if !r.more() {
				r.lose()
				return
			}
			line = r.restOfLine()
			r.emit(line)
			r.at = min(r.at+len(line), len(r.src))
			for r.more() && r.peek(0) != '\n' {
				r.at++
			}
			r.at = min(r.at+1, len(r.src))
			if strings.TrimLeft(line, " \t") == end {
				break
			}
		}
		r.last = "\n"
	}
	r.heredocs = nil
}

var rubyHeredoc = regexp.MustCompile(`^<<[~-](?:'([^'\n]+)'|"([^"\n]+)"|([A-Za-z_]\w*))`)

func (r *ruby) heredoc() {
	if m := rubyHeredoc.FindStringSubmatch(r.rest()); m != nil {
		r.heredocs = append(r.heredocs, m[1]+m[2]+m[3])
		r.put(len(m[0]))
		return
	}
	if next := r.peek(2); isWord(next) && !isDigit(next) || strings.IndexByte("\"'`", next) >= 0 {
		r.lose()
		return
	}
	r.put(r.operator())
}

// endOfText is behind the string that begins at i, 0 where it cannot be found.
func (r *ruby) endOfText(i int, quote byte) int {
	for i++; i < len(r.src); i++ {
		switch c := r.src[i]; {
		case c == quote:
			return i + 1
		case c == '\\':
			i++
		case strings.HasPrefix(r.src[i:], "#{"):
			if i = r.evaluated(i+2) - 1; i < 0 {
				return 0
			}
		}
	}
	return 0
}

// evaluated is behind the brace that closes what a string evaluates.
func (r *ruby) evaluated(i int) int {
	for depth := 1; i < len(r.src); i++ {
		switch c := r.src[i]; {
		case c == '"':
			if i = r.endOfText(i, '"') - 1; i < 0 {
				return -1
			}
		case c == '\'':
			end := strings.IndexAny(r.src[i+1:], "'\\\n")
			if end < 0 || r.src[i+1+end] != '\'' {
				return -1
			}
			i += end + 1
		case strings.IndexByte("`/%\n#\\", c) >= 0 || c == '?' && strings.IndexByte("{}\"'", r.src[min(i+1, len(r.src)-1)]) >= 0:
			return -1
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

var rubyBefore = strings.Fields("if unless while until when case and or not return then do in elsif else puts p raise yield")

// ends reports whether an operand ended right before, so that an operator is
// to follow.
func (r *ruby) ends() bool {
	if r.last == "" || slices.Contains(rubyBefore, r.last) {
		return false
	}
	c := r.last[len(r.last)-1]
	return isWord(c) || strings.IndexByte(")]}\"'", c) >= 0
}

// tight reports whether a blank is before the next byte and none behind the n
// that follow: then it may begin an argument.
func (r *ruby) tight(n int) bool { return r.blank && !isBlank(r.peek(n)) && r.peek(n) != '\n' }

func (r *ruby) percent() {
	if !r.ends() || r.tight(1) && r.peek(1) != '=' {
		r.lose()
		return
	}
	r.put(r.operator())
}

func (r *ruby) slash() {
	if r.ends() && !r.tight(1) {
		r.put(r.operator())
		return
	}
	for i := r.at + 1; i < len(r.src); i++ {
		switch c := r.src[i]; {
		case c == '\\':
			i++
		case c == '\n' || strings.HasPrefix(r.src[i:], "#{"):
			r.lose()
			return
		case c == '/':
			for i++; i < len(r.src) && isWord(r.src[i]); i++ {
			}
			r.put(i - r.at)
			return
		}
	}
	r.lose()
}
