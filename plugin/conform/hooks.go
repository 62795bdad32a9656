package conform

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/plugin"
	"github.com/bestof-dev/bestof/plugin/hook"
)

// cwdOf is where the cases' hooks are told that they are; Check puts the real
// directory in its place.
const cwdOf = "/tmp"

// hooks are one well-formed payload for each hook that the manifest declares.
// At PreToolUse a failure refuses every call of every tool, so it is a failure
// here; elsewhere it holds nothing up and is told to the user, so it is advice.
func hooks(m *plugin.Manifest) ([]Case, error) {
	var cases []Case
	for _, e := range plugin.Hooks() {
		if !m.Loop.RunsHook(e) {
			continue
		}
		b, err := Payload(e, cwdOf).Encode()
		if err != nil {
			return nil, err
		}
		cases = append(cases, Case{Name: "hook " + string(e), Hook: e, Request: b, Advice: e != plugin.PreToolUse})
	}
	return cases, nil
}

// Payload is a well-formed one for a hook.
func Payload(e plugin.Hook, cwd string) hook.Payload {
	p := hook.Payload{Event: e, Cwd: cwd}
	switch {
	case hook.OfTools(e):
		p.Tool = &hook.Tool{Name: "mcp__server__tool", Input: json.RawMessage(`{"path":"a"}`)}
		if e == plugin.PostToolUse {
			text := "the content of a"
			p.ToolResult = &text
		}
	case e == plugin.Stop:
		p.FinalText = "done"
	}
	return p
}

// answered says what is wrong with what a hook did, or "".
func (c Case) answered(r sandbox.Result, stderr string) string {
	counts := "which holds nothing up, and a notice says so in each run"
	if c.Hook == plugin.PreToolUse {
		counts = "which refuses the call"
	}
	if r.Code != 0 || r.Signal != 0 {
		return fmt.Sprintf("it ended with status %d, signal %d, %s: %s", r.Code, r.Signal, counts, stderr)
	}
	if !slices.Contains([]plugin.Hook{plugin.PreToolUse, plugin.Stop, plugin.PreCompact}, c.Hook) {
		return "" // what it prints is no decision there
	}
	if _, err := hook.Parse(c.Hook, r.Stdout.Bytes()); err != nil {
		return fmt.Sprintf("%v, %s", err, counts)
	}
	return ""
}
