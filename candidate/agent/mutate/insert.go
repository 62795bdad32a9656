package mutate

import (
	"fmt"
	"slices"
	"strings"
)

// insert proposes text as statements before or behind the statement.
func (s *site) insert(weight float64, text string) {
	if s.header {
		if s.to < len(s.toks) && s.toks[s.to].kind == stringKind {
			return // a docstring stays first; what can be behind it has its own turn
		}
		in := s.bodyIndent()
		s.emitAt(weight, s.lineEnd(), s.lineEnd(), s.line(), "\n"+in+strings.ReplaceAll(text, "\n", "\n"+in))
		if s.isHead() {
			return
		}
	} else if !s.endsBlock() {
		s.emitAt(weight, s.lineEnd(), s.lineEnd(), s.line(), "\n"+s.indent+strings.ReplaceAll(text, "\n", "\n"+s.indent))
	}
	if !s.continues() {
		at := s.toks[s.from].start
		if s.lineStart()+len(s.indent) == at {
			s.emitAt(weight, at, at, s.line(), strings.ReplaceAll(text, "\n", "\n"+s.indent)+"\n"+s.indent)
		}
	}
}

// endsBlock reports a statement behind which nothing is reached.
func (s *site) endsBlock() bool {
	return slices.Contains([]string{"return", "break", "continue", "raise", "throw"}, s.toks[s.from].text)
}

// insertStatements adds what is often forgotten: an assignment, a step, or a
// call like one that is there already.
func insertStatements(s *site) {
	if s.fn == nil {
		return
	}
	l := s.lang
	names := s.fn.names[:min(8, len(s.fn.names))]
	for _, a := range names {
		for _, b := range names {
			if a != b {
				s.insert(.5, fmt.Sprintf(l.declare, a, b)+l.end)
			}
		}
		s.insert(.5, a+" += 1"+l.end)
		s.insert(.4, a+" -= 1"+l.end)
		s.insert(.2, fmt.Sprintf(l.declare, a, "0")+l.end)
		s.insert(.4, "return "+a+l.end)
	}
	s.insert(.5, "break"+l.end)
	s.insert(.5, "continue"+l.end)
	for call, weight := range s.calls() {
		s.insert(weight, call)
	}
}

// calls are the function's own call statements, each also with one name
// replaced, and the additions that a membership test asks for: something that is
// looked up and never added to is most suspicious.
func (s *site) calls() map[string]float64 {
	found := map[string]float64{}
	add := func(text string, weight float64) {
		if len(found) < 80 {
			found[text] = max(found[text], weight)
		}
	}
	body := s.stmts[s.fn.from:s.fn.to]
	for i, st := range body {
		k := st.from
		if i == 0 || st.header || s.toks[k].kind != identKind && s.toks[k].kind != keywordKind {
			continue
		}
		end, ok := s.primary(k, st.to)
		if !ok || s.toks[end-1].text != ")" || end < st.to && s.toks[end].text != ";" {
			continue
		}
		add(s.span(k, end)+s.lang.end, 1)
		for _, it := range s.items(s.match[end-1]) {
			for _, name := range s.fn.names {
				add(s.src[s.toks[k].start:s.toks[it[0]].start]+name+s.src[s.toks[it[1]-1].end:s.toks[end-1].end]+s.lang.end, 1)
			}
		}
	}
	for _, st := range body {
		for k := st.from; k+1 < st.to; k++ {
			var member, set string
			methods := []string{"add"}
			switch t := s.toks[k].text; {
			case s.lang.name == "python" && t == "in" && s.toks[st.from].text != "for" && k > st.from && s.isValue(k+1):
				start := s.operandStart(k-1, false)
				if start >= 0 && start < k && s.toks[k-1].text == "not" {
					start = s.operandStart(k-2, false)
				}
				if start < 0 || start >= k {
					continue
				}
				member, set, methods = strings.TrimSuffix(s.span(start, k), " not"), s.toks[k+1].text, []string{"add", "append"}
			case (t == "has" || t == "contains" || t == "includes") && k >= 2 && s.toks[k-2].kind == identKind && k+2 < st.to && s.toks[k+1].text == "(" && s.match[k+1] > k+2:
				member, set = s.span(k+2, s.match[k+1]), s.toks[k-2].text
				if t == "includes" {
					methods = []string{"push"}
				}
			default:
				continue
			}
			weight := .8
			if !s.calledOn(set, "add", "append", "push", "set") {
				weight = 4
			}
			for i, m := range append([]string{member}, s.fn.params...) {
				for _, method := range methods {
					add(set+"."+method+"("+m+")"+s.lang.end, weight/float64(1+min(i, 1)))
				}
			}
		}
	}
	return found
}

