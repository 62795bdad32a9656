package orchestrator

import (
	"context"
	"sync"

	"github.com/bestof-dev/bestof/worktree"
)

// A watch compares the user's repository with how it was, while candidates
// run. In a sandbox without a file system of its own a candidate could write
// there, and a change cannot be told from the user's own edit: so everyone who
// ran since the last look is a suspect.
//
// Where the sandbox hides the repository nobody is a suspect, and looking
// twice, at the start and at the end, is enough.
type watch struct {
	look   func(context.Context) (worktree.Fingerprint, error)
	hidden bool // from candidates, by their sandbox

	mu       sync.Mutex
	last     worktree.Fingerprint
	active   map[int]bool     // candidates running now
	suspects map[int][]string // what changed while they ran
	changed  []string         // everything that changed since the start
}

func newWatch(ctx context.Context, look func(context.Context) (worktree.Fingerprint, error), hidden bool) (*watch, error) {
	first, err := look(ctx)
	if err != nil {
		return nil, err
	}
	return &watch{look: look, hidden: hidden, last: first, active: map[int]bool{}, suspects: map[int][]string{}}, nil
}

// enter says that candidate n begins to run. It looks first, so that what
// changed before is not blamed on it.
func (w *watch) enter(ctx context.Context, n int) error {
	if w.hidden {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.check(ctx)
	w.active[n] = true
	return err
}

// leave says that nothing of candidate n runs any more, and returns what
// changed in the user's repository while it did.
func (w *watch) leave(ctx context.Context, n int) ([]string, error) {
	if w.hidden {
		return nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.check(ctx)
	delete(w.active, n)
	return w.suspects[n], err
}

// check looks again and puts what changed down to everyone active.
func (w *watch) check(ctx context.Context) error {
	now, err := w.look(ctx)
	if err != nil {
		return err
	}
	if diff := w.last.Diff(now); len(diff) > 0 {
		w.changed = append(w.changed, diff...)
		for n := range w.active {
			w.suspects[n] = append(w.suspects[n], diff...)
		}
	}
	w.last = now
	return nil
}

// sinceStart looks a last time and returns everything that changed since the
// first.
func (w *watch) sinceStart(ctx context.Context) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.check(ctx)
	return w.changed, err
}
