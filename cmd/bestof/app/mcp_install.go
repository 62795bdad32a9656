package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	xterm "golang.org/x/term"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/registry"
	"github.com/bestof-dev/bestof/mcp/store"
)

type mcpInstallOptions struct {
	alias, version, kind, scope string
	set, secret                 []string
	dry, runnerOK, riskOK       bool
}

func (o *mcpInstallOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.alias, "alias", "", "the entry's `NAME` in mcp.toml (default: the last part of the server's name)")
	f.StringVar(&o.version, "version", "latest", "which `VERSION` of the server")
	f.StringVar(&o.kind, "kind", "", "what to install from: remote | npm | pypi | oci | nuget (default: the first that can be)")
	f.StringArrayVar(&o.set, "set", nil, "give a value that the server asks for, as `NAME=VALUE`")
	f.StringArrayVar(&o.secret, "secret", nil, "give a secret that the server asks for: from the variable `NAME`, or else from the terminal or a line of stdin")
	f.BoolVar(&o.dry, "dry-run", false, "show what would be written and write nothing")
	f.BoolVar(&o.runnerOK, strings.TrimPrefix(registry.RunnerFlag, "--"), false, "agree to a program that is none of npx, uvx, docker and dnx")
	f.BoolVar(&o.riskOK, strings.TrimPrefix(registry.RiskFlag, "--"), false, "agree to what the publisher asks for beyond the package")
}

func (a *app) mcpInstallCommand() *cobra.Command {
	var o mcpInstallOptions
	c := &cobra.Command{
		Use:   "install NAME",
		Short: "Write the entry of a registry's MCP server, withheld until you grant it",
		Long: `Looks the server up in the registry, shows the exact command line or address and
what it needs from you, and writes the entry into mcp.toml if you agree. Nothing
is started. The version is always pinned. The entry is withheld: no tool of it
can be called before ` + "`bestof mcp grant`" + `.

What the publisher wants beyond its package, such as a mount, an unknown program
or a variable that steers programs, is refused or needs an answer of its own,
which --yes does not give.`,
		Example: `  bestof mcp install io.github.someone/docs --dry-run
  bestof mcp install io.github.someone/issues --secret ISSUES_TOKEN --scope user
  bestof mcp install io.github.someone/files --set directory=/srv/data --alias files`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.runMCPInstall(c.Context(), o, args[0]) },
	}
	o.addFlags(c.Flags())
	scopeFlag(c, &o.scope, "whose mcp.toml (default: the repository's inside of one)")
	return c
}

func (a *app) runMCPInstall(ctx context.Context, o mcpInstallOptions, name string) error {
	servers, err := a.mcpStore(ctx)
	if err != nil {
		return err
	}
	scope, err := whereToWrite(servers, o.scope)
	if err != nil {
		return err
	}
	alias := o.alias
	if alias == "" {
		alias = registry.Alias(name)
	}
	if err := mcp.CheckName(alias); err != nil {
		return usageError{err}
	}
	entry, err := a.lookUp(ctx, name, o.version)
	if err != nil {
		return err
	}
	option, err := chooseOption(entry, o.kind)
	if err != nil {
		return err
	}
	given, err := a.values(option, o)
	if err != nil {
		return err
	}
	filled, err := option.Fill(given)
	var value *registry.ValueError
	switch {
	case errors.As(err, &value):
		return usagef("%s: %w", name, err)
	case err != nil:
		return refusedf("%s: %w", name, err)
	}
	a.giveHome(&filled)
	install := filled.Server(alias, entry)
	put := func(old *mcp.Server) (mcp.Server, error) { return replace(old, install, o.alias != "") }
	if err := checkReplacement(servers, scope, alias, put); err != nil {
		return err
	}
	a.describe(entry, filled, alias, scope)
	if err := a.agree(filled.Concerns, o); err != nil {
		return err
	}
	written := false
	if !o.dry {
		if written, err = a.ask(fmt.Sprintf("write this into %s?", store.Shown(scope)), "--yes"); err != nil {
			return err
		}
		if !written {
			return refusedf("%s was not installed: nobody agreed", name)
		}
		if err := servers.Put(scope, alias, put); err != nil {
			return asInstallError(err)
		}
	}
	return a.installed(entry, filled, alias, scope, written)
}

// asInstallError keeps a status that was decided already.
func asInstallError(err error) error {
	var status statusError
	if errors.As(err, &status) {
		return err
	}
	return mcpError(err)
}

