package tool

import (
	"context"
	"fmt"
	"sync"
)

// A Table is the live set that calls are resolved in. A reload replaces it
// whole or not at all. It may be used concurrently.
type Table struct {
	load func(context.Context) (Set, error) // nil: the set is frozen

	mu  sync.RWMutex
	set Set

	reloading chan struct{} // holds one token while a reload is under way
}

// NewTable starts with a set. load finds what is live now; nil freezes the set,
// so that all who ask see the same.
func NewTable(set Set, load func(context.Context) (Set, error)) *Table {
	return &Table{load: load, set: set, reloading: make(chan struct{}, 1)}
}

// Set is what is live.
func (t *Table) Set() Set {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.set
}

// Reload finds what is live. When that fails, the table stays as it was.
func (t *Table) Reload(ctx context.Context) (Set, error) {
	if t.load == nil {
		return Set{}, fmt.Errorf("the tools are the same for all candidates of a run, and stay so")
	}
	select {
	case t.reloading <- struct{}{}:
	case <-ctx.Done():
		return Set{}, context.Cause(ctx)
	}
	defer func() { <-t.reloading }()
	set, err := t.load(ctx)
	if err != nil {
		return Set{}, fmt.Errorf("the tools were not loaded again, and stay as they were: %w", err)
	}
	t.mu.Lock()
	t.set = set
	t.mu.Unlock()
	return set, nil
}

// Resolve finds a tool by its name. An unknown name reloads the table, once,
// and is looked for again before the error.
func (t *Table) Resolve(ctx context.Context, name Name) (Tool, Set, error) {
	set := t.Set()
	found, ok := set.Find(name)
	if ok || t.load == nil {
		return found, set, unknown(ok, name, set)
	}
	set, err := t.Reload(ctx)
	if err != nil {
		return Tool{}, t.Set(), err
	}
	found, ok = set.Find(name)
	return found, set, unknown(ok, name, set)
}

// An UnknownError says that no tool of a name is live.
type UnknownError struct {
	Name   Name
	Reason string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("no tool %q is live: %s", e.Name, e.Reason)
}

func unknown(known bool, name Name, set Set) error {
	if known {
		return nil
	}
	for _, s := range set.Skipped {
		if s.File == name.File() {
			return &UnknownError{name, s.String()}
		}
	}
	return &UnknownError{name, liveNames(set)}
}
