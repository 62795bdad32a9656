package orchestrator

import (
	"context"
	"slices"
)

// A watch compares the user's repository with how it was, while candidates of
// one run work. In a sandbox without a file system of its own a candidate could
// write there, and a change cannot be told from the user's own edit: so everyone
// who ran since the last look, or began up to a second after it, is a suspect.
//
// Where the sandbox hides the repository nobody is a suspect, and looking
// twice, at the start and at the end, is enough.
type watch struct {
	*Lookout
	hidden bool // from candidates, by their sandbox

	// Guarded by the lookout's mu.
	ran      int64            // looks that had begun when a program of the run ended
	active   map[int]int      // programs of candidates that run now
	suspects map[int][]string // what changed while they ran
	changed  []string         // everything that changed since the start
}

func newWatch(ctx context.Context, l *Lookout, hidden bool) (*watch, error) {
	w := &watch{Lookout: l, hidden: hidden, active: map[int]int{}, suspects: map[int][]string{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.lately(ctx, 0); err != nil {
		return nil, err
	}
	l.watches[w] = true
	w.ran = l.begun
	return w, nil
}

// end says that nobody asks any more, and that no program of the run runs: not
// those either of whom nobody said that they left.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.watches, w)
	for _, programs := range w.active {
		w.working -= programs
	}
	clear(w.active)
}

// quiet says that nothing which the run started itself runs any more: what it
// did is not put down to a candidate that enters later.
func (w *watch) quiet() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran = w.begun
}

// enter says that a program of candidate n is about to run. There is a look
// before it, so that what changed earlier is not blamed on it.
func (w *watch) enter(ctx context.Context, n int) error {
	if w.hidden {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.lately(ctx, w.ran); err != nil {
		return err
	}
	w.active[n]++
	w.working++
	return nil
}

// leave says that nothing of that program runs any more. It looks, and returns
// what changed in the user's repository while programs of candidate n ran.
func (w *watch) leave(ctx context.Context, n int) ([]string, error) {
	if w.hidden {
		return nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran = w.begun
	err := w.left(ctx)
	w.active[n]--
	return slices.Clone(w.suspects[n]), err
}

// note puts what changed down to everyone active.
func (w *watch) note(diff []string) {
	w.changed = append(w.changed, diff...)
	for n, programs := range w.active {
		if programs > 0 {
			w.suspects[n] = append(w.suspects[n], diff...)
		}
	}
}

// sinceStart returns everything that changed since the watch began, up to a
// look after all that the run started had ended.
func (w *watch) sinceStart(ctx context.Context) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.lately(ctx, w.ran)
	return slices.Clone(w.changed), err
}
