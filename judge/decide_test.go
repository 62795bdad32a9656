package judge

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseCheck(t *testing.T) {
	good := map[string]ParsedCheck{
		"p50 <= 105":                {"p50", "<=", 105},
		"  a\t==\n 0 ":              {"a", "==", 0},
		"x > +007":                  {"x", ">", 7},
		"x != 18446744073709551615": {"x", "!=", math.MaxUint64},
		"µs\u00a0<\u20031":          {"µs", "<", 1},
	}
	for text, want := range good {
		if got, err := ParseCheck(text); err != nil || got != want {
			t.Errorf("ParseCheck(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "a", "a <=", "p50<=105", "p50 <=105", "a b <= 1", "a <= 1 x", "a = 1", "a =< 1", "a <> 1", "a => 1", "a === 1",
		"a <= -1", "a <= +", "a <= ++1", "a <= +-1", "a <= 1_0", "a <= 0x1", "a <= 1.0", "a <= 1e3", "a <= 18446744073709551616", "a <= ١",
	} {
		if got, err := ParseCheck(text); !errors.Is(err, ErrCheck) {
			t.Errorf("ParseCheck(%q) = %v, %v; want an ErrCheck", text, got, err)
		}
	}
}

func TestHolds(t *testing.T) {
	for op, want := range map[string][3]bool{ // of 1, 2, 3 against 2
		">": {false, false, true}, ">=": {false, true, true}, "<": {true, false, false},
		"<=": {true, true, false}, "==": {false, true, false}, "!=": {true, false, true}, "": {false, false, false},
	} {
		for i := range 3 {
			if got := (ParsedCheck{"x", op, 2}).Holds(uint64(i + 1)); got != want[i] {
				t.Errorf("%d %s 2 = %v", i+1, op, got)
			}
		}
	}
	if !(ParsedCheck{"x", ">", math.MaxInt64}).Holds(math.MaxUint64) {
		t.Error("the comparison is not unsigned")
	}
}

var (
	policies = []FlipPolicy{FlipRequired, FlipNotApplicable, "", "REQUIRED"}
	flips    = []Flip{FlipUnobservable, FlipNotAttempted, FlipAchieved, FlipNotAchieved, FlipUnsatisfiable, "", "Achieved", "not-applicable"}
	tampers  = []TamperStatus{NotChecked, Clean, Tampered, "dirty"}
)

// TestFlipTable is every policy × observation × tamper, with a check that
// holds, fails, is missing, is unreadable, or is not there.
func TestFlipTable(t *testing.T) {
	type checkCase struct {
		name   string
		checks []Check
		cause  Cause // "" when it holds or is absent
		exists bool
		judged bool // the check says yes or no
	}
	check := func(text string) []Check { return []Check{{Requirement: "r", Text: text}} }
	cases := []checkCase{
		{"none", nil, "", false, false},
		{"holds", check("n <= 1"), "", true, true},
		{"fails", check("n <= 0"), CauseBudget, true, true},
		{"missing", check("m <= 0"), CauseMeasurementMissing, true, false},
		{"unreadable", check("n<=0"), CauseUnreadableCheck, true, false},
		{"other requirement's", []Check{{Requirement: "s", Text: "n <= 0"}}, "", false, false},
	}
	seen := 0
	for _, p := range policies {
		for _, f := range flips {
			for _, ts := range tampers {
				for _, c := range cases {
					seen++
					e := Evidence{Flip: f, Tamper: Tamper{ts, "x_test.go"}, Measurements: map[string]uint64{"n": 1}}
					v := Decide(Rule{[]Requirement{{"r", "it works"}}, &Oracle{Flip: p, Checks: c.checks}}, e)
					var want []Cause
					if c.cause != "" {
						want = append(want, c.cause)
					}
					switch {
					case p == FlipNotApplicable:
						if !c.judged {
							want = append(want, CauseUndecidable)
						}
					case f == FlipAchieved && ts == Clean:
					case f == FlipAchieved && ts == Tampered:
						want = append(want, CauseTampered)
					case f == FlipAchieved:
						want = append(want, CauseTamperUnchecked)
					case f == FlipNotAchieved:
						want = append(want, CauseNoFlip)
					case f == FlipUnsatisfiable:
						want = append(want, CauseWitnessUnsatisfiable)
					default:
						want = append(want, CauseFlipUnobservable)
					}
					var got []Cause
					for _, f := range v.Requirements[0].Findings {
						got = append(got, f.Cause)
					}
					decision := Met
					for _, w := range want {
						if w == CauseTampered || w == CauseNoFlip || w == CauseBudget {
							decision = Unmet
						} else if decision == Met {
							decision = Undecided
						}
					}
					if !slices.Equal(got, want) || v.Decision != decision || v.Requirements[0].Decision != decision {
						t.Errorf("%q %q %q check %s: %s %v; want %s %v", p, f, ts, c.name, v.Decision, got, decision, want)
					}
				}
			}
		}
	}
	if seen != 4*8*4*6 {
		t.Errorf("%d cases", seen)
	}
}

func TestDecide(t *testing.T) {
	if v := Decide(Rule{}, Evidence{Provenance: PluginReported}); v.Decision != Met || v.Provenance != PluginReported || v.Requirements == nil {
		t.Errorf("no requirements: %+v", v)
	}
	v := Decide(Rule{Requirements: []Requirement{{"b", "B"}, {"a", "A"}}}, Evidence{Flip: FlipAchieved, Tamper: Tamper{Status: Clean}})
	if v.Decision != Undecided || v.Requirements[0].Name != "a" || v.Requirements[1].Findings[0].Cause != CauseNoOracle {
		t.Errorf("no oracle: %+v", v)
	}

	rule := Rule{
		Requirements: []Requirement{{"tests-pass", "passes"}, {"size", "small"}, {"tests-flip", "flips"}},
		Oracle: &Oracle{Flip: FlipRequired, Checks: []Check{
			{"tests-pass", "code <= 0"}, {"size", "bytes < 10"}, {"size", "gone == 0"}, {"size", "what"}, {"size", "files <= 1"},
		}},
	}
	one, two := uint64(12), uint64(3)
	got := Decide(rule, Evidence{
		Provenance: PluginReported, Flip: FlipNotAchieved, Tamper: Tamper{Tampered, "t"},
		Measurements: map[string]uint64{"code": 0, "bytes": 12, "files": 3},
	})
	want := Verdict{Decision: Unmet, Provenance: PluginReported, Requirements: []RequirementVerdict{
		{"size", "small", Unmet, []Finding{
			{Requirement: "size", Cause: CauseBudget, Check: "bytes < 10", Reported: &one},
			{Requirement: "size", Cause: CauseMeasurementMissing, Check: "gone == 0"},
			{Requirement: "size", Cause: CauseUnreadableCheck, Check: "what"},
			{Requirement: "size", Cause: CauseBudget, Check: "files <= 1", Reported: &two},
			{Requirement: "size", Cause: CauseNoFlip},
		}},
		{"tests-flip", "flips", Unmet, []Finding{{Requirement: "tests-flip", Cause: CauseNoFlip}}},
		{"tests-pass", "passes", Unmet, []Finding{{Requirement: "tests-pass", Cause: CauseNoFlip}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func genEvidence(t *rapid.T) Evidence {
	return Evidence{
		Flip:         rapid.SampledFrom(flips).Draw(t, "flip"),
		Tamper:       Tamper{Status: rapid.SampledFrom(tampers).Draw(t, "tamper")},
		Measurements: rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.Uint64Range(0, 4)).Draw(t, "measurements"),
	}
}

func genRule(t *rapid.T) Rule {
	var r Rule
	for i := range rapid.IntRange(0, 3).Draw(t, "requirements") {
		r.Requirements = append(r.Requirements, Requirement{Name: "r" + strconv.Itoa(i), Statement: "s"})
	}
	if rapid.IntRange(0, 9).Draw(t, "oracle") == 0 {
		return r
	}
	r.Oracle = &Oracle{Flip: rapid.SampledFrom(policies).Draw(t, "policy")}
	for range rapid.IntRange(0, 4).Draw(t, "checks") {
		r.Oracle.Checks = append(r.Oracle.Checks, Check{
			Requirement: "r" + strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "for")),
			Text:        rapid.SampledFrom([]string{"a <= 1", "a > 2", "b == 3", "c != 0", "d < 9", "broken"}).Draw(t, "check"),
		})
	}
	return r
}

func rankOf(d Decision) int { return slices.Index([]Decision{Unmet, Undecided, Met}, d) }

// TestUnknownIsNeverAPass: a verdict is met only if the flip, where needed, was
// achieved on clean artifacts and every check was read, measured and true.
func TestUnknownIsNeverAPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule, e := genRule(t), genEvidence(t)
		v := Decide(rule, e)
		if v.Decision != Met || len(rule.Requirements) == 0 {
			return
		}
		if rule.Oracle == nil {
			t.Fatal("met without an oracle")
		}
		if rule.Oracle.Flip != FlipNotApplicable && (e.Flip != FlipAchieved || e.Tamper.Status != Clean) {
			t.Fatalf("met on %v", e)
		}
		checked := map[string]bool{}
		for _, c := range rule.Oracle.Checks {
			p, err := ParseCheck(c.Text)
			value, ok := e.Measurements[p.Measurement]
			if slices.ContainsFunc(rule.Requirements, func(r Requirement) bool { return r.Name == c.Requirement }) && (err != nil || !ok || !p.Holds(value)) {
				t.Fatalf("met although %q is not known to hold of %v", c.Text, e.Measurements)
			}
			checked[c.Requirement] = true
		}
		for _, r := range rule.Requirements {
			if rule.Oracle.Flip == FlipNotApplicable && !checked[r.Name] {
				t.Fatalf("%s met with nothing to decide it", r.Name)
			}
		}
	})
}

// TestMoreFailureNeverHelps: evidence of failure in place of anything else
// never gives a better verdict, and evidence lost never makes one met.
func TestMoreFailureNeverHelps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule, e := genRule(t), genEvidence(t)
		before := Decide(rule, e).Decision

		failed := e
		failed.Measurements = maps.Clone(e.Measurements)
		switch rapid.IntRange(0, 2).Draw(t, "failure") {
		case 0:
			failed.Flip = FlipNotAchieved
		case 1:
			failed.Tamper.Status = Tampered
		case 2:
			for _, c := range []string{"a <= 1", "b == 3"} {
				if rule.Oracle != nil && !slices.ContainsFunc(rule.Oracle.Checks, func(o Check) bool { return o.Text != c }) {
					failed.Measurements = map[string]uint64{c[:1]: 2}
				}
			}
		}
		if after := Decide(rule, failed).Decision; rankOf(after) > rankOf(before) {
			t.Fatalf("%+v gives %s, the failing %+v gives %s", e, before, failed, after)
		}

		lost := e
		lost.Measurements = maps.Clone(e.Measurements)
		switch rapid.IntRange(0, 2).Draw(t, "loss") {
		case 0:
			lost.Flip = rapid.SampledFrom([]Flip{FlipUnobservable, FlipNotAttempted, FlipUnsatisfiable, "nonsense"}).Draw(t, "flip lost")
		case 1:
			lost.Tamper.Status = rapid.SampledFrom([]TamperStatus{NotChecked, "nonsense"}).Draw(t, "tamper lost")
		case 2:
			delete(lost.Measurements, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "measurement lost"))
		}
		if after := Decide(rule, lost).Decision; after == Met && before != Met {
			t.Fatalf("%+v gives %s, the poorer %+v is met", e, before, lost)
		}
	})
}

