package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/store"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/worktree"
)

// mcpStore opens what is configured about MCP servers, for the repository that
// the command is about if there is one.
func (a *app) mcpStore(ctx context.Context) (*store.Store, error) {
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

// mcpError tells what a store refused from what went wrong.
func mcpError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrChanged):
		return statusError{orchestrator.ExitRefused, err}
	}
	var system syscall.Errno
	if errors.As(err, &system) {
		return statusError{orchestrator.ExitInfrastructure, err}
	}
	return usageError{err}
}

// scopeFlag lets a command choose one of the two files.
func scopeFlag(c *cobra.Command, scope *string, help string) {
	c.Flags().StringVar(scope, "scope", *scope, help+": project | user")
}

func checkScope(scope string) (mcp.Scope, error) {
	switch s := mcp.Scope(scope); s {
	case "", mcp.Project, mcp.User:
		return s, nil
	}
	return "", usagef("--scope %s: choose project or user", scope)
}

// The states of a server in a list.
const (
	stateUsable    = "usable"
	stateWithheld  = "withheld"
	stateUntrusted = "untrusted" // of a repository that is not trusted
	stateShadowed  = "shadowed"  // by the operator's of the same name
	stateUnusable  = "unusable"  // to be mended first
)

// An mcpDocument is a server in JSON.
type mcpDocument struct {
	Name          string        `json:"name"`
	Scope         mcp.Scope     `json:"scope"`
	State         string        `json:"state"`
	Reason        string        `json:"reason,omitempty"`
	Transport     mcp.Transport `json:"transport,omitempty"`
	Endpoint      string        `json:"endpoint,omitempty"`
	Credentials   []string      `json:"credentials"` // names only
	Granted       *bool         `json:"granted"`     // as the file says; null where it says nothing
	CandidateSafe bool          `json:"candidate_safe"`
	Login         string        `json:"login,omitempty"` // valid | expired; nothing where nobody logged in
	Reviewed      *time.Time    `json:"reviewed,omitempty"`
	Fingerprint   string        `json:"fingerprint,omitempty"`
	ReviewedTools *int          `json:"reviewed_tools,omitempty"`
	Title         string        `json:"title,omitempty"`
	Description   string        `json:"description,omitempty"`
	RegistryName  string        `json:"registry_name,omitempty"`
	Repository    string        `json:"repository,omitempty"`
	Version       string        `json:"version,omitempty"`

	url string // what a login is bound to; never shown
}

func jsonMCP(e mcp.Entry) mcpDocument {
	d := mcpDocument{
		Name: e.Name, Scope: e.Scope, State: stateUsable, Transport: e.Transport, Endpoint: e.Endpoint(),
		Credentials: append([]string{}, e.Credentials()...), Granted: e.Granted, CandidateSafe: e.CandidateSafe,
		Title: e.Title, Description: e.Description, RegistryName: e.RegistryName, Repository: e.Repository, Version: e.Version, url: e.URL,
	}
	if d.Reason = e.Withheld(); d.Reason != "" {
		d.State = stateWithheld
	}
	if r := e.Record; r != nil && !r.Revoked && !r.Agreed.IsZero() {
		n := len(r.Tools)
		d.Reviewed, d.ReviewedTools, d.Fingerprint = &r.Agreed, &n, r.Digest()
	}
	return d
}

// mcpList is every entry of both files, whatever may become of it, sorted by
// name, and the notices about the files.
func mcpList(s *store.Store) (docs []mcpDocument, notices []string, err error) {
	user, err := s.Read(mcp.User)
	if err != nil {
		return nil, nil, err
	}
	var project mcp.Config
	if s.Repository() {
		if project, err = s.Read(mcp.Project); err != nil {
			return nil, nil, err
		}
	}
	for scope, c := range map[mcp.Scope]mcp.Config{mcp.User: user, mcp.Project: project} {
		for _, server := range c.Servers {
			docs = append(docs, jsonMCP(mcp.Entry{Server: server, Scope: scope, Record: s.Record(scope, server.Name)}))
		}
		for _, u := range c.Unusable {
			docs = append(docs, mcpDocument{Name: u.Name, Scope: scope, State: stateUnusable, Reason: u.Reason, Credentials: []string{}})
		}
	}
	for i, d := range docs {
		switch {
		case d.Scope != mcp.Project:
		case user.Has(d.Name):
			docs[i].State, docs[i].Reason = stateShadowed, "the one of this name in "+store.Shown(mcp.User)+" counts"
		case d.State != stateUnusable && !s.Trusted():
			docs[i].State, docs[i].Reason = stateUntrusted, "this repository is not trusted (BESTOF_TRUST_PROJECT=1 trusts it)"
			if d.Reason != "" {
				docs[i].Reason += "; " + d.Reason
			}
		}
	}
	slices.SortFunc(docs, func(x, y mcpDocument) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), -cmp.Compare(x.Scope, y.Scope))
	})
	return docs, slices.Concat(user.Notices, project.Notices), nil
}

func (a *app) mcpListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the MCP servers that are configured, and which are withheld",
		Long: `Lists the servers of this repository and your own, with the names of the
credentials that they have and why one cannot be used. It connects to none of
them and needs no trust.`,
		Example: "  bestof mcp list\n  bestof mcp list --json",
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.mcpStore(c.Context())
			if err != nil {
				return err
			}
			docs, notices, err := mcpList(s)
			if err != nil {
				return mcpError(err)
			}
			a.notices(notices)
			if err := a.loginStates(docs); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]any{"schema": "bestof.mcp-servers/1", "servers": append([]mcpDocument{}, docs...), "notices": append([]string{}, notices...)})
			}
			if len(docs) == 0 {
				fmt.Fprintln(a.Out, "no MCP server is configured: `bestof mcp install NAME` installs one, `bestof mcp import FILE` takes them over")
				return nil
			}
			for _, d := range docs {
				fmt.Fprint(a.Out, d.lines())
			}
			return nil
		},
	}
}

