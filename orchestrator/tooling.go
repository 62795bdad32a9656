package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/plugin/hook"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// A ToolCall is a candidate's call of a tool that the host offers.
type ToolCall struct {
	Candidate int
	Tool      string          // mcp__server__tool
	Arguments json.RawMessage // a JSON object; nil is {}
}

// A ToolResult is what a tool gave: its text, or that of its error.
type ToolResult struct {
	Text    string
	IsError bool
}

// A ToolDecision says whether a call may happen. Reason is for the agent, one or
// more lines in which everything prints; Arguments are those to call the tool
// with, nil when they stay as they are.
type ToolDecision struct {
	Deny      bool
	Reason    string
	Arguments json.RawMessage
}

// Tooling is what a gateway of tools asks of a turn: the hooks at tools' calls,
// and the tools of packages. It may be used concurrently, for candidates whose
// agents work now; for all others it refuses.
type Tooling struct{ turn *turn }

// What is said of calls that nobody can serve.
const (
	notAtWork  = "this candidate is not at work"
	roundEnded = "the candidate's round ended"
)

// Before asks the PreToolUse hooks that match, in order. The first that denies,
// or that wants an approval which nobody can give during a run, ends it. One that
// fails, is late or cannot be understood denies: a check that did not happen has
// not passed. Each is told the input as those before it left it.
func (g Tooling) Before(ctx context.Context, c ToolCall) ToolDecision {
	b, done := g.turn.serving(c.Candidate)
	if b == nil {
		return ToolDecision{Deny: true, Reason: notAtWork}
	}
	defer done()
	ctx, cancel := b.during(ctx)
	defer cancel()
	input, modified := object(c.Arguments), false
	if input == nil {
		return ToolDecision{Deny: true, Reason: "the arguments are not a JSON object"}
	}
	b.calledTool(c.Tool)
	for i, h := range b.Hooks {
		if h.Event != hook.PreToolUse || !h.Matcher.Match(c.Tool) {
			continue
		}
		kept, out, fault := b.ask(ctx, i, h, hook.Payload{Event: h.Event, Tool: &hook.Tool{Name: c.Tool, Input: input}})
		if ctx.Err() != nil {
			return ToolDecision{Deny: true, Reason: roundEnded}
		}
		d := hook.Decision{}
		if fault == "" {
			var err error
			if d, err = hook.Parse(h.Event, out); err != nil {
				fault = err.Error()
			}
		}
		kept.Action, kept.Reason, kept.Fault = string(d.Action), b.Redactor.String(d.Reason), b.Redactor.String(fault)
		b.keepHook(h, kept)
		switch {
		case fault != "":
			return b.refused(c, fmt.Sprintf("the hook PreToolUse of %s could not decide, so the call is refused: %s", h.From, fault))
		case d.Action.Blocks():
			return b.refused(c, fmt.Sprintf("refused by the hook PreToolUse of %s: %s", h.From, d.Words()))
		case d.Action == hook.Modify:
			input, modified = json.RawMessage(d.Input), true
		}
	}
	if !modified {
		return ToolDecision{}
	}
	return ToolDecision{Arguments: input}
}

func (b *bench) refused(c ToolCall, reason string) ToolDecision {
	reason = b.Redactor.String(hook.Clean(reason, hook.MaxReason))
	b.emit(event.Activity{Number: c.Candidate, Text: fmt.Sprintf("%s: %s", term.Clean(c.Tool, 80), wire.Line(reason, 200))})
	return ToolDecision{Deny: true, Reason: reason}
}

// After tells the PostToolUse hooks that match what came of a call; Arguments
// are those that the tool was called with. They watch: nothing that they print or
// do changes anything, and one that fails is told to the user once.
func (g Tooling) After(ctx context.Context, c ToolCall, r ToolResult) {
	b, done := g.turn.serving(c.Candidate)
	if b == nil {
		return
	}
	defer done()
	ctx, cancel := b.during(ctx)
	defer cancel()
	input := object(c.Arguments)
	if input == nil {
		return
	}
	text := strings.ToValidUTF8(r.Text, "\uFFFD")
	for i, h := range b.Hooks {
		if h.Event == hook.PostToolUse && h.Matcher.Match(c.Tool) && ctx.Err() == nil {
			kept, _, fault := b.ask(ctx, i, h, hook.Payload{Event: h.Event, Tool: &hook.Tool{Name: c.Tool, Input: input}, ToolResult: &text})
			if ctx.Err() != nil {
				return
			}
			kept.Fault = b.Redactor.String(fault)
			b.keepHook(h, kept)
		}
	}
}

// object is arguments as hooks and tools get them, nil for what is no object.
func object(arguments json.RawMessage) json.RawMessage {
	if len(arguments) == 0 {
		return json.RawMessage(`{}`)
	}
	if trimmed := strings.TrimSpace(string(arguments)); json.Valid(arguments) && strings.HasPrefix(trimmed, "{") {
		return json.RawMessage(trimmed)
	}
	return nil
}