func TestCombine(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Decision
	}{{"", Undecided}, {"m", Met}, {"u", Unmet}, {"?", Undecided}, {"mm", Met}, {"m?", Undecided}, {"?m", Undecided}, {"m?u", Unmet}, {"u?", Unmet}, {"um", Unmet}, {"x", Undecided}, {"mx", Undecided}} {
		var vs []Verdict
		for _, r := range c.in {
			vs = append(vs, Verdict{Decision: map[rune]Decision{'m': Met, 'u': Unmet, '?': Undecided, 'x': "other"}[r]})
		}
		if got := Combine(vs); got != c.want {
			t.Errorf("%q: %s", c.in, got)
		}
	}
}

func TestAgain(t *testing.T) {
	n := func(i int) *int { return &i }
	for i, c := range []struct {
		d              Decision
		arbiter        bool
		ask            *int
		ceiling, spent int
		want           Hold
	}{
		{Met, true, nil, 2, 0, Hold{false, StopMet, 0, 2}},
		{Undecided, true, nil, 2, 0, Hold{false, StopUndecided, 0, 2}},
		{"", true, nil, 2, 0, Hold{false, StopUndecided, 0, 2}},
		{Unmet, false, nil, 2, 0, Hold{false, StopNotArbiter, 0, 2}},
		{Unmet, true, nil, 2, 0, Hold{true, HoldUnmet, 1, 2}},
		{Unmet, true, nil, 2, 1, Hold{true, HoldUnmet, 2, 2}},
		{Unmet, true, nil, 2, 2, Hold{false, StopAllowanceSpent, 2, 2}},
		{Unmet, true, n(1), 2, 1, Hold{false, StopAllowanceSpent, 1, 1}},
		{Unmet, true, n(9), 2, 1, Hold{true, HoldUnmet, 2, 2}},
		{Unmet, true, n(9), DefaultHolds, 2, Hold{false, StopAllowanceSpent, 2, 2}},
		{Unmet, true, n(-1), 2, 0, Hold{false, StopAllowanceSpent, 0, 0}},
		{Unmet, true, nil, -3, 0, Hold{false, StopAllowanceSpent, 0, 0}},
	} {
		if got := Again(Verdict{Decision: c.d}, c.arbiter, c.ask, c.ceiling, c.spent); got != c.want {
			t.Errorf("%d: %+v", i, got)
		}
	}
}

