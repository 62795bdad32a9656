package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/plugin/tool"
)

func (a *app) toolCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "tool COMMAND",
		Short: "Look at, approve, switch and call one-file tools",
		Long: `A one-file tool is a Python file with a DESCRIPTION, a SCHEMA and a function run.
In $BESTOF_HOME/tools it is live: that it lies there is your approval. What a
model writes lands in tools/pending and is not callable before you approve it.
See docs/tools.md.`,
		Example: `  bestof tool list
  bestof tool create weather weather.py
  bestof tool show weather --pending
  bestof tool approve weather
  bestof tool run weather '{"city": "Oslo"}'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return usagef("there is no command %q (see `%s --help`)", "tool "+args[0], c.CommandPath())
		},
	}
	c.AddCommand(a.toolListCommand(tool.Live), a.toolListCommand(tool.Pending), a.toolListCommand(tool.Disabled), a.toolShowCommand(),
		a.toolCreateCommand(), a.toolApproveCommand(), a.toolDisableCommand(false), a.toolDisableCommand(true), a.toolEnableCommand(),
		a.toolReloadCommand(), a.toolRunCommand(), a.toolCallCommand(), a.toolTrainCommand())
	for _, sub := range c.Commands() {
		sub.Long = strings.TrimSpace(sub.Long) + "\n\n" + statuses
		sub.Args = asUsage(sub.Args)
	}
	return c
}

// A toolKind is the flag that chooses trainers.
type toolKind struct{ trainers bool }

func (k *toolKind) flag(c *cobra.Command) {
	c.Flags().BoolVar(&k.trainers, "trainers", false, "the trainers in tools/train and not the tools")
}

func (k toolKind) kind() tool.Kind {
	if k.trainers {
		return tool.Trainer
	}
	return tool.Callable
}

// completeTools completes the names that zones have, or those of pending first.
func (a *app) completeTools(zones ...tool.Zone) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		const no = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 {
			return nil, no
		}
		trainers, _ := c.Flags().GetBool("trainers")
		b, err := a.toolbox(toolKind{trainers}.kind())
		if err != nil {
			return nil, no
		}
		var names []string
		for _, z := range zones {
			for _, n := range b.Names(z) {
				names = append(names, string(n))
			}
		}
		slices.Sort(names)
		return slices.Compact(names), no
	}
}

// A toolDocument is a tool in JSON.
type toolDocument struct {
	Name        tool.Name       `json:"name"`
	Zone        tool.Zone       `json:"zone"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Path        string          `json:"path"`
	SHA256      tool.Hash       `json:"sha256"`
	Pin         string          `json:"pin"` // for [tools] candidate_safe
	Safe        bool            `json:"candidate_safe"`
	Source      string          `json:"source,omitempty"` // of show
}

func (b toolbox) document(t tool.Tool, zone tool.Zone) toolDocument {
	pin := tool.Pin{Name: t.Name, SHA256: t.SHA256}
	return toolDocument{
		Name: t.Name, Zone: zone, Description: t.Description, Schema: t.Schema, Path: t.Path, SHA256: t.SHA256,
		Pin: pin.String(), Safe: zone == tool.Live && slices.Contains(b.pins, pin),
	}
}

func (b toolbox) documents(set tool.Set, zone tool.Zone) []toolDocument {
	docs := []toolDocument{}
	for _, t := range set.Tools {
		docs = append(docs, b.document(t, zone))
	}
	return docs
}

