package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/plugin/tool"
)

func (a *app) toolCreateCommand() *cobra.Command {
	var k toolKind
	c := &cobra.Command{
		Use:   "create NAME FILE",
		Short: "Check a Python file and write it into pending/",
		Long: `Checks the file in the way in which it is checked when it is approved, without
running it, and writes it into pending/ under the name. FILE may be -, which is
the standard input. What waits there under that name is replaced; the answer says
so.`,
		Example: "  bestof tool create weather weather.py\n  my-model 'write me a weather tool' | bestof tool create weather -",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runToolCreate(c.Context(), k.kind(), args[0], args[1])
		},
	}
	k.flag(c)
	return c
}

func (a *app) runToolCreate(ctx context.Context, kind tool.Kind, name, file string) error {
	b, err := a.toolbox(kind)
	if err != nil {
		return err
	}
	n, err := tool.ParseName(name)
	if err != nil {
		return usageError{err}
	}
	source, err := a.readInput(file, tool.MaxSource)
	if err != nil {
		return err
	}
	w, err := b.Create(ctx, n, string(source))
	if err != nil {
		return toolError(ctx, err)
	}
	verb := "created"
	if w.Updated {
		verb = "updated"
	}
	if a.json {
		return a.printJSON(map[string]any{"schema": "bestof.tool-create/1", "updated": w.Updated, "tool": b.document(w.Tool, tool.Pending)})
	}
	fmt.Fprintf(a.Out, "%s %s\nsha256:%s\nit is pending: `bestof tool approve %s%s` shows it and makes it live\n", verb, term.Clean(w.Tool.Path, 0), w.Tool.SHA256, n, trainersFlag(kind))
	return nil
}

// trainersFlag is what a command about trainers has behind it.
func trainersFlag(kind tool.Kind) string {
	if kind == tool.Trainer {
		return " --trainers"
	}
	return ""
}

