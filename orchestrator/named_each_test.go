package orchestrator

import (
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/internal/testreport"
	"github.com/bestof-dev/bestof/plugin/verify"
)

// TestNamedOneByOne: named tests whose names their runner has too have to be
// seen to pass, whatever a report says.
func TestNamedOneByOne(t *testing.T) {
	n := &Named{Fail: []string{"f"}, Pass: []string{"p"}}
	for name, c := range map[string]struct {
		base verify.Base
		want string
	}{
		"seen":       {verify.Base{Results: &verify.Results{Passed: []string{"f", "p", "x"}, Failed: []string{"y"}}}, ""},
		"honest, or": {verify.Base{Results: &verify.Results{Passed: []string{"p"}, Failed: []string{"f"}}}, "f passes in the report, and failed when it was seen on its own"},
		"absent":     {verify.Base{Results: &verify.Results{Passed: []string{"f"}}}, "p was not seen to"},
		"no canary":  {verify.Base{Weak: "a test that must fail was not reported failed"}, "the run cannot be believed: a test that must fail was not reported failed"},
		"timed out":  {verify.Base{Reason: "it did not end"}, "the tests were not seen one by one: it did not end"},
		"no results": {verify.Base{}, "the tests were not seen one by one: "},
		"taken back": {verify.Base{Results: &verify.Results{Passed: []string{"p"}}, Doubt: "no canary", Forged: true}, "f was not seen to: no canary"},
		"honest end": {verify.Base{Results: &verify.Results{Passed: []string{"p"}}, Doubt: "no canary"}, "f was not seen to: no canary"},
		"honest cut": {verify.Base{Results: &verify.Results{Passed: []string{"p"}, More: 1}}, "there are more tests than can be seen one by one"},
		"elsewhere":  {verify.Base{Results: &verify.Results{Passed: []string{"f", "p"}}, Doubt: "no canary", Forged: true}, ""},
	} {
		if got, forged := n.unbelievable(c.base); got != c.want || forged != (c.want != "" && !strings.HasPrefix(name, "honest")) {
			t.Errorf("%s: %q (forged %t), want %q", name, got, forged, c.want)
		}
	}
	for _, c := range []struct {
		seen *verify.Results
		want bool
	}{
		{&verify.Results{Failed: []string{"f"}, Passed: []string{"p"}}, true}, {&verify.Results{Passed: []string{"p"}}, true},
		{&verify.Results{Passed: []string{"f", "p"}}, false}, {&verify.Results{Failed: []string{"p"}}, false},
		{&verify.Results{Passed: []string{"p"}, More: 1}, false}, {nil, false},
	} {
		if got := n.agrees(c.seen); got != c.want {
			t.Errorf("%+v: %v", c.seen, got)
		}
	}
	// Go's tests are known by their bare names too, and a test that is marked to
	// fail is told as skipped.
	n = &Named{Fail: []string{"TestF/a_b"}, Pass: []string{"p/q.TestP", "x"}, base: map[string]testreport.Status{"TestF/a_b": testreport.Failed, "p/q.TestP": testreport.Passed, "x": testreport.Expected}}
	for _, c := range []struct {
		seen       verify.Results
		base, pass bool
	}{
		{verify.Results{Failed: []string{"p/q.TestF/a_b"}, Passed: []string{"p/q.TestP"}, Skipped: []string{"x"}}, true, false},
		{verify.Results{Failed: []string{"other name"}, Passed: []string{"p/q.TestP"}, Skipped: []string{"x"}}, false, false},
		{verify.Results{Passed: []string{"p/q.TestF/a_b", "p/q.TestP"}, Skipped: []string{"x"}}, false, true},
		{verify.Results{Passed: []string{"p/q.TestF/a_b", "x"}, Skipped: []string{"p/q.TestP"}}, false, false},
	} {
		if base := n.agrees(&c.seen); base != c.base {
			t.Errorf("%+v: agrees %v", c.seen, base)
		}
		if why, _ := n.unbelievable(verify.Base{Results: &c.seen}); (why == "") != c.pass {
			t.Errorf("%+v: %q", c.seen, why)
		}
	}
}
