package verify

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Tests is what the output of a test run shows about how many tests ran. It
// guards against runs that test nothing by accident or by a cheap trick; the
// output is the tested code's, so it proves nothing.
type Tests struct {
	Known bool // the output tells a number
	Ran   int  // tests that passed or failed; skipped ones did not run
	None  bool // the output shows that no test ran

	said bool // None in so many words, and not only as a number
}

// A summary is a line in which a test runner counts.
type summary struct {
	hint     string // every such line holds it
	line     *regexp.Regexp
	add, sub *regexp.Regexp // each match's first group is tests that ran, or that were counted and did not
}

// summaries are compiled when a test first says something.
var summaries = sync.OnceValue(func() []summary {
	passedFailed := regexp.MustCompile(`(\d+) (?:passed|failed|xfailed|xpassed)\b`)
	firstNumber := regexp.MustCompile(`^\D*(\d+)`)
	return []summary{
		{" in ", regexp.MustCompile(`^=*\s*(?:(?:\d+ (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|rerun|subtests passed)(?:, )?)+|no tests ran) in [\d.]+s`), passedFailed, nil}, // pytest
		{"Ran ", regexp.MustCompile(`^Ran \d+ tests? in `), firstNumber, nil},                           // unittest
		{"skipped=", regexp.MustCompile(`^(?:OK|FAILED) \(`), nil, regexp.MustCompile(`skipped=(\d+)`)}, // unittest
		{" tests ", regexp.MustCompile(`^(?:#|ℹ) tests \d+$`), nil, nil},                                // node
		{" pass ", regexp.MustCompile(`^(?:#|ℹ) pass \d+$`), firstNumber, nil},                          // node
		{" fail ", regexp.MustCompile(`^(?:#|ℹ) fail \d+$`), firstNumber, nil},                          // node
		{"test result: ", regexp.MustCompile(`^test result: `), passedFailed, nil},                      // cargo
		{" total", regexp.MustCompile(`^Tests:\s.*\d+ total$`), passedFailed, nil},                      // jest
		{"Tests ", regexp.MustCompile(`^\s*Tests\s+\d.*\(\d+\)$`), passedFailed, nil},                   // vitest
		{" passing (", regexp.MustCompile(`^\s+\d+ passing \(`), firstNumber, nil},                      // mocha
		{" failing", regexp.MustCompile(`^\s+\d+ failing$`), firstNumber, nil},                          // mocha
		{"Tests run: ", regexp.MustCompile(`Tests run: \d+, Failures: \d+, Errors: \d+, Skipped: \d+\s*$`), // maven
			regexp.MustCompile(`Tests run: (\d+)`), regexp.MustCompile(`Skipped: (\d+)`)},
		{"tests failed out of", regexp.MustCompile(`^\d+% tests passed, `), regexp.MustCompile(`out of (\d+)`), nil}, // ctest
	}
})

// nothing are the words in which runners say that there was no test to run.
var nothing = []string{
	"no tests ran in ", "NO TESTS RAN", "No tests found, exiting with code", "No test files found",
	"No tests were found!!!", "matched no packages",
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// maxLine is how much of a line is looked at.
const maxLine = 16 << 10

// A tally is told the output of a test run, as a writer, and counts.
type tally struct {
	line []byte

	known bool
	ran   int
	said  bool

	goNames         bool // go test -v names the tests
	goDone          int  // top-level tests that passed or failed, when named
	goOK, goNothing int  // packages that passed, that had nothing to run
}

func (t *tally) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		t.line = append(t.line, part[:min(len(part), maxLine-len(t.line))]...)
		if ended {
			t.end()
		}
		p = rest
	}
	return n, nil
}

func (t *tally) end() {
	t.count(string(bytes.TrimSuffix(t.line, []byte("\r"))))
	t.line = t.line[:0]
}

func (t *tally) count(line string) {
	if strings.HasPrefix(line, `{"`) { // go test -json
		var event struct{ Action, Output string }
		if json.Unmarshal([]byte(line), &event) != nil || event.Action != "output" {
			return
		}
		line = strings.TrimSuffix(event.Output, "\n")
	}
	if strings.Contains(line, "\x1b") {
		line = escapes.ReplaceAllString(line, "")
	}
	for _, phrase := range nothing {
		t.said = t.said || strings.Contains(line, phrase)
	}
	switch {
	case strings.Contains(line, "=== RUN   "):
		t.goNames = true
		return
	case topLevel(line, "--- PASS: "), topLevel(line, "--- FAIL: "):
		t.goDone++
		return
	case strings.HasSuffix(line, "[no tests to run]"), strings.HasSuffix(line, "[no test files]"):
		t.goNothing++
		return
	case strings.HasPrefix(line, "ok  \t"):
		t.goOK++
		return
	}
	for _, s := range summaries() {
		if strings.Contains(line, s.hint) && s.line.MatchString(line) {
			t.known = true
			t.ran += sum(s.add, line) - sum(s.sub, line)
		}
	}
}

// topLevel reports whether the line ends a Go test that is not a subtest.
// What the test printed may stand before it.
func topLevel(line, end string) bool {
	_, name, ok := strings.Cut(line, end)
	return ok && !strings.Contains(name, "/")
}

func sum(r *regexp.Regexp, line string) int {
	if r == nil {
		return 0
	}
	total := 0
	for _, m := range r.FindAllStringSubmatch(line, -1) {
		n, _ := strconv.Atoi(m[1]) // digits; what does not fit is no count
		total += min(n, 1<<30)
	}
	return total
}

// tests is what all the tallies of one run come to.
func tests(all ...*tally) Tests {
	var sum tally
	for _, t := range all {
		t.end()
		sum.known = sum.known || t.known
		sum.said = sum.said || t.said
		sum.ran += t.ran
		sum.goNames = sum.goNames || t.goNames
		sum.goDone += t.goDone
		sum.goOK += t.goOK
		sum.goNothing += t.goNothing
	}
	r := Tests{Known: sum.known || sum.goNames, Ran: max(sum.ran, 0)}
	if sum.goNames {
		r.Ran += sum.goDone
	}
	uncounted := sum.goOK > 0 && !sum.goNames
	r.said = sum.said && r.Ran == 0 && !uncounted
	r.None = r.Ran == 0 && !uncounted && (r.Known || sum.said || sum.goNothing > 0)
	return r
}
