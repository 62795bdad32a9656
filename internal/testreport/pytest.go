package testreport

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strings"
)

var (
	colours = regexp.MustCompile("\x1b\\[[0-9;]*m")
	banner  = regexp.MustCompile(`^=+ (.*?) =+$`)
)

// parsePytest reads the "short test summary info" that pytest -rA writes at its
// end, the last one in the text. Skipped tests have no id there and are
// missing.
func parsePytest(in io.Reader) (*Report, error) {
	r := newReport()
	found, inside := false, false
	err := lines(in, r, func(raw []byte) {
		line := text(colours.ReplaceAll(raw, nil))
		if m := banner.FindStringSubmatch(line); m != nil {
			if inside = m[1] == "short test summary info"; inside {
				notes := r.Notes
				r, found = newReport(), true
				r.Notes = notes
			}
			return
		}
		if inside {
			r.summary(line)
		}
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, ErrNoReport
	}
	return r, nil
}

var pytestWords = map[string]Status{"PASSED": Passed, "FAILED": Failed, "ERROR": Error, "XFAIL": Expected, "XPASS": Passed}

// summary reads one line of pytest's summary.
func (r *Report) summary(line string) {
	word, rest, _ := strings.Cut(line, " ")
	status := pytestWords[word]
	if status == Missing {
		return
	}
	rest = strings.TrimRight(rest, " ")
	id := nodeID(rest)
	if status != Passed {
		r.otherCuts(rest, id, status)
	}
	file, _, inFile := strings.Cut(id, "::")
	if !inFile {
		// A whole file, or a folder, that could not be collected.
		if status == Error {
			r.fault(strings.TrimSuffix(file, ".py"))
			r.add(id, "", status)
		}
		return
	}
	r.add(id, "", status)
}

// nodeID takes the reason off, which stands behind a dash. Parameters may hold
// such a dash themselves.
func nodeID(rest string) string {
	dash := strings.Index(rest, " - ")
	open := strings.IndexByte(rest, '[')
	if dash < 0 || open < 0 || dash < open {
		id, _, _ := strings.Cut(rest, " - ")
		return id
	}
	if end := strings.Index(rest[open:], "] - "); end >= 0 {
		return rest[:open+end+1]
	}
	return rest
}

// maxCuts is how many other ways to take a reason off are remembered.
const maxCuts = 8

// otherCuts remembers what else the id may be. Of a line whose reason and
// parameters both hold dashes nobody can tell.
func (r *Report) otherCuts(rest, id string, s Status) {
	for n, from := 0, 0; n < maxCuts && len(r.cuts) < MaxResults; n++ {
		i := strings.Index(rest[from:], " - ")
		if i < 0 {
			break
		}
		from += i
		if cut := rest[:from]; cut != id && len(cut) <= maxID && strings.Contains(cut, "::") {
			r.cuts[cut] = worse(r.cuts[cut], s)
		}
		from += len(" - ")
	}
	if rest != id && len(rest) <= maxID {
		r.cuts[rest] = worse(r.cuts[rest], s)
	}
}

// parsePytestLog reads the JSON lines of pytest-reportlog. A test passed when
// its call and its teardown were seen to pass; a failure outside of the call is
// an Error.
func parsePytestLog(in io.Reader) (*Report, error) {
	r := newReport()
	seen := false
	phases := map[string]map[string]Status{}
	err := lines(in, r, func(line []byte) {
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] != '{' {
			return
		}
		var e struct {
			Type    string  `json:"$report_type"`
			Node    string  `json:"nodeid"`
			When    string  `json:"when"`
			Outcome string  `json:"outcome"`
			XFail   *string `json:"wasxfail"`
		}
		if json.Unmarshal(line, &e) != nil {
			r.note("a line of the log is malformed and is left out")
			return
		}
		switch e.Type {
		case "SessionStart":
			seen = true
		case "CollectReport":
			seen = true
			if e.Outcome == "failed" {
				r.fault(strings.TrimSuffix(e.Node, ".py"))
				r.add(e.Node, "", Error)
			}
		case "TestReport":
			seen = true
			if len(phases) < MaxResults || phases[e.Node] != nil {
				if phases[e.Node] == nil {
					phases[e.Node] = map[string]Status{}
				}
				phases[e.Node][e.When] = worse(phases[e.Node][e.When], phaseStatus(e.When, e.Outcome, e.XFail != nil))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if !seen {
		return nil, ErrNoReport
	}
	for node, by := range phases {
		if s := wholeTest(by); s != Missing {
			r.add(node, "", s)
		}
	}
	return r, nil
}

func phaseStatus(when, outcome string, xfail bool) Status {
	switch {
	case outcome == "passed":
		return Passed
	case outcome == "skipped" && xfail:
		return Expected
	case outcome == "skipped":
		return Skipped
	case outcome == "failed" && when == "call":
		return Failed
	}
	return Error
}

func wholeTest(by map[string]Status) Status {
	s := worse(worse(by["setup"], by["call"]), by["teardown"])
	if s == Passed && (by["call"] != Passed || by["teardown"] != Passed) {
		return Missing
	}
	return s
}
