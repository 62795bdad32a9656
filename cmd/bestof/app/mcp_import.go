package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/stricttoml"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/store"
)

func (a *app) mcpImportCommand() *cobra.Command {
	scope, dry := "", false
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Take MCP servers over from another program's file",
		Long: `Reads a .stella/mcp.toml, or a JSON file as Claude (.mcp.json, mcpServers) and
VS Code (mcp.json, servers) write it, and says of each entry what was taken and
what was left. Everything that is taken is withheld until you grant it. Values
are literal here, so what refers to ${VARIABLES} is left out. An entry whose
name mcp.toml has already is left.`,
		Example: "  bestof mcp import .mcp.json --dry-run\n  bestof mcp import .vscode/mcp.json --scope user",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runMCPImport(c.Context(), a.at(args[0]), scope, dry)
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "write nothing")
	scopeFlag(c, &scope, "where the servers are written (default: project inside a repository)")
	return c
}

// whereToWrite is the file that new entries go to.
func whereToWrite(s *store.Store, chosen string) (mcp.Scope, error) {
	scope, err := checkScope(chosen)
	switch {
	case err != nil:
		return "", err
	case scope == mcp.Project && !s.Repository():
		return "", usageError{store.ErrNoRepository}
	case scope == "" && s.Repository():
		return mcp.Project, nil
	case scope == "":
		return mcp.User, nil
	}
	return scope, nil
}

// An importedDocument is what became of one entry.
type importedDocument struct {
	Name   string       `json:"name"`
	Taken  bool         `json:"taken"`
	Server *mcpDocument `json:"server,omitempty"`
	Notes  []string     `json:"notes"`
}

func (a *app) runMCPImport(ctx context.Context, file, chosen string, dry bool) error {
	s, err := a.mcpStore(ctx)
	if err != nil {
		return err
	}
	scope, err := whereToWrite(s, chosen)
	if err != nil {
		return err
	}
	data, err := readImport(file)
	if err != nil {
		return usageError{err}
	}
	entries, notices, err := mcp.Import(filepath.Base(file), data)
	if err != nil {
		return usageError{err}
	}
	docs, err := takeOver(s, scope, entries, dry)
	if err != nil {
		return mcpError(err)
	}
	if !dry {
		notices = append(notices, exposed(scope, docs)...)
	}
	a.notices(notices)
	taken := 0
	for _, d := range docs {
		if d.Taken {
			taken++
		}
	}
	if a.json {
		if err := a.printJSON(map[string]any{"schema": "bestof.mcp-import/1", "dry_run": dry, "file": store.Shown(scope), "entries": docs}); err != nil {
			return err
		}
	} else {
		a.printImported(docs, scope, dry)
	}
	if len(docs) > 0 && taken == 0 {
		return statusError{code: exitStatus(usageError{}), err: nil}
	}
	return nil
}

// takeOver writes the servers one by one. A name that is there already is left.
func takeOver(s *store.Store, scope mcp.Scope, entries []mcp.Imported, dry bool) ([]importedDocument, error) {
	config, err := s.Read(scope)
	if err != nil {
		return nil, err
	}
	docs := make([]importedDocument, len(entries))
	for i, e := range entries {
		docs[i] = importedDocument{Name: e.Name, Notes: append([]string{}, e.Notes...)}
		if e.Server == nil {
			continue
		}
		err := store.ErrTaken
		if !config.Has(e.Name) {
			if err = nil; !dry {
				err = s.Add(scope, *e.Server)
			}
		}
		switch {
		case errors.Is(err, store.ErrTaken):
			docs[i].Notes = []string{store.ErrTaken.Error()}
		case err != nil:
			return nil, err
		default:
			d := jsonMCP(mcp.Entry{Server: *e.Server, Scope: scope})
			docs[i].Taken, docs[i].Server = true, &d
		}
	}
	return docs, nil
}

// exposed says once that values went into a file that a repository may track.
func exposed(scope mcp.Scope, docs []importedDocument) []string {
	var names []string
	for _, d := range docs {
		if d.Taken && len(d.Server.Credentials) > 0 {
			names = append(names, d.Name)
		}
	}
	if scope == mcp.User || len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s holds values of variables or headers of %s: keep it out of commits, or import with --scope user", store.Shown(scope), strings.Join(names, ", "))}
}

func (a *app) printImported(docs []importedDocument, scope mcp.Scope, dry bool) {
	verb := "taken"
	if dry {
		verb = "would be taken"
	}
	for _, d := range docs {
		name := term.Clean(d.Name, 0)
		if !d.Taken {
			fmt.Fprintf(a.Out, "left   %s: %s\n", name, term.Clean(strings.Join(d.Notes, "; "), 0))
			continue
		}
		fmt.Fprintf(a.Out, "%-6s %s  %s  %s\n", verb, name, d.Server.Transport, term.Clean(d.Server.Endpoint, 0))
		for _, n := range d.Notes {
			fmt.Fprintf(a.Out, "       %s\n", term.Clean(n, 0))
		}
	}
	if len(docs) == 0 {
		fmt.Fprintln(a.Out, "the file has no server")
		return
	}
	if !dry && slices.ContainsFunc(docs, func(d importedDocument) bool { return d.Taken }) {
		fmt.Fprintf(a.Out, "what was taken is in %s and withheld: `bestof mcp grant NAME` shows what a server declares\n", store.Shown(scope))
	}
}

// readImport reads a file of the user's choice.
func readImport(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return io.ReadAll(io.LimitReader(f, stricttoml.MaxSize+1))
}
