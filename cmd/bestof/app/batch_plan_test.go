package app

import (
	"testing"
	"time"

	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch"
	"github.com/bestof-dev/bestof/orchestrator/batch/task"
)

// TestWorstTime: the time that a plan names is enough, counted by hand.
func TestWorstTime(t *testing.T) {
	const m = time.Minute
	plain, hidden := batch.Spec{}, batch.Spec{Task: task.Task{TestPatch: []byte("x")}}
	for _, c := range []struct {
		specs         []batch.Spec
		seats, jobs   int
		holds, repeat int
		want          time.Duration
	}{
		{[]batch.Spec{plain}, 1, 1, 0, 1, (2 + 30 + 2) * m},
		{[]batch.Spec{plain}, 1, 8, 0, 1, (2 + 30 + 2) * m}, // more places do not help one candidate
		{[]batch.Spec{plain}, 3, 1, 2, 1, (2 + 3*(30+3*2)) * m},
		{[]batch.Spec{hidden}, 3, 1, 2, 5, (11 + 3*(30+10)) * m},
		{[]batch.Spec{plain, plain}, 2, 2, 0, 1, (2*(2+2*32)/2 + 34/2) * m},
	} {
		p := &batchPlan{o: &batchOptions{run: runOptions{timeout: 30 * m, testTimeout: m, holds: c.holds, repeat: c.repeat}}, specs: c.specs, seats: make([]orchestrator.Seat, c.seats)}
		p.limits.Jobs = c.jobs
		if got := p.worst(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