// lines shows a server to a person.
func (d mcpDocument) lines() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format+"\n", args...) }
	fmt.Fprintf(&b, "%s  %s  %s\n", term.Clean(d.Name, 0), d.Scope, strings.TrimSpace(string(d.Transport)+"  "+d.State))
	if d.Reason != "" {
		line("%s", term.Clean(d.Reason, 0))
	}
	if d.Title != "" && d.Title != d.Name {
		line("title: %s", term.Clean(d.Title, 100))
	}
	if d.Endpoint != "" {
		line("%s", term.Clean(d.Endpoint, 0))
	}
	if len(d.Credentials) > 0 {
		line("has: %s", term.Clean(strings.Join(d.Credentials, ", "), 0))
	}
	switch d.Login {
	case "valid":
		line("logged in")
	case "expired":
		line("the login ended: log in again")
	}
	if d.Reviewed != nil {
		line("reviewed on %s, with %d tools", d.Reviewed.Local().Format("2006-01-02 15:04"), *d.ReviewedTools)
	}
	if d.CandidateSafe {
		line("candidates may reach it")
	}
	return b.String()
}

func (a *app) mcpRemoveCommand() *cobra.Command {
	scope := ""
	c := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove an MCP server from mcp.toml",
		Long: `Deletes the entry, and with it what you answered about it and its login. The
rest of the file stays as it is. It needs no trust and works on broken entries
too. If both files have the name, --scope says which.`,
		Example: "  bestof mcp remove docs\n  bestof mcp remove docs --scope user",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runMCPRemove(c.Context(), args[0], scope)
		},
	}
	scopeFlag(c, &scope, "the file that has it")
	return c
}

func (a *app) runMCPRemove(ctx context.Context, name, chosen string) error {
	s, err := a.mcpStore(ctx)
	if err != nil {
		return err
	}
	in, err := theScope(s, name, chosen)
	if err != nil {
		return err
	}
	if err := s.Remove(in, name); err != nil {
		return mcpError(err)
	}
	logins := 0
	if _, err := s.Find("", name); errors.Is(err, mcp.ErrNoServer) { // the other file has none of this name
		if logins, err = a.forgetLogin(ctx, name); err != nil {
			return fmt.Errorf("the entry is removed, but not its login: %w", err)
		}
	}
	if a.json {
		return a.printJSON(map[string]any{"schema": "bestof.mcp-remove/1", "removed": name, "scope": in, "logins": logins})
	}
	if logins > 0 {
		fmt.Fprintf(a.Out, "logged out of %s\n", term.Clean(name, 0))
	}
	fmt.Fprintf(a.Out, "removed %s from %s\n", term.Clean(name, 0), store.Shown(in))
	return nil
}

// theScope is the one file that has a name.
func theScope(s *store.Store, name, chosen string) (mcp.Scope, error) {
	scope, err := checkScope(chosen)
	if err != nil {
		return "", err
	}
	scopes := []mcp.Scope{mcp.User}
	if s.Repository() {
		scopes = append(scopes, mcp.Project)
	}
	if scope != "" {
		scopes = []mcp.Scope{scope}
	}
	var having []mcp.Scope
	for _, in := range scopes {
		c, err := s.Read(in)
		if err != nil {
			return "", mcpError(err)
		}
		if c.Has(name) {
			having = append(having, in)
		}
	}
	switch len(having) {
	case 0:
		return "", usagef("%w: %q (`bestof mcp list` lists them)", mcp.ErrNoServer, name)
	case 1:
		return having[0], nil
	}
	return "", usagef("both files have %q: choose with --scope project or --scope user", name)
}

func (a *app) mcpCandidateSafeCommand() *cobra.Command {
	scope, off := "", false
	c := &cobra.Command{
		Use:   "candidate-safe NAME",
		Short: "Let candidates reach an MCP server, or keep it from them",
		Long: `Sets candidate_safe in mcp.toml. Every candidate can then call the server, and
its tools without arguments are called once before the candidates begin. Say it
only of a server that you checked: it reads and changes nothing, and it does not
matter to it in which directory it runs. It is never guessed.`,
		Example: "  bestof mcp candidate-safe docs\n  bestof mcp candidate-safe docs --off",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.mcpStore(c.Context())
			if err != nil {
				return err
			}
			in, err := theScope(s, args[0], scope)
			if err != nil {
				return err
			}
			if err := s.SetCandidateSafe(in, args[0], !off); err != nil {
				return mcpError(err)
			}
			if a.json {
				return a.printJSON(map[string]any{"schema": "bestof.mcp-candidate-safe/1", "name": args[0], "scope": in, "candidate_safe": !off})
			}
			words := "may reach"
			if off {
				words = "do not reach"
			}
			fmt.Fprintf(a.Out, "candidates %s %s\n", words, term.Clean(args[0], 0))
			return nil
		},
	}
	c.Flags().BoolVar(&off, "off", false, "keep candidates from it again")
	scopeFlag(c, &scope, "the file that has it")
	return c
}
