package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/plugin"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/plugin/conform"
	"github.com/bestof-dev/bestof/plugin/examples"
	"github.com/bestof-dev/bestof/plugin/hook"
	"github.com/bestof-dev/bestof/plugin/store"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// place makes a fresh home, and a fresh root unless one is given.
func (b *booth) place(root string) (call.Place, error) {
	b.n++
	home := filepath.Join(b.dir, fmt.Sprintf("home-%d", b.n))
	if err := os.Mkdir(home, 0o700); err != nil {
		return call.Place{}, err
	}
	if root == "" {
		root = filepath.Join(b.dir, fmt.Sprintf("root-%d", b.n))
		return call.Place{Root: root, Home: home}, os.Mkdir(root, 0o755)
	}
	root, err := filepath.Abs(root)
	return call.Place{Root: root, Home: home}, err
}

func (a *app) pluginCheckCommand() *cobra.Command {
	in := boothOptions{kind: "auto"}
	c := &cobra.Command{
		Use:   "check DIR",
		Short: "Check a package, and its process against the shared conformance cases",
		Long: `Reads the package in DIR as install does, then starts its process in a sandbox
once for each conformance case: the shared vectors and what they leave out.
Nothing is installed. Status 3 means that a case failed; cases that are only
advice never fail.`,
		Example: `  bestof plugin check my-check
  bestof plugin check my-check --json
  bestof plugin check my-check --sandbox docker --image python:3.12-slim`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runPluginCheck(c.Context(), a.at(args[0]), in)
		},
	}
	in.addFlags(c)
	return c
}

func (a *app) runPluginCheck(ctx context.Context, dir string, in boothOptions) error {
	tmp, remove, err := a.temporary()
	if err != nil {
		return err
	}
	defer remove()
	st, err := store.StageIn(dir, tmp)
	if err != nil {
		return packageError(dir, err)
	}
	b, err := a.booth(ctx, in, tmp)
	if err != nil {
		return err
	}
	defer b.close()
	p := call.Plugin{Package: st.Package, Dir: st.Dir}
	root := filepath.Join(tmp, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return statusError{orchestrator.ExitInfrastructure, err}
	}
	findings, err := conform.Check(ctx, p.Manifest, root, func(ctx context.Context, stdin []byte) (sandbox.Result, error) {
		at, err := b.place(root)
		if err != nil {
			return sandbox.Result{}, err
		}
		spec, err := p.Spec(b.options, at)
		if err != nil {
			return sandbox.Result{}, err
		}
		spec.Stdin = stdin
		return b.sandbox.Run(ctx, spec)
	})
	if err != nil {
		return statusError{exitOf(ctx, orchestrator.ExitInfrastructure), err}
	}
	conforms := conform.Conforms(findings)
	unoffered := p.Unoffered(pluginHost())
	if a.json {
		if err := a.printJSON(map[string]any{
			"schema": "bestof.plugin-check/1", "name": p.Name, "conforms": conforms, "not_offered": append([]string{}, unoffered...),
			"cases": append([]conform.Finding{}, findings...), "sandbox": b.sandbox.Isolation().Name,
		}); err != nil {
			return err
		}
	} else {
		a.printFindings(p, findings, unoffered)
	}
	if !conforms {
		return statusError{code: orchestrator.ExitNoWinner}
	}
	return nil
}

// exitOf is the status of an error that the end of ctx may have caused.
func exitOf(ctx context.Context, otherwise int) int {
	if ctx.Err() != nil {
		return orchestrator.ExitInterrupted
	}
	return otherwise
}

