package mutate

import (
	"fmt"
	"slices"
	"strings"
)

// addTrailers gives a name an index, slice or method that others in the
// function have, or that the language commonly uses.
func addTrailers(s *site) {
	if s.isHead() || s.fn == nil {
		return
	}
	trailers := s.trailers()
	for k := s.from; k < s.to; k++ {
		if !s.isValue(k) || s.isTarget(k, k+1) || k+1 < s.to && (s.toks[k+1].text == "[" || s.toks[k+1].text == ".") {
			continue
		}
		name := s.toks[k].text
		w := .7
		if s.inCall(k) || s.toks[s.from].text == "for" {
			w = 1
		}
		for _, t := range trailers {
			s.emit(w, k, k+1, name+t)
		}
		for _, format := range s.lang.slices {
			s.emit(w*.5, k, k+1, fmt.Sprintf(format, name))
		}
		if !s.lang.indent && s.lang.name != "go" || len(s.lang.slices) == 0 {
			continue
		}
		for _, bound := range s.fn.names {
			if bound != name {
				s.emit(w*.4, k, k+1, name+"["+bound+":]")
				s.emit(w*.3, k, k+1, name+"[:"+bound+"]")
				s.emit(w*.3, k, k+1, name+"["+bound+"]")
			}
		}
	}
}

// trailers are the indexes, slices and attributes that follow names in the
// function, most common first.
func (s *site) trailers() []string {
	var found []string
	for _, st := range s.stmts[s.fn.from:s.fn.to] {
		for k := st.from; k+1 < st.to; k++ {
			if s.toks[k].kind != identKind {
				continue
			}
			end := 0
			switch {
			case s.toks[k+1].text == "[" && s.match[k+1] > 0 && s.match[k+1] < st.to:
				end = s.match[k+1] + 1
			case s.toks[k+1].text == "." && k+2 < st.to:
				end = k + 3
				if end < st.to && s.toks[end].text == "(" && s.match[end] > 0 && s.match[end] < st.to {
					end = s.match[end] + 1
				}
			default:
				continue
			}
			if t := s.span(k+1, end); len(t) <= 24 && !slices.Contains(found, t) {
				found = append(found, t)
			}
		}
	}
	return found[:min(len(found), 12)]
}

// combineNames makes X − Y or X + Y of a value and a name of the scope.
func combineNames(s *site) {
	if s.isHead() {
		return
	}
	for k := s.from; k < s.to; k++ {
		if !s.startsPrimary(k, s.from) || s.toks[k].kind == stringKind || s.toks[k].text == "[" {
			continue
		}
		end, ok := s.primary(k, s.to)
		if !ok || s.isTarget(k, end) {
			continue
		}
		w := .5
		if s.inCall(k) || s.inIndex(k) {
			w = 1
		}
		if end == k+1 && s.holds(s.toks[k].text) {
			w *= .1
		}
		x := s.span(k, end)
		for _, name := range s.names() {
			if name != x && !s.holds(name) {
				s.emit(w, k, end, s.parenthesised(k, end, x+" - "+name))
				s.emit(w*.8, k, end, s.parenthesised(k, end, x+" + "+name))
				s.emit(w*.2, k, end, s.parenthesised(k, end, x+" * "+name))
			}
		}
		s.emit(w*.5, k, end, s.parenthesised(k, end, x+" * "+x))
		s.emit(w*.5, k, end, s.parenthesised(k, end, "2 * "+x))
	}
}

// condition returns the token span of the statement's condition.
func (s *site) condition() (from, to int, ok bool) {
	for k := s.from; k < s.to; k++ {
		t := s.toks[k]
		if t.kind != keywordKind || !slices.Contains(s.lang.control, t.text) {
			if t.text == "}" || t.text == "else" || t.text == "do" {
				continue
			}
			return 0, 0, false
		}
		from, to = k+1, s.to
		switch {
		case s.lang.indent:
			if to--; s.toks[to].text != ":" {
				return 0, 0, false
			}
		case from < s.to && s.toks[from].text == "(" && s.match[from] > 0 && s.lang.name != "go":
			from, to = from+1, s.match[from]
		default:
			if to--; s.toks[to].text != "{" {
				return 0, 0, false
			}
		}
		var semicolons []int
		for j := from; j < to; j++ {
			if s.toks[j].text == ";" {
				semicolons = append(semicolons, j)
			}
		}
		switch len(semicolons) {
		case 0:
			if t.text == "for" && (s.lang.name != "go" || slices.ContainsFunc(s.toks[from:min(to, len(s.toks))], func(t token) bool { return t.text == "range" })) {
				return 0, 0, false
			}
		case 1:
			from = semicolons[0] + 1
		default:
			from, to = semicolons[0]+1, semicolons[1]
		}
		return from, to, from < to && to <= s.to
	}
	return 0, 0, false
}

