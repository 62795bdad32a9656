package ignore

import "strings"

// The results of wild besides a plain match and no match: with abortAll no
// later start in the text can match either, with abortStarStar only one that
// crosses a slash can.
const (
	noMatch = iota
	match
	abortAll
	abortStarStar
)

// Wildmatch reports whether pattern matches all of text by git's rules. When
// pathname is set, a slash is matched only by a slash or by "**".
func Wildmatch(pattern, text string, pathname bool) bool {
	m := matcher{pattern: pattern, text: text, pathname: pathname, budget: 1 << 20}
	return m.wild(0, 0) == match
}

type matcher struct {
	pattern, text string
	pathname      bool
	budget        int // steps left: a pattern made to take for ever matches nothing
}

// at is s[i], or 0 past the end.
func at(s string, i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}

func (m *matcher) wild(p, t int) int {
	for ; p < len(m.pattern); p, t = p+1, t+1 {
		if m.budget--; m.budget < 0 {
			return abortAll
		}
		pc, tc := m.pattern[p], at(m.text, t)
		if t >= len(m.text) && pc != '*' {
			return abortAll
		}
		switch pc {
		case '\\':
			p++
			if at(m.pattern, p) != tc {
				return noMatch
			}
		default:
			if pc != tc {
				return noMatch
			}
		case '?':
			if m.pathname && tc == '/' {
				return noMatch
			}
		case '[':
			var r int
			if p, r = m.class(p, tc); r != match {
				return r
			}
		case '*':
			next, slash, r := m.star(p, t)
			if r == match {
				return match
			}
			p = next
			if p >= len(m.pattern) {
				if !slash && strings.IndexByte(m.text[t:], '/') >= 0 {
					return noMatch
				}
				return match
			}
			if !slash && m.pattern[p] == '/' {
				// One asterisk before a slash takes exactly the rest of this name.
				i := strings.IndexByte(m.text[t:], '/')
				if i < 0 {
					return noMatch
				}
				t += i
				continue
			}
			return m.rest(p, t, slash)
		}
	}
	if t < len(m.text) {
		return noMatch
	}
	return match
}

// star reads the asterisks at p: where they end and whether they match a
// slash. It returns match at once when "**/" standing for nothing does it.
func (m *matcher) star(p, t int) (next int, slash bool, r int) {
	first := p
	for p < len(m.pattern) && m.pattern[p] == '*' {
		p++
	}
	if !m.pathname {
		return p, true, noMatch
	}
	if p-first < 2 {
		return p, false, noMatch
	}
	after := m.pattern[p:]
	if (first > 0 && m.pattern[first-1] != '/') ||
		(after != "" && after[0] != '/' && !strings.HasPrefix(after, `\/`)) {
		return p, false, noMatch
	}
	if strings.HasPrefix(after, "/") && m.wild(p+1, t) == match {
		return p, true, match
	}
	return p, true, noMatch
}

// rest tries the pattern from p at every place of the text from t on that the
// asterisk before p can reach.
func (m *matcher) rest(p, t int, slash bool) int {
	for ; t < len(m.text); t++ {
		r := m.wild(p, t)
		if r != noMatch {
			if !slash || r != abortStarStar {
				return r
			}
		} else if !slash && m.text[t] == '/' {
			return abortStarStar
		}
	}
	return abortAll
}

// class matches c against the bracket expression at p and returns where it
// ends.
func (m *matcher) class(p int, c byte) (end, result int) {
	p++
	negated := at(m.pattern, p) == '!' || at(m.pattern, p) == '^'
	if negated {
		p++
	}
	found := false
	var prev byte
	for first := true; first || at(m.pattern, p) != ']'; first = false {
		if p >= len(m.pattern) {
			return p, abortAll
		}
		pc := m.pattern[p]
		switch {
		case pc == '\\':
			p++
			if p >= len(m.pattern) {
				return p, abortAll
			}
			pc = m.pattern[p]
			found = found || c == pc
		case pc == '-' && prev != 0 && p+1 < len(m.pattern) && m.pattern[p+1] != ']':
			p++
			if pc = m.pattern[p]; pc == '\\' {
				p++
				if p >= len(m.pattern) {
					return p, abortAll
				}
				pc = m.pattern[p]
			}
			found = found || (prev <= c && c <= pc)
			pc = 0
		case pc == '[' && at(m.pattern, p+1) == ':':
			i := strings.IndexByte(m.pattern[p+2:], ']')
			if i < 0 {
				return p, abortAll
			}
			name := m.pattern[p+2 : p+2+i]
			if i == 0 || name[i-1] != ':' {
				found = found || c == '['
				break
			}
			in, known := posix(name[:i-1], c)
			if !known {
				return p, abortAll
			}
			found = found || in
			p += 2 + i
			pc = 0
		default:
			found = found || c == pc
		}
		prev = pc
		p++
	}
	if found == negated || (m.pathname && c == '/') {
		return p, noMatch
	}
	return p, match
}

// posix reports whether c belongs to a named class, and whether there is one.
func posix(class string, c byte) (in, known bool) {
	lower, upper, digit := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9'
	graph := 0x21 <= c && c <= 0x7e
	switch class {
	case "alnum":
		return lower || upper || digit, true
	case "alpha":
		return lower || upper, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < 0x20 || c == 0x7f, true
	case "digit":
		return digit, true
	case "graph":
		return graph, true
	case "lower":
		return lower, true
	case "print":
		return graph || c == ' ', true
	case "punct":
		return graph && !lower && !upper && !digit, true
	case "space":
		return c == ' ' || (0x09 <= c && c <= 0x0d), true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || ('a' <= c && c <= 'f') || ('A' <= c && c <= 'F'), true
	}
	return false, false
}
