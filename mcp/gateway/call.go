package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/gateway/wire"
)

// A ToolCall is what a hook is asked about.
type ToolCall struct {
	Candidate int    // 1…N; 0 is the prefetch
	Tool      string // the wire name
	Arguments json.RawMessage
}

// A Decision is a hook's. The zero value lets the call through as it is.
type Decision struct {
	Deny      bool
	Reason    string          // told to the candidate
	Arguments json.RawMessage // replaces the arguments, if not nil; must be an object
	Unasked   bool            // with Deny: no hook was asked, and Reason says all of it
}

// Hooks see every call that is about to be dispatched, and what came of it. A
// hook that panics has denied. Both may be called from many goroutines at the
// same time and should end when ctx does.
type Hooks interface {
	Before(ctx context.Context, c ToolCall) Decision
	After(ctx context.Context, c ToolCall, r mcp.Result, err error)
}

// An outcome is what a call gave: a result, or a *mcp.CallError.
type outcome struct {
	result mcp.Result
	err    *mcp.CallError
}

// grace is how long a call whose time is up may take to say so itself. It then
// knows better what happened than we do.
const grace = 250 * time.Millisecond

// afterBudget is how long a hook may look at an outcome, also of a call whose
// own time is up.
const afterBudget = 10 * time.Second

// call does one tools/call of a candidate: at most one dispatch, one record of
// use, one look for each hook. It returns when ctx or the time for the call
// ends, even if the work does not.
func (g *Gateway) call(ctx context.Context, m *member, name string, arguments json.RawMessage, progress func(mcp.Progress)) outcome {
	e, refusal := g.surface.find(name)
	if refusal == nil {
		if why := m.meter.enter(g.limits, len(arguments)); why != "" {
			refusal = &mcp.CallError{Server: e.route.Server, Tool: e.route.Tool, Kind: mcp.OverLimit, Reason: why}
		}
	}
	d := &dispatch{g: g, m: m, entry: e, name: name, progress: progress, started: g.now()}
	if refusal != nil {
		if m.meter.refuse() {
			d.record(mcp.Use{Server: refusal.Server, Tool: refusal.Tool, Outcome: string(refusal.Kind)})
		}
		return outcome{err: refusal}
	}
	ctx, cancel := g.bounded(ctx, e)
	done := make(chan outcome, 1)
	g.aside(func() {
		defer cancel()
		defer m.meter.leave()
		done <- d.run(ctx, arguments)
	})
	select {
	case out := <-done:
		return out
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case out := <-done:
		return out
	case <-timer.C:
		return d.abandon(ctx, arguments)
	}
}

// bounded is the time that a call has.
func (g *Gateway) bounded(ctx context.Context, e entry) (context.Context, context.CancelFunc) {
	if e.local != nil && e.local.OwnTime {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, g.limits.Wall)
}

// A dispatch is one call on its way.
type dispatch struct {
	g        *Gateway
	m        *member
	entry    entry
	name     string
	progress func(mcp.Progress)
	started  time.Time
	ends     ends
}

// run asks the hooks and makes the call.
func (d *dispatch) run(ctx context.Context, arguments json.RawMessage) outcome {
	c := ToolCall{Candidate: d.m.number, Tool: d.name, Arguments: arguments}
	if d.g.hooks != nil {
		var refusal *mcp.CallError
		if c.Arguments, refusal = d.before(ctx, c); refusal != nil {
			return d.settle(ctx, c, outcome{err: refusal}, false)
		}
	}
	// A hook may have taken all the time there was.
	if err := context.Cause(ctx); err != nil {
		return d.settle(ctx, c, outcome{err: d.over(ctx, false)}, false)
	}
	if !d.ends.send() {
		return outcome{err: d.over(ctx, false)}
	}
	result, err := d.dispatch(ctx, c.Arguments)
	return d.settle(ctx, c, d.understand(result, err), true)
}

// before asks the hook and checks its answer.
func (d *dispatch) before(ctx context.Context, c ToolCall) (json.RawMessage, *mcp.CallError) {
	refuse := func(why string) *mcp.CallError {
		return d.failure(mcp.Withheld, "refused by a hook: "+oneLine(why))
	}
	decision, err := ask(ctx, d.g.hooks, c)
	switch {
	case err != nil:
		return nil, refuse("the hook failed")
	case decision.Deny && decision.Unasked:
		return nil, d.failure(mcp.Withheld, oneLine(decision.Reason))
	case decision.Deny:
		if decision.Reason == "" {
			decision.Reason = "no reason was given"
		}
		return nil, refuse(decision.Reason)
	case decision.Arguments == nil:
		return c.Arguments, nil
	}
	if _, err := wire.Object(decision.Arguments); err != nil || wire.Strict(decision.Arguments) != nil {
		return nil, refuse("the arguments that it put in place are not a JSON object")
	}
	return decision.Arguments, nil
}

