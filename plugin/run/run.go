// Package run has one conversation with a plugin: a process of its own in a
// sandbox, one request on its stdin, one response on its stdout.
package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// The time that an exchange may take.
const (
	DefaultTimeout = 60 * time.Second
	MaxTimeout     = 600 * time.Second
)

// Timeout is what a plugin that asked for ask gets: DefaultTimeout when it did
// not ask, and never more than MaxTimeout.
func Timeout(ask time.Duration) time.Duration {
	if ask == 0 {
		return DefaultTimeout
	}
	return min(ask, MaxTimeout)
}

// Exchange asks a plugin and waits until nothing of it is alive. The spec says
// everything but Stdin, Head and Tail; a Timeout of 0 is DefaultTimeout, and
// any other is taken as it is (see Timeout).
//
// An error that is a *wire.Fault is the plugin's doing, and the turn goes on
// without its answer; any other error is the host's, or the end of ctx. The
// answer counts only if the process then ended with status 0.
func Exchange(ctx context.Context, sb sandbox.Sandbox, spec sandbox.Spec, req wire.Request) (wire.Response, sandbox.Result, error) {
	var none wire.Response
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return none, sandbox.Result{}, wire.Faultf(wire.ErrEmptyArgv, "the plugin names no program to start")
	}
	if spec.Timeout == 0 {
		spec.Timeout = DefaultTimeout
	}
	if spec.Timeout < 0 {
		return none, sandbox.Result{}, wire.Faultf(wire.ErrZeroTimeout, "the plugin has no time to answer in")
	}
	var err error
	if spec.Stdin, err = req.Encode(); err != nil {
		return none, sandbox.Result{}, err
	}
	spec.Head, spec.Tail = wire.MaxOutput, 4096
	result, err := sb.Run(ctx, spec)
	if err != nil {
		return none, result, fmt.Errorf("ask a plugin at %s: %w", req.Point(), err)
	}
	if result.End == sandbox.Stopped {
		cause := context.Cause(ctx)
		if cause == nil {
			cause = errors.New("the run ended")
		}
		return none, result, fmt.Errorf("ask a plugin at %s: %w", req.Point(), cause)
	}
	if fault := ending(result, spec.Timeout); fault != nil {
		return none, result, fault
	}
	answer, err := wire.ReadResponse(bytes.NewReader(result.Stdout.Head))
	if err != nil {
		return none, result, err
	}
	response, err := wire.DecodeResponseIn(answer, req.Point(), req.Version())
	if err != nil {
		return none, result, err
	}
	return response, result, nil
}

// ending is the fault of a process that did not end well, or wrote too much.
func ending(r sandbox.Result, timeout time.Duration) error {
	switch {
	case r.End == sandbox.NotRun:
		return wire.Faultf(wire.ErrSpawn, "the plugin could not be started: %s", r.Reason)
	case size(r.Stdout)+size(r.Stderr) > wire.MaxOutput:
		return wire.Faultf(wire.ErrOutputCap, "the plugin wrote more than %d bytes", wire.MaxOutput)
	case r.End == sandbox.Deadline:
		return wire.Faultf(wire.ErrTimeout, "the plugin did not end within %v", timeout)
	case r.OOM:
		return wire.Faultf(wire.ErrExit, "the plugin ran out of memory")
	case r.Signal != 0:
		return wire.Faultf(wire.ErrExit, "the plugin was killed by signal %d%s", r.Signal, said(r.Stderr))
	case r.Code != 0:
		return wire.Faultf(wire.ErrExit, "the plugin ended with status %d%s", r.Code, said(r.Stderr))
	}
	return nil
}

func size(o sandbox.Output) int64 { return int64(len(o.Head)+len(o.Tail)) + o.Dropped }

// said is the end of what a plugin wrote on stderr, where its reason is.
func said(stderr sandbox.Output) string {
	b := bytes.TrimSpace(append(bytes.Clone(stderr.Head), stderr.Tail...))
	if len(b) == 0 {
		return ""
	}
	if len(b) > 2000 {
		b = b[len(b)-2000:]
	}
	return ": " + wire.Line(string(b), 2000)
}

// Evidence is what the judge is given about an after_turn exchange. For one
// that failed it is the host's word that nothing was observed, so that the
// judge abstains and the candidate is not blamed.
func Evidence(r wire.Response, err error) judge.Evidence {
	if err == nil && r.After == nil {
		err = errors.New("no after_turn response")
	}
	if err != nil {
		reason := err.Error()
		if errors.Is(err, wire.ErrSpawn) {
			reason = "not-runnable: " + reason // as the built-in plugin says it of a test
		}
		return judge.Evidence{Provenance: judge.HostObserved, Flip: judge.FlipUnobservable, FlipReason: wire.Line(reason, 2400)}
	}
	return judge.Evidence{
		Provenance:   judge.PluginReported,
		Flip:         r.After.Evidence.Flip,
		FlipReason:   wire.Line(r.After.Evidence.Reason, 2400),
		Measurements: r.After.Evidence.Measurements,
	}
}
