package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/plugin/wire"
)

// A Status is what a runner reported about one test.
type Status string

const (
	TestPassed  Status = "passed"
	TestFailed  Status = "failed"
	TestSkipped Status = "skipped" // also: not run, expected to fail
)

// Expected is what the tests of the untouched base are: what has to be seen to
// pass after a change. It travels from the baseline to each verification.
type Expected struct {
	Runner string `json:"runner"` // the adapter's name
	Units  []Unit `json:"units"`
}

// A Unit is the tests that run in one process, or one session, and share a
// canary.
type Unit struct {
	Name  string            `json:"name"`
	Tests []string          `json:"tests,omitempty"` // ids that passed or failed on the base
	Alike []string          `json:"alike,omitempty"` // ids read off sources that did not come to run; one with parameters counts too
	Data  map[string]string `json:"data,omitempty"`  // what the adapter needs to run it again
}

// Seen is what came through the channel of an adapter in one run.
type Seen struct {
	Units []SeenUnit
	Code  int    // exit status of the runner
	Tells bool   // Code means something: 0 is a claim that no test failed, the canary included
	Extra string // what else failed, in words

	OwnSkips bool // tested code has no means to make a test report that it was skipped
}

// A SeenUnit is what was seen of one unit.
type SeenUnit struct {
	Name    string
	Results map[string]Status // without the canary
	Canary  bool              // reported failed, with its token
	Green   bool              // the unit claims that none of its tests failed
	Broken  string            // a sign that the unit's word is not to be trusted
	Alike   []string          // see Unit
	Data    map[string]string
}

// maxResults is how many tests a unit may report.
const maxResults = 200_000

// add takes a result; a failure stays one, whatever else is said.
func (u *SeenUnit) add(id string, s Status) {
	if u.Results == nil {
		u.Results = map[string]Status{}
	}
	if len(u.Results) >= maxResults {
		u.Broken = "it reported more tests than can be kept"
		return
	}
	old, known := u.Results[id]
	if !known || s == TestFailed || s == TestSkipped && old == TestPassed {
		u.Results[id] = s
	}
}

func (u SeenUnit) count(s Status) (n int) {
	for _, r := range u.Results {
		if r == s {
			n++
		}
	}
	return n
}

// movable makes ids that hold the path of the tree or of the home the same
// wherever these are. Of paths that begin alike the longer one comes first.
func (s *Seen) movable(paths ...[2]string) {
	var words []string
	for _, p := range paths {
		if len(p[0]) > 1 {
			words = append(words, p[0], p[1])
		}
	}
	named := strings.NewReplacer(words...)
	for i := range s.Units {
		u := &s.Units[i]
		old := u.Results
		u.Results = map[string]Status{}
		for id, status := range old {
			u.add(named.Replace(id), status)
		}
		for j, id := range u.Alike {
			u.Alike[j] = named.Replace(id)
		}
	}
}

// unit finds a unit by name, and makes it.
func (s *Seen) unit(name string) *SeenUnit {
	for i := range s.Units {
		if s.Units[i].Name == name {
			return &s.Units[i]
		}
	}
	s.Units = append(s.Units, SeenUnit{Name: name, Results: map[string]Status{}})
	return &s.Units[len(s.Units)-1]
}

// A Finding is what a run comes to.
type Finding struct {
	Pass   bool   // every expected test passed, and of all tests only canaries failed
	Reason Reason // set when the run claims success and cannot be believed
	Text   string
	Passed int // expected tests that were seen to pass
}

// Compare holds a run against the base. A failure is believed: nobody forges
// his own. A success is believed only with every expected test passed, every
// canary failed, and nothing else.
func (e Expected) Compare(s Seen) Finding {
	f := Finding{}
	var failed, missing []string
	for _, u := range s.Units {
		for _, id := range sorted(u.Results) {
			if u.Results[id] == TestFailed {
				failed = append(failed, id)
			}
		}
	}
	if len(failed) > 0 {
		f.Text = "failed: " + few(failed)
		return f
	}
	if s.Extra != "" {
		f.Text = s.Extra
		return f
	}
	ran := 0
	for _, want := range e.Units {
		u := *s.unit(want.Name)
		ran += len(u.Results)
		switch {
		case u.Broken != "":
			return Finding{Reason: Forgeable, Text: u.Broken}
		case !u.Canary && (u.Green || s.Tells && s.Code == 0 || len(u.Results) > 0):
			return Finding{Reason: Forgeable, Text: fmt.Sprintf("a test that must fail was put into %s, and was not reported failed", u.label())}
		case !u.Canary:
			f.Text = fmt.Sprintf("the tests of %s did not come to run", u.label())
			return f
		}
		for _, id := range want.Tests {
			if u.Results[id] == TestPassed {
				f.Passed++
			} else {
				missing = append(missing, id+present(u.Results[id]))
			}
		}
		if len(want.Tests)+len(want.Alike) == 0 && u.count(TestPassed) == 0 {
			missing = append(missing, "any test of "+u.label())
		}
		for _, id := range want.Alike {
			// What it would have done on the base is not known: it may skip itself.
			switch got := u.alike(id); {
			case got == TestPassed:
				f.Passed++
			case got == TestSkipped && s.OwnSkips && u.count(TestPassed) > 0:
			default:
				missing = append(missing, id+present(got))
			}
		}
	}
	switch {
	case len(missing) > 0:
		f.Reason, f.Text = FewerTests, fmt.Sprintf("%d of the tests that the base has were not seen to pass: %s", len(missing), few(missing))
	case s.Tells && s.Code == 0:
		f.Reason, f.Text = Forgeable, "the run claims that no test failed, although one that must fail was put into it"
	case f.Passed == 0 && ran == 0:
		f.Reason, f.Text = NoTests, "no test ran"
	default:
		f.Pass = true
	}
	return f
}

