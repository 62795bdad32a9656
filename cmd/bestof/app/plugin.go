package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/plugin"
	"github.com/bestof-dev/bestof/plugin/hook"
	"github.com/bestof-dev/bestof/plugin/store"
	"github.com/bestof-dev/bestof/plugin/wire"
	"github.com/bestof-dev/bestof/worktree"
)

func (a *app) pluginCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "plugin COMMAND",
		Short: "Install, look at, check and begin plugins",
		Long: `A plugin is a directory with a plugin.toml, which says how much say the plugin
wants in your turns and what it wants to reach, and usually a program. You read
that once, when you install it, and say yes or no. See docs/plugins.md.`,
		Example: `  bestof plugin new my-check --lang python
  bestof plugin check my-check
  bestof plugin install my-check --scope user`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return usagef("there is no command %q (see `%s --help`)", "plugin "+args[0], c.CommandPath())
		},
	}
	c.AddCommand(a.pluginInstallCommand(), a.pluginListCommand(), a.pluginShowCommand(), a.pluginRemoveCommand(),
		a.pluginCheckCommand(), a.pluginCallCommand(), a.pluginNewCommand())
	for _, sub := range c.Commands() {
		sub.Long = strings.TrimSpace(sub.Long) + "\n\n" + statuses
		sub.Args = asUsage(sub.Args)
	}
	return c
}

// pluginHost says what this host does for plugins.
func pluginHost() plugin.Host { return plugin.Host{Hooks: hook.Seen(), Tools: true} }

// settings is the configuration for the repository that the command is about, if
// there is one, or else the operator's alone.
func (a *app) settings(ctx context.Context) (fileConfig, error) {
	home, err := a.home()
	if err != nil {
		return fileConfig{}, err
	}
	top := ""
	if repo, err := worktree.Open(ctx, a.dir); err == nil {
		top = repo.Root()
	}
	cfg, _, err := loadConfig(home, top, trusted(a.getenv("BESTOF_TRUST_PROJECT")))
	return cfg, err
}

// plugins opens the store of plugins, for the repository that the command is
// about if there is one.
func (a *app) plugins(ctx context.Context) (*store.Store, error) {
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	top := ""
	if repo, err := worktree.Open(ctx, a.dir); err == nil {
		top = repo.Root()
	}
	return store.New(home, top, trusted(a.getenv("BESTOF_TRUST_PROJECT"))), nil
}

// packageError tells what a package may not hold, which policy refuses, from
// what its author has to mend.
func packageError(dir string, err error) error {
	err = fmt.Errorf("%s: %w", dir, err)
	var refusal *store.Refusal
	if errors.As(err, &refusal) {
		return statusError{orchestrator.ExitRefused, err}
	}
	return usageError{err}
}

func (a *app) pluginInstallCommand() *cobra.Command {
	scope := string(store.Project)
	c := &cobra.Command{
		Use:   "install DIR",
		Short: "Show what a plugin asks for, and install it if you agree",
		Long: `Copies the package in DIR, checks the copy, and shows everything that it asks for
and every file in it. If you agree, that very copy is installed. From then on it
loads only as long as it stays what you agreed to.

The scope project is this repository's .bestof/plugins, which is used when
BESTOF_TRUST_PROJECT is 1; the scope user is $BESTOF_HOME/plugins, for every
repository. Without a terminal nobody can agree but --yes.`,
		Example: "  bestof plugin install plugins/verify-py\n  bestof plugin install plugins/verify-py --scope user --yes",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runPluginInstall(c.Context(), a.at(args[0]), store.Scope(scope))
		},
	}
	c.Flags().StringVar(&scope, "scope", scope, "where it is installed: project | user")
	return c
}

// at is a path as the user means it, who may have said -C.
func (a *app) at(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(a.dir, path)
}

