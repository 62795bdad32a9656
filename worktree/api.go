package worktree

import (
	"context"
	"errors"
	"time"
)

var errUnavailable = errors.New("worktree: not available in this build")

// An AdoptMode says what adopting does.
type AdoptMode string

// The modes.
const (
	AdoptApply  AdoptMode = "apply"  // write the changed paths into the user's work tree
	AdoptBranch AdoptMode = "branch" // commit them on a new branch
)

// AdoptOptions says how to adopt.
type AdoptOptions struct {
	Mode       AdoptMode
	Branch     string // for AdoptBranch
	Message    string
	BaseCommit string // the commit the base was made from, "" on an unborn branch
	BaseKind   BaseKind
	RunID      string
	JournalDir string
}

// Adopted is what an adoption made.
type Adopted struct {
	Tree           TreeID
	Commit, Branch string
}

// A MovedError names the paths that are no longer what the base had.
type MovedError struct{ Paths []string }

func (e *MovedError) Error() string { return "moved" }

// A RefusedError names a path that is never adopted.
type RefusedError struct{ Path, Reason string }

func (e *RefusedError) Error() string { return e.Path + ": " + e.Reason }

func (r *Repository) Adopt(ctx context.Context, o *Objects, c Change, opt AdoptOptions) (Adopted, error) {
	return Adopted{}, errUnavailable
}
func (r *Repository) Recover(ctx context.Context, journalDir string) (done []string, err error) {
	return nil, errUnavailable
}

// GCOptions says what a collection may remove.
type GCOptions struct {
	Keep         func(run string) bool // runs not to touch; nil keeps none
	MaxBaseBytes int64
	OlderThan    time.Duration
	Now          time.Time
	DryRun       bool
}

// A GCReport says what was, or would be, removed.
type GCReport struct {
	Runs, Bases, Trash, Mounts []string
	Bytes                      int64
}

// Usage is what the store takes on disk.
type Usage struct {
	Bases, Runs, Trash              int
	BaseBytes, RunBytes, TrashBytes int64
}

func (s *Store) GC(ctx context.Context, o GCOptions) (GCReport, error) {
	return GCReport{}, errUnavailable
}
func (s *Store) Usage(ctx context.Context) (Usage, error) { return Usage{}, errUnavailable }