// lookUp finds a version that may be installed.
func (a *app) lookUp(ctx context.Context, name, version string) (registry.Entry, error) {
	if err := registry.CheckName(name); err != nil {
		return registry.Entry{}, usageError{err}
	}
	client, err := a.registry()
	if err != nil {
		return registry.Entry{}, err
	}
	e, err := client.Get(ctx, name, version)
	if err != nil {
		return e, registryError(ctx, err)
	}
	why := strings.TrimSuffix(": "+e.Message, ": ")
	switch e.Status {
	case registry.Active:
	case registry.Deleted:
		return e, refusedf("%s %s was deleted from the registry%s", name, e.Server.Version, why)
	default:
		a.warn("%s %s is marked %s in the registry%s", name, e.Server.Version, e.Status, why)
	}
	return e, nil
}

// chooseOption is the first option that can be installed, of a kind if one is
// asked for.
func chooseOption(e registry.Entry, kind string) (registry.Option, error) {
	options, err := registry.Plan(e)
	if err != nil {
		return registry.Option{}, refusedf("%w", err)
	}
	why := ""
	for _, o := range options {
		if kind != "" && string(o.Kind) != kind {
			continue
		}
		if o.Refused == "" {
			return o, nil
		}
		why = ": " + o.Refused
	}
	return registry.Option{}, usagef("%s cannot be installed from %q%s", e.Server.Name, kind, why)
}

// values collects what the user gives: by --set, by --secret, or at the
// terminal for what is still missing.
func (a *app) values(option registry.Option, o mcpInstallOptions) (registry.Values, error) {
	values := registry.Values{}
	for _, s := range o.set {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return nil, usagef("--set %q: write NAME=VALUE", s)
		}
		if slices.ContainsFunc(option.Inputs, func(i registry.Input) bool { return i.Name == name && i.Secret }) {
			return nil, usagef("%s is a secret: give it with --secret %s, so that no history and no list of processes holds it", name, name)
		}
		values[name] = append(values[name], value)
	}
	for _, name := range o.secret {
		value := a.getenv(name)
		if value == "" {
			var err error
			if value, err = a.askSecret(name); err != nil {
				return nil, err
			}
		}
		if value == "" {
			return nil, usagef("the secret %s is empty", name)
		}
		values[name] = []string{value}
	}
	missing := option.Missing(values)
	if len(missing) == 0 {
		return values, nil
	}
	if !a.streams().Interactive() {
		flags := make([]string, len(missing))
		for i, in := range missing {
			if flags[i] = "--set " + in.Name + "=…"; in.Secret {
				flags[i] = "--secret " + in.Name
			}
		}
		return nil, usagef("the server needs values: give %s", strings.Join(flags, " "))
	}
	for _, in := range missing {
		value, err := a.askValue(in)
		if err != nil {
			return nil, err
		}
		values[in.Name] = []string{value}
	}
	return values, nil
}

func (a *app) askValue(in registry.Input) (string, error) {
	about := in.Where
	if in.Description != "" {
		about += ": " + in.Description
	}
	if len(in.Choices) > 0 {
		about += " (" + strings.Join(in.Choices, ", ") + ")"
	}
	fmt.Fprintln(a.Err, term.Clean(about, 400))
	if in.Secret {
		return a.askSecret(in.Name)
	}
	fmt.Fprintf(a.Err, "%s: ", term.Clean(in.Name, 200))
	return readLine(a.In)
}

// askSecret reads a secret: at a terminal without showing it, else a line.
func (a *app) askSecret(name string) (string, error) {
	f, ok := a.In.(*os.File)
	if !ok || !xterm.IsTerminal(int(f.Fd())) {
		return readLine(a.In)
	}
	fmt.Fprintf(a.Err, "%s (it is not shown): ", term.Clean(name, 200))
	b, err := xterm.ReadPassword(int(f.Fd()))
	fmt.Fprintln(a.Err)
	return string(b), err
}

// readLine reads one line and nothing beyond it.
func readLine(r io.Reader) (string, error) {
	var line []byte
	var one [1]byte
	for {
		n, err := r.Read(one[:])
		switch {
		case n == 1 && one[0] == '\n', errors.Is(err, io.EOF):
			return strings.TrimSuffix(string(line), "\r"), nil
		case err != nil:
			return "", err
		case n == 1:
			line = append(line, one[0])
		}
		if len(line) > 64<<10 {
			return "", usagef("the line is longer than 64 KiB")
		}
	}
}

