package progress

import (
	"encoding/json"
	"testing"
	"time"
)

func TestFold(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	var totals Totals
	for i, b := range []Body{
		Started{Directory: "d", Tasks: 5, Left: 3, Candidates: 6, Jobs: 2, Solved: 1, Failed: 1, Spend: Spend{Tokens: 7}},
		Task{ID: "a", State: Running}, Candidate{Task: "a", Number: 1, Agent: "x", State: "preparing"}, Candidate{Task: "a", Number: 2, Agent: "x", State: "working"},
		Candidate{Task: "a", Number: 1, Agent: "x", State: "working"},
		Candidate{Task: "a", Number: 1, State: "done", Outcome: "met"}, Spend{Tokens: 9}, Task{ID: "a", State: Again},
		Task{ID: "b", State: Running}, Task{ID: "b", State: Unsolved}, Task{ID: "a", State: Running}, Task{ID: "a", State: Solved}, Notice{Text: "n"},
	} {
		totals.Fold(Event{Seq: int64(i + 1), At: at.Add(time.Duration(i) * time.Minute), Body: b})
	}
	if totals.Counts[Solved] != 2 || totals.Counts[Unsolved] != 1 || totals.Counts[Failed] != 1 || totals.Counts[Running] != 0 || totals.Done() != 4 {
		t.Errorf("counts %v, done %d", totals.Counts, totals.Done())
	}
	if len(totals.Working) != 1 || totals.Working[0] != (Work{"a", 2, "x", "working", at.Add(3 * time.Minute)}) || totals.Spend.Tokens != 9 {
		t.Errorf("working %v, spend %v", totals.Working, totals.Spend)
	}
	if got := totals.Remaining(at.Add(10 * time.Minute)); got != 50*time.Minute {
		t.Errorf("remaining %v", got)
	}
	nothing := totals
	if nothing.Tasks = 4; nothing.Remaining(at.Add(10*time.Minute)) != 0 {
		t.Error("when every task has ended something is left")
	}
	totals.Fold(Event{Body: Finished{Reason: "done"}})
	if totals.Remaining(at) != 0 || len(totals.Working) != 0 {
		t.Errorf("after the end: %v, %v", totals.Remaining(at), totals.Working)
	}
	b, err := json.Marshal(Event{Seq: 2, At: at, Body: Task{ID: "a", State: Solved, Winner: 3}})
	if want := `{"seq":2,"at":"2026-01-02T03:00:00Z","type":"task","body":{"id":"a","state":"solved","winner":3}}`; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}
