package mutate

import (
	"slices"
	"strings"
)

// A file is a source file split into statements and functions.
type file struct {
	path  string // slash path below the root
	src   string
	lang  *language
	toks  []token
	match []int // the index of the partner of a bracket token, or -1
	stmts []stmt
	funcs []function
}

// A stmt is one logical line: physical lines joined by open brackets. Its
// tokens are toks[from:to].
type stmt struct {
	from, to int
	indent   string
	header   bool // opens a block
	fn       int  // index of the innermost function, or -1
}

// A function is a named block. Its statements are stmts[from:to], the header
// being the first.
type function struct {
	name     string
	from, to int
	params   []string
	names    []string // values used in it, most used first
	holders  []string // those of them that hold something: indexed, iterated, or with attributes
}

func parseFile(path, src string, l *language) *file {
	f := &file{path: path, src: src, lang: l, toks: l.lex(src)}
	f.match = make([]int, len(f.toks))
	var open []int
	for i, t := range f.toks {
		f.match[i] = -1
		switch t.text {
		case "(", "[", "{":
			open = append(open, i)
		case ")", "]", "}":
			if n := len(open); n > 0 && pair(f.toks[open[n-1]].text[0]) == t.text[0] {
				f.match[i], f.match[open[n-1]] = open[n-1], i
				open = open[:n-1]
			}
		}
	}
	f.splitStatements()
	f.findFunctions()
	return f
}

func (f *file) splitStatements() {
	depth, outer := 0, []int{}
	from := 0
	for i, t := range f.toks {
		switch t.text {
		case "(", "[":
			depth++
		case ")", "]":
			depth--
		case "{":
			if f.lang.indent {
				depth++
			} else { // a block inside an argument holds statements of its own
				outer, depth = append(outer, depth), 0
			}
		case "}":
			if f.lang.indent {
				depth--
			} else if n := len(outer); n > 0 {
				outer, depth = outer[:n-1], outer[n-1]
			}
		}
		if i+1 < len(f.toks) && (depth > 0 || f.toks[i+1].line == t.line+strings.Count(t.text, "\n")) {
			continue
		}
		s := stmt{from: from, to: i + 1, indent: f.indentAt(f.toks[from].start), fn: -1}
		s.header = f.lang.indent && t.text == ":" || !f.lang.indent && t.text == "{"
		f.stmts = append(f.stmts, s)
		from = i + 1
	}
}

func (f *file) indentAt(offset int) string {
	begin := strings.LastIndexByte(f.src[:offset], '\n') + 1
	text := f.src[begin:offset]
	return text[:len(text)-len(strings.TrimLeft(text, " \t"))]
}

func (f *file) tokens(s stmt) []token { return f.toks[s.from:s.to] }

func (f *file) text(s stmt) string { return f.src[f.toks[s.from].start:f.toks[s.to-1].end] }

// findFunctions finds named blocks by shape: a name, a parameter list, and the
// start of a block on the same logical line.
func (f *file) findFunctions() {
	for i, s := range f.stmts {
		if !s.header {
			continue
		}
		at := -1
		for k := s.from; k+1 < s.to; k++ {
			t := f.toks[k]
			if t.kind == identKind && f.toks[k+1].text == "(" && f.match[k+1] > 0 {
				at = k
				break
			}
			if t.kind == identKind && f.toks[k+1].text == "=" && !f.lang.indent { // name = (a, b) => {  and  name = function (a) {
				if rest := f.src[f.toks[k].start:f.toks[s.to-1].end]; strings.Contains(rest, "=>") || strings.Contains(rest, "function") {
					at = k
					break
				}
			}
			if slices.Contains(f.lang.control, t.text) || t.text == "class" || t.text == "switch" || t.text == "return" || t.text == "catch" {
				break
			}
		}
		if at < 0 || f.lang.indent && !slices.ContainsFunc(f.tokens(s), func(t token) bool { return t.text == "def" }) {
			continue
		}
		fn := function{name: f.toks[at].text, from: i, to: f.blockEnd(i)}
		for k := at + 1; k < s.to; k++ {
			if f.toks[k].text == "(" && f.match[k] > 0 {
				for p := k + 1; p < f.match[k]; p++ {
					if f.toks[p].kind == identKind && (f.lang.name != "go" && f.lang.name != "java" && f.lang.name != "c" || f.isParameter(p, f.match[k])) {
						fn.params = append(fn.params, f.toks[p].text)
					}
				}
				break
			}
		}
		f.funcs = append(f.funcs, fn)
		for j := fn.from; j < fn.to; j++ {
			f.stmts[j].fn = len(f.funcs) - 1
		}
	}
	for i := range f.funcs {
		f.funcs[i].names = f.valueNames(f.funcs[i])
		f.funcs[i].holders = f.findHolders(f.funcs[i])
	}
}

// isParameter tells a parameter's name from its type in a typed language.
func (f *file) isParameter(p, end int) bool {
	if f.lang.name == "go" {
		return f.toks[p-1].text == "(" || f.toks[p-1].text == ","
	}
	next := f.toks[p+1].text
	return p+1 == end || next == "," || next == "["
}

// blockEnd is the index behind the last statement of the block that i opens.
func (f *file) blockEnd(i int) int {
	s := f.stmts[i]
	if f.lang.indent {
		for j := i + 1; j < len(f.stmts); j++ {
			if len(f.stmts[j].indent) <= len(s.indent) {
				return j
			}
		}
		return len(f.stmts)
	}
	end := f.match[s.to-1]
	if end < 0 {
		return len(f.stmts)
	}
	for j := i + 1; j < len(f.stmts); j++ {
		if f.stmts[j].from <= end && end < f.stmts[j].to {
			return j + 1
		}
	}
	return len(f.stmts)
}

