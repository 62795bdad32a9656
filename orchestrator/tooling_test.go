package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/candidate/sandbox/process"
	"github.com/bestof-dev/bestof/orchestrator/record"
	packages "github.com/bestof-dev/bestof/plugin"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/plugin/hook"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// toolStage is a stage whose agent does what work says with the tools, and then
// writes what is right.
func toolStage(t *testing.T, programs map[string]fake.Program, work func(context.Context, Tooling), hooks ...Hook) *stage {
	t.Helper()
	var tools Tooling
	programs["agent"] = func(ctx context.Context, p *fake.Process) fake.Exit {
		work(ctx, tools)
		return writes("right\n")(ctx, p)
	}
	s := hookStage(t, programs, hooks...)
	s.cfg.Tooling = func(g Tooling) { tools = g }
	return s
}

func query(args string) ToolCall {
	return ToolCall{Candidate: 1, Tool: "mcp__db__query", Arguments: json.RawMessage(args)}
}

// TestBeforeATool: what each answer of a PreToolUse hook comes to. Whatever is
// no answer refuses the call.
func TestBeforeATool(t *testing.T) {
	say := func(line string) fake.Program { return fake.Say(line, 0) }
	for name, c := range map[string]struct {
		hook    fake.Program
		deny    bool
		reason  string // part of it
		args    string // that the tool is called with instead
		noticed bool
	}{
		"nothing to say":      {hook: say(""), args: ""},
		"text":                {hook: say("looks fine")},
		"information":         {hook: say(`{"seen":true}`)},
		"allow":               {hook: say(`{"action":"allow"}`)},
		"deny":                {hook: say(deny), deny: true, reason: "refused by the hook PreToolUse of gate: say please"},
		"a secret":            {hook: say(`{"action":"deny","reason":"not the-secret-value\u001b[2J"}`), deny: true, reason: `\u{1b}[2J`},
		"an approval":         {hook: say(`{"action":"require_approval","reason":"ask Ada"}`), deny: true, reason: "ask Ada (this needs a person's approval, and nobody can be asked during a run)"},
		"modify":              {hook: say(`{"action":"modify","payload":{"input":{"sql":"select 2"}}}`), args: `{"sql":"select 2"}`},
		"modify without what": {hook: say(`{"action":"modify","payload":{}}`), deny: true, reason: "no object input", noticed: true},
		"garbage":             {hook: say(`{"action":`), deny: true, reason: "could not decide, so the call is refused: its decision is not well-formed JSON", noticed: true},
		"another word":        {hook: say(`{"action":"ask"}`), deny: true, reason: "is not one of", noticed: true},
		"crash":               {hook: func(context.Context, *fake.Process) fake.Exit { return fake.Exit{Signal: 11} }, deny: true, reason: "killed by signal 11", noticed: true},
		"allow, and fail":     {hook: fake.Say(allow, 1), deny: true, reason: "status 1", noticed: true},
		"late":                {hook: fake.Hang, deny: true, reason: "did not end within", noticed: true},
		"not there":           {deny: true, reason: "could not be started", noticed: true},
	} {
		t.Run(name, func(t *testing.T) {
			var got ToolDecision
			programs := map[string]fake.Program{}
			if c.hook != nil {
				programs["gate"] = c.hook
			}
			s := toolStage(t, programs, func(ctx context.Context, g Tooling) { got = g.Before(ctx, query(`{"sql":"select 1"}`)) }, at(hook.PreToolUse, "gate"))
			doc := s.run(t)
			if got.Deny != c.deny || !strings.Contains(got.Reason, c.reason) || (got.Reason == "") == c.deny || string(got.Arguments) != c.args {
				t.Errorf("%+v, arguments %s", got, got.Arguments)
			}
			if strings.Contains(got.Reason, "the-secret-value") {
				t.Errorf("%q", got.Reason)
			}
			kept := doc.Candidates[0].Hooks
			if len(kept) != 1 || kept[0].Tool != "mcp__db__query" || (kept[0].Fault != "") != c.noticed || (len(doc.Notices) > 0) != c.noticed {
				t.Errorf("kept %+v, notices %q", kept, doc.Notices)
			}
			if doc.Candidates[0].Outcome != candidate.Met {
				t.Errorf("%s: %s", doc.Candidates[0].Outcome, doc.Candidates[0].Detail)
			}
			s.checkEvents(t)
			if m := s.cfg.Sandbox.(*fake.Sandbox).Misuse(); len(m) > 0 {
				t.Errorf("the sandbox was misused: %v", m)
			}
		})
	}
}

