package worktree

import (
	"context"
	"fmt"

	"github.com/bestof-dev/bestof/worktree/internal/gitexec"
)

// FreeBranch reports why a new branch cannot have the name: it is none that
// git takes, or it is taken.
func (r *Repository) FreeBranch(ctx context.Context, name string) error {
	if _, err := r.git.Run(ctx, "check-ref-format", "--branch", name); gitexec.Code(err) > 0 {
		return fmt.Errorf("%s is no name for a branch", quote(name))
	} else if err != nil {
		return fmt.Errorf("look at the branch %s: %w", quote(name), err)
	}
	_, err := r.git.Run(ctx, "show-ref", "--verify", "--quiet", "refs/heads/"+name)
	switch {
	case err == nil:
		return fmt.Errorf("there is a branch %s already", quote(name))
	case gitexec.Code(err) > 0:
		return nil
	default:
		return fmt.Errorf("look at the branch %s: %w", quote(name), err)
	}
}
