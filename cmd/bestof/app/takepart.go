package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/plugin/hook"
	"github.com/bestof-dev/bestof/plugin/store"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// defaultCeiling is how many candidates plugins can ask for unless the
// configuration says otherwise.
const defaultCeiling = 8

// takePart loads the installed plugins that a run asks, in order of their
// names. asked is all, none, or names; those that are off were retracted.
func (a *app) takePart(s *site, asked string, off []string) ([]store.Installed, error) {
	if asked == "none" {
		return nil, nil
	}
	all, notices := store.New(s.home, s.repo.Root(), trusted(a.getenv("BESTOF_TRUST_PROJECT"))).Load()
	a.notices(notices)
	if asked == "all" || asked == "" {
		return slices.DeleteFunc(all, func(p store.Installed) bool { return slices.Contains(off, string(p.Name)) }), nil
	}
	var chosen []store.Installed
	for name := range strings.SplitSeq(asked, ",") {
		i := slices.IndexFunc(all, func(p store.Installed) bool { return string(p.Name) == name || p.Driven() == name })
		if i < 0 {
			return nil, usagef("--plugins: no plugin %q can be used here: `bestof plugin list` shows those that can", name)
		}
		if slices.Contains(off, string(all[i].Name)) {
			return nil, usagef("--plugins: the plugin %s is retracted by [plugins] off in config.toml: take it out there to use it", all[i].Name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// turnPlugin is an installed plugin as a turn knows it. What it did not
// declare is not set, so that it is never asked.
func turnPlugin(p store.Installed, task string, f *outfits) orchestrator.Plugin {
	in, name := call.Plugin{Package: p.Package, Dir: p.Dir}, string(p.Name)
	t := orchestrator.Plugin{
		Name: string(p.Name), Wrapper: p.Driven(),
		Before: p.Runtime != nil && p.Loop.Answers(wire.BeforeTurn), After: p.Runtime != nil && p.Loop.Answers(wire.AfterTurn),
		Origin: record.Plugin{Name: string(p.Name), Level: p.Loop.Level.String(), Scope: string(p.Scope), Digest: p.Tree.Digest, Network: p.Network()},
		Ask: func(ctx context.Context, sb sandbox.Sandbox, at call.Place, req wire.Request) (wire.Response, sandbox.Result, error) {
			if err := intact(p); err != nil {
				return wire.Response{}, sandbox.Result{}, err
			}
			sb, o := f.of(name, sb)
			return in.Exchange(ctx, sb, o, at, req)
		},
	}
	if p.Loop.MayHold() {
		rule := p.Rule()
		t.Rule, t.Holds = &rule, p.Holds()
	}
	for _, tool := range p.PackageTools {
		if p.Refuses(tool) != "" {
			continue // whoever calls it by its name is told why
		}
		t.Tools = append(t.Tools, orchestrator.PackageTool{
			Plugin: string(p.Name), Name: tool.Name, Description: tool.Description, Schema: tool.Schema(), Risk: p.RiskOf(tool).String(),
			Run: func(ctx context.Context, sb sandbox.Sandbox, at call.Place, arguments []byte) (sandbox.Result, error) {
				if err := intact(p); err != nil {
					return sandbox.Result{}, err
				}
				sb, _ = f.of(name, sb)
				return in.Tool(ctx, sb, at, tool.Name, arguments)
			},
		})
	}
	for _, c := range p.Context(task) {
		t.Context = append(t.Context, candidate.Context{Label: c.Label, Text: c.Text})
	}
	return t
}

// intact fails an exchange with a package that was written to since it was
// loaded. Candidates that are plain processes of the operator's user can do that;
// what they wrote must not decide about them.
func intact(p store.Installed) error {
	if err := p.Intact(); err != nil {
		return wire.Faultf(wire.ErrDrift, "%v", err)
	}
	return nil
}

// pluginHooks are the moments that this host sees and the plugin declared.
func pluginHooks(p store.Installed, f *outfits) []orchestrator.Hook {
	if p.Runtime == nil {
		return nil
	}
	in := call.Plugin{Package: p.Package, Dir: p.Dir}
	var hooks []orchestrator.Hook
	for _, e := range hook.Seen() {
		if p.Loop.RunsHook(e) {
			hooks = append(hooks, orchestrator.Hook{
				Event: e, From: string(p.Name), Network: p.Network(), Point: p.Loop.Answers(wire.AfterTurn),
				Run: func(ctx context.Context, sb sandbox.Sandbox, at call.Place, payload hook.Payload) ([]byte, sandbox.Result, error) {
					if err := intact(p); err != nil {
						return nil, sandbox.Result{}, err
					}
					sb, o := f.of(string(p.Name), sb)
					return in.Hook(ctx, sb, o, at, payload)
				},
			})
		}
	}
	return hooks
}

// hooks are the operator's own, in the order in which they are written.
func (c fileConfig) hooks() []orchestrator.Hook {
	var hooks []orchestrator.Hook
	for _, e := range hook.Seen() {
		for _, h := range c.Hooks[string(e)] {
			command := call.Command{Argv: h.Command, Timeout: time.Duration(h.Timeout), Network: h.Network}
			hooks = append(hooks, orchestrator.Hook{Event: e, From: h.from, Matcher: hook.Matcher(h.Matcher), Network: h.Network, Files: h.Command, Run: command.Hook})
		}
	}
	return hooks
}

// blocks is how often hooks may send one candidate back at Stop.
func (a *app) blocks(asked *int) int {
	if asked == nil {
		return hook.DefaultBlocks
	}
	n := min(max(*asked, 1), hook.MaxBlocks)
	if n != *asked {
		a.warn("[run] blocks = %d is taken as %d: it is from 1 to %d", *asked, n, hook.MaxBlocks)
	}
	return n
}

// wanted is how many candidates the plugins ask for, within the ceiling; 0
// when none of them does.
func (a *app) wanted(plugins []store.Installed, ceiling int) int {
	n := 0
	for _, p := range plugins {
		if p.Wrapper == nil || p.Wrapper.Candidates == 0 {
			continue
		}
		ask := p.Wrapper.Candidates
		if ask > ceiling {
			a.warn("the plugin %s asks for %d candidates and gets %d: [plugins] candidates in config.toml is the ceiling", p.Name, ask, ceiling)
			ask = ceiling
		}
		n = max(n, ask)
	}
	return n
}

// widest is how many candidates plugins can ask for.
func (c fileConfig) widest() (int, error) {
	if c.Plugins.Candidates == nil {
		return defaultCeiling, nil
	}
	if n := *c.Plugins.Candidates; n >= 1 {
		return n, nil
	}
	return 0, usageError{fmt.Errorf("[plugins] candidates: write a number from 1")}
}