func ask(ctx context.Context, h Hooks, c ToolCall) (d Decision, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return h.Before(ctx, c), nil
}

func tell(ctx context.Context, h Hooks, c ToolCall, r mcp.Result, cause error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	h.After(ctx, c, r, cause)
	return nil
}

// dispatch makes the one call. A tool of ours that panics has failed.
func (d *dispatch) dispatch(ctx context.Context, arguments json.RawMessage) (r mcp.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = d.failure(mcp.Protocol, "the tool failed inside of bestof")
		}
	}()
	if d.entry.local != nil {
		return d.entry.local.Call(ctx, d.m.number, arguments)
	}
	return d.g.upstream.Call(ctx, mcp.Call{
		Server: d.entry.route.Server, Tool: d.entry.route.Tool, Arguments: arguments, Progress: d.progress,
	})
}

// understand makes an outcome of what a call returned.
func (d *dispatch) understand(r mcp.Result, err error) outcome {
	if err == nil {
		if invalid := wire.CheckResult(r); invalid != nil {
			return outcome{err: d.sent(d.failure(mcp.Protocol, "it gave a result that is none: "+invalid.Error()))}
		}
		return outcome{result: r}
	}
	var known *mcp.CallError
	switch {
	case errors.As(err, &known):
		return outcome{err: known}
	case errors.Is(err, context.DeadlineExceeded):
		return outcome{err: d.sent(d.failure(mcp.TimedOut, "it took too long"))}
	case errors.Is(err, context.Canceled):
		return outcome{err: d.sent(d.failure(mcp.Canceled, "canceled"))}
	}
	return outcome{err: d.sent(d.failure(mcp.Unavailable, oneLine(err.Error())))}
}

// settle ends a call once: it is recorded and told to the hook. If it was
// abandoned before, what came too late is dropped.
func (d *dispatch) settle(ctx context.Context, c ToolCall, out outcome, dispatched bool) outcome {
	if !d.ends.end() {
		return out
	}
	use := mcp.Use{Server: d.entry.route.Server, Tool: d.entry.route.Tool, Outcome: "ok"}
	if dispatched {
		use.Sent, use.Received = int64(len(c.Arguments)), weigh(out.result)
		d.m.meter.received(use.Received)
	}
	switch {
	case out.err != nil:
		use.Outcome = string(out.err.Kind)
	case out.result.IsError:
		use.Outcome = "error"
	}
	d.record(use)
	if !dispatched || d.g.hooks == nil {
		return out
	}
	var err error
	if out.err != nil {
		err = out.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterBudget)
	defer cancel()
	if failed := tell(ctx, d.g.hooks, c, out.result, err); failed != nil {
		return outcome{err: d.sent(d.failure(mcp.Withheld, "the result is withheld: the hook that looks at it failed"))}
	}
	return out
}

// abandon ends a call that does not end by itself. The hook is told too, and
// nobody waits for it.
func (d *dispatch) abandon(ctx context.Context, arguments json.RawMessage) outcome {
	sent := d.ends.wasSent()
	out := outcome{err: d.over(ctx, sent)}
	d.g.work.Go(func() {
		d.settle(ctx, ToolCall{Candidate: d.m.number, Tool: d.name, Arguments: arguments}, out, sent)
	})
	return out
}

// over says that the time was up, or that nobody wants the answer any more.
func (d *dispatch) over(ctx context.Context, sent bool) *mcp.CallError {
	e := d.failure(mcp.Canceled, "canceled")
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		limit := fmt.Sprintf("over the limit of %s for one call", d.g.limits.Wall)
		if d.m.number == 0 {
			limit = fmt.Sprintf("over the limit of %s for all prefetched calls", mcp.PrefetchBudget)
		}
		e = d.failure(mcp.TimedOut, limit+"; it was not made")
		if sent {
			e.Reason = limit + "; it may or may not have happened"
		}
	}
	e.Sent = sent
	return e
}

func (d *dispatch) failure(kind mcp.Failure, reason string) *mcp.CallError {
	return &mcp.CallError{Server: d.entry.route.Server, Tool: d.entry.route.Tool, Kind: kind, Reason: reason}
}

func (d *dispatch) sent(e *mcp.CallError) *mcp.CallError {
	e.Sent = true
	return e
}

func (d *dispatch) record(u mcp.Use) {
	if d.g.record == nil {
		return
	}
	u.Run, u.Candidate, u.Started = d.g.run, d.m.number, d.started
	u.Took = d.g.now().Sub(d.started)
	d.g.record(u)
}

func weigh(r mcp.Result) int64 {
	n := len(r.Structured) + len(r.Meta)
	for _, block := range r.Content {
		n += len(block)
	}
	return int64(n)
}

func oneLine(s string) string { return term.Clean(s, 500).String() }

// text is what the model reads of a call that gave no result.
func text(e *mcp.CallError) string {
	if e.Kind == mcp.Unknown {
		return e.Reason
	}
	return e.Error()
}
