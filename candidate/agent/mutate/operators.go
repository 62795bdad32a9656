package mutate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The catalogue: what people get wrong in one place, with how likely it is to
// be what is wrong in a suspicious one.
var catalogue = []operator{
	{"operator", 1, swapOperators},
	{"name", .55, replaceNames},
	{"off by one", .8, offByOne},
	{"number", .75, changeNumbers},
	{"word", .8, swapWords},
	{"attribute", .5, replaceAttributes},
	{"arguments", .7, changeArguments},
	{"exchange", .6, exchange},
	{"unwrap", .5, unwrap},
	{"operand", .45, changeOperands},
	{"part of a value", .3, addTrailers},
	{"combine with a name", .14, combineNames},
	{"condition", .6, changeConditions},
	{"result", .5, changeResults},
	{"assigned value", .5, changeAssigned},
	{"statement", .45, moveStatements},
	{"new statement", .22, insertStatements},
	{"missing case", .3, insertGuards},
	{"string", .15, changeStrings},
	{"donor", .1, replaceByDonors},
}

// A symptom is what the output of a failing test tells about the kind of fault.
type symptom struct {
	form  *regexp.Regexp
	boost map[string]float64 // by operator; 1 for those not named
}

var overflow = regexp.MustCompile(`RecursionError|[Ss]tack overflow|StackOverflowError|Maximum call stack|stack-overflow`)

var symptoms = []symptom{
	{overflow,
		map[string]float64{"missing case": 4, "arguments": 1.5, "off by one": 1.3, "condition": 1.5}},
	{regexp.MustCompile(`IndexError|KeyError|out of (?:range|bounds)|OutOfBounds|buffer-overflow`),
		map[string]float64{"off by one": 1.6, "condition": 1.4, "number": 1.3, "missing case": 1.3, "part of a value": 1.3}},
	{regexp.MustCompile(`NoneType|nil pointer|NullPointerException|Cannot read propert|SEGV|Segmentation fault`),
		map[string]float64{"condition": 2, "missing case": 2, "attribute": 1.3}},
	{regexp.MustCompile(`NameError|UnboundLocalError|ReferenceError|is not defined|undefined:|cannot find symbol|undeclared`),
		map[string]float64{"name": 2, "word": 1.5, "statement": 1.5}},
	{regexp.MustCompile(`AttributeError|is not a function|has no (?:field|attribute|member)`),
		map[string]float64{"attribute": 2, "word": 1.5, "part of a value": 1.5, "unwrap": 1.5}},
	{regexp.MustCompile(`ZeroDivisionError|divide by zero|/ by zero|SIGFPE|Floating point exception`),
		map[string]float64{"condition": 1.5, "missing case": 2, "operator": 1.2}},
}

// diagnose gives the operators' boosts for an output.
func diagnose(output string) map[string]float64 {
	boost := map[string]float64{}
	for _, s := range symptoms {
		if !s.form.MatchString(output) {
			continue
		}
		for op, by := range s.boost {
			boost[op] = max(boost[op], by)
		}
	}
	return boost
}

func swapOperators(s *site) {
	for k := s.from; k < s.to; k++ {
		t := s.toks[k]
		for _, group := range s.lang.swaps {
			i := slices.Index(group, t.text)
			if i < 0 || t.kind == stringKind || t.text == "=" && !s.isAssignment(k) || isUnary(s.file, k, s.from) {
				continue
			}
			for j, alternative := range group {
				if j != i {
					s.emit(swapWeight(t.text, alternative), k, k+1, alternative)
				}
			}
		}
	}
}

// isAssignment tells an assignment from a keyword argument.
func (s *site) isAssignment(k int) bool {
	for j := s.from; j < k; j++ {
		if s.match[j] > k {
			return false
		}
	}
	return s.toks[s.from].text != "for" || !s.lang.indent
}

