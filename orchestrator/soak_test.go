package orchestrator

import (
	"os"
	"testing"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
)

// TestManyTurnsLeaveNothing: turns one after the other, of four candidates
// each, cost no descriptor; TestMain looks for goroutines.
func TestManyTurnsLeaveNothing(t *testing.T) {
	sb := fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "fix": writes("right\n"), "other": writes("no\n")})
	open := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before := 0
	for turn := range 8 {
		t.Run("turn", func(t *testing.T) {
			doc := newStage(t, sb, "other", "fix", "other", "fix").run(t)
			if doc.Winner == nil || doc.Candidates[0].Outcome != candidate.Unmet {
				t.Errorf("winner %v, outcomes %v", doc.Winner, outcomes(doc))
			}
		})
		if turn == 1 { // what is opened once is open
			before = open()
		}
	}
	if after := open(); after > before {
		t.Errorf("%d descriptors are open, and were %d six turns ago", after, before)
	}
}
