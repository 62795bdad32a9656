package app

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/plugin/tool"
	"github.com/bestof-dev/bestof/plugin/tool/kernel"
)

// startKernel makes the kernel of a set, in the directory that the command is
// about. It runs with the operator's privileges.
func (a *app) startKernel(b toolbox, set tool.Set) (*kernel.Kernel, error) {
	dir, err := filepath.Abs(a.dir)
	if err != nil {
		return nil, err
	}
	var sources []kernel.Source
	for _, t := range set.Tools {
		sources = append(sources, kernel.Source{Name: string(t.Name), Path: t.Path, Bytes: t.Bytes, SHA256: string(t.SHA256)})
	}
	return kernel.New(kernel.Config{Python: b.settings.python(), Tools: sources, Start: kernel.Host(a.Environ, dir)}), nil
}

// load imports a set in a kernel, and takes out of it what cannot be.
func load(ctx context.Context, k *kernel.Kernel, set tool.Set) (tool.Set, error) {
	loaded, err := k.Load(ctx)
	if err != nil {
		return tool.Set{}, statusError{exitOf(ctx, orchestrator.ExitInfrastructure), err}
	}
	for _, l := range loaded {
		if l.Skip != "" {
			set = set.Skip(tool.Name(l.Name), l.Skip)
		}
	}
	return set, nil
}

// loadTools reads the live set, and imports it to see what cannot be. Without
// tools nothing is started.
func (a *app) loadTools(ctx context.Context, b toolbox) (tool.Set, error) {
	set, err := b.Live(ctx)
	if err != nil || len(set.Tools) == 0 {
		return set, err
	}
	k, err := a.startKernel(b, set)
	if err != nil {
		return tool.Set{}, err
	}
	defer k.Close()
	return load(ctx, k, set)
}

func (a *app) toolReloadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Load all live tools, and list them with those that cannot be loaded",
		Long: `Reads the live files again and imports each of them in a Python of its own, as
the first call would. A file that fails, prints, exits or forks when it is
imported is skipped with the reason; the others are not touched by it.`,
		Example: "  bestof tool reload",
		RunE: func(c *cobra.Command, args []string) error {
			b, err := a.toolbox(tool.Callable)
			if err != nil {
				return err
			}
			set, err := a.loadTools(c.Context(), b)
			if err != nil {
				return toolError(c.Context(), err)
			}
			return a.printTools(b, set, tool.Live)
		},
	}
}

func (a *app) toolRunCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run NAME [ARGS]",
		Short: "Call a live tool",
		Long: `Holds ARGS, a JSON object, against the tool's SCHEMA and calls run with them. ARGS
may be -, which is the standard input, and is {} when it is left out. The result
goes to standard output, text as it is and every other value as JSON; what the
tool printed goes to standard error. A tool that raises an exception ends this
with status 3 and the end of the traceback.

The tool runs with your privileges in the directory that the command is about.`,
		Example:           "  bestof tool run weather '{\"city\": \"Oslo\"}'\n  bestof tool run weather - < args.json",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.completeTools(tool.Live),
		RunE: func(c *cobra.Command, args []string) error {
			raw := "{}"
			if len(args) == 2 {
				raw = args[1]
			}
			return a.runToolRun(c.Context(), args[0], raw)
		},
	}
}

func (a *app) runToolRun(ctx context.Context, name, raw string) error {
	b, err := a.toolbox(tool.Callable)
	if err != nil {
		return err
	}
	n, err := tool.ParseName(name)
	if err != nil {
		return usageError{err}
	}
	set, err := b.Live(ctx)
	if err != nil {
		return toolError(ctx, err)
	}
	t, set, err := tool.NewTable(set, b.Live).Resolve(ctx, n)
	if err != nil {
		if _, waits := b.Find(tool.Pending, n); waits == nil {
			err = b.allow.Inner(n, set, true)
		}
		return toolError(ctx, err)
	}
	args := json.RawMessage(raw)
	if raw == "-" {
		if args, err = a.readInput("-", tool.MaxArguments); err != nil {
			return err
		}
	}
	schema, err := tool.CompileSchema(t.Schema)
	if err != nil {
		return usagef("%s: SCHEMA: %w", n, err)
	}
	if args, err = schema.Check(args); err != nil {
		return usagef("%s: %w", n, err)
	}
	k, err := a.startKernel(b, set)
	if err != nil {
		return err
	}
	defer k.Close()
	r, err := k.Call(ctx, string(n), args)
	if err != nil {
		return statusError{exitOf(ctx, orchestrator.ExitInfrastructure), err}
	}
	return a.printAnswer(n, tool.Answer(r))
}