func (a *app) runPluginInstall(ctx context.Context, dir string, scope store.Scope) error {
	if scope != store.Project && scope != store.User {
		return usagef("--scope %s: choose project or user", scope)
	}
	s, err := a.plugins(ctx)
	if err != nil {
		return err
	}
	st, err := s.Stage(dir, scope)
	if err != nil {
		return packageError(dir, err)
	}
	defer func() {
		if err := st.Discard(); err != nil {
			a.warn("a copy is left in %s: %v", st.Dir, err)
		}
	}()
	name := st.Package.Name
	if err := s.Free(name, scope); err != nil {
		return usageError{err}
	}
	consent := plugin.Consent(st.Package, st.Tree, pluginHost())
	if !a.json || !a.yes {
		a.tell("%s", consent)
	}
	if other, _, err := s.Find(name); err == nil && other.Scope != scope {
		a.warn("the scope %s has a plugin %q too: inside this repository the one of the scope project is used", other.Scope, name)
	}
	yes, err := a.ask("Install it?", "--yes")
	if err != nil {
		return err
	}
	if !yes {
		a.tell("not installed.\n")
		return nil
	}
	in, err := st.Install(time.Now())
	if err != nil {
		return statusError{orchestrator.ExitRefused, err}
	}
	if scope == store.Project && !trusted(a.getenv("BESTOF_TRUST_PROJECT")) {
		a.warn("it is not loaded before you trust this repository: BESTOF_TRUST_PROJECT=1")
	}
	if a.json {
		return a.printJSON(map[string]any{"schema": "bestof.plugin-install/1", "plugin": jsonPlugin(in), "consent": consent})
	}
	fmt.Fprintf(a.Out, "installed %s (%s) in %s\n", term.Clean(string(name), 0), scope, term.Clean(in.Dir, 0))
	return nil
}

// tell writes text of ours, in which what others wrote was cleaned, to stderr.
func (a *app) tell(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !a.streams().ErrLook().UTF8 {
		text = strings.NewReplacer("—", "-", "→", "->", "…", "...").Replace(text)
		lines := strings.Split(text, "\n")
		for i, l := range lines {
			lines[i] = term.Clean(l, 0).ASCII().String()
		}
		text = strings.Join(lines, "\n")
	}
	fmt.Fprint(a.Err, text)
}

// notices tells why plugins were not loaded.
func (a *app) notices(lines []string) {
	for _, l := range lines {
		a.warn("%s", l)
	}
}

// A pluginDocument is a plugin in JSON.
type pluginDocument struct {
	Name         plugin.Name   `json:"name"`
	Description  string        `json:"description,omitempty"`
	Scope        store.Scope   `json:"scope"`
	Level        string        `json:"participation"`
	Driven       string        `json:"driven_by"`
	Dir          string        `json:"dir"`
	Digest       string        `json:"digest"`
	Agreed       *time.Time    `json:"agreed,omitempty"`
	Shadows      bool          `json:"shadows,omitempty"`
	Retracted    bool          `json:"retracted,omitempty"` // by [plugins] off
	Argv         []string      `json:"argv,omitempty"`
	Env          []string      `json:"env,omitempty"`
	Withheld     []string      `json:"withheld,omitempty"`
	Network      bool          `json:"network"`
	Points       []wire.Point  `json:"points,omitempty"`
	Hooks        []plugin.Hook `json:"hooks,omitempty"`
	Tools        []string      `json:"tools,omitempty"`
	Skills       []string      `json:"skills,omitempty"`
	Records      []string      `json:"records,omitempty"`
	NotOffered   []string      `json:"not_offered,omitempty"`
	Files        []plugin.File `json:"files"`
	Requirements []string      `json:"requirements,omitempty"`
}

func jsonPlugin(p store.Installed) pluginDocument {
	d := pluginDocument{
		Name: p.Name, Description: p.Description, Scope: p.Scope, Level: p.Loop.Level.String(), Driven: p.Driven(), Dir: p.Dir,
		Digest: p.Tree.Digest, Shadows: p.Shadows, Network: p.Network(), Points: p.Loop.Points, Hooks: p.Loop.Hooks,
		NotOffered: p.Unoffered(pluginHost()), Files: p.Tree.Files,
	}
	if !p.Agreed.IsZero() {
		d.Agreed = &p.Agreed
	}
	if p.Runtime != nil {
		d.Argv = p.Runtime.Command(p.Dir)
		d.Env, d.Withheld = p.Runtime.Environment()
	}
	for _, t := range p.PackageTools {
		d.Tools = append(d.Tools, t.Name)
	}
	for _, s := range p.PackageSkills {
		d.Skills = append(d.Skills, s.Slug)
	}
	for _, r := range p.PackageRecords {
		d.Records = append(d.Records, r.Lineage)
	}
	for _, r := range p.Requirements {
		d.Requirements = append(d.Requirements, r.Name)
	}
	return d
}

