package session

import (
	"context"

	"github.com/bestof-dev/bestof/mcp"
)

// An upstream is one server that connected, and its further life.
type upstream struct {
	declared mcp.Declared
}

func connect(_, _ context.Context, server mcp.Server, _ Options) (*upstream, *Failure) {
	if err := mcp.CheckName(server.Name); err != nil {
		return nil, &Failure{Name: server.Name, Reason: err.Error()}
	}
	return nil, &Failure{Name: server.Name, Reason: "cannot be reached by this build"}
}

func (u *upstream) call(context.Context, mcp.Call) (mcp.Result, *mcp.CallError) {
	return mcp.Result{}, &mcp.CallError{Kind: mcp.Unavailable, Reason: "cannot be reached by this build"}
}

func (u *upstream) close() {}
