package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/bestof-dev/bestof/mcp"
	mcpsession "github.com/bestof-dev/bestof/mcp/session"
	"github.com/bestof-dev/bestof/worktree"
)

// mcpHandshake connects to one server as a run would, and ends it again.
func (a *app) mcpHandshake(ctx context.Context, server mcp.Server) (mcp.Declared, error) {
	dir := ""
	if repo, err := worktree.Open(ctx, a.dir); err == nil {
		dir = repo.Root()
	}
	s := mcpsession.Connect(ctx, []mcp.Server{server}, mcpsession.Options{Dir: dir, Path: a.getenv("PATH"), Version: version(), Tokens: a.mcpTokens()})
	defer s.Close()
	for _, f := range s.Failed() {
		if f.NeedsLogin {
			return mcp.Declared{}, fmt.Errorf("it wants a login: run `bestof mcp login %s` first", server.Name)
		}
		return mcp.Declared{}, errors.New(f.Reason)
	}
	for _, d := range s.Servers() {
		return d, nil
	}
	return mcp.Declared{}, context.Cause(ctx)
}