// giveHome lets .NET find where it keeps packages: a server's process gets no
// HOME else.
func (a *app) giveHome(f *registry.Filled) {
	if home := a.getenv("HOME"); f.Kind == registry.NuGet && home != "" && f.Env["HOME"] == "" {
		f.Env["HOME"] = home
		f.Settings = append(f.Settings, "HOME="+home)
	}
}

// replace decides what is written. A name that nobody chose does not take an
// entry of another server's away.
func replace(old *mcp.Server, install mcp.Server, chosen bool) (mcp.Server, error) {
	if old == nil {
		return install, nil
	}
	if !chosen && old.RegistryName != install.RegistryName {
		from := "was written by hand"
		if old.RegistryName != "" {
			from = "is " + old.RegistryName
		}
		return install, refusedf("there is an entry %q, and it %s: choose another name with --alias, or replace it with --alias %s", old.Name, from, old.Name)
	}
	return registry.Reinstall(*old, install), nil
}

// checkReplacement asks put before anything is asked of the user.
func checkReplacement(s *store.Store, scope mcp.Scope, alias string, put func(*mcp.Server) (mcp.Server, error)) error {
	c, err := s.Read(scope)
	if err != nil {
		return usageError{err}
	}
	if old, ok := c.Server(alias); ok {
		_, err = put(&old)
	}
	return err
}

// describe shows what would be written, before anybody is asked.
func (a *app) describe(e registry.Entry, f registry.Filled, alias string, scope mcp.Scope) {
	w := a.Out
	if a.json {
		return
	}
	fmt.Fprintf(w, "%s %s", term.Clean(e.Server.Name, 0), term.Clean(e.Server.Version, 100))
	if e.Server.Title != "" {
		fmt.Fprintf(w, ": %s", term.Clean(e.Server.Title, 100))
	}
	fmt.Fprintln(w)
	if e.Server.Description != "" {
		fmt.Fprintf(w, "  %s\n", term.Clean(e.Server.Description, 200))
	}
	verb := "it would start"
	if f.Kind == registry.OnHTTP {
		verb = "it would speak to"
	}
	fmt.Fprintf(w, "%s\n  %s\n", verb, term.Clean(f.Shown, 0))
	if len(f.Settings) > 0 {
		fmt.Fprintln(w, "with")
		for _, s := range f.Settings {
			fmt.Fprintf(w, "  %s\n", term.Clean(s, 0))
		}
	}
	for _, c := range f.Concerns {
		fmt.Fprintf(w, "! %s\n", term.Clean(c.About, 0))
	}
	fmt.Fprintf(w, "as %s in %s, withheld until you grant it\n", term.Clean(fmt.Sprintf("%q", alias), 0), store.Shown(scope))
}

// agree asks about each concern. --yes is no answer to them: they are what a
// script cannot know of beforehand.
func (a *app) agree(concerns []registry.Concern, o mcpInstallOptions) error {
	person := *a
	person.yes = false
	for _, c := range concerns {
		if c.Flag == registry.RunnerFlag && o.runnerOK || c.Flag == registry.RiskFlag && o.riskOK || o.dry {
			continue
		}
		ok, err := person.ask(c.About+": is that right?", c.Flag)
		if err != nil {
			return err
		}
		if !ok {
			return refusedf("nothing was installed: %s", c.About)
		}
	}
	return nil
}

// installed says what was written and what comes next.
func (a *app) installed(e registry.Entry, f registry.Filled, alias string, scope mcp.Scope, written bool) error {
	next := "bestof mcp grant " + alias
	if a.json {
		concerns := []string{}
		for _, c := range f.Concerns {
			concerns = append(concerns, c.About)
		}
		return a.printJSON(map[string]any{
			"schema": "bestof.mcp-install/1", "server": e.Server.Name, "version": e.Server.Version, "status": e.Status, "name": alias, "scope": scope,
			"kind": f.Kind, "endpoint": f.Shown, "settings": append([]string{}, f.Settings...), "concerns": concerns, "written": written, "next": next,
		})
	}
	if !written {
		fmt.Fprintln(a.Out, "nothing was written")
		return nil
	}
	if scope == mcp.Project && len(f.Env)+len(f.Headers) > 0 {
		a.warn("%s holds values now: do not commit it if one of them is a secret", store.Shown(scope))
	}
	fmt.Fprintf(a.Out, "written; read what it declares and let it be used with `%s`\n", term.Clean(next, 0))
	if f.Kind == registry.OnHTTP && len(f.Headers) == 0 {
		fmt.Fprintf(a.Out, "if it wants a login: `bestof mcp login %s`\n", term.Clean(alias, 0))
	}
	return nil
}