func isUnary(f *file, k, from int) bool {
	if !strings.Contains("+-*&", f.toks[k].text) {
		return false
	}
	if k == from {
		return true
	}
	p := f.toks[k-1]
	return p.kind == opKind && p.text != ")" && p.text != "]" || p.kind == keywordKind
}

// swapWeight prefers the confusions that are nearest.
func swapWeight(from, to string) float64 {
	boundary := map[string]string{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "===": "!==", "!==": "===",
		"+": "-", "-": "+", "and": "or", "or": "and", "&&": "||", "||": "&&", "&": "|", "|": "&", "^": "&", "/": "//", "//": "/",
		"&=": "|=", "|=": "&=", "^=": "&=", "++": "--", "--": "++", "+=": "-=", "-=": "+=", ">>": ">>>", "in": "not in", "is": "is not"}
	mirror := map[string]string{"<": ">", ">": "<", "<=": ">=", ">=": "<=", "*": "+", "^": "|", "=": "+="}
	switch to {
	case boundary[from]:
		return 1
	case mirror[from]:
		return .8
	}
	switch from {
	case "if", "while", "for", "break", "continue", ".", "->", "let", "var", "yield":
		return .3
	case "<", "<=", ">", ">=":
		if to == "==" || to == "!=" || to == "===" || to == "!==" {
			return .3
		}
	}
	return .45
}

func replaceNames(s *site) {
	names := s.names()
	for k := s.from; k < s.to; k++ {
		if !s.isValue(k) || s.header && s.fn != nil && s.index == s.fn.from {
			continue
		}
		for _, name := range names {
			w := 1.0
			if s.holds(s.toks[k].text) != s.holds(name) {
				w = .4
			}
			if slices.ContainsFunc(s.tokens(s.stmt), func(t token) bool { return t.text == name }) {
				w *= .9
			}
			if s.isTarget(k, k+1) {
				w *= .4
			}
			if len(names) > 12 {
				w *= .7
			}
			s.emit(w, k, k+1, name)
		}
	}
	for k := s.from; k < s.to; k++ { // a constant in place of a condition or an argument
		if t := s.toks[k].text; s.toks[k].kind == keywordKind && slices.Contains([]string{"True", "true", "None", "null", "nil"}, t) {
			for _, name := range names {
				s.emit(.8, k, k+1, name)
			}
		}
	}
}

// offByOne changes a value by one wherever a value can be counted.
func offByOne(s *site) {
	if s.isHead() {
		return
	}
	for k := s.from; k < s.to; k++ {
		if !s.startsPrimary(k, s.from) || s.toks[k].kind == numberKind || s.toks[k].kind == stringKind {
			continue
		}
		end, ok := s.primary(k, s.to)
		if !ok || s.isTarget(k, end) || s.toks[k].text == "[" || s.toks[k].kind == keywordKind && end == k+1 {
			continue
		}
		w := .25
		if s.inIndex(k) || s.inCall(k) {
			w = 1
		} else if s.besideComparison(k, end) {
			w = .8
		} else if s.from < k && (s.toks[k-1].text == "return" || s.toks[k-1].text == "=") {
			w = .6
		}
		if end == k+1 && s.holds(s.toks[k].text) {
			w *= .1
		}
		for _, by := range []string{" + 1", " - 1"} {
			s.emit(w, k, end, s.parenthesised(k, end, s.span(k, end)+by))
		}
	}
	// Dropping an existing ±1 is part of changing operands.
}

// holds reports whether the function uses name as something with parts, which
// is seldom meant where a number is, or the reverse.
func (s *site) holds(name string) bool { return s.fn != nil && slices.Contains(s.fn.holders, name) }

// isHead reports the header of a function.
func (s *site) isHead() bool { return s.fn != nil && s.index == s.fn.from }

