package compare

import (
	"slices"

	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// A Step is one criterion by which the judge ranked, with what it saw.
type Step struct {
	By          judge.Criterion
	Measurement string    // for judge.ByMeasurement
	Higher      bool      // more is better, as with agreement
	Values      []*uint64 // one for each of Model.Candidates; nil: not ranked, or not measured
	Decided     []int     // candidates whom it put below the place above
}

// steps are the criteria in the judge's order, from the record alone.
func steps(doc record.Document, m Model) []Step {
	if len(doc.Ranking) == 0 {
		return nil
	}
	out := []Step{{By: judge.ByAgreement, Higher: true}}
	for _, g := range doc.Settings.Rank {
		out = append(out, Step{By: judge.ByMeasurement, Measurement: g.Measurement, Higher: g.Higher})
	}
	out = append(out, Step{By: judge.ByLines}, Step{By: judge.ByFiles}, Step{By: judge.ByNumber})
	agreement := map[int]int{}
	for _, r := range doc.Ranking {
		agreement[r.Candidate] = r.Agreement
	}
	for i := range out {
		s := &out[i]
		for _, c := range m.Candidates {
			var v *uint64
			if n, ok := agreement[c.Number]; ok {
				v = valueOf(*s, c, n, doc)
			}
			s.Values = append(s.Values, v)
		}
	}
	decide(out, m)
	return out
}

func valueOf(s Step, c Candidate, agreement int, doc record.Document) *uint64 {
	number := func(n int) *uint64 {
		v := uint64(max(n, 0))
		return &v
	}
	switch s.By {
	case judge.ByAgreement:
		return number(agreement)
	case judge.ByLines:
		return number(c.Added + c.Deleted)
	case judge.ByFiles:
		return number(c.Files)
	case judge.ByNumber:
		return number(c.Number)
	}
	i := slices.IndexFunc(doc.Candidates, func(k record.Candidate) bool { return k.Number == c.Number })
	var v *uint64
	for _, e := range lastRound(doc.Candidates[i]) {
		if n, ok := e.Evidence.Measurements[s.Measurement]; ok {
			v = &n
		}
	}
	return v
}

func lastRound(c record.Candidate) []record.Evidence {
	return slices.DeleteFunc(slices.Clone(c.Evidence), func(e record.Evidence) bool { return e.Round != c.Rounds-1 })
}

// decide finds for each place the first step at which it differs from the
// place above. Candidates are in the order of their places.
func decide(steps []Step, m Model) {
	above := -1
	for i, c := range m.Candidates {
		if c.Place == 0 {
			continue
		}
		if above >= 0 && !c.Ties {
			for k := range steps {
				a, b := steps[k].Values[above], steps[k].Values[i]
				if (a == nil) != (b == nil) || a != nil && *a != *b {
					steps[k].Decided = append(steps[k].Decided, c.Number)
					break
				}
			}
		}
		above = i
	}
}
