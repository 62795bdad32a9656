package verify

import (
	"fmt"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// A Base is what the test said about the untouched base.
type Base struct {
	Status   wire.Baseline // never NotRun
	ExitCode *int          // nil when it did not exit
	Tests    Tests
	Reason   string // why it is Unobserved

	Expected *Expected // nil where the runner is not known, or cannot be observed
	Weak     string    // why Expected is nil
	Results  *Results  // what single tests did, nil where that is not known

	// After a change, why passes are not among the Results, and whether that
	// can only come of somebody who meant it.
	Doubt  string
	Forged bool
}

// Baseline reads a run of the test on the untouched base. It failed only if it
// ran and said so: a test that could not run, or that ran nothing, asserts
// nothing.
func Baseline(r sandbox.Result) Base {
	b := Base{Status: wire.Unobserved}
	switch {
	case r.End == sandbox.NotRun:
		b.Reason = "the test could not be started: " + wire.Line(r.Reason, 400)
		return b
	case r.End == sandbox.Deadline:
		b.Reason = "the test did not end in its time"
		return b
	case r.End != sandbox.Exited:
		b.Reason = "the test was stopped"
		return b
	case r.OOM:
		b.Reason = "the test ran out of memory"
		return b
	case r.Signal != 0:
		b.Reason = fmt.Sprintf("the test was killed by signal %d", r.Signal)
		return b
	}
	b.ExitCode = &r.Code
	b.Tests = tests(read(r.Stdout), read(r.Stderr))
	switch {
	case r.Code == 126 || r.Code == 127:
		b.Reason = fmt.Sprintf("exit status %d: the test's command, or one that it starts, cannot be run", r.Code)
	case r.Code == 0 && b.Tests.None, r.Code == 5 && b.Tests.None, r.Code != 0 && b.Tests.said:
		b.Reason = "no test ran"
	case r.Code == 0:
		b.Status = wire.Passed
	default:
		b.Status = wire.Failed
	}
	return b
}

func read(o sandbox.Output) *tally {
	t := &tally{}
	t.Write(o.Head) // a tally takes everything
	if o.Dropped > 0 {
		t.end()
	}
	t.Write(o.Tail)
	return t
}