func (a *app) printFindings(p call.Plugin, findings []conform.Finding, unoffered []string) {
	fmt.Fprintf(a.Out, "%s: the package is valid (%s)\n", term.Clean(string(p.Name), 0), p.Loop.Level)
	for _, l := range unoffered {
		fmt.Fprintf(a.Out, "  note    %s\n", l)
	}
	failed, advice := 0, 0
	for _, f := range findings {
		word := "ok"
		switch {
		case !f.OK && f.Advice:
			word = "advice"
			advice++
		case !f.OK:
			word = "FAILED"
			failed++
		}
		if f.OK && a.quiet {
			continue
		}
		fmt.Fprintf(a.Out, "  %-7s %s\n", word, f.Case)
		if f.Detail != "" {
			fmt.Fprintf(a.Out, "          %s\n", term.Clean(f.Detail, 0))
		}
	}
	switch {
	case len(findings) == 0:
		fmt.Fprintln(a.Out, "it has no process that is asked anything, so there is nothing more to check")
	case failed > 0:
		fmt.Fprintf(a.Out, "%d of %d cases failed\n", failed, len(findings))
	case advice > 0:
		fmt.Fprintf(a.Out, "it conforms: %d cases, %d of them with advice\n", len(findings), advice)
	default:
		fmt.Fprintf(a.Out, "it conforms: %d cases\n", len(findings))
	}
}

type pluginCallOptions struct {
	root, test, baseline, goal, input, tool, text string

	in boothOptions
}

