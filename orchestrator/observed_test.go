package orchestrator

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
)

// TestObservedBaseline: where the runner is known the base is observed by the
// plugin, in a run, and what it saw goes with every verification; where it
// cannot be observed the test is run as it is, and the record says that this is
// weak. Notes that say the evidence could be forged compromise a candidate.
func TestObservedBaseline(t *testing.T) {
	for name, c := range map[string]struct {
		observation string
		note        string
		evidence    string
		known       int
		plain       int64 // runs of the test as it is
		outcome     candidate.Outcome
	}{
		"observed":          {`{"status":"failed","exit_code":1,"expected":{"runner":"go test","units":[{"name":"x","tests":["x.TestA","x.TestB"]}]}}`, "", "go test: each of the 2 tests", 2, 0, candidate.Met},
		"forged":            {`{"status":"failed","exit_code":1,"expected":{"runner":"go test","units":[{"name":"x","tests":["x.TestA"]}]}}`, "verify: unobservable: forgeable: no canary\n", "go test: each of the 1 tests", 1, 0, candidate.Compromised},
		"weak":              {`{"status":"unobserved","weak":"there is no canary"}`, "", "there is no canary", 0, 1, candidate.Met},
		"not an answer":     {`{"status":"failed","status":"x"} {`, "", "could not be observed", 0, 1, candidate.Met},
		"an unknown answer": {`{"status":"failed","more":1}`, "", "could not be observed", 0, 1, candidate.Met},
	} {
		t.Run(name, func(t *testing.T) {
			var plain, told atomic.Int64
			asked := func(ctx context.Context, p *fake.Process) fake.Exit {
				if slices.Contains(p.Args, "--observe") {
					_, _ = io.WriteString(p.Stdout, c.observation)
					return fake.Exit{}
				}
				if slices.Contains(p.Args, "--expect-tests") {
					told.Add(1)
				}
				exit := plugin(ctx, p)
				fmt.Fprint(p.Stderr, c.note)
				return exit
			}
			test := func(ctx context.Context, p *fake.Process) fake.Exit {
				plain.Add(1)
				return check(ctx, p)
			}
			s := newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{"go": test, self: asked, "fix": writes("right\n")}), "fix")
			s.cfg.Settings.Test = []string{"go", "test", "./..."}
			doc := s.run(t)
			b := doc.Baseline
			if b.Status != "failed" || b.Known != c.known || !strings.Contains(b.Evidence, c.evidence) || strings.HasPrefix(b.Evidence, "weak: ") != (c.known == 0) {
				t.Errorf("%+v", b)
			}
			if plain.Load() != c.plain || (told.Load() == 1) != (c.known > 0) || doc.Candidates[0].Outcome != c.outcome {
				t.Errorf("%d plain runs, told %d times, %s: %s", plain.Load(), told.Load(), doc.Candidates[0].Outcome, doc.Candidates[0].Detail)
			}
		})
	}
}
