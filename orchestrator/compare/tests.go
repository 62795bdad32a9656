package compare

import (
	"cmp"
	"slices"

	"github.com/bestof-dev/bestof/orchestrator/record"
)

// Tests is the matrix of tests and candidates, as far as it is recorded.
type Tests struct {
	Rows   []Test // those that tell candidates apart first, then those that did not pass, then by name
	Unread []int  // candidates of whom no single test is recorded
	Cut    []int  // candidates, 0 for the base, of whom not all tests are recorded
}

// A Test is one row.
type Test struct {
	Name   string
	Base   record.TestStatus   // "" where it is not known
	Status []record.TestStatus // one for each of Model.Candidates, "" where it is not known
}

// Differs reports whether some candidates passed the test and others did not.
func (t Test) Differs() bool {
	passed, not := false, false
	for _, s := range t.Status {
		passed = passed || s == record.TestPassed
		not = not || s != "" && s != record.TestPassed
	}
	return passed && not
}

// Told reports whether the base or a candidate was seen not to pass the test.
func (t Test) Told() bool {
	return slices.ContainsFunc(append([]record.TestStatus{t.Base}, t.Status...), func(s record.TestStatus) bool { return s != "" && s != record.TestPassed })
}

// tests reads the results of each candidate's last round. What is listed of
// none is not there; of several plugins that name one test the worse result
// counts.
func tests(doc record.Document, cs []record.Candidate) Tests {
	var out Tests
	rows := map[string]*Test{}
	row := func(name string) *Test {
		if rows[name] == nil {
			rows[name] = &Test{Name: name, Status: make([]record.TestStatus, len(cs))}
		}
		return rows[name]
	}
	if r := doc.Baseline.Tests; r != nil {
		for status, names := range r.ByStatus() {
			for _, n := range names {
				row(string(n)).Base = status
			}
		}
		if r.More > 0 {
			out.Cut = append(out.Cut, 0)
		}
	}
	for i, c := range cs {
		known := false
		for _, e := range lastRound(c) {
			if e.Tests == nil {
				continue
			}
			known = true
			for status, names := range e.Tests.ByStatus() {
				for _, n := range names {
					s := &row(string(n)).Status[i]
					*s = worse(*s, status)
				}
			}
			if e.Tests.More > 0 && !slices.Contains(out.Cut, c.Number) {
				out.Cut = append(out.Cut, c.Number)
			}
		}
		if !known {
			out.Unread = append(out.Unread, c.Number)
		}
	}
	for _, t := range rows {
		out.Rows = append(out.Rows, *t)
	}
	slices.SortFunc(out.Rows, func(a, b Test) int {
		return cmp.Or(first(a.Differs(), b.Differs()), first(a.Told(), b.Told()), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// worse orders what a test was seen to do, from nothing to failed.
func worse(a, b record.TestStatus) record.TestStatus {
	order := []record.TestStatus{"", record.TestPassed, record.TestSkipped, record.TestMissing, record.TestFailed}
	if slices.Index(order, a) > slices.Index(order, b) {
		return a
	}
	return b
}
