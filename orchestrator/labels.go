package orchestrator

import (
	"context"
	"maps"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
)

// What programs of a run are for, as the label bestof.phase of their
// containers.
const (
	phaseProbe    = "probe"
	phaseSetup    = "setup"
	phaseBaseline = "baseline"
	phaseBefore   = "before"
	phaseAgent    = "agent"
	phaseHook     = "hook"
	phaseTool     = "tool"
	phaseVerify   = "verify"
)

// A labelled sandbox marks what it leaves with others as a run's.
type labelled struct {
	sandbox.Sandbox
	labels map[string]string
}

// box is the run's sandbox for one purpose; candidate is 0 for what is nobody's.
func (t *turn) box(n candidate.Number, phase string) sandbox.Sandbox {
	labels := map[string]string{"bestof.run": t.Record.ID(), "bestof.phase": phase}
	if n > 0 {
		labels["bestof.candidate"] = n.ID()
	}
	return labelled{t.Sandbox, labels}
}

// Run implements sandbox.Sandbox.
func (l labelled) Run(ctx context.Context, s sandbox.Spec) (sandbox.Result, error) {
	labels := maps.Clone(l.labels)
	maps.Copy(labels, s.Labels)
	s.Labels = labels
	return l.Sandbox.Run(ctx, s)
}
