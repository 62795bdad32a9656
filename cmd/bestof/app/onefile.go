package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/plugin/tool"
)

// ownPrivileges is said where the operator's tools run without a boundary.
const ownPrivileges = "one-file tools run with your privileges in --sandbox process: candidates can call all %d that are live, and read their files"

// oneFile are the one-file tools that candidates may call. A sandbox that hides
// the operator's files hides the tools with them, but for those whose very bytes
// are listed; among plain processes all that are live are there. propose says
// that the winner's own go into the operator's pending zone.
func (a *app) oneFile(ctx context.Context, kept sandbox.Isolation, propose bool) (*orchestrator.OneFile, error) {
	tools, err := a.toolbox(tool.Callable)
	if err != nil {
		return nil, err
	}
	if kept.Filesystem && len(tools.pins) == 0 {
		return nil, nil
	}
	set, err := tools.Live(ctx)
	var collision *tool.CollisionError
	switch {
	case errors.As(err, &collision):
		return nil, toolError(ctx, err)
	case err != nil:
		a.warn("candidates are offered no one-file tools: %v", err)
		return nil, nil
	}
	o := &orchestrator.OneFile{Allow: tools.allow}
	if kept.Filesystem {
		var stale []string
		o.Set, stale = tool.Pinned(set, tools.pins)
		for _, line := range stale {
			o.Notices = append(o.Notices, "[tools] candidate_safe: "+line)
		}
	} else {
		o.Set, o.Python = set, tools.settings.python()
		for _, s := range set.Skipped {
			o.Notices = append(o.Notices, "tool skipped: "+s.String())
		}
		if len(set.Tools) > 0 {
			o.Notices = append(o.Notices, fmt.Sprintf(ownPrivileges, len(set.Tools)))
		}
	}
	o.Drafts = func(dir string) (*tool.Zones, error) { return tool.Open(dir, tools.Settings) }
	if !propose {
		return o, nil
	}
	o.Propose = func(ctx context.Context, name tool.Name, b []byte) (string, error) {
		p, err := tools.Propose(ctx, name, b)
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