func (a *app) toolListCommand(zone tool.Zone) *cobra.Command {
	var k toolKind
	c := &cobra.Command{
		Use:   string(zone),
		Short: "List the files that wait for your approval",
		Long: `Lists what was written into pending/, by a model or with bestof tool create, with
each file's description, which is read without running any of it.`,
		Example: "  bestof tool pending",
	}
	switch zone {
	case tool.Live:
		c.Use, c.Short = "list", "List the tools that are live, and why others are skipped"
		c.Long = `Lists the tools in $BESTOF_HOME/tools in the order of their files, with
descriptions that are read without running anything, and names each file that is
skipped with the reason. Below them is how many files wait in pending/.`
		c.Example = "  bestof tool list\n  bestof tool list --json"
	case tool.Disabled:
		c.Short = "List the files that are switched off"
		c.Long = `Lists what is in disabled/: nothing there is callable, and nothing is ever
deleted. Of what was switched off under one name more than once, the last is
listed first, and the others with the number that --version of show and enable
takes.`
		c.Example = "  bestof tool disabled"
	}
	c.RunE = func(c *cobra.Command, args []string) error { return a.runToolList(c.Context(), k.kind(), zone) }
	k.flag(c)
	return c
}

func (a *app) runToolList(ctx context.Context, kind tool.Kind, zone tool.Zone) error {
	b, err := a.toolbox(kind)
	if err != nil {
		return err
	}
	read := b.Live
	if zone != tool.Live {
		read = func(ctx context.Context) (tool.Set, error) { return b.Zone(ctx, zone) }
	}
	set, err := read(ctx)
	if err != nil {
		return toolError(ctx, err)
	}
	return a.printTools(b, set, zone)
}

// printTools prints what a zone holds.
func (a *app) printTools(b toolbox, set tool.Set, zone tool.Zone) error {
	notices := b.notices(set, zone)
	if a.json {
		return a.printJSON(map[string]any{
			"schema": "bestof.tools/1", "zone": zone, "dir": b.Dir(), "max": b.Max, "tools": b.documents(set, zone),
			"skipped": append([]tool.Skip{}, set.Skipped...), "pending": len(b.Names(tool.Pending)), "notices": notices, "older": b.older(zone),
		})
	}
	if len(set.Tools)+len(set.Skipped)+len(b.older(zone)) == 0 {
		fmt.Fprintf(a.Out, "no file is %s: %s has none\n", zone, term.Clean(b.Folder(zone), 0))
	}
	for _, d := range b.documents(set, zone) {
		safe := ""
		if d.Safe {
			safe = "  candidate-safe"
		}
		fmt.Fprintf(a.Out, "%s  %s%s\n  %s\n  in %s\n", d.Name, term.Clean(strings.Join(strings.Fields(d.Description), " "), 200), safe, d.Pin, term.Clean(d.Path, 0))
	}
	for _, s := range set.Skipped {
		fmt.Fprintf(a.Out, "skipped %s\n", term.Clean(s.String(), 600))
	}
	for _, o := range b.older(zone) {
		fmt.Fprintf(a.Out, "older: %s --version %d\n", o.Name, o.Version)
	}
	if n := len(b.Names(tool.Pending)); zone == tool.Live && n > 0 {
		fmt.Fprintf(a.Out, "%d pending: `bestof tool pending` lists them\n", n)
	}
	for _, n := range notices {
		a.warn("%s", n)
	}
	return nil
}

// An olderFile is one that was switched off before another of its name.
type olderFile struct {
	Name    tool.Name `json:"name"`
	Version int       `json:"version"`
}

// older lists such files, by name and number.
func (b toolbox) older(zone tool.Zone) []olderFile {
	list := []olderFile{}
	if zone != tool.Disabled {
		return list
	}
	versions := b.Versions()
	for _, n := range slices.Sorted(maps.Keys(versions)) {
		for _, v := range versions[n] {
			list = append(list, olderFile{n, v})
		}
	}
	return list
}

// notices tell what of the configuration does not lead where it seems to.
func (b toolbox) notices(set tool.Set, zone tool.Zone) []string {
	list := []string{}
	if zone != tool.Live {
		return list
	}
	if err := b.allow.Outer(tool.DoorName); err != nil {
		list = append(list, fmt.Sprintf("no candidate can call any of them: %v", err))
	}
	_, stale := tool.Pinned(set, b.pins)
	for _, s := range stale {
		list = append(list, "[tools] candidate_safe: "+s)
	}
	return list
}

type toolShowOptions struct {
	toolKind
	pending, disabled bool
	version           int // of disabled
}

