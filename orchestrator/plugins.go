package orchestrator

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/plan"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/plugin/run"
	"github.com/bestof-dev/bestof/plugin/verify"
	"github.com/bestof-dev/bestof/plugin/wire"
	"github.com/bestof-dev/bestof/worktree"
)

// A Plugin takes part in a turn. What it is asked is what it declared: an
// undeclared point is never called.
type Plugin struct {
	Name    string
	Wrapper string      // what requests call it
	Rule    *judge.Rule // what it decides; nil when it only contributes
	Holds   *int        // how often it asks to hold a candidate; nil for as often as the host allows
	Before  bool        // it answers before_turn
	After   bool        // it answers after_turn
	Context []candidate.Context
	Tools   []PackageTool // that its package brings
	Ask     func(context.Context, sandbox.Sandbox, call.Place, wire.Request) (wire.Response, sandbox.Result, error)
	// Tests says what single tests did in the run of which Ask returned the
	// result; nil where that is not known.
	Tests  func(sandbox.Result) map[string]record.TestStatus
	Origin record.Plugin
}

// builtin is the name of the plugin that is part of this program.
const builtin = "verify"

// margin is what the built-in plugin has beyond the test's own time.
const margin = 15 * time.Second

// lineUp decides who takes part: the built-in plugin stands in for a test
// oracle that nobody installed.
func (t *turn) lineUp() {
	switch {
	case len(t.Settings.Test) == 0 || hasTestOracle(t.Plugins):
	case t.Named != nil:
		t.plugins = append(t.plugins, t.namedPlugin())
	default:
		t.plugins = append(t.plugins, t.builtinPlugin())
	}
	t.plugins = append(t.plugins, t.Plugins...)
	for _, p := range t.plugins {
		t.doc.Plugins = append(t.doc.Plugins, p.Origin)
		t.context = append(t.context, p.Context...)
		if p.Rule != nil {
			t.doc.Rules = append(t.doc.Rules, record.Rule{Plugin: p.Name, Rule: *p.Rule, Holds: p.Holds})
		}
	}
}

// narrowed says of each plugin that asks to hold candidates more often than the
// run allows what it gets: a limit that nobody announces reads as none.
func narrowed(plugins []Plugin, ceiling int) []string {
	var lines []string
	for _, p := range plugins {
		if p.Holds != nil && *p.Holds > ceiling {
			lines = append(lines, fmt.Sprintf("the plugin %s asks to hold a candidate up to %d times; this run holds one %d times at most (--holds)", p.Name, *p.Holds, ceiling))
		}
	}
	return lines
}

func hasTestOracle(plugins []Plugin) bool {
	for _, p := range plugins {
		if p.Name == builtin || p.After && p.Rule != nil && p.Rule.Oracle != nil && p.Rule.Oracle.Flip == judge.FlipRequired {
			return true
		}
	}
	return false
}

// builtinPlugin speaks the same wire as any other.
func (t *turn) builtinPlugin() Plugin {
	rule := verify.Rule(t.Settings.Expect)
	ask := t.Settings.MaxHolds
	return Plugin{
		Name: builtin, Wrapper: builtin, Rule: &rule, Holds: &ask, After: true, Origin: record.Plugin{Name: builtin, Level: "arbiter", Builtin: true},
		Ask: func(ctx context.Context, sb sandbox.Sandbox, at call.Place, req wire.Request) (wire.Response, sandbox.Result, error) {
			return run.Exchange(ctx, sb, sandbox.Spec{
				Argv: append([]string{t.Self, "internal", "plugin", "verify"}, verify.Args(t.TestLimit, t.baseline)...),
				Root: at.Root, WorkDir: at.WorkDir, Home: at.Home, Enter: at.Enter, Seen: at.Seen, Binds: []sandbox.Bind{{Source: t.Self, Target: t.Self}},
				Env: at.Env, Network: sandbox.NetworkNone, Ports: at.Ports, Timeout: t.TestLimit + margin, Started: at.Started,
			}, req.In(wire.Version))
		},
	}
}

