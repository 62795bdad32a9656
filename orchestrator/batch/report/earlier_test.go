package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// What candidates used that were cut off and are run again is in the sums of
// time and money, and in no other number; planned ones are in none.
func TestEarlierCandidatesCostAndCountForNothing(t *testing.T) {
	cut := Candidate{Number: 2, Agent: "b", DurationMS: 500, Tokens: ptr(70), CostMicros: ptr(30)}
	lone := Candidate{Number: 1, Agent: "c", DurationMS: 5, Tokens: ptr(7), CostMicros: ptr(3)}
	in := Input{Candidates: 2, Tasks: []Task{
		{ID: "t", State: Done, Winner: 1, Candidates: []Candidate{cand(1, "a", "met right", "x"), cand(2, "b", "unmet wrong", "y")}},
		{ID: "p", State: Pending, Candidates: []Candidate{cand(1, "c", "cancelled", ""), cand(2, "c", "", "")}},
	}}
	for i := range in.Tasks[0].Candidates {
		in.Tasks[0].Candidates[i].Tokens, in.Tasks[0].Candidates[i].CostMicros = ptr(100), ptr(200)
	}
	before := Build(in, Options{Resamples: 1})
	in.Tasks[0].Earlier, in.Tasks[1].Earlier = []Candidate{cut, cut}, []Candidate{lone}
	after := Build(in, Options{Resamples: 1})
	if want := (Spend{CandidateMS: 4005, Tokens: 347, CostMicros: 463, Earlier: 3}); after.Spend != want {
		t.Errorf("in all %+v", after.Spend)
	}
	if want := (Spend{CandidateMS: 4000, Tokens: 340, CostMicros: 460, Earlier: 2}); after.Rows[0].Spend != want {
		t.Errorf("of the task %+v", after.Rows[0].Spend)
	}
	if want := (Spend{CandidateMS: 5, Tokens: 7, CostMicros: 3, Earlier: 1}); after.Rows[1].Spend != want {
		t.Errorf("of the other task %+v", after.Rows[1].Spend)
	}
	if b := after.Agents[1]; b.Candidates != 1 || b.MedianMS != 2000 || b.Spend != (Spend{CandidateMS: 3000, Tokens: 240, CostMicros: 260, Earlier: 2}) {
		t.Errorf("of b %+v", b)
	}
	if c := after.Agents[2]; c.Candidates != 0 || c.Spend.Tokens != 7 {
		t.Errorf("of c %+v", c)
	}
	if note := "Time, tokens and cost hold those of 3 candidates cut off or failed by the host before, which are run again."; !slices.Contains(after.Notes, note) {
		t.Errorf("%q", after.Notes)
	}
	after.Spend, after.Notes, after.Agents = before.Spend, before.Notes, after.Agents[:2]
	for i := range after.Agents {
		after.Agents[i].Spend = before.Agents[i].Spend
	}
	for i := range after.Rows {
		after.Rows[i].Spend = before.Rows[i].Spend
	}
	if a, b := asJSON(t, before), asJSON(t, after); a != b {
		t.Errorf("got\n%s\nnot\n%s", b, a)
	}
}

// One of anything is told of as one.
func TestOneIsOne(t *testing.T) {
	r := Build(Input{Candidates: 1, Tasks: []Task{{ID: "t", State: Done, Candidates: []Candidate{cand(1, "a", "unmet wrong", "x"), cand(2, "a", "cancelled", "")}}}}, Options{Resamples: 1})
	var b bytes.Buffer
	if err := Markdown(&b, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"0 of 1 graded task solved by the judge's choice. 1 task, 1 candidate each.", "1 candidate was cancelled."} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