// isTarget reports whether the primary at [k, end) is what a statement assigns
// to or calls as a whole.
func (s *site) isTarget(k, end int) bool {
	if k == s.from && (end == s.to || s.toks[end].text == ";") {
		return true
	}
	if end < s.to {
		switch s.toks[end].text {
		case "=", ":=", "+=", "-=", "*=", "/=", "//=", "%=", "&=", "|=", "^=", "++", "--", "<<=", ">>=", "=>":
			return true
		}
		if s.toks[end].kind == identKind && !s.lang.indent { // a type
			return true
		}
	}
	if first := s.toks[s.from].text; first == "for" {
		for j := k; j < s.to; j++ {
			if t := s.toks[j].text; t == "in" || t == "of" || t == "range" {
				return true
			}
		}
	}
	return k > s.from && (s.toks[k-1].text == "def" || s.toks[k-1].text == "new" || s.toks[k-1].text == "lambda" || s.toks[k-1].text == "func")
}

// enclosing returns the innermost open bracket of the statement around k, or -1.
func (s *site) enclosing(k int) int {
	for j := k - 1; j >= s.from; j-- {
		if s.match[j] > k {
			return j
		}
	}
	return -1
}

func (s *site) inIndex(k int) bool {
	j := s.enclosing(k)
	return j > s.from && s.toks[j].text == "[" && !s.startsPrimary(j, s.from)
}

func (s *site) inCall(k int) bool {
	j := s.enclosing(k)
	return j > s.from && s.toks[j].text == "(" && s.toks[j-1].kind == identKind
}

func (s *site) besideComparison(k, end int) bool {
	is := func(j int) bool {
		return j >= s.from && j < s.to && slices.Contains([]string{"<", "<=", ">", ">=", "==", "!=", "===", "!=="}, s.toks[j].text)
	}
	return is(k-1) || is(end)
}

// parenthesised puts expr in parentheses when a neighbour would bind tighter.
func (s *site) parenthesised(k, end int, expr string) string {
	tight := []string{"*", "/", "//", "%", "**", "-", "<<", ">>", "&", "|", "^", ".", "!", "~"}
	if k > s.from && slices.Contains(tight, s.toks[k-1].text) || end < s.to && slices.Contains(tight, s.toks[end].text) && s.toks[end].text != "-" {
		return "(" + expr + ")"
	}
	return expr
}

func changeNumbers(s *site) {
	for k := s.from; k < s.to; k++ {
		t := s.toks[k]
		if t.kind != numberKind {
			continue
		}
		var n int
		if _, err := fmt.Sscanf(t.text, "%d", &n); err == nil && fmt.Sprint(n) == t.text {
			s.emit(1, k, k+1, fmt.Sprint(n+1))
			s.emit(1, k, k+1, fmt.Sprint(n-1))
			s.emit(.25, k, k+1, fmt.Sprint(2*n))
			s.emit(.25, k, k+1, fmt.Sprint(10*n))
		}
		for _, c := range s.lang.constants {
			s.emit(.5, k, k+1, c)
		}
		for _, name := range s.names() {
			s.emit(.35, k, k+1, name)
		}
	}
}

func swapWords(s *site) {
	for k := s.from; k < s.to; k++ {
		for _, group := range s.lang.words {
			if !slices.Contains(group, s.toks[k].text) {
				continue
			}
			for _, w := range group {
				s.emit(1/float64(len(group)-1), k, k+1, w)
			}
		}
	}
}

func replaceAttributes(s *site) {
	for k := s.from + 1; k < s.to; k++ {
		if p := s.toks[k-1].text; (p != "." && p != "->") || s.toks[k].kind != identKind {
			continue
		}
		called := k+1 < s.to && s.toks[k+1].text == "("
		crowd := 1.0
		if len(s.attrs) > 20 {
			crowd = .6
		}
		for a, method := range s.attrs {
			w := .5 + .5*similarity(a, s.toks[k].text)
			if called {
				w = .6 * similarity(a, s.toks[k].text)
			}
			if called != method {
				w *= .25
			}
			s.emit(w*crowd, k, k+1, a)
		}
	}
	for k := s.from; k < s.to; k++ { // a name in place of one of its parts, and the reverse
		if !s.startsPrimary(k, s.from) || s.toks[k].kind != identKind {
			continue
		}
		if end, ok := s.primary(k, s.to); ok && end-k >= 3 && s.toks[end-2].kind == opKind && (s.toks[end-2].text == "." || s.toks[end-2].text == "->") {
			s.emit(.5, k, end, s.span(k, end-2))
		}
	}
}

