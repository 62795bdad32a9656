package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/candidate"
)

const (
	defaultResamples  = 1000
	maxResamples      = 100_000
	defaultMaxSubsets = 256
	confidence        = 0.95
)

// Build makes the numbers of a batch.
func Build(in Input, o Options) Report {
	if o.Resamples <= 0 {
		o.Resamples = defaultResamples
	}
	o.Resamples = min(o.Resamples, maxResamples)
	if o.MaxSubsets <= 0 {
		o.MaxSubsets = defaultMaxSubsets
	}
	r := Report{
		Schema: Schema, Batch: in.Batch, Version: in.Version, Candidates: in.Candidates, Seed: o.Seed, Resamples: o.Resamples, Confidence: confidence,
		PassK: []Point{}, BestOfK: []Point{}, Agents: []Agent{}, Agreement: []Agreed{}, Rows: make([]Row, 0, len(in.Tasks)), Notes: slices.Clone(in.Notes),
	}
	r.count(in.Tasks)
	r.agents(in.Tasks)
	r.estimate(in.Tasks, o)
	r.note()
	return r
}

// count makes everything that is a plain number.
func (r *Report) count(tasks []Task) {
	outcomes := map[candidate.Outcome]int{}
	agreed := map[int]*Agreed{}
	r.Tasks.Total = len(tasks)
	for _, t := range tasks {
		row := rowOf(t)
		r.Rows = append(r.Rows, row)
		switch t.State {
		case Done:
			r.Tasks.Done++
		case Invalid:
			r.Tasks.Invalid++
		case Infrastructure:
			r.Tasks.Infrastructure++
		default:
			r.Tasks.Pending++
		}
		for _, c := range t.Candidates {
			if t.idle(c) {
				continue
			}
			outcomes[c.Outcome]++
			r.Spend.add(c)
			if t.State == Done && c.counts() && c.Right != Right && c.Right != Wrong {
				r.Integrity.Unknown++
			}
		}
		for _, c := range t.Earlier {
			r.Spend.addEarlier(c)
		}
		r.Spend.WallMS += t.WallMS
		if t.graded() {
			r.Tasks.Graded++
			r.choice(row, t, agreed)
		}
	}
	r.Tasks.Solved = r.Choices.Right
	r.Outcomes = listed(outcomes)
	r.Integrity.Infrastructure, r.Integrity.Cancelled = outcomes[candidate.Infrastructure], outcomes[candidate.Cancelled]
	r.Integrity.Tampered, r.Integrity.Compromised, r.Integrity.Escaped = outcomes[candidate.Tampered], outcomes[candidate.Compromised], outcomes[candidate.Escaped]
	for _, size := range slices.Sorted(maps.Keys(agreed)) {
		r.Agreement = append(r.Agreement, *agreed[size])
	}
}

func (r *Report) choice(row Row, t Task, agreed map[int]*Agreed) {
	switch {
	case row.Winner == 0 && row.Right > 0:
		r.Choices.Missed++
		return
	case row.Winner == 0:
		r.Choices.None++
		return
	case row.WinnerRight == Right:
		r.Choices.Right++
	default:
		r.Choices.Wrong++
	}
	size := agreement(t)
	if agreed[size] == nil {
		agreed[size] = &Agreed{Size: size}
	}
	agreed[size].Tasks++
	if row.WinnerRight == Right {
		agreed[size].Right++
	}
}

// agreement is how many candidates made the change that was chosen. As for the
// judge, who may not be chosen has no vote.
func agreement(t Task) int {
	i := slices.IndexFunc(t.Candidates, func(c Candidate) bool { return c.Number == t.Winner })
	if i < 0 || t.Candidates[i].Change == "" {
		return 1
	}
	n := 0
	for _, c := range t.Candidates {
		if c.Change == t.Candidates[i].Change && (c.Eligible || c.Number == t.Winner) {
			n++
		}
	}
	return n
}

// idle reports whether a candidate is still to be run, or never will be since
// its task is invalid: it was no more than planned.
func (t Task) idle(c Candidate) bool {
	return t.State != Done && (c.Outcome == candidate.Cancelled || c.Outcome == "")
}

