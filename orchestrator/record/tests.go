package record

import (
	"iter"
	"slices"

	"github.com/bestof-dev/bestof/internal/bytestring"
)

// A TestStatus is what was seen of one test.
type TestStatus string

// What a test may be seen to do.
const (
	TestPassed  TestStatus = "passed"
	TestFailed  TestStatus = "failed"
	TestSkipped TestStatus = "skipped"
	TestMissing TestStatus = "missing" // it was expected and is not in the report
)

// Tests is what single tests did in one run of a test command, as far as the
// runner tells. It is for people: nothing is judged by it. A test whose name is
// in no list was not seen, unless More says that the lists are not whole.
type Tests struct {
	Failed  []bytestring.String `json:"failed,omitempty"`
	Missing []bytestring.String `json:"missing,omitempty"`
	Skipped []bytestring.String `json:"skipped,omitempty"`
	Passed  []bytestring.String `json:"passed,omitempty"`
	More    int                 `json:"more,omitempty"` // tests that are not listed
}

// Limits of what a record lists of the tests of one run.
const (
	maxTestNames = 32 << 10 // bytes of all names
	maxTestName  = 512      // bytes of one; a longer one is not listed
)

// ListTests makes the lists, sorted and bounded: what did not pass comes first.
// It is nil for no tests.
func ListTests(seen map[string]TestStatus) *Tests {
	if len(seen) == 0 {
		return nil
	}
	t, left := &Tests{}, maxTestNames
	by := map[TestStatus][]string{}
	for name, status := range seen {
		by[status] = append(by[status], name)
	}
	for _, l := range []struct {
		status TestStatus
		to     *[]bytestring.String
	}{{TestFailed, &t.Failed}, {TestMissing, &t.Missing}, {TestSkipped, &t.Skipped}, {TestPassed, &t.Passed}} {
		slices.Sort(by[l.status])
		for _, name := range by[l.status] {
			if len(name) > maxTestName || len(name)+3 > left {
				t.More++
				continue
			}
			left -= len(name) + 3
			*l.to = append(*l.to, bytestring.String(name))
		}
	}
	return t
}

// ByStatus yields the lists.
func (t *Tests) ByStatus() iter.Seq2[TestStatus, []bytestring.String] {
	return func(yield func(TestStatus, []bytestring.String) bool) {
		_ = yield(TestFailed, t.Failed) && yield(TestMissing, t.Missing) && yield(TestSkipped, t.Skipped) && yield(TestPassed, t.Passed)
	}
}