// TestHooksOfTools: hooks are asked in order, each about the input as it is then,
// only where their matcher fits, and none after one that refused; those after the
// call are told what it was called with, and change nothing.
func TestHooksOfTools(t *testing.T) {
	var asked []string
	note := func(name, answer string) fake.Program {
		return prints(func(p hook.Payload, at *fake.Process) string {
			line := fmt.Sprintf("%s %s %s", name, p.Tool.Name, p.Tool.Input)
			if p.ToolResult != nil {
				line += " -> " + *p.ToolResult
			}
			if b, err := os.ReadFile(filepath.Join(at.Dir, "value")); err != nil || string(b) != "wrong\n" || p.Cwd != at.Spec.Root || p.Tool.ReadOnly || at.Spec.Network != sandbox.NetworkNone {
				line += " and this is not the base"
			}
			asked = append(asked, line)
			return answer
		})
	}
	of := func(e hook.Event, program string, m hook.Matcher) Hook {
		h := at(e, program)
		h.Matcher = m
		return h
	}
	programs := map[string]fake.Program{
		"one": note("one", `{"action":"modify","payload":{"input":{"sql":"select 2"}}}`), "two": note("two", ""), "files": note("files", deny),
		"no": note("no", deny), "never": note("never", deny), "watches": note("watches", deny), "breaks": fake.Say("", 4),
	}
	var first, second ToolDecision
	s := toolStage(t, programs, func(ctx context.Context, g Tooling) {
		first = g.Before(ctx, query(` {"sql":"select 1"}`))
		g.After(ctx, ToolCall{Candidate: 1, Tool: "mcp__db__query", Arguments: first.Arguments}, ToolResult{Text: "2 rows"})
		second = g.Before(ctx, ToolCall{Candidate: 1, Tool: "mcp__db__drop"})
	},
		of(hook.PreToolUse, "one", "mcp__db__query"), of(hook.PreToolUse, "two", "mcp__db__*"), of(hook.PreToolUse, "files", "mcp__files__*"),
		of(hook.PreToolUse, "no", "*__drop"), of(hook.PreToolUse, "never", "*__drop"),
		of(hook.PostToolUse, "breaks", ""), of(hook.PostToolUse, "watches", ""))
	doc := s.run(t)
	want := []string{
		`one mcp__db__query {"sql":"select 1"}`, `two mcp__db__query {"sql":"select 2"}`, `watches mcp__db__query {"sql":"select 2"} -> 2 rows`,
		`two mcp__db__drop {}`, `no mcp__db__drop {}`,
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(asked, "\n"), strings.Join(want, "\n"))
	}
	if first.Deny || string(first.Arguments) != `{"sql":"select 2"}` || !second.Deny || second.Arguments != nil {
		t.Errorf("%+v, %+v", first, second)
	}
	if got := said(doc.Candidates[0].Hooks); got != "PreToolUse one 0 modify; PreToolUse two 0 ; PostToolUse breaks 0 !; PostToolUse watches 0 ; PreToolUse two 0 ; PreToolUse no 0 deny" {
		t.Errorf("%s", got)
	}
	if len(doc.Notices) != 1 || !strings.Contains(doc.Notices[0], "PostToolUse of breaks did not work, which holds nothing up") || doc.Candidates[0].Outcome != candidate.Met {
		t.Errorf("%s, notices %q", doc.Candidates[0].Outcome, doc.Notices)
	}
	// Both hooks that were asked twice had one shadow each, and no other's.
	roots := map[string][]string{}
	for _, spec := range s.cfg.Sandbox.(*fake.Sandbox).Runs() {
		roots[spec.Root] = append(roots[spec.Root], spec.Argv[0])
	}
	for root, programs := range roots {
		if slices.Contains(programs, "two") && !slices.Equal(programs, []string{"two", "two"}) || slices.Contains(programs, "agent") && len(programs) > 1 {
			t.Errorf("in %s: %v", root, programs)
		}
	}
}

// TestCallsAtOnce: calls of one candidate may come at once, and those of several
// candidates too; a hook has one process at a time in a shadow.
func TestCallsAtOnce(t *testing.T) {
	const calls = 8
	s := toolStage(t, map[string]fake.Program{}, nil, at(hook.PreToolUse, "one"), at(hook.PreToolUse, "two"), at(hook.PostToolUse, "one"))
	var tools Tooling
	s.cfg.Tooling = func(g Tooling) { tools = g }
	programs := map[string]fake.Program{"one": fake.Say(allow, 0), "two": fake.Say("", 0), "check": check, self: plugin}
	for n, name := range []string{"first", "second"} {
		programs[name] = func(ctx context.Context, p *fake.Process) fake.Exit {
			var all sync.WaitGroup
			for range calls {
				all.Go(func() {
					c := ToolCall{Candidate: n + 1, Tool: "mcp__db__query"}
					if d := tools.Before(ctx, c); d.Deny {
						t.Errorf("%+v", d)
					}
					tools.After(ctx, c, ToolResult{Text: "x"})
				})
			}
			all.Wait()
			return writes("right\n")(ctx, p)
		}
	}
	first := s.cfg.Seats[0]
	second := first
	first.Agent.Command, second.Agent.Command, second.Number = []string{"first"}, []string{"second"}, 2
	s.cfg.Seats = []Seat{first, second}
	sb := fake.New(sandbox.Options{}, programs)
	s.cfg.Sandbox = sb
	doc := s.run(t)
	for _, c := range doc.Candidates {
		if len(c.Hooks) != 3*calls || c.Outcome != candidate.Met || len(c.Processes) > 0 {
			t.Errorf("%s: %d calls of hooks, alive %v", c.Outcome, len(c.Hooks), c.Processes)
		}
	}
	if m := sb.Misuse(); len(m) > 0 {
		t.Errorf("the sandbox was misused: %v", m)
	}
}

