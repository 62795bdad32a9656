package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/plugin/tool"
)

// toolSettings are [tools]. They count in the operator's file only.
type toolSettings struct {
	Python        string   `toml:"python"`
	TrainPython   string   `toml:"train_python"`
	Max           int      `toml:"max"`
	Allow         []string `toml:"allow"`
	CandidateSafe []string `toml:"candidate_safe"` // name@sha256:…
}

func (t toolSettings) said() bool {
	return t.Python != "" || t.TrainPython != "" || t.Max != 0 || t.Allow != nil || t.CandidateSafe != nil
}

// zones are the settings as the store of tools has them.
func (t toolSettings) zones(a *app) tool.Settings {
	return tool.Settings{Python: tool.Python{Program: t.Python, Env: []string{"PATH=" + a.getenv("PATH")}}, Max: t.Max, Natives: tool.Natives()}
}

// ownPrivileges is said where the operator's tools run without a boundary.
const ownPrivileges = "one-file tools run with your privileges in --sandbox process: candidates can call all %d that are live, and read their files"

// oneFile are the one-file tools that candidates may call. A sandbox that hides
// the operator's files hides the tools with them, but for those whose very bytes
// are listed; among plain processes all that are live are there.
func (a *app) oneFile(ctx context.Context, home string, t toolSettings, kept sandbox.Isolation) (*orchestrator.OneFile, error) {
	pins, err := tool.ParsePins(t.CandidateSafe)
	if err != nil {
		return nil, usagef("config.toml: [tools] candidate_safe: %w", err)
	}
	settings := t.zones(a)
	zones, err := tool.Open(home, settings)
	if err != nil {
		return nil, usagef("config.toml: %w", err)
	}
	if kept.Filesystem && len(pins) == 0 {
		return nil, nil
	}
	set, err := zones.Live(ctx)
	var collision *tool.CollisionError
	switch {
	case errors.As(err, &collision):
		return nil, usagef("%w", err)
	case err != nil:
		a.warn("candidates are offered no one-file tools: %v", err)
		return nil, nil
	}
	o := &orchestrator.OneFile{Allow: tool.NewAllowList(t.Allow, settings.Natives)}
	if kept.Filesystem {
		var stale []string
		o.Set, stale = tool.Pinned(set, pins)
		for _, line := range stale {
			o.Notices = append(o.Notices, "[tools] candidate_safe: "+line)
		}
	} else {
		o.Set, o.Python = set, t.Python
		for _, s := range set.Skipped {
			o.Notices = append(o.Notices, "tool skipped: "+s.String())
		}
		if len(set.Tools) > 0 {
			o.Notices = append(o.Notices, fmt.Sprintf(ownPrivileges, len(set.Tools)))
		}
	}
	o.Drafts = func(dir string) (*tool.Zones, error) { return tool.Open(dir, settings) }
	o.Propose = func(ctx context.Context, name tool.Name, b []byte) (string, error) {
		p, err := zones.Propose(ctx, name, b)
		switch {
		case err != nil:
			return "", err
		case p.Already:
			return fmt.Sprintf("that file is pending already, in %s", p.Tool.Path), nil
		}
		return fmt.Sprintf("it is pending in %s and not callable: `bestof tool show %s --pending` shows it, and only `bestof tool approve` installs it", p.Tool.Path, name), nil
	}
	return o, nil
}