func (a *app) toolShowCommand() *cobra.Command {
	var o toolShowOptions
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a tool: description, schema, hash and the whole file",
		Long: `Shows the file of that name which is live, or else pending, or else disabled. The
hash is of the very bytes below it: bestof tool approve takes it.`,
		Example:           "  bestof tool show weather\n  bestof tool show weather --pending --json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTools(tool.Live, tool.Pending, tool.Disabled),
		RunE:              func(c *cobra.Command, args []string) error { return a.runToolShow(c.Context(), o, args[0]) },
	}
	c.Flags().BoolVar(&o.pending, "pending", false, "the one in pending/")
	c.Flags().BoolVar(&o.disabled, "disabled", false, "the one in disabled/")
	c.Flags().IntVar(&o.version, "version", 0, versionSays)
	o.flag(c)
	return c
}

func (a *app) runToolShow(ctx context.Context, o toolShowOptions, name string) error {
	zones := []tool.Zone{tool.Live, tool.Pending, tool.Disabled}
	switch {
	case o.version < 0 || o.version > 0 && o.pending:
		return usagef("--version: write one of the numbers that `bestof tool disabled` lists")
	case o.version > 0:
		zones = zones[2:]
	case o.pending && o.disabled:
		return usagef("choose one of --pending and --disabled")
	case o.pending:
		zones = zones[1:2]
	case o.disabled:
		zones = zones[2:]
	}
	n, err := tool.ParseName(name)
	if err != nil {
		return usageError{err}
	}
	b, err := a.toolbox(o.kind())
	if err != nil {
		return err
	}
	for _, zone := range zones {
		find := func() (tool.File, error) { return b.Find(zone, n) }
		if zone == tool.Disabled {
			find = func() (tool.File, error) { return b.Older(n, o.version) }
		}
		f, err := find()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return usageError{err}
		}
		r, err := b.Describe(ctx, f)
		if err != nil {
			return toolError(ctx, err)
		}
		return a.showTool(b, f, r, zone)
	}
	return usagef("there is no tool %s that is %s", n, joinZones(zones))
}

func joinZones(zones []tool.Zone) string {
	var words []string
	for _, z := range zones {
		words = append(words, string(z))
	}
	return strings.Join(words, " or ")
}

func (a *app) showTool(b toolbox, f tool.File, r tool.Reading, zone tool.Zone) error {
	if a.json {
		d := b.document(tool.Tool{File: f, Contract: r.Contract}, zone)
		d.Source = string(f.Bytes)
		return a.printJSON(map[string]any{"schema": "bestof.tool/1", "tool": d, "skipped": r.Skip})
	}
	fmt.Fprint(a.Out, toolText(f, r, zone))
	return nil
}

// toolText is a tool for whoever has to decide about it: nothing in its file
// can hide, move or imitate a line.
func toolText(f tool.File, r tool.Reading, zone tool.Zone) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s) in %s\nsha256:%s\n", f.Name, zone, term.Clean(f.Path, 0), f.SHA256)
	if r.Skip != nil {
		fmt.Fprintf(&b, "it is no tool: %s\n", term.Clean(r.Skip.String(), 600))
	} else {
		indent(&b, "description", r.Contract.Description)
		if r.Contract.Schema != nil {
			indent(&b, "schema", string(r.Contract.Schema))
		}
	}
	b.WriteString("file:\n")
	lines := strings.Split(strings.TrimSuffix(string(f.Bytes), "\n"), "\n")
	for i, l := range lines {
		fmt.Fprintf(&b, "%5d  %s\n", i+1, term.Clean(strings.ReplaceAll(strings.TrimSuffix(l, "\r"), "\t", "    "), 0))
	}
	return b.String()
}

// indent writes a text of several lines below its title.
func indent(b *strings.Builder, title, text string) {
	fmt.Fprintf(b, "%s:\n", title)
	for l := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		fmt.Fprintf(b, "  %s\n", term.Clean(strings.ReplaceAll(l, "\t", "    "), 0))
	}
}
