package worktree

import (
	"context"
	"errors"
	"io"
	"time"
)

var errUnavailable = errors.New("worktree: not available in this build")

// A BaseKind says what a base is made from.
type BaseKind string

// The kinds of base.
const (
	BaseSnapshot BaseKind = "snapshot" // the tree as the user sees it
	BaseHead     BaseKind = "head"     // the commit that is checked out
	BaseRev      BaseKind = "rev"      // any commit
)

// A ShadowKind says how a shadow shares the base's files.
type ShadowKind string

// The kinds of shadow; ShadowAuto takes the first that works.
const (
	ShadowAuto    ShadowKind = ""
	ShadowOverlay ShadowKind = "overlay"
	ShadowCopy    ShadowKind = "copy"
)

// A BaseSpec says which base is wanted.
type BaseSpec struct {
	Kind     BaseKind
	Rev      string   // for BaseRev
	History  int      // commits visible in a shadow: 1 is the base alone, 0 is all
	SetupKey []string // argv of the setup command, part of the cache key
	// Setup runs once on a base that was just made, with the base's tree and
	// home. What it leaves there that is not part of the tree stays in the base.
	Setup   func(ctx context.Context, root, home string) error
	Shadow  ShadowKind
	Exclude []string // gitignore patterns of untracked files to leave out
}

type Repository struct{}

func Open(ctx context.Context, dir string) (*Repository, error) { return nil, errUnavailable }
func (r *Repository) Root() string                              { return "" }
func (r *Repository) Prefix() string                            { return "" }
func (r *Repository) Head() string                              { return "" }
func (r *Repository) Branch() string                            { return "" }
func (r *Repository) Identity(ctx context.Context) (name, email string, err error) {
	return "", "", errUnavailable
}
func (r *Repository) Fingerprint(ctx context.Context) (Fingerprint, error) {
	return Fingerprint{}, errUnavailable
}

type Fingerprint struct{}

func (f Fingerprint) Diff(g Fingerprint) []string { return nil }

type Store struct{}

func OpenStore(dir string) (*Store, error) { return nil, errUnavailable }
func (s *Store) Base(ctx context.Context, r *Repository, spec BaseSpec) (*Base, error) {
	return nil, errUnavailable
}

type Base struct{}

func (b *Base) Tree() TreeID                                    { return "" }
func (b *Base) Commit() string                                  { return "" }
func (b *Base) Files() int                                      { return 0 }
func (b *Base) Kind() BaseKind                                  { return "" }
func (b *Base) ShadowKind() ShadowKind                          { return "" }
func (b *Base) Notes() []string                                 { return nil }
func (b *Base) Paths() []string                                 { return nil }
func (b *Base) ReadFile(path string, max int64) ([]byte, error) { return nil, errUnavailable }
func (b *Base) Objects() *Objects                               { return nil }
func (b *Base) Ignored(path string, dir bool) bool              { return false }
func (b *Base) Warm(ctx context.Context, sh *Shadow) error      { return errUnavailable }

func (s *Store) NewRun(ctx context.Context, id, recordDir string) (*Run, error) {
	return nil, errUnavailable
}

type Run struct{}

func (r *Run) NewShadow(ctx context.Context, b *Base, name string) (*Shadow, error) {
	return nil, errUnavailable
}
func (r *Run) NewVerification(ctx context.Context, b *Base, name string, tree TreeID, protected func(path string) bool) (*Shadow, error) {
	return nil, errUnavailable
}
func (r *Run) Close(ctx context.Context) error { return errUnavailable }

type Shadow struct{}

func (sh *Shadow) Root() string     { return "" }
func (sh *Shadow) Home() string     { return "" }
func (sh *Shadow) Kind() ShadowKind { return "" }
func (sh *Shadow) Seal(ctx context.Context, l Limits) (*Sealed, error) {
	return nil, errUnavailable
}
func (sh *Shadow) Remove(ctx context.Context) error { return errUnavailable }

// Limits bounds what a seal accepts. A zero field means its default.
type Limits struct {
	Files int   // changed files
	Bytes int64 // bytes in all changed files
	File  int64 // bytes in one file
	Depth int   // directories above a file
}

// Sealed is a candidate's tree, read back.
type Sealed struct {
	Tree   TreeID
	Change Change
	Notes  []string
}

// A SealError says which path a tree was refused for.
type SealError struct{ Path, Reason string }

func (e *SealError) Error() string { return "seal: " + e.Path + ": " + e.Reason }

type Objects struct{}

func OpenObjects(dir string) (*Objects, error) { return nil, errUnavailable }
func (o *Objects) Diff(ctx context.Context, base, tree TreeID) (Change, error) {
	return Change{}, errUnavailable
}
func (o *Objects) Patch(ctx context.Context, w io.Writer, c Change) error { return errUnavailable }
func (o *Objects) Blob(id string, max int64) (data []byte, truncated bool, err error) {
	return nil, false, errUnavailable
}
func (o *Objects) Keep(ctx context.Context, dir string, c Change) error { return errUnavailable }

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

// A Capability says whether a kind of shadow works in a directory.
type Capability struct {
	Kind   ShadowKind
	Works  bool
	Reason string // why not
}

func (s *Store) GC(ctx context.Context, o GCOptions) (GCReport, error) {
	return GCReport{}, errUnavailable
}
func (s *Store) Usage(ctx context.Context) (Usage, error)       { return Usage{}, errUnavailable }
func Capabilities(ctx context.Context, dir string) []Capability { return nil }
