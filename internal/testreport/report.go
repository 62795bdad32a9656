// Package testreport reads what test runners report about each single test:
// JUnit XML, the events of go test -json, pytest's summary and report log,
// TAP, and lines of our own. It is pure and reads hostile bytes within bounds.
//
// A report is a claim of the program that wrote it. Formats that share a stream
// with what tests print (pytest's summary, TAP) can be forged by the tested
// code; whether a report is to be believed is for the caller to find out.
package testreport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A Status is what a report says about one test. The zero value is that it
// says nothing.
type Status string

// The statuses, from the best to the worst.
const (
	Missing  Status = ""
	Passed   Status = "passed"
	Expected Status = "expected-failure" // failed, and was marked to fail
	Skipped  Status = "skipped"
	Failed   Status = "failed"
	Error    Status = "error" // did not come to an end, or not to a start
)

// rank orders statuses: of several about one test the worst counts.
func (s Status) rank() int {
	for i, r := range []Status{Passed, Expected, Skipped, Failed, Error} {
		if r == s {
			return i + 1
		}
	}
	return 0
}

func worse(a, b Status) Status {
	if b.rank() > a.rank() {
		return b
	}
	return a
}

// A Format is how a report is written.
type Format string

// The formats.
const (
	JUnit     Format = "junit"      // XML
	GoTest    Format = "go"         // go test -json
	Pytest    Format = "pytest"     // the summary of pytest -rA
	PytestLog Format = "pytest-log" // JSON lines of pytest-reportlog
	TAP       Format = "tap"        // versions 12 to 14
	Lines     Format = "lines"      // our own, for a command that knows its tests: JSON lines
)

// Formats lists them in the order of the documentation.
var Formats = []Format{JUnit, GoTest, Pytest, PytestLog, TAP, Lines}

// What a report may hold at most.
const (
	MaxSize    = 256 << 20 // bytes
	MaxResults = 200_000   // tests
	maxLine    = 1 << 20   // bytes; a longer line is passed over
	maxID      = 4096      // bytes; a longer id is passed over
	maxNotes   = 20
	maxDepth   = 64 // of suites in suites, and of subtests
)

// A Report is what is known of each test of a run.
type Report struct {
	// Results has a status for each test id, as the runner writes ids:
	// a/b_test.py::Class::test, import/path.TestName/sub, class.method.
	Results map[string]Status
	// Notes say what was left out of the report, and why.
	Notes []string

	dotted map[string]Status // the same with every separator a dot
	names  map[string]Status // of the last part of the id
	words  map[string]Status // of ids up to their first space
	cuts   map[string]Status // of ids that a line may mean beside the one in Results; none of them a pass
	broken map[string]bool   // dotted ids of packages and files that did not come to run
	build  bool              // some of them are Go's, whose tests may be known by their bare names
}

func newReport() *Report {
	return &Report{Results: map[string]Status{}, dotted: map[string]Status{}, names: map[string]Status{}, words: map[string]Status{}, cuts: map[string]Status{}, broken: map[string]bool{}}
}

func (r *Report) note(format string, args ...any) {
	if len(r.Notes) < maxNotes {
		r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
	}
}

// add takes one result; name is the last part of the id, or "".
func (r *Report) add(id, name string, s Status) {
	id = strings.ToValidUTF8(id, "\uFFFD")
	if id == "" || len(id) > maxID {
		r.note("a test whose id is empty or longer than %d bytes is left out", maxID)
		return
	}
	if old, known := r.Results[id]; known {
		s = worse(old, s)
	} else if len(r.Results) >= MaxResults {
		r.note("more than %d tests: the rest is left out", MaxResults)
		return
	}
	r.Results[id] = s
	d := dotted(id)
	r.dotted[d] = worse(r.dotted[d], s)
	if name != "" {
		r.names[name] = worse(r.names[name], s)
	}
	if word, _, cut := strings.Cut(id, " "); cut {
		r.words[word] = worse(r.words[word], s)
	}
}

// fault notes that a package or a file of tests did not come to run.
func (r *Report) fault(group string) {
	if group != "" && len(group) <= maxID && len(r.broken) < MaxResults {
		r.broken[dotted(group)] = true
	}
}

// dotted makes ids comparable that spell one test in different ways, as
// tests/test_a.py::Class::test and the classname and name of JUnit do.
// Parameters in brackets stay.
func dotted(id string) string {
	head, params := id, ""
	if i := strings.IndexByte(id, '['); i >= 0 {
		head, params = id[:i], id[i:]
	}
	return separators.Replace(head) + params
}

var separators = strings.NewReplacer(".py::", ".", "::", ".", "/", ".", "#", ".")