// readInput reads a file that an argument names, or the standard input for -,
// of at most max bytes.
func (a *app) readInput(file string, max int) ([]byte, error) {
	in := a.In
	if file != "-" {
		f, err := os.Open(a.at(file))
		if err != nil {
			return nil, usageError{err}
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return nil, usagef("%s is a directory", file)
		}
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, int64(max)+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(b) > max {
		return nil, usagef("%s is larger than %d bytes", file, max)
	}
	return b, nil
}

type toolApproveOptions struct {
	toolKind
	hash string
}

func (a *app) toolApproveCommand() *cobra.Command {
	var o toolApproveOptions
	c := &cobra.Command{
		Use:   "approve NAME",
		Short: "Show a pending file and make it live if you agree",
		Long: `Shows the whole pending file and asks. What becomes live is those very bytes: if
the file changes meanwhile, nothing is approved. Name, contract and collisions
are checked once more. A live file of that name moves into disabled/, and the
answer says that it was replaced. Then all live tools are loaded, and those that
cannot be are named.

Without a terminal --hash answers, with the hash that bestof tool show printed;
--yes alone approves nothing, since nobody has seen what.`,
		Example:           "  bestof tool approve weather\n  bestof tool approve weather --hash sha256:4f53cda1…",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTools(tool.Pending),
		RunE:              func(c *cobra.Command, args []string) error { return a.runToolApprove(c.Context(), o, args[0]) },
	}
	c.Flags().StringVar(&o.hash, "hash", "", "approve exactly the bytes with this `SHA256`, without a question")
	o.flag(c)
	return c
}

func (a *app) runToolApprove(ctx context.Context, o toolApproveOptions, name string) error {
	b, err := a.toolbox(o.kind())
	if err != nil {
		return err
	}
	n, err := tool.ParseName(name)
	if err != nil {
		return usageError{err}
	}
	var shown tool.Hash
	if o.hash != "" {
		if shown, err = tool.ParseHash(o.hash); err != nil {
			return usageError{err}
		}
	} else if shown, err = a.askAbout(ctx, b, n); err != nil || shown == "" {
		return err
	}
	done, err := b.Approve(ctx, n, shown)
	if err != nil && done.Tool.Name == "" {
		return toolError(ctx, err)
	}
	if err != nil {
		a.warn("%v", err)
	}
	var set tool.Set
	if o.trainers {
		set, err = b.Live(ctx)
	} else {
		set, err = a.loadTools(ctx, b)
	}
	if err != nil {
		a.warn("%s is installed, but the tools could not be loaded: %v", n, err)
	}
	return a.printApproved(b, done, set)
}

// askAbout shows a pending file and asks. The hash is that of what was shown, ""
// when the answer is no.
func (a *app) askAbout(ctx context.Context, b toolbox, n tool.Name) (tool.Hash, error) {
	f, err := b.Find(tool.Pending, n)
	if errors.Is(err, fs.ErrNotExist) {
		return "", usagef("%s: there is no file %s", n, b.Path(tool.Pending, n))
	}
	if err != nil {
		return "", usageError{err}
	}
	if a.yes {
		return "", refusedf("--yes approves nothing that was not seen: say what with --hash sha256:%s, if that is what you looked at", f.SHA256)
	}
	r, err := b.Describe(ctx, f)
	if err != nil {
		return "", toolError(ctx, err)
	}
	a.tell("%s", toolText(f, r, tool.Pending))
	if r.Skip != nil {
		return "", usagef("%s cannot be approved: %s", n, r.Skip)
	}
	if old, err := b.Find(tool.Live, n); err == nil {
		a.tell("it replaces the live one, sha256:%s, which moves into disabled/\n", old.SHA256)
	}
	yes, err := a.ask("Make it live?", "--hash")
	if err != nil {
		return "", err
	}
	if !yes {
		a.tell("not approved: it stays pending.\n")
		return "", nil
	}
	return f.SHA256, nil
}

func (a *app) printApproved(b toolbox, done tool.Approved, set tool.Set) error {
	var skipped []tool.Skip
	for _, s := range set.Skipped {
		if s.File == done.Tool.Name.File() {
			skipped = append(skipped, s)
		}
	}
	if a.json {
		doc := map[string]any{"schema": "bestof.tool-approve/1", "tool": b.document(done.Tool, tool.Live), "replaced": nil, "skipped": append([]tool.Skip{}, skipped...)}
		if done.Replaced != nil {
			doc["replaced"] = map[string]any{"sha256": done.Replaced.SHA256, "kept": done.Kept}
		}
		return a.printJSON(doc)
	}
	fmt.Fprintf(a.Out, "%s is live in %s\n", done.Tool.Name, term.Clean(done.Tool.Path, 0))
	if done.Replaced != nil {
		fmt.Fprintf(a.Out, "it replaced an installed one, which is kept in %s\n", term.Clean(done.Kept, 0))
	}
	for _, s := range skipped {
		fmt.Fprintf(a.Out, "skipped %s\n", term.Clean(s.String(), 600))
	}
	return nil
}

func (a *app) toolDisableCommand(remove bool) *cobra.Command {
	var o toolShowOptions
	c := &cobra.Command{
		Use:   "disable NAME",
		Short: "Switch a tool off: move its file into disabled/",
		Long: `Moves the file into disabled/: hidden, not callable, never deleted. bestof tool
enable brings it back. What lies there under that name already is kept under a
number.`,
		Example: "  bestof tool disable weather",
		Args:    cobra.ExactArgs(1),
	}
	zone := func() tool.Zone { return tool.Live }
	c.ValidArgsFunction = a.completeTools(tool.Live)
	if remove {
		c.Use, c.Short, c.Example = "delete NAME", "Take a tool away, which keeps its file in disabled/", "  bestof tool delete weather\n  bestof tool delete weather --pending"
		c.Long = `Moves the file into disabled/, as bestof tool disable does: nothing is ever
unlinked. With --pending it is the file that waits in pending/.`
		c.Flags().BoolVar(&o.pending, "pending", false, "the one in pending/")
		c.ValidArgsFunction = a.completeTools(tool.Live, tool.Pending)
		zone = func() tool.Zone {
			if o.pending {
				return tool.Pending
			}
			return tool.Live
		}
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.runToolDisable(c.Context(), o.kind(), zone(), args[0])
	}
	o.flag(c)
	return c
}

func (a *app) runToolDisable(ctx context.Context, kind tool.Kind, zone tool.Zone, name string) error {
	b, err := a.toolbox(kind)
	if err != nil {
		return err
	}
	n, err := tool.ParseName(name)
	if err != nil {
		return usageError{err}
	}
	kept, err := b.Disable(ctx, zone, n)
	if err != nil {
		return toolError(ctx, err)
	}
	if a.json {
		return a.printJSON(map[string]any{"schema": "bestof.tool-disable/1", "name": n, "from": zone, "kept": kept})
	}
	fmt.Fprintf(a.Out, "%s is switched off and kept in %s; `bestof tool enable %s%s` brings it back\n", n, term.Clean(kept, 0), n, trainersFlag(kind))
	return nil
}

type toolEnableOptions struct {
	toolKind
	version int
}

func (a *app) toolEnableCommand() *cobra.Command {
	var o toolEnableOptions
	c := &cobra.Command{
		Use:   "enable NAME",
		Short: "Make a tool live again that was switched off",
		Long: `Moves the file back from disabled/. Name, contract and collisions are checked as
for a new one. What was switched off before it under the same name is there with
a number, which bestof tool disabled lists and --version takes.`,
		Example:           "  bestof tool enable weather\n  bestof tool show weather --version 1\n  bestof tool enable weather --version 1",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTools(tool.Disabled),
		RunE:              func(c *cobra.Command, args []string) error { return a.runToolEnable(c.Context(), o, args[0]) },
	}
	c.Flags().IntVar(&o.version, "version", 0, versionSays)
	o.flag(c)
	return c
}

const versionSays = "the older file in disabled/ with this `NUMBER`"

func (a *app) runToolEnable(ctx context.Context, o toolEnableOptions, name string) error {
	if o.version < 0 {
		return usagef("--version: write one of the numbers that `bestof tool disabled` lists")
	}
	b, err := a.toolbox(o.kind())
	if err != nil {
		return err
	}
	n, err := tool.ParseName(name)
	if err != nil {
		return usageError{err}
	}
	t, err := b.Enable(ctx, n, o.version)
	if err != nil {
		return toolError(ctx, err)
	}
	if a.json {
		return a.printJSON(map[string]any{"schema": "bestof.tool-enable/1", "tool": b.document(t, tool.Live)})
	}
	fmt.Fprintf(a.Out, "%s is live in %s\n", n, term.Clean(t.Path, 0))
	return nil
}
