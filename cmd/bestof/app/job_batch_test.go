package app

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/orchestrator/batch"
	"github.com/bestof-dev/bestof/orchestrator/batch/task"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/runner"
)

// An attempt that goes on with a batch may use what its job allows besides what
// the batch used before, and has only that counted as its own.
func TestBudgetOfABatchThatIsGoneOnWith(t *testing.T) {
	before := usedSince(batchNow{Tokens: 500, CostUSD: 1}, schedule.Budget{})
	if got := usedSince(batchNow{Tokens: 700, CostUSD: 1.5}, before); got != (schedule.Budget{MicroUSD: 500_000, Tokens: 200}) {
		t.Errorf("its own: %+v", got)
	}
	if got := usedSince(batchNow{}, before); got != (schedule.Budget{}) {
		t.Errorf("less than before: %+v", got)
	}
	if got := whole(schedule.Budget{Tokens: 100}, before); got != (schedule.Budget{Tokens: 600}) {
		t.Errorf("of the batch: %+v", got)
	}
	f := frozenSettings{Flags: []frozenFlag{{"budget-tokens", []string{"900"}}, {"candidates", []string{"4"}}, {"jobs", []string{"2"}}, {"test", []string{"x"}}}}
	if got := f.limits().words(); !slices.Equal(got, []string{"--budget-tokens=900", "--jobs=2"}) {
		t.Errorf("what a start is given: %q", got)
	}
	if got := budgetFlags(f, whole(schedule.Budget{Tokens: 100}, before)); !slices.Equal(got, []string{"--budget-tokens=600"}) {
		t.Errorf("what its job allows: %q", got)
	}
}

// What is not the same job, or did not begin, is not gone on with.
func TestBatchThatIsNotGoneOnWith(t *testing.T) {
	j := schedule.Job{Repository: "/repo", Settings: schedule.Settings{Digest: "sha256:a"}}
	other, elsewhere := j, j
	other.Settings.Digest, elsewhere.Repository = "sha256:b", "/another"
	p := &jobProgram{app: &app{}}
	for _, was := range []schedule.Job{j, other, elsewhere} {
		_, err := p.goOn(t.Context(), j, schedule.Run{}, frozenSettings{}, &runner.Attempted{Run: 1, Job: was, Invocation: runner.Invocation{Batch: t.TempDir()}})
		same := was.Settings.Digest == j.Settings.Digest && was.Repository == j.Repository
		if err == nil || same != errors.Is(err, batch.ErrNone) || !same && !strings.Contains(err.Error(), "edited") {
			t.Errorf("%+v: %v", was, err)
		}
	}
}

// A batch of one task is told of as one.
func TestBatchOfOneTask(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "b")
	state, err := batch.Create(dir, nil, []batch.Spec{{Task: task.Task{ID: "a"}}})
	if err == nil {
		err = state.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := (&jobProgram{app: &app{}}).readBatch(schedule.Job{}, runner.Invocation{Batch: dir})
	if err != nil || out.Reason != "0 of 1 task solved" {
		t.Errorf("%q, %v", out.Reason, err)
	}
}