// printAnswer prints what a tool gave: to a terminal without anything that
// moves it, and byte for byte elsewhere.
func (a *app) printAnswer(name tool.Name, r tool.Answer) error {
	var failed error
	if r.IsError {
		failed = statusError{code: orchestrator.ExitNoWinner}
	}
	if a.json {
		if err := a.printJSON(map[string]any{"schema": "bestof.tool-run/1", "name": name, "error": r.IsError, "text": r.Text, "printed": r.Printed}); err != nil {
			return err
		}
		return failed
	}
	if r.Printed != "" {
		fmt.Fprint(a.Err, cleanText(r.Printed))
	}
	if r.IsError {
		fmt.Fprintf(a.Err, "bestof: the tool %s failed:\n%s", name, cleanText(r.Text))
		return failed
	}
	text := strings.TrimSuffix(r.Text, "\n") + "\n"
	if a.streams().OutLook().Terminal {
		text = cleanText(text)
	}
	_, err := fmt.Fprint(a.Out, text)
	return err
}

func cleanText(text string) string {
	var b strings.Builder
	for l := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		fmt.Fprintf(&b, "%s\n", term.Clean(strings.ReplaceAll(strings.TrimSuffix(l, "\r"), "\t", "    "), 0))
	}
	return b.String()
}

func (a *app) toolCallCommand() *cobra.Command {
	var list bool
	c := &cobra.Command{
		Use:   "call REQUEST",
		Short: "Ask the door, in the words in which a model asks it",
		Long: `Answers one request of the door, the one tool of models behind which all tools
are: a JSON object with an action, and what the action needs. REQUEST may be -,
which is the standard input. With --wire it prints the door as models see it, or
nothing when no tool is live.

  {"action": "list"}
  {"action": "schema", "name": "weather"}
  {"action": "run", "name": "weather", "args": {"city": "Oslo"}}
  {"action": "create", "name": "weather", "source": "DESCRIPTION = …"}
  {"action": "delete", "name": "weather"}
  {"action": "reload"}`,
		Example: "  bestof tool call '{\"action\": \"list\"}'\n  bestof tool call --wire",
		Args:    cobra.RangeArgs(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if list == (len(args) == 1) {
				return usagef("write a request, or --wire")
			}
			return a.runToolCall(c.Context(), list, append(args, "")[0])
		},
	}
	c.Flags().BoolVar(&list, "wire", false, "print the door as models see it")
	return c
}

func (a *app) runToolCall(ctx context.Context, list bool, request string) error {
	b, err := a.toolbox(tool.Callable)
	if err != nil {
		return err
	}
	set, err := b.Live(ctx)
	if err != nil {
		return toolError(ctx, err)
	}
	if list {
		return a.printWire(set)
	}
	raw := []byte(request)
	if request == "-" {
		if raw, err = a.readInput("-", tool.MaxSource+tool.MaxArguments); err != nil {
			return err
		}
	}
	d := tool.Desk{
		Actions: tool.Actions(), Allow: b.allow, Table: tool.NewTable(set, func(ctx context.Context) (tool.Set, error) { return a.loadTools(ctx, b) }),
		Create: b.Create,
		Delete: func(ctx context.Context, n tool.Name) (string, error) { return b.Disable(ctx, tool.Live, n) },
		IsPending: func(n tool.Name) bool {
			_, err := b.Find(tool.Pending, n)
			return err == nil
		},
	}
	d.Run = func(ctx context.Context, t tool.Tool, args json.RawMessage) (tool.Answer, error) {
		k, err := a.startKernel(b, d.Table.Set())
		if err != nil {
			return tool.Answer{}, err
		}
		defer k.Close()
		r, err := k.Call(ctx, string(t.Name), args)
		if err != nil {
			return tool.Answer{}, statusError{exitOf(ctx, orchestrator.ExitInfrastructure), err}
		}
		return tool.Answer(r), nil
	}
	answer, err := d.Call(ctx, raw)
	if err != nil {
		return toolError(ctx, err)
	}
	return a.printAnswer(tool.DoorName, answer)
}

// printWire prints the door as models have it in their list of tools.
func (a *app) printWire(set tool.Set) error {
	w, ok := tool.Door(set, tool.Actions())
	if !ok {
		return nil
	}
	return a.printJSON(map[string]any{"name": w.Name, "description": w.Description, "inputSchema": w.InputSchema})
}
