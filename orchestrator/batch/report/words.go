package report

import (
	"fmt"
	"time"

	"github.com/bestof-dev/bestof/candidate"
)

// count is a number with what it counts.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// be is the verb for so many.
func be(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// A Line is one headline number with its name.
type Line struct {
	Name string
	Estimate
}

// Headline is the numbers that sum a batch up, in the order of reading.
func (r Report) Headline() []Line {
	return []Line{
		{"pass@1: one candidate is right", r.Pass1},
		{"best-of-N: the judge's choice is right", r.BestOfN},
		{"oracle-of-N: any candidate is right", r.OracleOfN},
	}
}

// Share is the value in percent, or a dash.
func (e Estimate) Share() string {
	if e.Value == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100**e.Value)
}

// Interval is the bounds in percent, or a dash.
func (e Estimate) Interval() string {
	if e.Low == nil || e.High == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f–%.1f %%", 100**e.Low, 100**e.High)
}

// Over is the tasks that the value rests on.
func (e Estimate) Over() string { return count(e.Tasks, "task") }

// Chosen is the handle of the winner, or a dash.
func (r Row) Chosen() string {
	if r.Winner == 0 {
		return "–"
	}
	return candidate.Number(r.Winner).ID()
}

// Duration is a time for people: 850ms, 4.2s, 3m10s, 2h5m0s.
func Duration(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Second:
		return d.String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// TokenWords is how many tokens were told; a plus says that some agents do not
// tell.
func (s Spend) TokenWords() string {
	return words(s.TokensUnknown, s.Tokens != 0, fmt.Sprint(s.Tokens))
}

// CostWords is the money that was told of, in US dollars; a plus says that
// some agents do not tell.
func (s Spend) CostWords() string {
	return words(s.CostUnknown, s.CostMicros != 0, fmt.Sprintf("$%d.%04d", s.CostMicros/1_000_000, s.CostMicros%1_000_000/100))
}

func words(unknown int, told bool, text string) string {
	switch {
	case unknown == 0:
		return text
	case told:
		return text + "+"
	}
	return "not told"
}

// SpendWords sums up time and money in one line; what a solved task came to is
// said when one was solved.
func (r Report) SpendWords() string {
	s := r.Spend
	line := fmt.Sprintf("Time of candidates %s, tokens %s, cost %s.", Duration(s.CandidateMS), s.TokenWords(), s.CostWords())
	if n := int64(r.Tasks.Solved); n > 0 {
		per := Spend{CandidateMS: s.CandidateMS / n, CostMicros: s.CostMicros / n, CostUnknown: s.CostUnknown}
		line += fmt.Sprintf(" For each solved task: time %s, cost %s.", Duration(per.CandidateMS), per.CostWords())
	}
	return line
}