func (a *app) pluginListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the plugins that are installed, and what of them is called",
		Long: `Lists the plugins of this repository and your own, and below them, for each
moment, the programs that are called then. A plugin that cannot be loaded is
named on stderr with the reason.`,
		Example: "  bestof plugin list\n  bestof plugin list --json",
		RunE: func(c *cobra.Command, args []string) error {
			return a.runPluginList(c.Context())
		},
	}
}

func (a *app) runPluginList(ctx context.Context) error {
	s, err := a.plugins(ctx)
	if err != nil {
		return err
	}
	cfg, err := a.settings(ctx)
	if err != nil {
		return err
	}
	plugins, notices := s.Load()
	a.notices(notices)
	isOff := func(p store.Installed) bool { return slices.Contains(cfg.Plugins.Off, string(p.Name)) }
	called := calledList(slices.DeleteFunc(slices.Clone(plugins), isOff), cfg.hooks())
	if a.json {
		docs := make([]pluginDocument, len(plugins))
		for i, p := range plugins {
			docs[i] = jsonPlugin(p)
			docs[i].Retracted = isOff(p)
		}
		return a.printJSON(map[string]any{"schema": "bestof.plugins/1", "plugins": docs, "called": called, "notices": append([]string{}, notices...)})
	}
	if len(plugins) == 0 {
		fmt.Fprintln(a.Out, "no plugin is installed: `bestof plugin install DIR` installs one")
		if len(called) == 0 {
			return nil
		}
	}
	for _, p := range plugins {
		shadows := ""
		if p.Shadows {
			shadows = ", instead of the one of the scope user"
		}
		if isOff(p) {
			shadows += ", retracted by [plugins] off"
		}
		fmt.Fprintf(a.Out, "%s  %s%s  %s\n", term.Clean(string(p.Name), 0), p.Scope, shadows, p.Loop.Level)
		if p.Description != "" {
			fmt.Fprintf(a.Out, "  %s\n", term.Clean(strings.Join(strings.Fields(p.Description), " "), 200))
		}
		fmt.Fprintf(a.Out, "  in %s\n", term.Clean(p.Dir, 0))
		d := jsonPlugin(p)
		for _, ships := range []struct {
			kind  string
			names []string
		}{{"tools", d.Tools}, {"skills", d.Skills}, {"advice", d.Records}} {
			if len(ships.names) > 0 {
				fmt.Fprintf(a.Out, "  ships %s: %s\n", ships.kind, term.Clean(strings.Join(ships.names, ", "), 0))
			}
		}
		if p.Runtime == nil {
			fmt.Fprintln(a.Out, "  ships no process")
			continue
		}
		fmt.Fprintf(a.Out, "  runs: %s (%ds, env: %s)\n", term.Clean(strings.Join(p.Runtime.Argv, " "), 0), int(p.Runtime.Timeout().Seconds()), term.Clean(strings.Join(append(d.Env, none(d.Env)...), ", "), 0))
		if len(d.Withheld) > 0 {
			fmt.Fprintf(a.Out, "  withheld from it, since they lead to credentials: %s\n", term.Clean(strings.Join(d.Withheld, ", "), 0))
		}
	}
	fmt.Fprintln(a.Out, "\ncalled:")
	for _, c := range called {
		fmt.Fprintf(a.Out, "  %-12s %s: %s%s\n", c.At, term.Clean(c.From, 0), term.Clean(strings.Join(c.Argv, " "), 0), c.aside())
	}
	if len(called) == 0 {
		fmt.Fprintln(a.Out, "  nothing")
	}
	return nil
}

