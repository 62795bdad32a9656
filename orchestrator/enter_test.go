package orchestrator

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/worktree"
)

// TestEveryProgramEntersItsShadow: with shadows in user namespaces the setup
// command alone runs on the host's own view, and what the host reads and
// verifies is what the programs saw.
func TestEveryProgramEntersItsShadow(t *testing.T) {
	sb := fake.New(sandbox.Options{}, map[string]fake.Program{
		"check": check, self: plugin, "fix": writes("right\n"), "bad": writes("worse\n"), "idle": fake.Say("nothing", 0),
		"setup": func(_ context.Context, p *fake.Process) fake.Exit {
			if err := os.WriteFile(filepath.Join(p.Spec.Home, "warm"), nil, 0o600); err != nil {
				return fake.Exit{Code: 1}
			}
			return fake.Exit{}
		},
		"looks": func(_ context.Context, p *fake.Process) fake.Exit {
			if _, err := os.Stat(filepath.Join(p.Spec.Home, "warm")); err != nil {
				return fake.Exit{Code: 1}
			}
			return writes("right\n")(context.Background(), p)
		},
	})
	s := newStage(t, sb, "fix", "bad", "idle", "looks")
	s.cfg.Shadow, s.cfg.Settings.Setup, s.cfg.SetupNetwork = worktree.ShadowUserns, []string{"setup"}, sandbox.NetworkNone
	doc := s.run(t)
	want := []candidate.Outcome{candidate.Met, candidate.Unmet, candidate.Empty, candidate.Met}
	if got := outcomes(doc); !slices.Equal(got, want) || doc.Base.Shadow != "userns" {
		t.Fatalf("outcomes %v, want %v, in %s shadows: %s", got, want, doc.Base.Shadow, doc.Reason)
	}
	for _, spec := range sb.Runs() {
		entered := strings.HasPrefix(spec.Enter.Host, "/proc/") && len(spec.Enter.Argv) > 0
		if entered == (spec.Argv[0] == "setup") {
			t.Errorf("%s was started with the entry %+v", spec.Argv[0], spec.Enter)
		}
	}
	if m := sb.Misuse(); len(m) > 0 {
		t.Errorf("the sandbox was misused: %v", m)
	}
}

// outside is a sandbox that works only where nothing has to be entered.
type outside struct{ *fake.Sandbox }

var errInside = errors.New("no namespaces inside of namespaces")

func (o outside) Run(ctx context.Context, s sandbox.Spec) (sandbox.Result, error) {
	if len(s.Enter.Argv) > 0 {
		return sandbox.Result{}, errInside
	}
	return o.Sandbox.Run(ctx, s)
}

// TestSandboxThatCannotEnter: shadows in user namespaces are not chosen for a
// sandbox that does not work in there, and refused by name.
func TestSandboxThatCannotEnter(t *testing.T) {
	sb := outside{fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "fix": writes("right\n")})}
	s := newStage(t, sb, "fix")
	if doc := s.run(t); doc.Winner == nil || doc.Base.Shadow == "userns" {
		t.Errorf("%s shadows: %s", doc.Base.Shadow, doc.Reason)
	}
	s = newStage(t, sb, "fix")
	s.cfg.Shadow = worktree.ShadowUserns
	if doc := s.run(t); doc.ExitCode != ExitInfrastructure || !strings.Contains(doc.Reason, errInside.Error()) {
		t.Errorf("exit code %d: %s", doc.ExitCode, doc.Reason)
	}
}
