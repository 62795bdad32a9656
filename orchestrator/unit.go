package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/agent"
	"github.com/bestof-dev/bestof/candidate/sandbox"
)

// An agentUnit is one round of one agent's work in one shadow. It is data: the
// same unit could be run again, or elsewhere.
type agentUnit struct {
	Agent   agent.Definition
	Brief   candidate.Brief
	Root    string // the shadow
	WorkDir string // slash path below Root
	Home    string
	Enter   sandbox.Entry
	Seen    sandbox.Place
	Self    string
	Network sandbox.Network
	Ports   sandbox.PortBlock
	Timeout time.Duration
	Tools   toolAccess
	Out     outlet
}

// run plans the unit, seeds the candidate's HOME and runs the agent. An
// unusable plan is the operator's fault and comes back as a Result that was
// not run.
func (u agentUnit) run(ctx context.Context, sb sandbox.Sandbox, log io.Writer, started func(sandbox.Process)) (sandbox.Result, error) {
	at := sandbox.Spec{Root: u.Root, Home: u.Home, Seen: u.Seen}.Place()
	inv, err := u.Agent.Plan(u.Brief, agent.PlanContext{
		Home: at.Home, Root: at.Root, WorkDir: u.WorkDir, Self: u.Self, Timeout: u.Timeout,
	})
	if err == nil {
		err = u.Tools.equip(&inv)
	}
	if err != nil {
		return sandbox.Result{End: sandbox.NotRun, Reason: err.Error()}, nil
	}
	if err := seed(u.Enter.Host+u.Home, inv.Files); err != nil {
		return sandbox.Result{}, fmt.Errorf("seed the candidate's home: %w", err)
	}
	spec := u.spec(inv)
	spec.Log, spec.Started = log, started
	return sb.Run(ctx, spec)
}

// spec is a run of what was planned. All that its container is made of is of
// the unit, so one can be begun before anything is planned.
func (u agentUnit) spec(inv agent.Invocation) sandbox.Spec {
	s := sandbox.Spec{
		Argv: inv.Argv, Root: u.Root, WorkDir: u.WorkDir, Home: u.Home, Enter: u.Enter, Seen: u.Seen, Env: inv.Env, PassEnv: inv.PassEnv, Stdin: inv.Stdin,
		Binds: append([]sandbox.Bind{{Source: u.Self, Target: u.Self}}, u.Tools.Binds...), Network: u.Network, Ports: u.Ports, Timeout: u.Timeout,
	}
	u.Out.give(&s)
	return s
}

// seed writes files below home, never through a link that leads out of it.
func seed(home string, files map[string][]byte) error {
	root, err := os.OpenRoot(home)
	if err != nil {
		return err
	}
	defer root.Close()
	for name, data := range files {
		if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return err
		}
		// In a later round the candidate may have put something else there.
		if err := root.RemoveAll(name); err != nil {
			return err
		}
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// portsOf gives each seat of each run its own twenty ports, away from the
// ephemeral range. Sandboxes without a network of their own share the host's.
func portsOf(runSalt, seat int) sandbox.PortBlock {
	const size, first, blocks = 20, 12000, 900
	return sandbox.PortBlock{Base: first + (runSalt+seat)%blocks*size, Count: size}
}