// similarity is near 1 for names that share most of their letters.
func similarity(a, b string) float64 {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	m := 0
	for m < len(a)-n && m < len(b)-n && a[len(a)-1-m] == b[len(b)-1-m] {
		m++
	}
	return .3 + .7*float64(n+m)/float64(max(len(a), len(b), 1))
}

func changeArguments(s *site) {
	for k := s.from; k < s.to; k++ {
		open := s.toks[k].text
		if open != "(" && open != "[" || s.match[k] < k || s.match[k] >= s.to || s.isHead() {
			continue
		}
		items := s.items(k)
		call := k > s.from && s.toks[k-1].kind == identKind && open == "("
		recursive := call && s.fn != nil && s.toks[k-1].text == s.fn.name
		w := .6
		if recursive {
			w = 1
		}
		for i := range items {
			for j := i + 1; j < len(items) && j <= i+3; j++ {
				a, b := items[i], items[j]
				text := s.span(b[0], b[1]) + s.src[s.toks[a[1]-1].end:s.toks[b[0]].start] + s.span(a[0], a[1])
				s.emit(w/float64(j-i), a[0], b[1], text)
			}
			if len(items) > 1 { // drop one
				if i+1 < len(items) {
					s.emit(w*.4, items[i][0], items[i+1][0]-1+1, s.span(items[i+1][0], items[i+1][0]+1))
				} else {
					s.emit(w*.4, items[i-1][1]-1, items[i][1], s.span(items[i-1][1]-1, items[i-1][1]))
				}
			}
		}
		if !call || len(items) == 0 {
			continue
		}
		for _, c := range append(slices.Clone(s.names()), s.lang.constants...) { // add one
			s.emit(w*.25, s.match[k], s.match[k]+1, ", "+c+")")
			s.emit(w*.2, k, k+1, "("+c+", ")
		}
		if recursive { // any argument may be any name, literal or part of one
			for _, it := range items {
				for _, name := range s.names() {
					s.emit(.5, it[0], it[1], name)
				}
			}
		}
	}
}

// exchange swaps two names wherever the statement has them, and the indexes of
// an element of a table.
func exchange(s *site) {
	if s.isHead() {
		return
	}
	var names []string
	for k := s.from; k < s.to; k++ {
		if s.isValue(k) && !slices.Contains(names, s.toks[k].text) {
			names = append(names, s.toks[k].text)
		}
		if k+1 < s.to && s.toks[k].text == "[" && s.match[k] > k && s.match[k]+1 < s.to && s.toks[s.match[k]+1].text == "[" && k > s.from {
			second := s.match[k] + 1
			if end := s.match[second]; end > second+1 && second > k+2 && end < s.to {
				s.emit(1, k, end+1, "["+s.span(second+1, end)+"]["+s.span(k+1, second-1)+"]")
			}
		}
	}
	for i, a := range names[:min(len(names), 8)] {
		for _, b := range names[:i] {
			var text strings.Builder
			at := s.toks[s.from].start
			for k := s.from; k < s.to; k++ {
				t := s.toks[k]
				to := map[string]string{a: b, b: a}[t.text]
				if to == "" || !s.isValue(k) {
					continue
				}
				text.WriteString(s.src[at:t.start] + to)
				at = t.end
			}
			text.WriteString(s.src[at:s.toks[s.to-1].end])
			s.emit(.5, s.from, s.to, text.String())
		}
	}
}