func changeConditions(s *site) {
	from, to, ok := s.condition()
	if !ok {
		return
	}
	l := s.lang
	cond := s.span(from, to)
	loop := s.toks[s.from].text == "while" || s.toks[s.from].text == "for"
	if strings.HasPrefix(cond, l.not) {
		s.emit(.6, from, to, strings.TrimPrefix(cond, l.not))
	}
	s.emit(.8, from, to, l.not+"("+cond+")")
	whole := cond
	if strings.Contains(cond, " "+l.or+" ") || strings.Contains(cond, " "+l.and+" ") {
		whole = "(" + cond + ")"
	}
	join := func(w float64, extra string) { // a guard goes in front, where it is evaluated first
		s.emit(w, from, to, extra+" "+l.or+" "+whole)
		s.emit(w*.6, from, to, whole+" "+l.and+" "+extra)
		s.emit(w*.3, from, to, whole+" "+l.or+" "+extra)
	}
	bases := map[string]bool{}
	for k := from; k < to; k++ { // x.attr, x[i]: x may be null
		if !s.isValue(k) || k+1 >= to || bases[s.toks[k].text] {
			continue
		}
		if next := s.toks[k+1].text; next == "." || next == "->" || next == "[" {
			x := s.toks[k].text
			bases[x] = true
			if l.isNull != "" && (next != "[" || l.name != "go") {
				null := fmt.Sprintf(l.isNull, x)
				s.emit(1, from, to, null+" "+l.or+" "+whole)
				notNull := strings.NewReplacer("==", "!=", " is ", " is not ").Replace(null)
				s.emit(.9, from, to, notNull+" "+l.and+" "+whole)
			}
			if l.indent {
				s.emit(.5, from, to, "not "+x+" or "+whole)
				s.emit(.5, from, to, x+" and "+whole)
			}
		}
	}
	for _, name := range s.names() {
		if l.name == "python" || l.name == "javascript" || l.name == "c" {
			join(.35, l.not+name)
			join(.25, name)
			s.emit(.4, from, to, name)
			s.emit(.3, from, to, l.not+name)
		} else {
			join(.2, name)
			join(.15, l.not+name)
			s.emit(.2, from, to, name)
		}
		join(.15, name+" == 0")
		join(.1, name+" > 0")
		if loop {
			s.emit(.2, from, to, name+" > 0")
		}
		for _, other := range s.names()[:min(6, len(s.names()))] {
			if other != name {
				s.emit(.1, from, to, whole+" "+l.and+" "+name+" < "+other)
				s.emit(.06, from, to, whole+" "+l.or+" "+name+" == "+other)
				s.emit(.1, from, to, name+" < "+other)
			}
		}
	}
	for k := from; k+1 < to; k++ { // a comparison with a small number: both may be meant otherwise
		if s.toks[k+1].kind != numberKind || !slices.Contains([]string{"==", "===", "<", "<=", ">", ">=", "!="}, s.toks[k].text) {
			continue
		}
		for _, n := range []string{"0", "1", "2"} {
			for _, op := range []string{"<=", "<", ">", ">=", "=="} {
				s.emit(.45, k, k+2, op+" "+n)
			}
		}
	}
}

// returned is the token span of what the statement returns or yields.
func (s *site) returned() (from, to int, ok bool) {
	for k := s.from; k < s.to; k++ {
		if t := s.toks[k].text; t != "return" && t != "yield" {
			continue
		}
		from, to = k+1, s.to
		for to > from && (s.toks[to-1].text == ";" || s.toks[to-1].text == "}" && s.match[to-1] < from) {
			to--
		}
		return from, to, from < to
	}
	return 0, 0, false
}

// results are the constants that the function can return, as far as its header
// tells in a typed language.
func (s *site) results() []string {
	all := append(slices.Clone(s.lang.constants), s.lang.results...)
	if s.fn == nil || s.lang.name == "python" || s.lang.name == "javascript" {
		return all
	}
	head := s.stmts[s.fn.from]
	var types []token // before the name, or behind the parameters
	for k := head.from; k < head.to; k++ {
		if s.toks[k].text == s.fn.name {
			if s.lang.name == "go" && k+1 < head.to && s.match[k+1] > k {
				types = s.toks[s.match[k+1]+1 : head.to]
			} else {
				types = s.toks[head.from:k]
			}
			break
		}
	}
	for _, t := range types {
		switch t.text {
		case "*", "[":
			return all
		case "bool", "boolean":
			return []string{"true", "false"}
		case "int", "long", "short", "unsigned", "size_t", "uint", "int64", "int32", "uint64", "byte", "rune", "float64", "double", "float":
			return s.lang.constants
		}
	}
	return all
}

