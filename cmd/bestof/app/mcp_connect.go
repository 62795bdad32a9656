package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/login"
	mcpsession "github.com/bestof-dev/bestof/mcp/session"
	"github.com/bestof-dev/bestof/worktree"
)

// firstBudget is how long a server may take that a person looks at: its runner
// may fetch the package now. In a run it has mcp.ConnectBudget.
const firstBudget = 2 * time.Minute

// mcpHandshake connects to one server as a run would, and ends it again.
func (a *app) mcpHandshake(ctx context.Context, server mcp.Server) (mcp.Declared, error) {
	dir, err := filepath.Abs(a.dir)
	if err != nil {
		return mcp.Declared{}, err
	}
	if repo, err := worktree.Open(ctx, a.dir); err == nil {
		dir = repo.Root()
	}
	s := mcpsession.Connect(ctx, []mcp.Server{server}, mcpsession.Options{
		Dir: dir, Path: a.getenv("PATH"), Version: version(), Tokens: a.mcpTokens(), ConnectBudget: firstBudget,
	})
	defer s.Close()
	for _, f := range s.Failed() {
		if f.NeedsLogin {
			return mcp.Declared{}, fmt.Errorf("it wants a login: run `bestof mcp login %s` first", mcp.QuotedWord(server.Name))
		}
		return mcp.Declared{}, errors.New(f.Words())
	}
	for _, d := range s.Servers() {
		return d, nil
	}
	return mcp.Declared{}, context.Cause(ctx)
}

// forgetLogin logs out of a server whose entry is gone. That there was no login
// is fine; one that cannot be forgotten is said.
func (a *app) forgetLogin(ctx context.Context, name string) (forgotten int, err error) {
	home, err := a.home()
	if err != nil {
		return 0, err
	}
	f, err := login.Logout(ctx, login.NewStore(home), name)
	if errors.Is(err, login.ErrNoLogin) {
		return 0, nil
	}
	for _, e := range f.Failed {
		a.warn("a login of %s was forgotten here, but not taken back: %v", term.Clean(name, 0), e)
	}
	return f.Forgotten, err
}

// loginStates says of the HTTP servers of a list whether somebody logged in.
func (a *app) loginStates(docs []mcpDocument) error {
	home, err := a.home()
	if err != nil {
		return err
	}
	logins := login.NewStore(home)
	for i, d := range docs {
		if d.Transport != mcp.HTTP || d.url == "" {
			continue
		}
		state, err := logins.State(mcp.Server{Name: d.Name, URL: d.url}, time.Now())
		if err != nil {
			a.warn("the login of %s: %v", term.Clean(d.Name, 0), err)
		} else if state != login.None {
			docs[i].Login = string(state)
		}
	}
	return nil
}
