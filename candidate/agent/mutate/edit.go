package mutate

import (
	"cmp"
	"slices"
	"strings"
)

// An edit replaces src[start:end] of one file by text.
type edit struct {
	file       *file
	start, end int
	text       string
	line       int
	op         string  // the operator that proposed it
	score      float64 // suspicion of the place times the operator's prior
}

// apply is the whole text of the file with e in it.
func (e edit) apply() string { return e.file.src[:e.start] + e.text + e.file.src[e.end:] }

// before and after are the lines that e touches, without their indentation.
func (e edit) before() string { return e.lines(e.file.src, e.end) }
func (e edit) after() string  { return e.lines(e.apply(), e.start+len(e.text)) }

func (e edit) lines(text string, end int) string {
	from := strings.LastIndexByte(text[:e.start], '\n') + 1
	to := len(text)
	if n := strings.IndexByte(text[end:], '\n'); n >= 0 {
		to = end + n
	}
	return strings.TrimSpace(text[from:to])
}

// An operator proposes edits at one statement.
type operator struct {
	name    string
	prior   float64
	propose func(*site)
}

// A site is one statement that operators look at.
type site struct {
	*file
	stmt
	index int
	fn    *function       // nil outside of one
	attrs map[string]bool // attribute names of the file, true for methods
	susp  float64
	op    *operator
	out   *[]edit
}

// emit proposes text in place of tokens [from, to).
func (s *site) emit(weight float64, from, to int, text string) {
	if from >= to {
		return
	}
	s.emitAt(weight, s.toks[from].start, s.toks[to-1].end, s.toks[from].line, text)
}

func (s *site) emitAt(weight float64, start, end, line int, text string) {
	if start > end || s.src[start:end] == text {
		return
	}
	*s.out = append(*s.out, edit{file: s.file, start: start, end: end, text: text, line: line, op: s.op.name, score: s.susp * s.op.prior * weight})
}

// names are the values in scope, or none.
func (s *site) names() []string {
	if s.fn == nil {
		return nil
	}
	return s.fn.names
}

// A place is a file with a suspicion from 0 to 1 for each of its lines.
type place struct {
	*file
	suspicion []float64 // by line, 1-based
}

// maxEdits bounds memory on large suspicious files.
const maxEdits = 200_000

// propose returns every edit of the places, best first and without two that
// give the same text. The order depends on nothing but the places.
func propose(places []place, boost map[string]float64) []edit {
	var all []edit
	for _, p := range places {
		attrs := p.attributes()
		for i, st := range p.stmts {
			susp := 0.0
			for k := st.from; k < st.to; k++ {
				if line := p.toks[k].line; line < len(p.suspicion) {
					susp = max(susp, p.suspicion[line])
				}
			}
			if susp == 0 || p.isDeclaration(st) {
				continue
			}
			s := &site{file: p.file, stmt: st, index: i, attrs: attrs, susp: susp, out: &all}
			if st.fn >= 0 {
				s.fn = &p.funcs[st.fn]
			}
			for o := range catalogue {
				s.op = &catalogue[o]
				from := len(all)
				s.op.propose(s)
				if by := boost[s.op.name]; by != 0 {
					for i := range all[from:] {
						all[from+i].score *= by
					}
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b edit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.file.path, b.file.path), cmp.Compare(a.start, b.start),
			cmp.Compare(a.end, b.end), strings.Compare(a.text, b.text))
	})
	seen := map[change]bool{}
	kept := all[:0]
	for _, e := range all {
		if len(kept) == maxEdits {
			break
		}
		if c := e.change(); !seen[c] {
			seen[c] = true
			kept = append(kept, e)
		}
	}
	return kept
}

// isDeclaration reports a statement that no edit of behaviour touches.
func (f *file) isDeclaration(s stmt) bool {
	switch f.toks[s.from].text {
	case "import", "from", "package", "#", "@", "using":
		return true
	}
	return s.to-s.from == 1 && f.toks[s.from].kind == stringKind || f.toks[s.from].text == "}" && s.to-s.from == 1
}

// attributes are the names behind dots in the file, true for methods.
func (f *file) attributes() map[string]bool {
	names := map[string]bool{}
	for k := 1; k < len(f.toks); k++ {
		if p := f.toks[k-1].text; (p == "." || p == "->") && f.toks[k].kind == identKind {
			called := k+1 < len(f.toks) && f.toks[k+1].text == "("
			names[f.toks[k].text] = names[f.toks[k].text] || called
		}
	}
	return names
}

// share deals the edits out to n candidates in turn, so that each gets the best
// of what is left and together they try everything once.
func share(edits []edit, candidate, n int) []edit {
	var mine []edit
	for i := candidate - 1; i < len(edits); i += n {
		mine = append(mine, edits[i])
	}
	return mine
}

// A change is e without what it leaves as it was: two edits with equal changes
// give equal texts.
type change struct {
	file       *file
	start, end int
	text       string
}

func (e edit) change() change {
	old, text := e.file.src[e.start:e.end], e.text
	n := 0
	for n < len(old) && n < len(text) && old[n] == text[n] {
		n++
	}
	m := 0
	for m < len(old)-n && m < len(text)-n && old[len(old)-1-m] == text[len(text)-1-m] {
		m++
	}
	src, start, end := e.file.src, e.start+n, e.end-m
	text = text[n : len(text)-m]
	// What is only added or only removed can lie anywhere among equal bytes: take
	// the last place.
	switch {
	case start == end:
		for text != "" && end < len(src) && src[end] == text[0] {
			text = text[1:] + text[:1]
			start, end = start+1, end+1
		}
	case text == "":
		for end < len(src) && src[start] == src[end] {
			start, end = start+1, end+1
		}
	}
	return change{e.file, start, end, text}
}
