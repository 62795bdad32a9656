package orchestrator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
)

// TestSlot: a candidate that waits for a slot of the machine's is said to, one
// whose slot cannot be had for the host's reasons is the host's failure, and
// every slot is given back.
func TestSlot(t *testing.T) {
	s := newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "fix": writes("right\n")}), "fix", "fix")
	s.cfg.Settings.Jobs = 1
	var asked, released atomic.Int32
	s.cfg.Slot = func(_ context.Context, waits func()) (func(), error) {
		if asked.Add(1) == 2 {
			return nil, errors.New("take a slot: too many open files")
		}
		waits()
		return func() { released.Add(1) }, nil
	}
	doc := s.run(t)
	if got := outcomes(doc); !slices.Equal(got, []candidate.Outcome{candidate.Met, candidate.Infrastructure}) || !strings.Contains(doc.Candidates[1].Detail, "too many open files") {
		t.Errorf("outcomes %v, %s", got, doc.Candidates[1].Detail)
	}
	if !slices.ContainsFunc(doc.Notices, func(n string) bool { return strings.HasPrefix(n, "c1 waits: ") }) || released.Load() != 1 {
		t.Errorf("notices %q, %d released", doc.Notices, released.Load())
	}
}