// isValue reports whether the name at k stands for a value: not a call, not an
// attribute, not a keyword argument.
func (f *file) isValue(k int) bool {
	t := f.toks[k]
	if t.kind != identKind {
		return false
	}
	if k > 0 && (f.toks[k-1].text == "." || f.toks[k-1].text == "->" || f.toks[k-1].text == "?.") {
		return false
	}
	if k+1 < len(f.toks) {
		switch next := f.toks[k+1]; {
		case next.text == "(":
			return false
		case next.kind == identKind && next.line == t.line && !f.lang.indent: // a type before a name
			return false
		case next.text == ":" && f.lang.name == "javascript" && k > 0 && (f.toks[k-1].text == "{" || f.toks[k-1].text == ","):
			return false
		case next.text == "<" && f.lang.name == "java" && t.text[0] >= 'A' && t.text[0] <= 'Z':
			return false
		}
	}
	return true
}

func (f *file) valueNames(fn function) []string {
	count := map[string]int{}
	order := []string{}
	add := func(name string) {
		if count[name] == 0 {
			order = append(order, name)
		}
		count[name]++
	}
	for _, p := range fn.params {
		add(p)
	}
	for _, s := range f.stmts[min(fn.from+1, fn.to):fn.to] {
		for k := s.from; k < s.to; k++ {
			if f.isValue(k) {
				add(f.toks[k].text)
			}
		}
	}
	order = slices.DeleteFunc(order, func(name string) bool { return !slices.Contains(fn.params, name) && f.onlyQualifies(fn, name) })
	slices.SortStableFunc(order, func(a, b string) int { return count[b] - count[a] })
	return order[:min(len(order), 24)]
}

// onlyQualifies reports a name that is only seen before a dot: a package or a
// class rather than a value.
func (f *file) onlyQualifies(fn function, name string) bool {
	for _, s := range f.stmts[fn.from:fn.to] {
		for k := s.from; k < s.to; k++ {
			if f.toks[k].text == name && (k+1 == len(f.toks) || f.toks[k+1].text != ".") {
				return false
			}
		}
	}
	return true
}

func (f *file) findHolders(fn function) []string {
	var found []string
	for _, s := range f.stmts[fn.from:fn.to] {
		for k := s.from; k < s.to; k++ {
			if f.toks[k].kind != identKind || slices.Contains(found, f.toks[k].text) {
				continue
			}
			holds := k+1 < s.to && slices.Contains([]string{"[", ".", "->"}, f.toks[k+1].text) && f.isValue(k)
			if k > s.from {
				p := f.toks[k-1].text
				holds = holds || p == "in" || p == "of" || p == "range" || p == "(" && k-2 >= s.from && slices.Contains([]string{"len", "sorted", "reversed", "enumerate", "list", "set", "iter"}, f.toks[k-2].text)
			}
			if holds {
				found = append(found, f.toks[k].text)
			}
		}
	}
	return found
}

// primary returns the index behind the primary expression that begins at k: a
// name, literal or bracketed group with its calls, indexes and attributes.
func (f *file) primary(k, limit int) (end int, ok bool) {
	t := f.toks[k]
	switch {
	case t.kind == identKind || t.kind == numberKind || t.kind == stringKind:
		end = k + 1
	case t.kind == keywordKind && slices.Contains([]string{"self", "cls", "this", "None", "True", "False", "nil", "true", "false", "null", "NULL"}, t.text):
		end = k + 1
	case (t.text == "(" || t.text == "[") && f.match[k] > 0 && f.match[k] < limit:
		end = f.match[k] + 1
	default:
		return 0, false
	}
	for end < limit {
		switch next := f.toks[end].text; {
		case (next == "(" || next == "[") && f.match[end] > 0 && f.match[end] < limit && t.kind != numberKind:
			end = f.match[end] + 1
		case (next == "." || next == "->" || next == "?.") && end+1 < limit && (f.toks[end+1].kind == identKind || f.toks[end+1].kind == keywordKind):
			end += 2
		default:
			return end, true
		}
	}
	return end, true
}

// startsPrimary reports whether the token at k begins a primary expression
// rather than continuing one.
func (f *file) startsPrimary(k, from int) bool {
	if k == from {
		return true
	}
	p := f.toks[k-1]
	if p.text == "." || p.text == "->" || p.text == "?." {
		return false
	}
	if t := f.toks[k].text; t == "(" || t == "[" {
		return !(p.kind == identKind || p.text == ")" || p.text == "]" || p.kind == stringKind)
	}
	return true
}

// items splits the bracketed group at open into the token spans between its
// commas.
func (f *file) items(open int) [][2]int {
	var spans [][2]int
	end := f.match[open]
	from := open + 1
	for k := open + 1; k <= end; k++ {
		if k == end || f.toks[k].text == "," {
			if k > from {
				spans = append(spans, [2]int{from, k})
			}
			from = k + 1
			continue
		}
		if f.match[k] > k {
			k = f.match[k]
		}
	}
	return spans
}

// span is the text of toks[from:to], nothing where they are none: source that
// does not parse has operators without operands.
func (f *file) span(from, to int) string {
	if from >= to {
		return ""
	}
	return f.src[f.toks[from].start:f.toks[to-1].end]
}
