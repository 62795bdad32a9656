package worktree

import (
	"context"
	"fmt"
	"os"
)

// TryAdopt looks whether an AdoptApply of a change would be refused now, and
// is the error with which it would be. Nothing is written.
func (r *Repository) TryAdopt(ctx context.Context, c Change) error {
	if err := r.refuse(ctx, c); err != nil {
		return err
	}
	root, err := os.OpenRoot(r.root)
	if err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	defer root.Close()
	_, err = plan(root, c, AdoptOptions{})
	return err
}
