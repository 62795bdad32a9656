package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/plugin/store"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// defaultCeiling is how many candidates plugins can ask for unless the
// configuration says otherwise.
const defaultCeiling = 8

// takePart loads the installed plugins that a run asks, in order of their
// names. asked is all, none, or names.
func (a *app) takePart(s *site, asked string) ([]store.Installed, error) {
	if asked == "none" {
		return nil, nil
	}
	all, notices := store.New(s.home, s.repo.Root(), trusted(a.getenv("BESTOF_TRUST_PROJECT"))).Load()
	a.notices(notices)
	if asked == "all" || asked == "" {
		return all, nil
	}
	var chosen []store.Installed
	for name := range strings.SplitSeq(asked, ",") {
		i := slices.IndexFunc(all, func(p store.Installed) bool { return string(p.Name) == name || p.Driven() == name })
		if i < 0 {
			return nil, usagef("--plugins: no plugin %q can be used here: `bestof plugin list` shows those that can", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// turnPlugin is an installed plugin as a turn knows it. What it did not
// declare is not set, so that it is never asked.
func turnPlugin(p store.Installed, task string, o sandbox.Options) orchestrator.Plugin {
	in := call.Plugin{Package: p.Package, Dir: p.Dir}
	t := orchestrator.Plugin{
		Name: string(p.Name), Wrapper: p.Driven(),
		Before: p.Runtime != nil && p.Loop.Answers(wire.BeforeTurn), After: p.Runtime != nil && p.Loop.Answers(wire.AfterTurn),
		Origin: record.Plugin{Name: string(p.Name), Level: p.Loop.Level.String(), Scope: string(p.Scope), Digest: p.Tree.Digest},
		Ask: func(ctx context.Context, sb sandbox.Sandbox, at call.Place, req wire.Request) (wire.Response, sandbox.Result, error) {
			return in.Exchange(ctx, sb, o, at, req)
		},
	}
	if p.Loop.MayHold() {
		rule := p.Rule()
		t.Rule, t.Holds = &rule, p.Holds()
	}
	for _, c := range p.Context(task) {
		t.Context = append(t.Context, candidate.Context{Label: c.Label, Text: c.Text})
	}
	return t
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
