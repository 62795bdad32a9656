package testreport

import (
	"io"
	"regexp"
	"strconv"
	"strings"
)

var (
	tapPoint     = regexp.MustCompile(`^(not )?ok\b *([0-9]+)?(?: +|$)(?:- +)?(.*)$`)
	tapPlan      = regexp.MustCompile(`^1\.\.([0-9]+)(?:\s|$)`)
	tapVersion   = regexp.MustCompile(`^TAP version 1[34]$`)
	tapDirective = regexp.MustCompile(`(?i)(?:^|\s)#\s*(skip|todo)\b[^#]*$`)
)

// parseTAP reads the Test Anything Protocol up to version 14. An id is the
// description, after those of the tests it is a subtest of and a slash; a test
// without one is "#" and its number.
func parseTAP(in io.Reader) (*Report, error) {
	t := &tap{report: newReport(), levels: map[int]*tapLevel{}}
	if err := lines(in, t.report, func(line []byte) { t.line(text(line)) }); err != nil {
		return nil, err
	}
	if !t.seen {
		return nil, ErrNoReport
	}
	for depth, l := range t.levels {
		for _, p := range l.points {
			t.report.add(p.id, p.name, p.status)
		}
		if depth == 0 && l.planned >= 0 && l.planned != l.count {
			t.report.note("%d tests were planned, %d were reported", l.planned, l.count)
		}
	}
	return t.report, nil
}

type tap struct {
	report *Report
	seen   bool
	over   bool // after a bail-out
	block  string
	levels map[int]*tapLevel // by depth, four blanks each
	total  int
}

// A tapLevel is the tests of one depth since the last test above them.
type tapLevel struct {
	points  []tapResult
	planned int // -1: no plan
	count   int
}

type tapResult struct {
	id, name string
	status   Status
}

func (t *tap) level(depth int) *tapLevel {
	if t.levels[depth] == nil {
		t.levels[depth] = &tapLevel{planned: -1}
	}
	return t.levels[depth]
}

func (t *tap) line(line string) {
	body := strings.TrimLeft(line, " ")
	indent := len(line) - len(body)
	if t.block != "" {
		// A YAML block holds anything up to its end.
		if line == t.block {
			t.block = ""
		}
		return
	}
	if t.over || indent/4 >= maxDepth {
		return
	}
	switch {
	case strings.TrimRight(body, " ") == "---" && t.seen:
		t.block = strings.Repeat(" ", indent) + "..."
	case tapVersion.MatchString(body):
		t.seen = true
	case strings.HasPrefix(body, "Bail out!"):
		t.seen, t.over = true, true
		t.report.note("the run bailed out: what came after it is missing")
	case indent%4 != 0:
	case tapPlan.MatchString(body):
		t.seen = true
		if n, err := strconv.Atoi(tapPlan.FindStringSubmatch(body)[1]); err == nil {
			t.level(indent / 4).planned = n
		}
	default:
		if m := tapPoint.FindStringSubmatch(body); m != nil {
			t.seen = true
			t.point(indent/4, m[1] != "", m[2], m[3])
		}
	}
}

// point takes one test; the subtests that came before it are its own.
func (t *tap) point(depth int, not bool, number, rest string) {
	if t.total++; t.total > MaxResults {
		t.report.note("more than %d tests: the rest is left out", MaxResults)
		return
	}
	status := Passed
	if not {
		status = Failed
	}
	if m := tapDirective.FindStringSubmatchIndex(rest); m != nil {
		switch strings.ToLower(rest[m[2]:m[3]]) {
		case "skip":
			status = worse(status, Skipped)
		case "todo":
			if not {
				status = Expected
			}
		}
		rest = rest[:m[0]]
	}
	l := t.level(depth)
	l.count++
	name := unescapeTAP(strings.TrimSpace(rest))
	if name == "" {
		if number == "" {
			number = strconv.Itoa(l.count)
		}
		name = "#" + number
	}
	l.points = append(l.points, tapResult{name, name, status})
	for below := depth + 1; below < maxDepth; below++ {
		inner := t.levels[below]
		if inner == nil {
			continue
		}
		if inner.planned >= 0 && inner.planned != inner.count {
			t.report.note("%.200q: %d tests were planned, %d were reported", name, inner.planned, inner.count)
		}
		for _, p := range inner.points {
			if id := name + "/" + p.id; len(id) <= maxID {
				l.points = append(l.points, tapResult{id, p.name, p.status})
			}
		}
		delete(t.levels, below)
	}
}

func unescapeTAP(s string) string {
	return strings.NewReplacer(`\\`, `\`, `\#`, `#`).Replace(s)
}