// Of is what the report says about a test. Several ids that mean the test in
// different spellings are tried, from the most exact: the id itself, the id
// with other separators, the name alone, and an id cut at its first space as
// some data sets have it. If one of the last ones fits several tests, the worst
// status counts. A test of a package or a file that did not come to run is an
// Error, and so is a bare name that is nowhere while a package of Go is such.
func (r *Report) Of(id string) Status {
	if r == nil {
		return Missing
	}
	d := dotted(id)
	for _, find := range []func() Status{
		func() Status { return r.Results[id] },
		func() Status { return r.dotted[d] },
		func() Status { return r.names[id] },
		func() Status { return r.words[id] },
		func() Status { return r.cuts[id] },
	} {
		if s := find(); s != Missing {
			return s
		}
	}
	if i := strings.IndexByte(d, '['); i >= 0 {
		d = d[:i]
	}
	for d != "" {
		if r.broken[d] {
			return Error
		}
		d = d[:max(0, strings.LastIndexByte(d, '.'))]
	}
	if name, _, _ := strings.Cut(id, "/"); r.build && !strings.ContainsAny(name, ".:#") {
		return Error
	}
	return Missing
}

// Merge adds the results of another report: of a test that is in both, the
// worse counts.
func (r *Report) Merge(other *Report) {
	for id, s := range other.Results {
		if old, known := r.Results[id]; !known && len(r.Results) >= MaxResults {
			r.note("more than %d tests: the rest is left out", MaxResults)
			break
		} else {
			r.Results[id] = worse(old, s)
		}
	}
	for _, m := range []struct{ to, from map[string]Status }{{r.dotted, other.dotted}, {r.names, other.names}, {r.words, other.words}, {r.cuts, other.cuts}} {
		for k, s := range m.from {
			m.to[k] = worse(m.to[k], s)
		}
	}
	r.build = r.build || other.build
	for g := range other.broken {
		r.broken[g] = true
	}
	for _, n := range other.Notes {
		r.note("%s", n)
	}
}

// ErrNoReport is that there is nothing in a report that it could be told by.
var ErrNoReport = errors.New("it holds no report")

// From makes a report of results that were had in another way, by their ids.
func From(results map[string]Status) *Report {
	r := newReport()
	for id, s := range results {
		r.add(id, nameOf(id), s)
	}
	return r
}

var goName = regexp.MustCompile(`\.((?:Test|Example|Fuzz|Benchmark)[^.]*(?:/.*)?)$`)

// nameOf is the test's own name in an id, or "".
func nameOf(id string) string {
	if m := goName.FindStringSubmatch(id); m != nil {
		return m[1]
	}
	if i := strings.LastIndexByte(id, '#'); i >= 0 {
		return id[i+1:]
	}
	return ""
}

// Parse reads a report. An error means that nothing of it can be used.
func Parse(f Format, in io.Reader) (*Report, error) {
	limited := &bounded{r: in, left: MaxSize}
	var r *Report
	var err error
	switch f {
	case JUnit:
		r, err = parseJUnit(limited)
	case GoTest:
		r, err = parseGo(limited)
	case Pytest:
		r, err = parsePytest(limited)
	case PytestLog:
		r, err = parsePytestLog(limited)
	case TAP:
		r, err = parseTAP(limited)
	case Lines:
		r, err = parseLines(limited)
	default:
		return nil, fmt.Errorf("there is no test report format %q: %v are known", string(f), Formats)
	}
	if err != nil {
		return nil, fmt.Errorf("%s report: %w", f, err)
	}
	return r, nil
}

// bounded fails, rather than end, after so many bytes.
type bounded struct {
	r    io.Reader
	left int
}

var errTooLarge = fmt.Errorf("it is larger than %d MiB", MaxSize>>20)

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// lines calls do with each line, without its end. Lines that are too long are
// told by a note.
func lines(in io.Reader, r *Report, do func(line []byte)) error {
	b := bufio.NewReaderSize(in, 64<<10)
	var line []byte
	long := false
	for {
		piece, err := b.ReadSlice('\n')
		if line = append(line, piece...); len(line) > maxLine {
			line, long = line[:0], true
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if long {
			r.note("a line is longer than %d MiB and is left out", maxLine>>20)
		} else {
			do(bytes.TrimRight(line, "\r\n"))
		}
		line, long = line[:0], false
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// text is a line as text, with what is not UTF-8 replaced.
func text(line []byte) string {
	if utf8.Valid(line) {
		return string(line)
	}
	return string(bytes.ToValidUTF8(line, []byte("\uFFFD")))
}