// place is a shadow as a plugin's process is put into it.
func (t *turn) place(sh *worktree.Shadow, n int, started func(sandbox.Process)) call.Place {
	return call.Place{Root: sh.Root(), WorkDir: t.Repo.Prefix(), Home: sh.Home(), Enter: sandbox.Entry(sh.Enter()), Seen: t.seen(), Env: plan.Environment(t.Settings.Test), Ports: portsOf(t.ports, n), Started: started, Left: t.leftIn(sh)}
}

// grant is what a plugin is given of a shadow: its name, its directory as the
// plugin sees it, and the test with what it said on the base.
func (t *turn) grant(at call.Place, handle string) *wire.Grant {
	seen := sandbox.Spec{Root: at.Root, Home: at.Home, Seen: at.Seen}.Place()
	g := &wire.Grant{Handle: handle, Root: filepath.Join(seen.Root, filepath.FromSlash(at.WorkDir))}
	if test := t.Settings.Test; len(test) > 0 {
		g.Test = &wire.TestPlan{
			Program: test[0], Args: test[1:], Baseline: wire.Baseline(t.baselineStatus()), Cwd: ".", TimeoutMS: uint64(t.TestLimit.Milliseconds()),
		}
	}
	return g
}

// askBefore asks every plugin that wants to be asked, once for the run, on an
// untouched shadow. What does not answer contributes nothing: the turn goes on.
func (t *turn) askBefore(ctx context.Context) *ending {
	published := t.signals()
	own := len(published)
	for i, p := range t.plugins {
		if !p.Before {
			continue
		}
		t.emit(event.Step{Name: "before", Text: "asking the plugin " + p.Name})
		answer, err := t.askBeforeOne(ctx, p, i, published)
		if end := interruption(ctx); end != nil {
			return end
		}
		if err != nil {
			t.notice("the plugin %s did not contribute: %v", p.Name, t.Redactor.String(err.Error()))
			continue
		}
		published = publish(published, own, answer.Publish)
		t.contribute(p, *answer)
		t.emit(event.Step{Name: "before", Done: true, Text: fmt.Sprintf("the plugin %s contributed %d texts, %d witness paths", p.Name, len(answer.Context), len(answer.Witness))})
	}
	return nil
}

func (t *turn) askBeforeOne(ctx context.Context, p Plugin, i int, published []wire.Published) (*wire.BeforeResponse, error) {
	shadow, err := t.work.NewVerification(ctx, t.base, fmt.Sprintf("before-%d", i), t.base.Tree(), t.isGuard)
	if err != nil {
		return nil, err
	}
	defer t.discard(ctx, shadow)
	at := t.place(shadow, 0, nil)
	resp, _, err := p.Ask(ctx, t.box(0, phaseBefore), at, wire.Request{Before: &wire.BeforeRequest{
		ProtocolVersion: wire.Version, Wrapper: p.Wrapper, Stage: "execute", Goal: t.Task, Candidate: t.grant(at, "base"), Published: published,
	}})
	if err != nil {
		return nil, err
	}
	return resp.Before, nil
}

// contribute takes what a plugin said before the turn. Witness paths decide,
// so they are protected like the test's own files.
func (t *turn) contribute(p Plugin, answer wire.BeforeResponse) {
	for _, c := range answer.Context {
		t.context = append(t.context, candidate.Context{Label: c.Label, Text: c.Text})
	}
	if len(answer.Scope) > 0 {
		t.context = append(t.context, candidate.Context{Label: "scope advised by the plugin " + p.Name, Text: strings.Join(answer.Scope, "\n")})
	}
	witness := map[string]bool{}
	for _, path := range answer.Witness {
		witness[path] = true
	}
	if len(witness) == 0 {
		return
	}
	others := t.isGuard
	t.isGuard = func(path string) bool { return witness[path] || others(path) }
	t.update(func(d *record.Document) { d.Settings.Witness = append(d.Settings.Witness, answer.Witness...) })
}
