package call

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/plugin/hook"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// Hook starts the plugin at a moment that it declared and returns what it
// printed. An error that is a *wire.Fault is the hook's doing; any other is the
// host's, or the end of ctx.
func (p Plugin) Hook(ctx context.Context, sb sandbox.Sandbox, o sandbox.Options, at Place, payload hook.Payload) ([]byte, sandbox.Result, error) {
	if !p.Loop.RunsHook(payload.Event) {
		return nil, sandbox.Result{}, fmt.Errorf("%q at %s: %w", p.Name, payload.Event, ErrNotAsked)
	}
	spec, err := p.Spec(o, at)
	if err != nil {
		return nil, sandbox.Result{}, err
	}
	out, result, err := runHook(ctx, sb, spec, payload)
	return out, result, notFound(result, err)
}

// A Command is a hook that the operator configured.
type Command struct {
	Argv    []string
	Timeout time.Duration // 0 is hook.DefaultTimeout; more than hook.MaxTimeout is that
	Network bool          // it reaches the network
}

// Hook is as Plugin.Hook. The command has no network unless it was given one,
// and no variables but the sandbox's own. Files that it names by their absolute
// paths are there to be read.
func (c Command) Hook(ctx context.Context, sb sandbox.Sandbox, at Place, payload hook.Payload) ([]byte, sandbox.Result, error) {
	spec := sandbox.Spec{
		Argv: c.Argv, Root: at.Root, WorkDir: at.WorkDir, Home: at.Home, Enter: at.Enter, Seen: at.Seen, Env: at.Env, Ports: at.Ports, Started: at.Started,
		Network: sandbox.NetworkNone, Timeout: min(c.Timeout, hook.MaxTimeout),
	}
	if c.Network {
		spec.Network = sandbox.NetworkHost
	}
	if spec.Timeout <= 0 {
		spec.Timeout = hook.DefaultTimeout
	}
	for _, word := range c.Argv {
		if info, err := os.Stat(word); err == nil && filepath.IsAbs(word) && info.Mode().IsRegular() && !ofSystem(word) {
			spec.Binds = append(spec.Binds, sandbox.Bind{Source: word, Target: word})
		}
	}
	return runHook(ctx, sb, spec, payload)
}

// ofSystem reports whether every sandbox shows a file anyway.
func ofSystem(file string) bool {
	target, err := filepath.EvalSymlinks(file)
	return err == nil && slices.ContainsFunc([]string{"/usr/", "/bin/", "/sbin/", "/lib", "/opt/", "/nix/", "/gnu/"}, func(dir string) bool {
		return strings.HasPrefix(filepath.Clean(file), dir) || strings.HasPrefix(target, dir)
	})
}

func runHook(ctx context.Context, sb sandbox.Sandbox, spec sandbox.Spec, payload hook.Payload) ([]byte, sandbox.Result, error) {
	var err error
	if spec.Stdin, err = payload.Encode(); err != nil {
		return nil, sandbox.Result{}, err
	}
	spec.Head, spec.Tail = wire.MaxOutput, 4096
	r, err := sb.Run(ctx, spec)
	if err != nil {
		return nil, r, fmt.Errorf("run a hook at %s: %w", payload.Event, err)
	}
	switch {
	case r.End == sandbox.Stopped:
		cause := context.Cause(ctx)
		if cause == nil {
			cause = errors.New("the run ended")
		}
		return nil, r, fmt.Errorf("run a hook at %s: %w", payload.Event, cause)
	case r.End == sandbox.NotRun:
		return nil, r, wire.Faultf(wire.ErrSpawn, "the hook could not be started: %s", r.Reason)
	case r.Stdout.Dropped > 0 || len(r.Stdout.Tail) > 0:
		return nil, r, wire.Faultf(wire.ErrOutputCap, "the hook printed more than %d bytes", wire.MaxOutput)
	case r.End == sandbox.Deadline:
		return nil, r, wire.Faultf(wire.ErrTimeout, "the hook did not end within %v", spec.Timeout)
	case r.OOM:
		return nil, r, wire.Faultf(wire.ErrExit, "the hook ran out of memory")
	case r.Signal != 0:
		return nil, r, wire.Faultf(wire.ErrExit, "the hook was killed by signal %d%s", r.Signal, said(r))
	case r.Code != 0:
		return nil, r, wire.Faultf(wire.ErrExit, "the hook ended with status %d%s", r.Code, said(r))
	}
	return r.Stdout.Head, r, nil
}

// said is the end of what a hook wrote on stderr, where its reason is.
func said(r sandbox.Result) string {
	const most = 500
	b := r.Stderr.Bytes()
	if line := wire.Line(string(b[max(0, len(b)-most):]), most); line != "" {
		return ": " + line
	}
	return ""
}
