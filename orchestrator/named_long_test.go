package orchestrator

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// TestNamedInALongReport: a named test counts wherever it is in a report, and
// the log that is kept of it is bounded.
func TestNamedInALongReport(t *testing.T) {
	filler := strings.Repeat("a line of a test that says much\n", 40<<10)
	chatty := func(ctx context.Context, p *fake.Process) fake.Exit {
		fmt.Fprint(p.Stdout, filler)
		exit := hiddenCheck(ctx, p)
		fmt.Fprint(p.Stdout, filler)
		return exit
	}
	s := newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{"check": chatty, "fix": writes("right\n"), "bad": writes("worse\n")}), "fix", "bad")
	s.cfg.Hidden = Hidden{Patch: []byte(hiddenPatch)}
	s.cfg.Named = &Named{Fail: []string{"same"}, Pass: []string{"other"}, Read: readOK}
	doc := s.run(t)
	if got := outcomes(doc); !slices.Equal(got, []candidate.Outcome{candidate.Met, candidate.Unmet}) {
		t.Errorf("outcomes %v; baseline %+v", got, doc.Baseline)
	}
	log := ends(bytes.Repeat([]byte("x"), 2*keptOfLog+5), "the end")
	if log.Dropped != 5 || len(log.Head) != keptOfLog || len(log.Tail) != keptOfLog+len("the end") {
		t.Errorf("%d, %d dropped, %d", len(log.Head), log.Dropped, len(log.Tail))
	}
}

// TestNamedInACutReport: what is missing from a report that is not whole says
// nothing about a test.
func TestNamedInACutReport(t *testing.T) {
	n := &Named{Fail: []string{"f"}, Read: readOK}
	cut := sandbox.Result{End: sandbox.Exited, Stdout: sandbox.Output{Head: []byte("ok x true\n"), Dropped: 1}}
	if e := n.evidence(cut); e.Flip != judge.FlipUnobservable || !strings.Contains(e.Reason, "the test printed more than 16 MiB") {
		t.Errorf("%+v", e)
	}
	if b := n.baseline(cut); b.Status != wire.Unobserved || !strings.Contains(b.Reason, "let it write its report to a file") {
		t.Errorf("%+v", b)
	}
}