// calledOn reports whether the function calls one of the methods of name.
func (s *site) calledOn(name string, methods ...string) bool {
	for _, st := range s.stmts[s.fn.from:s.fn.to] {
		for k := st.from; k+2 < st.to; k++ {
			if s.toks[k].text == name && s.toks[k+1].text == "." && slices.Contains(methods, s.toks[k+2].text) {
				return true
			}
		}
	}
	return false
}

// insertGuards adds a missing case at the beginning of a function, and makes
// statements conditional.
func insertGuards(s *site) {
	if s.fn == nil {
		return
	}
	l := s.lang
	guard := func(w float64, cond, result string) {
		s.insert(w, s.guarded(cond, "return "+result+l.end))
	}
	if s.isHead() {
		results := append(slices.Clone(s.fn.params), s.results()...)
		if l.name != "python" && l.name != "javascript" {
			results = append(s.results(), s.fn.params...)
		}
		header := s.text(s.stmt)
		for _, p := range s.fn.params {
			conds := []string{p + " == 0", p + " <= 1", p + " <= 0", p + " < 0", p + " == 1"}
			if l.isNull != "" && (l.name != "go" || strings.ContainsAny(header, "*[")) {
				conds = append(conds, fmt.Sprintf(l.isNull, p))
			}
			if l.isEmpty != "" && (l.name != "go" || strings.Contains(header, "[]") || strings.Contains(header, "string")) {
				conds = append(conds, fmt.Sprintf(l.isEmpty, p))
			}
			if l.name == "python" {
				conds = append(conds, "not "+p, "not isinstance("+p+", list)", "len("+p+") <= 1")
			}
			w := 1.0
			if s.recursesWith(p) { // what stays the same cannot end a recursion
				w = .2
			}
			for i, c := range conds {
				for j, r := range results {
					guard(w/(1+.1*float64(i)+.1*float64(j)), c, r)
				}
			}
			for _, q := range s.fn.params {
				if p != q {
					for _, r := range results {
						guard(.2*w, p+" == "+q, r)
					}
				}
			}
		}
		return
	}
	if s.header || s.continues() || s.endsBlock() || strings.Contains(s.text(s.stmt), ":=") {
		return
	}
	for i, a := range s.fn.names[:min(8, len(s.fn.names))] {
		conds := []string{a + " > 0"}
		if l.name == "python" || l.name == "javascript" || l.name == "c" {
			conds = append(conds, a, l.not+a)
		}
		for _, b := range s.fn.names[:min(6, i)] {
			conds = append(conds, a+" < "+b, b+" < "+a, a+" != "+b)
		}
		for _, c := range conds {
			body := strings.ReplaceAll(s.guarded(c, s.text(s.stmt)), "\n", "\n"+s.indent)
			s.emitAt(.25, s.toks[s.from].start, s.toks[s.to-1].end, s.line(), body)
		}
	}
}

// recursesWith reports whether the function calls itself with p unchanged.
func (s *site) recursesWith(p string) bool {
	at := slices.Index(s.fn.params, p)
	for _, st := range s.stmts[s.fn.from+1 : s.fn.to] {
		for k := st.from; k+1 < st.to; k++ {
			if s.toks[k].text != s.fn.name || s.toks[k+1].text != "(" || s.match[k+1] < 0 {
				continue
			}
			if items := s.items(k + 1); at < len(items) && s.span(items[at][0], items[at][1]) == p {
				return true
			}
		}
	}
	return false
}

func (s *site) guarded(cond, then string) string {
	return strings.ReplaceAll(fmt.Sprintf(s.lang.block, cond, then), "\t", s.unit())
}
