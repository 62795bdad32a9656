package worktree

import (
	"context"
	"fmt"
	"strings"

	"github.com/bestof-dev/bestof/worktree/internal/gitexec"
)

// FreeBranch reports why a new branch cannot have the name: it is none that
// git takes, it is taken, or one of another branch is in its way.
func (r *Repository) FreeBranch(ctx context.Context, name string) error {
	if _, err := r.git.Run(ctx, "check-ref-format", "--branch", name); gitexec.Code(err) > 0 || name == "HEAD" || strings.HasPrefix(name, "-") {
		return fmt.Errorf("%s is no name for a branch", quote(name))
	} else if err != nil {
		return fmt.Errorf("look at the branch %s: %w", quote(name), err)
	}
	branches, err := r.git.Run(ctx, "for-each-ref", "--format=%(refname)", "refs/heads/")
	if err != nil {
		return fmt.Errorf("look at the branch %s: %w", quote(name), err)
	}
	for line := range strings.Lines(string(branches)) {
		switch other := strings.TrimPrefix(strings.TrimSpace(line), "refs/heads/"); {
		case other == name:
			return fmt.Errorf("there is a branch %s already: choose another name", quote(name))
		case strings.HasPrefix(name, other+"/"), strings.HasPrefix(other, name+"/"):
			return fmt.Errorf("the branch %s is in the way of %s: choose another name", quote(other), quote(name))
		}
	}
	return nil
}
