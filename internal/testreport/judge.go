package testreport

import "fmt"

// A Decision is what the tests of a task say about one candidate. The zero
// value is that nothing can be said.
type Decision string

// The decisions.
const (
	Undecided Decision = "undecided" // the base does not show what the task claims of it, or nothing was to be seen
	Solved    Decision = "solved"    // every test that must pass was seen to pass
	Unsolved  Decision = "unsolved"  // at least one was not
)

// A Finding is why a test speaks against a candidate, or against the task.
type Finding struct {
	Test  string `json:"test"`
	List  string `json:"list"` // FAIL_TO_PASS | PASS_TO_PASS
	Base  Status `json:"base,omitempty"`
	After Status `json:"after,omitempty"`
	Why   string `json:"why"`
}

// A Verdict is the decision with its reasons.
type Verdict struct {
	Decision Decision  `json:"decision"`
	Tests    int       `json:"tests"`             // that were asked for
	Passed   int       `json:"passed"`            // of those, seen to pass afterwards
	Findings []Finding `json:"findings"`          // the first maxFindings
	More     int       `json:"more,omitempty"`    // findings that are not listed
	Invalid  bool      `json:"invalid,omitempty"` // the base is not as the task says: no candidate can be judged
}

const maxFindings = 100

func (v *Verdict) find(f Finding) {
	if len(v.Findings) >= maxFindings {
		v.More++
		return
	}
	v.Findings = append(v.Findings, f)
}

// CheckBase holds the base, with the task's tests laid over it, against what
// the task says of it: FAIL_TO_PASS must be seen failing, PASS_TO_PASS
// passing. It needs no candidate, so it is done before any is paid for. With
// no finding the answer is Undecided and not Invalid.
func CheckBase(base *Report, failToPass, passToPass []string) Verdict {
	v := Verdict{Decision: Undecided, Findings: []Finding{}, Tests: len(failToPass) + len(passToPass)}
	if v.Tests == 0 || base == nil {
		v.Invalid = true
		return v
	}
	for _, id := range failToPass {
		if s := base.Of(id); s != Failed && s != Error {
			v.find(Finding{Test: id, List: "FAIL_TO_PASS", Base: s, Why: "it was not seen failing on the base: " + shown(s)})
		}
	}
	for _, id := range passToPass {
		if s := base.Of(id); s != Passed && s != Expected {
			v.find(Finding{Test: id, List: "PASS_TO_PASS", Base: s, Why: "it was not seen passing on the base: " + shown(s)})
		}
	}
	v.Invalid = len(v.Findings) > 0
	return v
}

// Judge decides about a candidate by the report on the base and that on the
// base with the candidate's change. A test that is missing or skipped is not a
// pass. A test of PASS_TO_PASS that was marked to fail and failed counts while
// it did the same on the base. Where the base is not as the task says, nothing
// is decided. A nil report after the change is one that could not be read.
func Judge(base, after *Report, failToPass, passToPass []string) Verdict {
	if v := CheckBase(base, failToPass, passToPass); v.Invalid {
		return v
	}
	v := Verdict{Decision: Unsolved, Findings: []Finding{}, Tests: len(failToPass) + len(passToPass)}
	if after == nil {
		v.Decision = Undecided
		return v
	}
	for _, l := range []struct {
		name string
		ids  []string
	}{{"FAIL_TO_PASS", failToPass}, {"PASS_TO_PASS", passToPass}} {
		for _, id := range l.ids {
			was, is := base.Of(id), after.Of(id)
			if is == Passed || l.name == "PASS_TO_PASS" && is == Expected && was == Expected {
				v.Passed++
				continue
			}
			v.find(Finding{Test: id, List: l.name, Base: was, After: is, Why: "it was not seen passing: " + shown(is)})
		}
	}
	if v.Passed == v.Tests {
		v.Decision = Solved
	}
	return v
}

func shown(s Status) string {
	if s == Missing {
		return "it is not in the report"
	}
	return fmt.Sprintf("it is reported as %s", s)
}