func rowOf(t Task) Row {
	row := Row{ID: t.ID, Instance: t.Instance, State: t.State, Run: t.Run, Winner: t.Winner, Reason: t.Reason, Spend: Spend{WallMS: t.WallMS}}
	if t.State == "" {
		row.State = Pending
	}
	changes := map[string]bool{}
	for _, c := range t.Earlier {
		row.Spend.addEarlier(c)
	}
	for _, c := range t.Candidates {
		if t.idle(c) {
			continue
		}
		row.Spend.add(c)
		if c.Change != "" {
			changes[c.Change] = true
		}
		if c.counts() {
			row.Counted++
			if c.right() {
				row.Right++
			}
		}
		if c.Number == t.Winner {
			if row.WinnerRight = c.Right; c.Right == "" {
				row.WinnerRight = Unknown
			}
		}
	}
	if row.Changes = len(changes); row.Winner != 0 && row.WinnerRight == "" {
		row.WinnerRight = Unknown
	}
	return row
}

// listed puts outcomes in the order of the documentation; words that are none
// come last.
func listed(count map[candidate.Outcome]int) []Outcome {
	out := []Outcome{}
	for _, o := range candidate.Outcomes {
		if count[o] > 0 {
			out = append(out, Outcome{o, count[o]})
		}
	}
	for _, o := range slices.Sorted(maps.Keys(count)) {
		if !slices.Contains(candidate.Outcomes, o) {
			out = append(out, Outcome{o, count[o]})
		}
	}
	return out
}

// agents makes the plain numbers of each agent.
func (r *Report) agents(tasks []Task) {
	byName := map[string]*Agent{}
	outcomes := map[string]map[candidate.Outcome]int{}
	times := map[string][]int64{}
	named := func(name string) *Agent {
		if byName[name] == nil {
			byName[name], outcomes[name] = &Agent{Name: name}, map[candidate.Outcome]int{}
		}
		return byName[name]
	}
	for _, t := range tasks {
		for _, c := range t.Earlier {
			named(c.Agent).Spend.addEarlier(c)
		}
		for _, c := range t.Candidates {
			if t.idle(c) {
				continue
			}
			a := named(c.Agent)
			a.Candidates++
			a.Spend.add(c)
			outcomes[c.Agent][c.Outcome]++
			times[c.Agent] = append(times[c.Agent], c.DurationMS)
			if t.State == Done && c.counts() {
				a.Counted++
				if c.right() {
					a.Right++
				}
			}
			if t.Winner != 0 && c.Number == t.Winner {
				a.Chosen++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		a := byName[name]
		a.Outcomes = listed(outcomes[name])
		if slices.Sort(times[name]); len(times[name]) > 0 {
			a.MedianMS = times[name][(len(times[name])-1)/2]
		}
		r.Agents = append(r.Agents, *a)
	}
}

// note says what a reader of the numbers has to know.
func (r *Report) note() {
	add := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	if left := r.Tasks.Total - r.Tasks.Graded; left > 0 {
		var parts []string
		for _, p := range []struct {
			n    int
			what string
		}{
			{r.Tasks.Pending, "pending"}, {r.Tasks.Invalid, "whose base is not as the task says"}, {r.Tasks.Infrastructure, "lost to infrastructure"},
			{r.Tasks.Done - r.Tasks.Graded, "done without a candidate that had its chance"},
		} {
			if p.n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
			}
		}
		add("%d of %s %s in no share: %s.", left, count(r.Tasks.Total, "task"), be(left, "is", "are"), strings.Join(parts, ", "))
	}
	if r.Integrity.Infrastructure > 0 {
		add("%s %s lost to infrastructure, which counts neither for nor against an agent.", count(r.Integrity.Infrastructure, "candidate"), be(r.Integrity.Infrastructure, "was", "were"))
	}
	if r.Integrity.Cancelled > 0 {
		add("%s %s cancelled. Where that depended on how others went, as with --stop first, pass@k and the curves are biased.", count(r.Integrity.Cancelled, "candidate"), be(r.Integrity.Cancelled, "was", "were"))
	}
	if n := r.Spend.Earlier; n > 0 {
		add("Time, tokens and cost hold those of %s cut off or failed by the host before, which %s run again.", count(n, "candidate"), be(n, "is", "are"))
	}
	if r.Integrity.Unknown > 0 {
		add("Of %s the tests say nothing, which counts as not right.", count(r.Integrity.Unknown, "candidate"))
	}
	if n := r.Integrity.Tampered + r.Integrity.Compromised + r.Integrity.Escaped; n > 0 {
		add("%s touched what decides, could have forged it, or left the shadow.", count(n, "candidate"))
	}
	if r.Notes == nil {
		r.Notes = []string{}
	}
}
