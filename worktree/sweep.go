package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// workName is the directory of a shadow that is an overlay's own. The kernel
// makes a directory "work" in it, closed and of whoever mounted; where that was
// an engine, only root removes it when something is left in it.
const workName = "tree-work"

// sweptPrefix begins the name of what a shadow of a run left to be swept.
const sweptPrefix = "work-"

// A Sweeper removes, with rights that this process has not, the directory
// "work" in each of the directories. It removes nothing else.
type Sweeper func(ctx context.Context, dirs []string) error

// unswept lists the directories in one of ours, and in those in it, whose
// "work" this process cannot remove. It removes those that it can.
func unswept(dir string) []string {
	if os.Geteuid() == 0 {
		return nil
	}
	var found []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		switch {
		case !e.IsDir():
			continue
		case e.Name() != workName && !strings.HasPrefix(e.Name(), sweptPrefix):
			at = filepath.Join(at, workName)
		}
		if fi, err := os.Lstat(at); err != nil || !fi.IsDir() {
			continue
		}
		work := filepath.Join(at, "work")
		if err := os.Remove(work); err == nil || errors.Is(err, fs.ErrNotExist) || os.Chmod(work, 0o700) == nil {
			continue // it is gone, or ours
		}
		found = append(found, at)
	}
	return found
}

// leaveWork takes what is to be swept out of a shadow that goes, for Close to
// sweep once for all.
func (sh *Shadow) leaveWork() error {
	if len(unswept(sh.dir)) == 0 {
		return nil
	}
	to := filepath.Join(sh.run.dir, sweptPrefix+filepath.Base(sh.dir))
	if err := os.Rename(filepath.Join(sh.dir, workName), to); err != nil {
		return fmt.Errorf("keep what is to be swept: %w", err)
	}
	return nil
}

// sweep has what is below a directory of ours swept. It returns what was left,
// which only the engine's root can remove, and why.
func sweep(ctx context.Context, dir string, by Sweeper) (left []string, err error) {
	dirs := unswept(dir)
	if len(dirs) == 0 {
		return nil, nil
	}
	if by == nil {
		return dirs, nil
	}
	err = by(ctx, dirs)
	return unswept(dir), err
}
