package report

import (
	"strings"
	"testing"
	"time"
)

var dawn = time.Date(2026, 3, 2, 6, 0, 0, 0, time.UTC)

func TestMake(t *testing.T) {
	at := func(hours int) time.Time { return dawn.Add(time.Duration(hours) * time.Hour) }
	runs := []Run{
		{ID: 1, Job: "b", Started: at(-5), Ended: at(-4), Outcome: "lost", MicroUSD: 1_000_000, Tokens: 10},
		{ID: 3, Job: "a", Started: at(-2), Outcome: ""},
		{ID: 2, Job: "b", Started: at(-3), Ended: at(-1), Outcome: "won", MicroUSD: 500_000, Tokens: 5},
		{ID: 4, Job: "a", Started: at(-1), Ended: at(-2), Outcome: "no-winner"}, // the clock was set back
	}
	skips := []Skip{{Job: "c", Instant: at(-6), Through: at(-5), Count: 7, Reason: "paused"}, {Job: "a", Instant: at(-1), Waiting: true}}
	r := Make(at(-24), dawn, runs, skips, []Next{{"z", at(2)}, {"y", at(1)}}, false)
	if w := r.Total.Words(); w != "4 runs, 1 won, 1 without a winner, 1 failed, 1 going on, 7 fires skipped" {
		t.Errorf("%s", w)
	}
	if s := r.Total.Spend(); s != "5h0m0s, 15 tokens, $1.50" {
		t.Errorf("%s", s)
	}
	if len(r.Jobs) != 3 || r.Jobs[0].Name != "a" || r.Jobs[1].Last != "won" || r.Jobs[1].Total.Failed != 1 || r.Jobs[2].Total.Skipped != 7 {
		t.Errorf("%+v", r.Jobs)
	}
	if r.Runs[0].ID != 4 || r.Runs[3].ID != 1 || r.Skips[0].Job != "a" || r.Next[0].Job != "y" {
		t.Errorf("order: %+v", r)
	}
	if runs[0].ID != 1 {
		t.Error("what was given was sorted")
	}
}

func TestNothing(t *testing.T) {
	r := Make(dawn, dawn, nil, nil, nil, false)
	if w := r.Total.Words(); w != "0 runs" || r.Runs == nil || r.Jobs == nil || r.Skips == nil || r.Next == nil {
		t.Errorf("%q, %+v", w, r)
	}
}

func TestGood(t *testing.T) {
	for outcomes, want := range map[string]int{"won": 1, "no-winner interrupted replaced": 0, "lost broken misused refused timed-out over-budget quiet infrastructure": -1} {
		for o := range strings.FieldsSeq(outcomes) {
			if Good(o) != want {
				t.Errorf("%s is %d", o, Good(o))
			}
		}
	}
}