// ask starts hook i in its booth. A fault is why what it printed does not count,
// whoever's it is; "" is none.
func (b *bench) ask(ctx context.Context, i int, h Hook, payload hook.Payload) (kept record.Hook, out []byte, fault string) {
	kept = record.Hook{Event: string(h.Event), From: h.From, Round: b.round, Tool: strings.ToValidUTF8(payload.Tool.Name, "\uFFFD")}
	o, err := b.booth(ctx, i)
	if err != nil {
		return kept, nil, err.Error()
	}
	defer o.Unlock()
	at, ended := b.place(o.shadow)
	defer ended()
	payload.Cwd = filepath.Join(sandbox.Spec{Root: at.Root, Home: at.Home, Seen: at.Seen}.Place().Root, filepath.FromSlash(at.WorkDir))
	out, res, err := h.Run(ctx, b.box(b.seat.Number, phaseHook), at, payload)
	kept.DurationMS = res.Duration.Milliseconds()
	b.keepHookLog(h, fmt.Sprintf("tool-%d-%d", b.round, i), res)
	if errors.Is(err, proc.ErrSupervisorLost) {
		b.reapBelow(o.shadow.Root(), o.shadow.Home())
	}
	if err != nil {
		return kept, nil, err.Error()
	}
	return kept, out, ""
}

// calledTool notes a tool that the candidate called.
func (b *bench) calledTool(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.tools) < maxTools {
		b.tools = append(b.tools, strings.ToValidUTF8(name, "\uFFFD"))
	}
}

// A PackageTool is a tool that an installed package brings, for candidates.
type PackageTool struct {
	Plugin      string // whose it is; it runs as the plugin
	Name        string // in the package
	Description string
	Schema      json.RawMessage // of its input: a JSON object
	Risk        string          // low | medium | high | destructive
	Run         func(ctx context.Context, sb sandbox.Sandbox, at call.Place, arguments []byte) (sandbox.Result, error)
}

// Tools lists the package tools that candidates may call, by plugin and in the
// order of their files.
func (g Tooling) Tools() []PackageTool {
	var all []PackageTool
	for _, p := range g.turn.plugins {
		all = append(all, p.Tools...)
	}
	return all
}

// Call runs a package tool as its plugin, in the sandbox and on the shadow of a
// candidate, with a home of its own. An error says that it was not run, or not to
// its end, in words for the agent; that a tool failed is a result.
func (g Tooling) Call(ctx context.Context, candidate int, plugin, tool string, arguments json.RawMessage) (ToolResult, error) {
	b, done := g.turn.serving(candidate)
	if b == nil {
		return ToolResult{}, errors.New(notAtWork)
	}
	defer done()
	ctx, cancel := b.during(ctx)
	defer cancel()
	input := object(arguments)
	if input == nil {
		return ToolResult{}, errors.New("the arguments are not a JSON object")
	}
	for _, t := range g.Tools() {
		if t.Plugin == plugin && t.Name == tool {
			return b.use(ctx, t, input)
		}
	}
	return ToolResult{}, fmt.Errorf("there is no tool %q of a plugin %q", term.Clean(tool, 80), term.Clean(plugin, 80))
}

func (b *bench) use(ctx context.Context, t PackageTool, input json.RawMessage) (ToolResult, error) {
	home, remove, err := b.home()
	if err != nil {
		return ToolResult{}, err
	}
	defer remove()
	at, ended := b.place(b.shadow)
	defer ended()
	at.Home = home
	b.emit(event.Activity{Number: int(b.seat.Number), Text: fmt.Sprintf("the tool %s of %s", term.Clean(t.Name, 80), term.Clean(t.Plugin, 80))})
	res, err := t.Run(ctx, b.box(b.seat.Number, phaseTool), at, input)
	switch {
	case ctx.Err() != nil:
		return ToolResult{}, errors.New(roundEnded)
	case err != nil:
		return ToolResult{}, fmt.Errorf("the tool %s was not run: %s", term.Clean(t.Name, 80), wire.Line(b.Redactor.String(err.Error()), 400))
	}
	return b.result(res), nil
}

// result is what a tool printed, or how it failed.
func (b *bench) result(res sandbox.Result) ToolResult {
	text := func(o sandbox.Output) string {
		return strings.ToValidUTF8(b.Redactor.String(string(o.Bytes())), "\uFFFD")
	}
	if res.OK() {
		return ToolResult{Text: text(res.Stdout)}
	}
	return ToolResult{IsError: true, Text: strings.TrimSpace(fmt.Sprintf("it %s\n%s%s", endWords(res), text(res.Stdout), text(res.Stderr)))}
}
