package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/mcp/registry"
	"github.com/bestof-dev/bestof/orchestrator"
)

// mcpSettings is [mcp] of config.toml. It counts only in the operator's file.
type mcpSettings struct {
	RegistryURL *string `toml:"registry_url"`
	ClientIDURL *string `toml:"client_id_url"` // an OAuth client id metadata document of the operator's
}

// mcpConfig is the operator's [mcp]. A repository has no say in where servers
// come from.
func (a *app) mcpConfig() (mcpSettings, error) {
	home, err := a.home()
	if err != nil {
		return mcpSettings{}, err
	}
	cfg, err := readConfig(home, "config.toml", filepath.Join(home, "config.toml"))
	return cfg.MCP, err
}

// registry is the client of the registry that the operator chose.
func (a *app) registry() (*registry.Client, error) {
	address := a.getenv("BESTOF_MCP_REGISTRY")
	if address == "" {
		cfg, err := a.mcpConfig()
		if err != nil {
			return nil, err
		}
		if address = registry.DefaultURL; cfg.RegistryURL != nil {
			address = *cfg.RegistryURL
		}
	}
	c, err := registry.NewClient(address, nil)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// registryError gives an error of a registry its exit status.
func registryError(ctx context.Context, err error) error {
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	case errors.Is(err, registry.ErrShortQuery):
		return usageError{err}
	case errors.Is(err, registry.ErrNotFound):
		return usagef("%w (`bestof mcp search` finds names)", err)
	}
	return statusError{orchestrator.ExitInfrastructure, err}
}

func (a *app) mcpSearchCommand() *cobra.Command {
	limit := 30
	c := &cobra.Command{
		Use:   "search QUERY…",
		Short: "Find MCP servers in a registry",
		Long: `Lists the servers of the registry whose names contain the query, each in its
latest version, with how it can be installed. The registry is the public one, or
registry_url below [mcp] in $BESTOF_HOME/config.toml, or BESTOF_MCP_REGISTRY.
What is listed was written by whoever published it.`,
		Example: "  bestof mcp search filesystem\n  bestof mcp search github --limit 5 --json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 1 || limit > 1000 {
				return usagef("--limit is %d: choose a number from 1 to 1000", limit)
			}
			return a.runMCPSearch(c.Context(), strings.Join(args, " "), limit)
		},
	}
	c.Flags().IntVar(&limit, "limit", limit, "list at most `N` servers")
	return c
}

// jsonFound is one server of `mcp search --json`.
type jsonFound struct {
	Name        string       `json:"name"`
	Title       string       `json:"title,omitempty"`
	Description string       `json:"description"`
	Version     string       `json:"version"`
	Status      string       `json:"status"`
	Message     string       `json:"message,omitempty"`
	Options     []jsonOption `json:"options"`
}

type jsonOption struct {
	Kind    string `json:"kind"`
	Label   string `json:"label"`
	Refused string `json:"refused,omitempty"`
}

func (a *app) runMCPSearch(ctx context.Context, query string, limit int) error {
	client, err := a.registry()
	if err != nil {
		return err
	}
	found, err := client.Search(ctx, query, limit)
	if err != nil {
		return registryError(ctx, err)
	}
	if found.Unread > 0 {
		a.warn("the registry lists %d entries that cannot be read", found.Unread)
	}
	list := make([]jsonFound, len(found.Entries))
	for i, e := range found.Entries {
		list[i] = jsonFound{
			Name: e.Server.Name, Title: e.Server.Title, Description: e.Server.Description, Version: e.Server.Version,
			Status: string(e.Status), Message: e.Message, Options: []jsonOption{},
		}
		options, _ := registry.Plan(e) // what cannot be installed says so itself
		for _, o := range options {
			list[i].Options = append(list[i].Options, jsonOption{string(o.Kind), o.Label, o.Refused})
		}
	}
	if a.json {
		return a.printJSON(map[string]any{"schema": "bestof.mcp-search/1", "query": query, "servers": list, "more": found.More})
	}
	for _, s := range list {
		fmt.Fprintln(a.Out, s.line())
		if s.Description != "" {
			fmt.Fprintf(a.Out, "    %s\n", term.Clean(s.Description, 100))
		}
	}
	switch {
	case len(list) == 0:
		fmt.Fprintf(a.Out, "no server's name contains %s\n", term.Clean(fmt.Sprintf("%q", query), 200))
		return nil
	case found.More:
		fmt.Fprintf(a.Out, "there are more: --limit %d lists them\n", min(2*limit, 1000))
	}
	fmt.Fprintln(a.Out, "install one with `bestof mcp install NAME`")
	return nil
}

// line is the first line of a server in a list.
func (s jsonFound) line() string {
	var kinds []string
	for _, o := range s.Options {
		if o.Refused == "" && !slices.Contains(kinds, o.Kind) {
			kinds = append(kinds, o.Kind)
		}
	}
	line := fmt.Sprintf("%s  %s  [%s]", term.Clean(s.Name, 0), term.Clean(s.Version, 40), strings.Join(kinds, ", "))
	if len(kinds) == 0 {
		line = fmt.Sprintf("%s  %s  cannot be installed", term.Clean(s.Name, 0), term.Clean(s.Version, 40))
	}
	if s.Status != string(registry.Active) {
		line += "  " + term.Clean(strings.TrimSuffix(s.Status+": "+s.Message, ": "), 100).String()
	}
	return line
}
