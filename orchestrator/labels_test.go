package orchestrator

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
)

// TestProgramsAreLabelled: whatever is started in a sandbox says for which run,
// for what, and for whom, before it exists.
func TestProgramsAreLabelled(t *testing.T) {
	sb := fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "fix": writes("right\n")})
	s := newStage(t, sb, "fix")
	doc := s.run(t)
	var got []string
	for _, spec := range sb.Runs() {
		if spec.Labels["bestof.run"] != doc.Run {
			t.Errorf("%q is labelled %v", spec.Argv, spec.Labels)
		}
		got = append(got, strings.TrimSpace(spec.Labels["bestof.phase"]+" "+spec.Labels["bestof.candidate"]))
	}
	for _, want := range []string{"baseline", "agent c1", "verify c1"} {
		if !slices.Contains(got, want) {
			t.Errorf("no program is labelled %q: %q", want, got)
		}
	}
}

// turns is a sandbox that notes who runs beside whom.
type turns struct {
	sandbox.Sandbox
	mu      sync.Mutex
	running map[string]string // candidate → phase
	roots   map[string]string // root → phase
	met     []string
}

func (s *turns) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Result, error) {
	who, phase := spec.Labels["bestof.candidate"], spec.Labels["bestof.phase"]
	s.mu.Lock()
	if other := s.running[who]; other != "" {
		s.met = append(s.met, who+": "+phase+" beside "+other)
	}
	if other := s.roots[spec.Root]; other != "" && other != phase {
		s.met = append(s.met, who+": "+phase+" in the tree of "+other)
	}
	s.running[who], s.roots[spec.Root] = phase, phase
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, who)
	}()
	return s.Sandbox.Run(ctx, spec)
}

// TestAgentIsGoneBeforeItIsVerified: no program of a candidate runs beside
// another one of it, and what verifies has a tree of its own.
func TestAgentIsGoneBeforeItIsVerified(t *testing.T) {
	sb := &turns{
		Sandbox: fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "fix": writes("right\n"), "other": writes("no\n")}),
		running: map[string]string{}, roots: map[string]string{},
	}
	if doc := newStage(t, sb, "fix", "other", "fix").run(t); doc.Winner == nil {
		t.Errorf("outcomes %v", outcomes(doc))
	}
	if len(sb.met) > 0 || len(sb.roots) < 7 { // a base, and two trees for each
		t.Errorf("%q, in %d trees", sb.met, len(sb.roots))
	}
}

// apart is a sandbox whose programs have the host's network and not its
// loopback.
type apart struct{ sandbox.Sandbox }

func (a apart) Isolation() sandbox.Isolation {
	i := a.Sandbox.Isolation()
	i.Loopback = false
	return i
}

// TestToolsWithoutTheLoopback: a candidate that cannot reach the host's
// loopback gets its tools through its socket, whatever its network.
func TestToolsWithoutTheLoopback(t *testing.T) {
	for _, shared := range []bool{true, false} {
		var config []byte
		var sb sandbox.Sandbox = fake.New(sandbox.Options{}, map[string]fake.Program{
			"check": check, self: plugin,
			"agent": func(ctx context.Context, p *fake.Process) fake.Exit {
				home, _ := sandbox.Lookup(p.Env, "HOME")
				var err error
				if config, err = os.ReadFile(filepath.Join(home, ".codex/config.toml")); err != nil {
					return fake.Exit{Code: 1}
				}
				return writes("right\n")(ctx, p)
			},
		})
		if !shared {
			sb = apart{sb}
		}
		s := newStage(t, sb, "agent")
		s.cfg.Settings.Network = sandbox.NetworkHost
		share(s)
		s.run(t)
		if bytes.Contains(config, []byte(`"bridge"`)) == shared {
			t.Errorf("the loopback is shared: %v, and the agent is told\n%s", shared, config)
		}
	}
}