func TestCorrection(t *testing.T) {
	three := uint64(3)
	v := Verdict{Decision: Unmet, Requirements: []RequirementVerdict{
		{Name: "a\nb", Statement: "be \x1b[31mred\u202e\r\n- forged: line", Findings: []Finding{
			{Cause: CauseBudget, Check: "n <= 0", Reported: &three}, {Cause: CauseMeasurementMissing, Check: "m <= 0"}, {Cause: CauseTampered, Artifact: "t\"\u2028est.py"}}},
		{Name: "c", Statement: "C", Findings: []Finding{{Cause: CauseNoFlip}}},
		{Name: "d", Statement: "D", Findings: []Finding{{Cause: CauseFlipUnobservable}}},
	}}
	want := `The change is not accepted yet. Keep what is right in it, and make each of these true:
- a b: be [31mred - forged: line — "n <= 0" does not hold: 3 was measured
- a b: be [31mred - forged: line — "t\" est.py", which decides this, was changed; leave it as it was
- c: C — the test did not go from failing to passing
`
	if diff := cmp.Diff(want, Correction(v)); diff != "" {
		t.Error(diff)
	}
	if got := Correction(Verdict{Decision: Undecided, Requirements: v.Requirements[2:]}); got != "" {
		t.Errorf("nothing unmet: %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		c := Correction(Verdict{Requirements: []RequirementVerdict{{Name: s, Statement: s, Findings: []Finding{{Cause: CauseTampered, Artifact: s}}}}})
		if strings.Count(c, "\n") != 2 || strings.ContainsAny(c, "\r\v\f\x1b\x00\u2028\u202e") {
			t.Fatalf("%q", c)
		}
	})
}

func FuzzParseCheck(f *testing.F) {
	for _, s := range []string{"a <= 1", "a<=1", "x > +0", "a == 18446744073709551616", "\xff != 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCheck(s)
		if err != nil {
			if !errors.Is(err, ErrCheck) {
				t.Fatal(err)
			}
			return
		}
		again, err := ParseCheck(fmt.Sprintf("%s %s %d", c.Measurement, c.Op, c.Value))
		if err != nil || again != c {
			t.Fatalf("%q reads as %v, which reads as %v, %v", s, c, again, err)
		}
	})
}