func present(s Status) string {
	if s == "" {
		return " (not reported)"
	}
	return " (" + string(s) + ")"
}

func (u SeenUnit) label() string {
	if u.Name == "" {
		return "the run"
	}
	return u.Name
}

// alike is what was seen of a test whose id is known only from its source: it
// may have parameters, each with an id of its own, or be below a module.
func (u SeenUnit) alike(id string) Status {
	var found Status
	for got, s := range u.Results {
		if got == id || strings.HasPrefix(got, id+"[") || strings.HasSuffix(got, "::"+id) {
			if found == "" || s != TestPassed {
				found = s
			}
		}
	}
	return found
}

// doubt takes back what passed in units whose word cannot be believed, and says
// why, if there are any. It is forged unless tests of the unit failed: they may
// have ended it before its canary.
func (s *Seen) doubt() (why string, forged bool) {
	for i := range s.Units {
		u := &s.Units[i]
		if u.Broken == "" && u.Canary {
			continue
		}
		text := u.Broken
		if text == "" {
			text = fmt.Sprintf("a test that must fail was put into %s, and was not reported failed", u.label())
		}
		if one := u.Broken != "" || u.count(TestFailed) == 0; why == "" || one && !forged {
			why, forged = text, one
		}
		for id, status := range u.Results {
			if status != TestFailed {
				delete(u.Results, id)
			}
		}
	}
	return why, forged
}

// expected is what a run on the base makes of the base. It is nil, with the
// reason, when the adapter cannot observe this base.
func (s Seen) expected(runner string) (*Expected, string) {
	e := &Expected{Runner: runner}
	for _, u := range s.Units {
		unit := Unit{Name: u.Name, Alike: u.Alike, Data: u.Data}
		failed := u.count(TestFailed) > 0 || !u.Green && len(u.Results) == 0
		switch {
		case u.Broken != "":
			return nil, u.Broken
		case !u.Canary && !failed:
			return nil, fmt.Sprintf("a test that must fail was put into %s on the base, and was not reported failed", u.label())
		}
		for _, id := range sorted(u.Results) {
			if u.Results[id] != TestSkipped && id != u.Name { // a unit's own id says that it did not come to run
				unit.Tests = append(unit.Tests, id)
			}
		}
		if u.Canary && u.count(TestFailed) == 0 && len(unit.Tests)+len(unit.Alike) == 0 {
			continue // the command chose none of its tests
		}
		e.Units = append(e.Units, unit)
	}
	if len(e.Units) == 0 {
		return nil, "the runner reported no test on the base"
	}
	return e, ""
}

// Common is what two runs on the same base have in common: an id that only one
// of them has, as of a test whose name holds the time, need not come again. It
// is nil when nothing remains.
func (e *Expected) Common(other *Expected) *Expected {
	if e == nil || other == nil || e.Runner != other.Runner {
		return nil
	}
	both := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(id string) bool { _, found := slices.BinarySearch(b, id); return !found })
	}
	c := &Expected{Runner: e.Runner}
	for _, u := range e.Units {
		i := slices.IndexFunc(other.Units, func(o Unit) bool { return o.Name == u.Name })
		if i < 0 {
			continue
		}
		o := other.Units[i]
		u.Tests, u.Alike = both(u.Tests, o.Tests), both(u.Alike, slices.Sorted(slices.Values(o.Alike)))
		c.Units = append(c.Units, u)
	}
	if len(c.Units) == 0 {
		return nil
	}
	return c
}

// Count is how many tests are expected.
func (e *Expected) Count() (n int) {
	if e == nil {
		return 0
	}
	for _, u := range e.Units {
		n += len(u.Tests) + len(u.Alike)
	}
	return n
}

func sorted(m map[string]Status) []string {
	ids := make([]string, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// few names some of the ids, cleaned for a line of text.
func few(ids []string) string {
	const most = 4
	shown := make([]string, 0, most)
	for _, id := range ids[:min(most, len(ids))] {
		shown = append(shown, wire.Line(id, 120))
	}
	s := strings.Join(shown, ", ")
	if len(ids) > most {
		s += fmt.Sprintf(" and %d more", len(ids)-most)
	}
	return s
}