func changeResults(s *site) {
	from, to, ok := s.returned()
	if !ok {
		return
	}
	l, was := s.lang, s.span(from, to)
	isFlag := was == "True" || was == "true" || was == "False" || was == "false"
	for _, c := range s.results() {
		s.emit(.5, from, to, c)
	}
	if strings.Contains(was, " ") && to-from > 1 {
		s.emit(.4, from, to, l.not+"("+was+")")
	}
	w := .8
	if isFlag {
		w = 1
	}
	for _, name := range s.names() {
		s.emit(.6, from, to, name)
		if l.list != "" {
			s.emit(.4, from, to, fmt.Sprintf(l.list, name))
		}
		if isFlag {
			for _, test := range []string{"%s == 0", "%s != 0", "%s > 0", l.isEmpty} {
				if test != "" && (test == l.isEmpty) == s.holds(name) {
					s.emit(w, from, to, fmt.Sprintf(test, name))
				}
			}
			if l.indent {
				s.emit(w*.5, from, to, "not "+name)
			}
			for _, other := range s.names() {
				if other != name {
					s.emit(.15, from, to, name+" == "+other)
				}
			}
			continue
		}
		s.emit(.3, from, to, name+" + "+was)
		s.emit(.3, from, to, was+" + "+name)
		s.emit(.2, from, to, was+" - "+name)
		if l.larger != "" {
			s.emit(.15, from, to, fmt.Sprintf(l.larger, name, was))
			s.emit(.15, from, to, fmt.Sprintf(l.smaller, name, was))
		}
	}
	if !isFlag {
		s.emit(.5, from, to, was+" + 1")
		s.emit(.5, from, to, was+" - 1")
		s.emit(.3, from, to, "-"+was)
		if l.list != "" {
			s.emit(.4, from, to, fmt.Sprintf(l.list, was))
		}
	}
}

func changeAssigned(s *site) {
	if s.lang.larger == "" {
		return
	}
	for k := s.from + 1; k+1 < s.to; k++ {
		if t := s.toks[k].text; t != "=" && t != ":=" || !s.isAssignment(k) {
			continue
		}
		from, to := k+1, s.to
		for to > from && (s.toks[to-1].text == ";" || s.toks[to-1].text == "{") {
			to--
		}
		start := s.operandStart(k-1, false)
		if start < 0 || start >= k || from == to {
			return
		}
		target, value := s.span(start, k), s.span(from, to)
		for _, format := range []string{s.lang.larger, s.lang.smaller} {
			s.emit(.7, from, to, fmt.Sprintf(format, target, value))
			s.emit(.7, from, to, fmt.Sprintf(format, "0", value))
			for _, name := range s.names() {
				s.emit(.15, from, to, fmt.Sprintf(format, name, value))
			}
		}
		s.emit(.6, from, to, target+" + "+value)
		s.emit(.3, from, to, target+" - "+value)
		for _, c := range s.lang.constants {
			s.emit(.3, from, to, c)
		}
		return
	}
}

// lineEnd is the offset behind the statement's last line, without its newline.
func (s *site) lineEnd() int {
	end := s.toks[s.to-1].end
	if n := strings.IndexByte(s.src[end:], '\n'); n >= 0 {
		return end + n
	}
	return len(s.src)
}

func (s *site) lineStart() int { return strings.LastIndexByte(s.src[:s.toks[s.from].start], '\n') + 1 }

// continues reports a statement that belongs to the one before it.
func (s *site) continues() bool {
	return slices.Contains([]string{"elif", "else", "except", "finally", "}", "case", "default", "catch"}, s.toks[s.from].text)
}

func (s *site) line() int { return s.toks[s.from].line }