func (a *app) pluginCallCommand() *cobra.Command {
	o := pluginCallOptions{baseline: string(wire.Failed), goal: "a call by hand", input: "{}", in: boothOptions{kind: "auto"}, tool: "mcp__server__tool"}
	c := &cobra.Command{
		Use:   "call NAME POINT|HOOK|TOOL",
		Short: "Ask an installed plugin once, or run one of its tools",
		Long: `Has one exchange with an installed plugin at before_turn or after_turn and prints
its answer; or calls it at SessionStart, PreToolUse, PostToolUse or Stop and
prints what it decides; or runs one of its tools, as the plugin: in a sandbox,
with no network unless the plugin was granted one. What it works on is an empty
directory, or the one that --root names, which it can write to.

Status 3 means that it gave no legal answer, or that the tool failed.`,
		Example: `  bestof plugin call verify after_turn --root . --test 'go test ./...' --baseline failed
  bestof plugin call gate PreToolUse --tool mcp__db__query --input '{"sql": "drop"}'
  bestof plugin call bundle lint-fix --root . --input '{"path": "src"}'`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runPluginCall(c.Context(), args[0], args[1], o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.root, "root", "", "the `DIR` that it works on (default an empty one)")
	f.StringVar(&o.test, "test", "", "the test `COMMAND` of the grant")
	f.StringVar(&o.baseline, "baseline", o.baseline, "what the test said before: not-run | passed | failed | unobserved")
	f.StringVar(&o.goal, "goal", o.goal, "the task")
	f.StringVar(&o.input, "input", o.input, "the tool's input as a `JSON` object, or - for standard input")
	f.StringVar(&o.tool, "tool", o.tool, "at PreToolUse and PostToolUse: the `NAME` of the tool that is called")
	f.StringVar(&o.text, "text", "done", "at Stop what the agent said last, at PostToolUse what the tool gave")
	o.in.addFlags(c)
	return c
}

func (a *app) runPluginCall(ctx context.Context, name, what string, o pluginCallOptions) error {
	in, err := a.findPlugin(ctx, name)
	if err != nil {
		return err
	}
	p := call.Plugin{Package: in.Package, Dir: in.Dir}
	tmp, remove, err := a.temporary()
	if err != nil {
		return err
	}
	defer remove()
	b, err := a.booth(ctx, o.in, tmp)
	if err != nil {
		return err
	}
	defer b.close()
	root := o.root
	if root != "" {
		root = a.at(root)
		if info, err := os.Stat(root); err != nil || !info.IsDir() {
			return usagef("--root: %s is not a directory", root)
		}
	}
	at, err := b.place(root)
	if err != nil {
		return statusError{orchestrator.ExitInfrastructure, err}
	}
	if point := wire.Point(what); point == wire.BeforeTurn || point == wire.AfterTurn {
		return a.callPoint(ctx, p, b, at, point, o)
	}
	input, err := a.toolInput(o.input)
	if err != nil {
		return err
	}
	if e := plugin.Hook(what); slices.Contains(plugin.Hooks(), e) {
		return a.callHook(ctx, p, b, at, e, o, input)
	}
	return a.callTool(ctx, p, b, at, what, input)
}

// toolInput is what --input says.
func (a *app) toolInput(input string) (string, error) {
	if input != "-" {
		return input, nil
	}
	in, err := io.ReadAll(io.LimitReader(a.In, maxTask))
	if err != nil {
		return "", fmt.Errorf("read the input: %w", err)
	}
	return string(in), nil
}

// callHook calls the plugin at a hook and prints what that comes to.
func (a *app) callHook(ctx context.Context, p call.Plugin, b *booth, at call.Place, e plugin.Hook, o pluginCallOptions, input string) error {
	payload := hook.Payload{Event: e, Cwd: at.Root}
	switch {
	case hook.OfTools(e):
		payload.Tool = &hook.Tool{Name: o.tool, Input: json.RawMessage(input)}
		if !json.Valid(payload.Tool.Input) || !strings.HasPrefix(strings.TrimSpace(input), "{") {
			return usageError{fmt.Errorf("--input: %w", call.ErrInput)}
		}
		if e == plugin.PostToolUse {
			payload.ToolResult = &o.text
		}
	case e == plugin.Stop:
		payload.FinalText = o.text
	}
	out, _, err := p.Hook(ctx, b.sandbox, b.options, at, payload)
	if err != nil {
		return unanswered(ctx, p, err)
	}
	var d hook.Decision
	if e != plugin.SessionStart && e != plugin.PostToolUse { // where what it prints is no decision
		if d, err = hook.Parse(e, out); err != nil {
			return statusError{orchestrator.ExitNoWinner, fmt.Errorf("%q decides nothing that can be followed: %w", p.Name, err)}
		}
	}
	answer := hookAnswer{Schema: "bestof.plugin-hook/1", Event: e, Action: d.Action, Reason: d.Reason, Evidence: d.Evidence, Input: json.RawMessage(d.Input)}
	if e == plugin.SessionStart {
		answer.Context = hook.Context(out)
	}
	return a.printJSON(answer)
}

// unanswered is the status of a call that gave no answer.
func unanswered(ctx context.Context, p call.Plugin, err error) error {
	var fault *wire.Fault
	switch {
	case errors.As(err, &fault):
		return statusError{orchestrator.ExitNoWinner, fmt.Errorf("%q gave no answer: %w", p.Name, err)}
	case errors.Is(err, call.ErrNotAsked), errors.Is(err, call.ErrNoProcess):
		return statusError{orchestrator.ExitRefused, err}
	}
	return statusError{exitOf(ctx, orchestrator.ExitInfrastructure), err}
}

// hookAnswer is what a hook decided, in JSON.
type hookAnswer struct {
	Schema   string          `json:"schema"`
	Event    plugin.Hook     `json:"event"`
	Action   hook.Action     `json:"action"` // "" for no decision
	Reason   string          `json:"reason,omitempty"`
	Evidence string          `json:"evidence,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`   // of modify
	Context  string          `json:"context,omitempty"` // what SessionStart adds to a brief
}

// testTimeByHand is how long a test may run that is granted by hand.
const testTimeByHand = 10 * time.Minute

func (a *app) callPoint(ctx context.Context, p call.Plugin, b *booth, at call.Place, point wire.Point, o pluginCallOptions) error {
	grant := &wire.Grant{Handle: "by-hand", Root: at.Root}
	if o.test != "" {
		words, err := argv.Split(o.test)
		if err != nil {
			return usagef("--test: %w", err)
		}
		grant.Test = &wire.TestPlan{Program: words[0], Args: words[1:], Baseline: wire.Baseline(o.baseline), Cwd: ".", TimeoutMS: uint64(testTimeByHand.Milliseconds())}
		switch grant.Test.Baseline {
		case wire.NotRun, wire.Passed, wire.Failed, wire.Unobserved:
		default:
			return usagef("--baseline %s: choose not-run, passed, failed or unobserved", o.baseline)
		}
	}
	request := wire.Request{After: &wire.AfterRequest{Wrapper: p.Driven(), Goal: o.goal, Candidate: grant, Turn: wire.Turn{Completed: true}}}
	if point == wire.BeforeTurn {
		request = wire.Request{Before: &wire.BeforeRequest{Wrapper: p.Driven(), Stage: "execute", Goal: o.goal, Candidate: grant}}
	}
	response, _, err := p.Exchange(ctx, b.sandbox, b.options, at, request)
	if err != nil {
		return unanswered(ctx, p, err)
	}
	if response.Before != nil {
		return a.printJSON(response.Before)
	}
	return a.printJSON(response.After)
}

func (a *app) callTool(ctx context.Context, p call.Plugin, b *booth, at call.Place, name, input string) error {
	result, err := p.Tool(ctx, b.sandbox, at, name, []byte(input))
	switch {
	case errors.Is(err, call.ErrNotAsked), errors.Is(err, call.ErrRefused):
		return statusError{orchestrator.ExitRefused, err}
	case errors.Is(err, call.ErrInput):
		return usageError{err}
	case err != nil:
		return statusError{exitOf(ctx, orchestrator.ExitInfrastructure), err}
	case result.End == sandbox.Stopped:
		return statusError{code: orchestrator.ExitInterrupted}
	}
	if a.json {
		err = a.printJSON(map[string]any{
			"schema": "bestof.plugin-tool/1", "end": result.End, "exit_code": result.Code, "signal": result.Signal, "reason": result.Reason,
			"stdout": string(result.Stdout.Bytes()), "stderr": string(result.Stderr.Bytes()),
		})
	} else {
		a.Out.Write(visible(result.Stdout, term.IsTerminal(a.Out)))
		a.Err.Write(visible(result.Stderr, term.IsTerminal(a.Err)))
	}
	if err == nil && !result.OK() {
		err = statusError{code: orchestrator.ExitNoWinner}
		if !a.json {
			why := fmt.Sprintf("status %d", result.Code)
			switch {
			case result.End == sandbox.NotRun:
				why = result.Reason
			case result.End == sandbox.Deadline:
				why = "its time was up"
			case result.Signal != 0:
				why = fmt.Sprintf("signal %d", result.Signal)
			}
			err = statusError{orchestrator.ExitNoWinner, fmt.Errorf("the tool %q failed: %s", name, why)}
		}
	}
	return err
}

// visible is the output of a program: as it is for another program, and with
// nothing in it that could move a terminal's cursor for a person.
func visible(o sandbox.Output, terminal bool) []byte {
	b := o.Bytes()
	if !terminal {
		return b
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		text, ended := strings.CutSuffix(line, "\n")
		out.WriteString(term.Clean(text, 0).String())
		if ended {
			out.WriteByte('\n')
		}
	}
	return []byte(out.String())
}

func (a *app) pluginNewCommand() *cobra.Command {
	language := "python"
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Begin a plugin in a new directory",
		Long: `Writes a working plugin into a new directory of that name: a manifest, and a
program of one file that reads requests strictly, runs the granted test and
reports what it observed. Replace its oracle by what you want to know.`,
		Example: "  bestof plugin new my-check\n  bestof plugin new my-check --lang go",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runPluginNew(args[0], language)
		},
	}
	c.Flags().StringVar(&language, "lang", language, strings.Join(examples.Languages(), " | "))
	return c
}

func (a *app) runPluginNew(name, language string) error {
	if err := plugin.Name(name).Check(); err != nil {
		return usageError{err}
	}
	files, err := examples.New(name, language)
	if err != nil {
		return usagef("--lang: %w", err)
	}
	dir := a.at(name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, os.ErrExist) {
			return usagef("%s exists already", dir)
		}
		return err
	}
	for _, file := range sortedKeys(files) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(files[file]), 0o644); err != nil {
			return err
		}
	}
	if a.json {
		return a.printJSON(map[string]any{"schema": "bestof.plugin-new/1", "dir": dir, "files": sortedKeys(files)})
	}
	fmt.Fprintf(a.Out, "wrote %s: %s\n", term.Clean(dir, 0), strings.Join(sortedKeys(files), ", "))
	quoted := term.Clean(argv.Join([]string{name}), 0)
	if language == "go" {
		fmt.Fprintf(a.Out, "next: (cd %s && go build -o plugin .)\n", quoted)
	}
	fmt.Fprintf(a.Out, "next: bestof plugin check %s\n", quoted)
	return nil
}