func unwrap(s *site) {
	for k := s.from; k < s.to; k++ {
		if !s.startsPrimary(k, s.from) || s.isTarget(k, k+1) || s.isHead() {
			continue
		}
		end, ok := s.primary(k, s.to)
		if !ok || end < k+3 {
			continue
		}
		last := s.toks[end-1].text
		if last != ")" && last != "]" {
			continue
		}
		open := s.match[end-1]
		if open <= k {
			continue
		}
		if last == "]" {
			s.emit(.8, k, end, s.span(k, open)) // a part → the whole
			continue
		}
		for _, it := range s.items(open) {
			s.emit(1, k, end, s.span(it[0], it[1]))
		}
		if s.toks[open-1].kind == identKind && open-2 > k && s.toks[open-2].text == "." {
			s.emit(.6, k, end, s.span(k, open-2)) // receiver
		}
	}
}

var arithmetic = []string{"+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>"}

// changeOperands drops or exchanges the operands of a binary operator.
func changeOperands(s *site) {
	logical := []string{s.lang.and, s.lang.or}
	for k := s.from + 1; k+1 < s.to; k++ {
		op := s.toks[k].text
		isLogical := slices.Contains(logical, op)
		if !isLogical && !slices.Contains(arithmetic, op) || isUnary(s.file, k, s.from) {
			continue
		}
		right, ok := s.operandEnd(k+1, isLogical)
		left := s.operandStart(k-1, isLogical)
		if !ok || left < 0 {
			continue
		}
		a, b := s.span(left, k), s.span(k+1, right)
		s.emit(.8, left, right, a)
		s.emit(.8, left, right, b)
		gap := s.src[s.toks[k-1].end:s.toks[k+1].start]
		if !isLogical && a != b {
			w := .7
			if op == "*" || op == "&" || op == "|" || op == "^" {
				w = .05 // commutative
			}
			s.emit(w, left, right, b+gap+a)
		}
		if !isLogical {
			if after, ok := s.operandEnd(right+1, false); right+1 < s.to && slices.Contains(arithmetic, s.toks[right].text) && ok {
				s.emit(.5, k+1, after, "("+s.span(k+1, after)+")")
				s.emit(.5, left, right, "("+s.span(left, right)+")")
			}
		}
	}
}

// operandEnd is the index behind the operand that begins at k; a logical
// operand reaches to the next logical operator or closing bracket.
func (s *site) operandEnd(k int, logical bool) (int, bool) {
	if k >= s.to {
		return 0, false
	}
	if !logical {
		return s.primary(k, s.to)
	}
	for j := k; j < s.to; j++ {
		switch t := s.toks[j].text; {
		case t == s.lang.and || t == s.lang.or || t == ")" || t == "]" || t == ":" || t == "{" || t == "}" || t == ";" || t == ",":
			return j, j > k
		case s.match[j] > j && s.match[j] < s.to:
			j = s.match[j]
		}
	}
	return s.to, true
}

// operandStart is the index of the operand that ends at k, or -1.
func (s *site) operandStart(k int, logical bool) int {
	for j := k; j >= s.from; j-- {
		if s.match[j] >= 0 && s.match[j] < j {
			j = s.match[j]
			if j < s.from {
				return -1
			}
		} else if t := s.toks[j]; logical && (t.text == s.lang.and || t.text == s.lang.or || t.text == "(" || t.text == "[" || t.text == "," || t.text == ";" ||
			t.text == "=" || t.text == ":=" || t.kind == keywordKind && (slices.Contains(s.lang.control, t.text) || t.text == "return")) {
			return j + 1
		} else if !logical && (t.kind == opKind && t.text != "." && t.text != "->" || t.kind == keywordKind && t.text != "self" && t.text != "this") {
			return j + 1
		}
		if !logical && s.startsPrimary(j, s.from) && (j == s.from || s.toks[j-1].text != ".") {
			if end, ok := s.primary(j, k+1); ok && end == k+1 {
				return j
			}
		}
	}
	if logical {
		return s.from
	}
	return -1
}