func moveStatements(s *site) {
	if s.fn == nil || s.isHead() || s.continues() {
		return
	}
	text := s.text(s.stmt)
	first := s.toks[s.from].text
	declares := first == "let" || first == "const" || first == "var" || strings.Contains(text, ":=")
	if !s.header {
		w := .6
		if first == "return" || declares {
			w = .15
		}
		if s.lang.indent {
			s.emitAt(w, s.toks[s.from].start, s.toks[s.to-1].end, s.line(), "pass")
		} else {
			s.emitAt(w, s.lineStart(), s.lineEnd(), s.line(), "")
		}
		s.emitAt(.15, s.lineEnd(), s.lineEnd(), s.line(), "\n"+s.indent+text) // twice
	}
	if s.index+1 >= s.fn.to || s.header {
		return
	}
	next := &site{file: s.file, stmt: s.stmts[s.index+1], index: s.index + 1, fn: s.fn}
	if next.indent == s.indent && !next.header && !next.continues() {
		between := s.src[s.toks[s.to-1].end:next.toks[next.from].start]
		if strings.Contains(between, "\n") {
			s.emitAt(.7, s.toks[s.from].start, next.toks[next.to-1].end, s.line(), next.text(next.stmt)+between+text)
		}
	}
	if !s.lang.indent {
		s.moveBehindBrace(text)
		return
	}
	// Out of the block it ends, into the block before it.
	if len(next.indent) < len(s.indent) && !next.continues() {
		s.emitAt(.7, s.lineStart(), s.toks[s.from].start, s.line(), next.indent)
	}
	if prev := s.stmts[s.index-1]; len(prev.indent) > len(s.indent) && s.index-1 > s.fn.from {
		s.emitAt(.7, s.lineStart(), s.toks[s.from].start, s.line(), prev.indent)
	}
}

// moveBehindBrace moves a statement over the closing brace next to it.
func (s *site) moveBehindBrace(text string) {
	if next := s.stmts[s.index+1]; s.toks[next.from].text == "}" && next.to-next.from == 1 && s.index+2 < s.fn.to {
		s.emitAt(.6, s.lineStart(), s.toks[next.to-1].end, s.line(), next.indent+"}\n"+next.indent+text)
	}
	if prev := s.stmts[s.index-1]; s.toks[prev.from].text == "}" && prev.to-prev.from == 1 {
		begin := strings.LastIndexByte(s.src[:s.toks[prev.from].start], '\n') + 1
		s.emitAt(.6, begin, s.toks[s.to-1].end, s.line(), s.indent+"\t"+text+"\n"+s.indent+"}")
	}
}

// bodyIndent is the indentation inside the block that the statement opens.
func (s *site) bodyIndent() string {
	if s.index+1 < len(s.stmts) && len(s.stmts[s.index+1].indent) > len(s.indent) {
		return s.stmts[s.index+1].indent
	}
	return s.indent + s.unit()
}

// unit is one step of indentation in this file.
func (s *site) unit() string {
	for _, st := range s.stmts {
		if st.indent != "" {
			if st.indent[0] == '\t' {
				return "\t"
			}
			return st.indent
		}
	}
	return "    "
}

func changeStrings(s *site) {
	var others []string
	if s.fn == nil || s.isHead() {
		return
	}
	for _, st := range s.stmts[s.fn.from:s.fn.to] {
		for _, t := range s.tokens(st) {
			if t.kind == stringKind && !slices.Contains(others, t.text) {
				others = append(others, t.text)
			}
		}
	}
	for k := s.from; k < s.to; k++ {
		if s.toks[k].kind != stringKind || strings.Contains(s.toks[k].text, "\n") {
			continue
		}
		for _, o := range append(others, `""`, `" "`) {
			s.emit(.6, k, k+1, o)
		}
	}
}

// replaceByDonors puts expressions of the same function in each other's place.
func replaceByDonors(s *site) {
	if s.fn == nil || s.isHead() {
		return
	}
	var donors []string
	for _, st := range s.stmts[min(s.fn.from+1, s.fn.to):s.fn.to] {
		for k := st.from; k < st.to; k++ {
			if !s.startsPrimary(k, st.from) {
				continue
			}
			if end, ok := s.primary(k, st.to); ok && end > k+1 {
				if t := s.span(k, end); len(t) <= 32 && !strings.Contains(t, "\n") && !slices.Contains(donors, t) {
					donors = append(donors, t)
				}
			}
		}
	}
	for k := s.from; k < s.to; k++ {
		if !s.startsPrimary(k, s.from) {
			continue
		}
		end, ok := s.primary(k, s.to)
		if !ok || s.isTarget(k, end) {
			continue
		}
		was := s.span(k, end)
		for _, d := range donors[:min(len(donors), 20)] {
			s.emit(.4+.6*similarity(was, d), k, end, d)
		}
	}
}