// A calledProgram is a program and the moment at which it is called.
type calledProgram struct {
	At      string   `json:"at"`   // a hook or a point
	From    string   `json:"from"` // a plugin, or the configuration that has it
	Argv    []string `json:"argv"`
	Matcher string   `json:"matcher,omitempty"` // of tools' names
	Network bool     `json:"network"`
}

// aside is what else is to be known of it, in our words but for the matcher.
func (c calledProgram) aside() string {
	var words []string
	if c.Matcher != "" {
		words = append(words, "for tools like "+term.Clean(c.Matcher, 0).String())
	}
	if c.Network {
		words = append(words, "reaches the network")
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// calledList is everything that is called, in the order in which it is: by the
// moment, plugins before the operator's own.
func calledList(plugins []store.Installed, own []orchestrator.Hook) []calledProgram {
	list := []calledProgram{}
	add := func(at string, p store.Installed) {
		list = append(list, calledProgram{At: at, From: string(p.Name), Argv: p.Runtime.Command(p.Dir), Network: p.Network()})
	}
	for _, e := range hook.Seen() {
		for _, p := range plugins {
			if p.Runtime != nil && p.Loop.RunsHook(e) {
				add(string(e), p)
			}
		}
		for _, h := range own {
			if h.Event == e {
				list = append(list, calledProgram{At: string(e), From: h.From, Argv: h.Files, Matcher: string(h.Matcher), Network: h.Network})
			}
		}
	}
	for _, point := range []wire.Point{wire.BeforeTurn, wire.AfterTurn} {
		for _, p := range plugins {
			if p.Runtime != nil && p.Loop.Answers(point) {
				add(string(point), p)
			}
		}
	}
	return list
}

func none(list []string) []string {
	if len(list) == 0 {
		return []string{"none"}
	}
	return nil
}

func (a *app) pluginShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Show what was agreed to when a plugin was installed",
		Long:    `Shows everything that an installed plugin may do, with every file that it consists of.`,
		Example: "  bestof plugin show verify",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := a.findPlugin(c.Context(), args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]any{"schema": "bestof.plugin/1", "plugin": jsonPlugin(p)})
			}
			agreed := "nobody agreed to it by itself: it came with this repository, which you trust"
			if !p.Agreed.IsZero() {
				agreed = "you agreed to it on " + p.Agreed.Local().Format("2006-01-02 15:04")
			}
			fmt.Fprintf(a.Out, "%s (%s) in %s\n%s\n%s", term.Clean(string(p.Name), 0), p.Scope, term.Clean(p.Dir, 0), agreed, plugin.Describe(p.Package, p.Tree, pluginHost()))
			return nil
		},
	}
}

func (a *app) findPlugin(ctx context.Context, name string) (store.Installed, error) {
	s, err := a.plugins(ctx)
	if err != nil {
		return store.Installed{}, err
	}
	p, notices, err := s.Find(plugin.Name(name))
	a.notices(notices)
	if err != nil {
		return p, usageError{err}
	}
	return p, nil
}

func (a *app) pluginRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a plugin from every scope that has it",
		Long: `Removes the plugin from this repository and from your own plugins, with what you
agreed to. It needs no trust and works on broken packages too, also by the name
of their directory.`,
		Example: "  bestof plugin remove verify",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.plugins(c.Context())
			if err != nil {
				return err
			}
			gone, err := s.Remove(plugin.Name(args[0]))
			if a.json && err == nil {
				return a.printJSON(map[string]any{"schema": "bestof.plugin-remove/1", "removed": gone})
			}
			for _, dir := range gone {
				if !a.json {
					fmt.Fprintf(a.Out, "removed %s\n", term.Clean(dir, 0))
				}
			}
			if errors.Is(err, store.ErrNotInstalled) {
				return usageError{err}
			}
			return err
		},
	}
}

// temporary is a directory of the command's own, and how to remove it.
func (a *app) temporary() (string, func(), error) {
	dir, err := os.MkdirTemp("", "bestof-plugin-")
	if err != nil {
		return "", nil, statusError{orchestrator.ExitInfrastructure, err}
	}
	return dir, func() {
		if err := os.RemoveAll(dir); err != nil {
			a.warn("%s is left: %v", dir, err)
		}
	}, nil
}
