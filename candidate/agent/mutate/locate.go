package mutate

import (
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A scene is what is known about the failure before the search.
type scene struct {
	files   map[string]*file // sources that may be edited
	tests   map[string]*file // sources that may not
	order   []string         // paths of files, sorted
	output  string           // of the failing test
	command []string
	cover   *spectrum // nil when there is none
}

var (
	pythonFrame = regexp.MustCompile(`File "([^"\n]+)", line (\d+)`)
	plainFrame  = regexp.MustCompile(`([\w./+@-]+\.(?:go|py|jsx?|mjs|cjs|tsx?|mts|cts|java|c|h|cc|cpp|hpp)):(\d+)`)
	wordForm    = regexp.MustCompile(`[A-Za-z_$][\w$]*`)
)

// positions are the places that the output of a failing test names.
func positions(output string) []position {
	var found []position
	for _, form := range []*regexp.Regexp{pythonFrame, plainFrame} {
		for _, m := range form.FindAllStringSubmatch(output, 2000) {
			if n, err := strconv.Atoi(m[2]); err == nil {
				found = append(found, position{m[1], n})
			}
		}
	}
	return found
}

// resolve finds the file that a path in some output means: the one with the
// longest common end, when there is just one.
func resolve(name string, paths []string) (string, bool) {
	parts := strings.Split(strings.ReplaceAll(name, "\\", "/"), "/")
	best, length, unique := "", 0, false
	for _, p := range paths {
		have := strings.Split(p, "/")
		n := 0
		for n < len(have) && n < len(parts) && have[len(have)-1-n] == parts[len(parts)-1-n] {
			n++
		}
		switch {
		case n > length:
			best, length, unique = p, n, true
		case n == length:
			unique = false
		}
	}
	return best, length > 0 && unique
}

// locate gives every line that may be at fault a suspicion.
func (sc *scene) locate() []place {
	inFunction := map[string]map[int]float64{} // by path, by index in funcs
	raise := func(p string, fn int, w float64) {
		if inFunction[p] == nil {
			inFunction[p] = map[int]float64{}
		}
		inFunction[p][fn] = max(inFunction[p][fn], w)
	}
	lines := map[string]map[int]float64{} // extra, by path and line

	// Frames of stack traces.
	found := positions(sc.output)
	if sc.cover != nil {
		found = append(found, sc.cover.stack...)
	}
	for _, at := range found {
		p, ok := resolve(at.path, sc.order)
		if !ok {
			continue
		}
		if lines[p] == nil {
			lines[p] = map[int]float64{}
		}
		lines[p][at.line] = 1
		raise(p, sc.files[p].functionAt(at.line), 1)
	}

	// Names: the ones in the output and in the tests that fail, then what those
	// functions call.
	named := map[string]float64{}
	mention := func(name string, w float64) { named[name] = max(named[name], w) }
	for _, w := range wordForm.FindAllString(sc.output, 20000) {
		mention(w, .8)
	}
	for _, t := range sc.relevantTests() {
		for k, tok := range t.toks {
			if tok.kind == identKind && (k+1 < len(t.toks) && t.toks[k+1].text == "(" || k > 0 && t.toks[k-1].text == ".") {
				mention(tok.text, .7)
			}
		}
	}
	for depth := 0; depth < 3; depth++ {
		next := map[string]float64{}
		for _, p := range sc.order {
			f := sc.files[p]
			for i, fn := range f.funcs {
				w := named[fn.name]
				if w == 0 || inFunction[p][i] >= w {
					continue
				}
				raise(p, i, w)
				for _, s := range f.stmts[fn.from:fn.to] {
					for k := s.from; k+1 < s.to; k++ {
						if f.toks[k].kind == identKind && (f.toks[k+1].text == "(" || k > s.from && f.toks[k-1].text == ".") {
							next[f.toks[k].text] = max(next[f.toks[k].text], w*.7)
						}
					}
				}
			}
		}
		for name, w := range next {
			mention(name, w)
		}
	}
	return sc.weigh(inFunction, lines)
}

func (sc *scene) weigh(inFunction map[string]map[int]float64, lines map[string]map[int]float64) []place {
	var places []place
	for _, p := range sc.order {
		f := sc.files[p]
		ran := sc.ran(p)
		if len(inFunction[p]) == 0 && len(lines[p]) == 0 && ran == nil {
			continue
		}
		suspicion := make([]float64, strings.Count(f.src, "\n")+2)
		for _, s := range f.stmts {
			base := .1
			if s.fn >= 0 {
				base = inFunction[p][s.fn]
			}
			first, last := f.toks[s.from].line, f.toks[s.to-1].line
			w := base
			if ran != nil {
				hit := 0.0
				for n := first; n <= last; n++ {
					hit = max(hit, ran[n])
				}
				switch {
				case hit > 0:
					w = (.4 + .6*hit) * (.5 + .5*base)
				case s.fn >= 0 && base > 0 && sc.entered(f, s.fn, ran):
					w = .15 * base // not run, but what is missing may be beside it
				default:
					w = 0
				}
			}
			for n := first; n <= last; n++ {
				suspicion[n] = w
				if lines[p][n] > 0 {
					suspicion[n] = min(1, w*1.25+.05)
				}
			}
		}
		if slices.Max(suspicion) > 0 {
			places = append(places, place{f, suspicion})
		}
	}
	if len(places) > 0 {
		return places
	}
	for _, p := range sc.order { // nothing is known: everything is a little suspicious
		suspicion := make([]float64, strings.Count(sc.files[p].src, "\n")+2)
		for i := range suspicion {
			suspicion[i] = .1
		}
		places = append(places, place{sc.files[p], suspicion})
	}
	return places
}

// ran gives the lines of a file that ran in failing tests their Ochiai
// coefficient, or is nil when coverage says nothing about failing tests.
func (sc *scene) ran(p string) map[int]float64 {
	if sc.cover == nil || sc.cover.failed == 0 || len(sc.cover.inFailed) == 0 {
		return nil
	}
	m := map[int]float64{}
	for line, ef := range sc.cover.inFailed[p] {
		ep := sc.cover.inPass[p][line]
		m[line] = float64(ef) / math.Sqrt(float64(sc.cover.failed)*float64(ef+ep))
	}
	return m
}

func (sc *scene) entered(f *file, fn int, ran map[int]float64) bool {
	for _, s := range f.stmts[f.funcs[fn].from:f.funcs[fn].to] {
		if s.fn == fn && ran[f.toks[s.from].line] > 0 {
			return true
		}
	}
	return false
}

// functionAt is the index of the innermost function around a line, or -1.
func (f *file) functionAt(line int) int {
	for _, s := range f.stmts {
		if f.toks[s.from].line <= line && line <= f.toks[s.to-1].line {
			return s.fn
		}
	}
	return -1
}

// relevantTests are the test files that the command or the output names; all of
// them when none is named.
func (sc *scene) relevantTests() []*file {
	var paths []string
	for p := range sc.tests {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	var found []*file
	text := sc.output + "\n" + strings.Join(sc.command, "\n")
	for _, p := range paths {
		base := path.Base(p)
		if strings.Contains(text, base) || strings.Contains(text, strings.TrimSuffix(base, path.Ext(base))) {
			found = append(found, sc.tests[p])
		}
	}
	if len(found) == 0 {
		for _, p := range paths {
			found = append(found, sc.tests[p])
		}
	}
	return found
}
