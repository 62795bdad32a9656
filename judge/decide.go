package judge

import (
	"cmp"
	"slices"
)

// Decide applies the rule to the evidence. An unmet requirement outranks one
// that cannot be decided, and anything that is not known to hold is not met.
func Decide(rule Rule, e Evidence) Verdict {
	requirements := slices.Clone(rule.Requirements)
	slices.SortStableFunc(requirements, func(a, b Requirement) int { return cmp.Compare(a.Name, b.Name) })

	v := Verdict{Decision: Met, Provenance: e.Provenance, Requirements: []RequirementVerdict{}}
	for _, r := range requirements {
		rv := RequirementVerdict{Name: r.Name, Statement: r.Statement, Findings: findings(r, rule.Oracle, e)}
		rv.Decision = decision(rv.Findings)
		v.Requirements = append(v.Requirements, rv)
		v.Decision = worse(v.Decision, rv.Decision)
	}
	return v
}

// findings lists why the requirement does not hold: its checks in their order,
// then the flip. A check that holds never stands in for the flip.
func findings(r Requirement, o *Oracle, e Evidence) []Finding {
	if o == nil {
		return []Finding{{Requirement: r.Name, Cause: CauseNoOracle}}
	}
	var out []Finding
	decided := false
	for _, c := range o.Checks {
		if c.Requirement != r.Name {
			continue
		}
		f := Finding{Requirement: r.Name, Check: c.Text}
		check, err := ParseCheck(c.Text)
		reported, found := e.Measurements[check.Measurement]
		switch {
		case err != nil:
			f.Cause = CauseUnreadableCheck
		case !found:
			f.Cause = CauseMeasurementMissing
		case !check.Holds(reported):
			f.Cause, f.Reported, decided = CauseBudget, &reported, true
		default:
			decided = true
			continue
		}
		out = append(out, f)
	}
	if o.Flip != FlipNotApplicable {
		if f := flip(e); f.Cause != "" {
			f.Requirement = r.Name
			out = append(out, f)
		}
	} else if !decided {
		out = append(out, Finding{Requirement: r.Name, Cause: CauseUndecidable})
	}
	return out
}

// flip says why a required flip gives no credit; a finding without a cause is
// credit.
func flip(e Evidence) Finding {
	switch e.Flip {
	case FlipAchieved:
		switch e.Tamper.Status {
		case Clean:
			return Finding{}
		case Tampered:
			return Finding{Cause: CauseTampered, Artifact: e.Tamper.Artifact}
		default:
			return Finding{Cause: CauseTamperUnchecked}
		}
	case FlipNotAchieved:
		return Finding{Cause: CauseNoFlip}
	case FlipUnsatisfiable:
		return Finding{Cause: CauseWitnessUnsatisfiable}
	default:
		return Finding{Cause: CauseFlipUnobservable}
	}
}

// denies reports whether the cause means that the requirement was seen not to
// hold; every other cause means that nobody can tell.
func (c Cause) denies() bool { return c == CauseNoFlip || c == CauseTampered || c == CauseBudget }

func decision(fs []Finding) Decision {
	d := Met
	for _, f := range fs {
		if f.Cause.denies() {
			return Unmet
		}
		d = Undecided
	}
	return d
}

func worse(a, b Decision) Decision {
	switch {
	case a == Unmet || b == Unmet:
		return Unmet
	case a == Met && b == Met:
		return Met
	default:
		return Undecided
	}
}

// Combine is the decision about a candidate on which several plugins had a
// verdict. Without any verdict nothing is decided.
func Combine(vs []Verdict) Decision {
	if len(vs) == 0 {
		return Undecided
	}
	d := Met
	for _, v := range vs {
		d = worse(d, v.Decision)
	}
	return d
}