// TestToolsOfNobody: nothing is asked or run for a candidate that does not work,
// nor with what is no object; and a call that is in progress when the agent ends
// is over with it.
func TestToolsOfNobody(t *testing.T) {
	var tools Tooling
	var during []ToolDecision
	waits := make(chan ToolDecision, 1)
	asked := make(chan struct{})
	s := toolStage(t, map[string]fake.Program{"waits": func(ctx context.Context, p *fake.Process) fake.Exit {
		close(asked)
		return fake.Hang(ctx, p)
	}}, func(ctx context.Context, g Tooling) {
		tools = g
		during = append(during, g.Before(ctx, ToolCall{Candidate: 2, Tool: "t"}), g.Before(ctx, ToolCall{Candidate: 1, Tool: "t", Arguments: json.RawMessage(`[1]`)}),
			g.Before(ctx, ToolCall{Candidate: 1, Tool: "t", Arguments: json.RawMessage(`{"a":`)}))
		go func() { waits <- g.Before(context.WithoutCancel(ctx), query("{}")) }()
		<-asked
	}, at(hook.PreToolUse, "waits"))
	s.cfg.Hooks[0].Matcher = "mcp__*"
	s.cfg.Hooks[0].Run = call.Command{Argv: []string{"waits"}, Timeout: time.Hour}.Hook
	doc := s.run(t)
	for i, want := range []string{notAtWork, "not a JSON object", "not a JSON object"} {
		if !during[i].Deny || !strings.Contains(during[i].Reason, want) {
			t.Errorf("%d: %+v", i, during[i])
		}
	}
	if d := <-waits; !d.Deny || d.Reason != roundEnded {
		t.Errorf("%+v", d)
	}
	if doc.Candidates[0].Outcome != candidate.Met || len(doc.Notices) > 0 {
		t.Errorf("%s, notices %q", doc.Candidates[0].Outcome, doc.Notices)
	}
	if d := tools.Before(t.Context(), query("{}")); !d.Deny || d.Reason != notAtWork {
		t.Errorf("after the run: %+v", d)
	}
	tools.After(t.Context(), query("{}"), ToolResult{})
	if _, err := tools.Call(t.Context(), 1, "p", "t", nil); err == nil || err.Error() != notAtWork {
		t.Errorf("after the run: %v", err)
	}
}

