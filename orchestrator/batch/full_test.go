package batch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/orchestrator"
)

// TestStateIsFull: when nothing more can be written down the batch stops and
// says so, no task is failed by it, and another start finishes it without
// running anything again.
func TestStateIsFull(t *testing.T) {
	var ran atomic.Int32
	s := newStage(t, 6, map[string]fake.Program{"fix": func(ctx context.Context, p *fake.Process) fake.Exit {
		ran.Add(1)
		return writes("right\n")(ctx, p)
	}}, "fix")
	for i := range 4 { // so that the page of attempts is nearly full
		if _, err := s.state.db.Exec(`INSERT INTO attempts VALUES (?, 0, 1, 1, 'judged', ?, 0)`, fmt.Sprint("pad", i), strings.Repeat("x", 960)); err != nil {
			t.Fatal(err)
		}
	}
	var pages int
	if err := s.state.db.QueryRow(`PRAGMA page_count`).Scan(&pages); err != nil {
		t.Fatal(err)
	}
	limit := func(n int) {
		if _, err := s.state.db.Exec(fmt.Sprintf(`PRAGMA max_page_count = %d`, n)); err != nil {
			t.Fatal(err)
		}
	}
	limit(pages)
	r, err := Run(t.Context(), s.config(Limits{Jobs: 1}))
	if !Full(err) || r.ExitCode != orchestrator.ExitInfrastructure || r.Left == 0 || strings.Contains(s.states(), Failed) {
		t.Fatalf("%+v, %v, %s", r, err, s.states())
	}
	before := ran.Load()
	limit(1 << 20)
	if _, err := Settle(t.Context(), s.state, s.records, s.store, noon); err != nil {
		t.Fatal(err)
	}
	if r := s.run(s.config(Limits{Jobs: 1})); r != (Result{Reason: "done"}) || strings.Count(s.states(), ":done:1") != 6 || ran.Load() != 6 {
		t.Errorf("%+v, %s, %d candidates were run for 6, %d before it was full", r, s.states(), ran.Load(), before)
	}
}

func TestOneLine(t *testing.T) {
	full := fmt.Errorf("write x: %w", syscall.ENOSPC)
	if got := oneLine(errors.Join(full, full, errors.New("y"))); got != "write x: no space left on device; y" || !Full(full) || Full(errors.New("y")) {
		t.Errorf("%q", got)
	}
}