// TestCalledToolsAreTold: a plugin is told which tools were called, and that
// nothing was measured where the host offers none.
func TestCalledToolsAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		offered bool
		calls   []string
		want    string
	}{
		"none are offered": {false, nil, "null"},
		"none was called":  {true, nil, "[]"},
		"in order":         {true, []string{"mcp__b__x", "mcp__a__y", "mcp__b__x"}, `["mcp__b__x","mcp__a__y","mcp__b__x"]`},
	} {
		var told wire.Turn
		s := toolStage(t, map[string]fake.Program{}, func(ctx context.Context, g Tooling) {
			for _, name := range c.calls {
				g.Before(ctx, ToolCall{Candidate: 1, Tool: name})
			}
		})
		if !c.offered {
			s.cfg.Tooling = nil
		}
		s.cfg.Plugins = []Plugin{{Name: "ear", Wrapper: "ear", After: true, Ask: func(_ context.Context, _ sandbox.Sandbox, _ call.Place, r wire.Request) (wire.Response, sandbox.Result, error) {
			told = r.After.Turn
			return wire.Response{}, sandbox.Result{}, wire.Faultf(wire.ErrExit, "no")
		}}}
		s.run(t)
		if got, err := json.Marshal(told.Tools); err != nil || string(got) != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestPackageTools: a package's tool runs as its plugin in the shadow of the
// candidate that calls it, so that what it does is the candidate's change; and
// nothing of it is left when the agent ended.
func TestPackageTools(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fixer")
	for name, text := range map[string]string{
		"plugin.toml":     "name = 'fixer'\n[[tools]]\nname = 'fix'\ndescription = 'Writes what is right.'\n[[tools]]\nname = 'fail'\ndescription = 'Fails.'\n",
		"tools/fix.toml":  "name = 'fix'\ndescription = 'Writes what is right.'\ncommand = ['${plugin_dir}/fix.sh']\nrisk = 'low'\n[env]\nFROM = '${plugin_dir}/answer'\n[input_schema]\ntype = 'object'\n",
		"tools/fail.toml": "name = 'fail'\ndescription = 'Fails.'\ncommand = ['sh', '-c', 'echo out; echo the-secret-value >&2; exit 7']\n",
		"answer":          "right\n",
		"fix.sh":          "#!/bin/sh\ncat \"$FROM\" > \"$BESTOF_INPUT_FILE\" && test \"$HOME\" != \"$1\" && echo \"wrote $STELLA_INPUT_FILE\"\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	pack, err := packages.Read(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	p := call.Plugin{Package: pack, Dir: dir}
	var tools []PackageTool
	for _, tool := range pack.PackageTools {
		tools = append(tools, PackageTool{Plugin: "fixer", Name: tool.Name, Description: tool.Description, Schema: tool.Schema(), Risk: pack.RiskOf(tool).String(),
			Run: func(ctx context.Context, sb sandbox.Sandbox, at call.Place, in []byte) (sandbox.Result, error) {
				return p.Tool(ctx, sb, at, tool.Name, in)
			}})
	}
	s := newStage(t, process.New(sandbox.Options{Environ: os.Environ()}), "sh")
	// The agent waits until the tool was called and had answered, which a
	// second call shows, and changes nothing itself.
	s.cfg.Seats[0].Agent.Command = []string{"sh", "-c", "until test -e go; do sleep 0.02; done; rm go; mv value.new value; echo done"}
	s.cfg.Settings.Test = nil
	s.cfg.Settings.AllowUndecided = true
	s.cfg.Plugins = []Plugin{{Name: "fixer", Tools: tools}}
	type outcome struct {
		result ToolResult
		err    error
	}
	results := make(chan outcome, 5)
	s.cfg.Tooling = func(g Tooling) {
		if got := g.Tools(); len(got) != 2 || got[0].Name != "fail" || got[1].Risk != "low" || got[0].Risk != "medium" || string(got[1].Schema) != `{"type":"object"}` {
			t.Errorf("%+v", got)
		}
		go func() {
			for g.Before(t.Context(), ToolCall{Candidate: 1, Tool: "mcp__plugin-fixer__fix"}).Deny { // it is not at work yet
				if t.Context().Err() != nil {
					return
				}
			}
			for _, c := range [][2]string{{"fail", "{}"}, {"none", "{}"}, {"fix", "[]"}, {"fix", `{"file":"value.new"}`}, {"fix", `{"file":"go"}`}} {
				r, err := g.Call(t.Context(), 1, "fixer", c[0], json.RawMessage(c[1]))
				results <- outcome{r, err}
			}
		}()
	}
	doc := s.run(t)
	for i, want := range []string{"it ended with status 7\nout\n[redacted]", `there is no tool "none"`, "not a JSON object", "wrote value.new\n"} {
		got := <-results
		text := got.result.Text
		if got.err != nil {
			text = got.err.Error()
		}
		if i == 0 {
			if !got.result.IsError || !strings.HasPrefix(text, "it ended with status 7\nout") || strings.Contains(text, "the-secret-value") {
				t.Errorf("%+v", got)
			}
		} else if !strings.Contains(text, want) || got.result.IsError {
			t.Errorf("%d: %+v, want %q", i, got, want)
		}
	}
	change := doc.Candidates[0].Change
	if change == nil || len(change.Files) != 1 || change.Files[0].Path != "value" {
		t.Fatalf("%+v: %s %s", change, doc.Candidates[0].Outcome, doc.Candidates[0].Detail)
	}
	if left := alive(doc); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestHooksOfNoTools: that hooks of tools are not called is said, once.
func TestHooksOfNoTools(t *testing.T) {
	s := toolStage(t, map[string]fake.Program{"gate": fake.Say(deny, 0)}, func(context.Context, Tooling) {}, at(hook.PreToolUse, "gate"), at(hook.PostToolUse, "gate"))
	s.cfg.Tooling = nil
	doc := s.run(t)
	if len(doc.Notices) != 1 || !strings.Contains(doc.Notices[0], "PreToolUse and PostToolUse are not called in this run") || len(doc.Candidates[0].Hooks) > 0 {
		t.Errorf("notices %q, hooks %+v", doc.Notices, doc.Candidates[0].Hooks)
	}
}

func alive(doc record.Document) []sandbox.Process {
	var all []sandbox.Process
	for _, c := range doc.Candidates {
		all = append(all, c.Processes...)
	}
	return all
}
