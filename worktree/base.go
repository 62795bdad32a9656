package worktree

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/gofrs/flock"

	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/worktree/internal/ignore"
)

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
	ShadowOverlay ShadowKind = "overlay" // the base below a private upper layer
	ShadowBtrfs   ShadowKind = "btrfs"   // a snapshot of the base's subvolume
	ShadowReflink ShadowKind = "reflink" // a copy that shares the blocks of larger files
	ShadowCopy    ShadowKind = "copy"
	// ShadowUserns is an overlay in a user namespace: programs see its Root
	// only when started through Enter.
	ShadowUserns ShadowKind = "userns"
	// ShadowEngine is an overlay that an engine mounts for each of its
	// containers: nobody else sees the tree.
	ShadowEngine ShadowKind = "engine"
)

// A BaseSpec says which base is wanted.
type BaseSpec struct {
	Kind     BaseKind
	Rev      string   // for BaseRev
	History  int      // commits visible in a shadow: 1 is the base alone, 0 is all
	SetupKey []string // argv of the setup command, part of the cache key
	// Setup runs once on a base that was just made, with the base's tree and
	// home. What it adds stays in the base's directory without being part of
	// its tree; what it does to files of the tree is undone.
	Setup  func(ctx context.Context, root, home string) error
	Shadow ShadowKind
	// Offline gives each userns shadow a network namespace with nothing but a
	// loopback, and its Entry an Offline: for sandboxes that cannot make one
	// there. It takes longer than all the rest of the shadow.
	Offline bool
	// TryEntry starts a program, as those of shadows will be, with the tree
	// root and an empty home inside of namespaces. Its error means that userns
	// shadows do not work here; when it is nil, nobody asks.
	TryEntry func(ctx context.Context, e Entry, root, home string) error
	// TryLayers is TryEntry for sandboxes that mount the layers of an Entry;
	// when it is nil, engine shadows do not work. Sweep removes what they leave
	// and this process may not remove.
	TryLayers func(ctx context.Context, e Entry, root, home string) error
	Sweep     Sweeper
	Exclude   []string // gitignore patterns of untracked files to leave out
	// Private makes a base that nobody else uses, before or after: for
	// programs that could write to it.
	Private bool
	// Shared lets private bases of one content be one, for all who name the
	// same word, until DropShared. Whoever uses one asks Intact before anything
	// rests on what was done with it. One that was written to is used no more.
	Shared string
}

// A Base is one tree on the host's disk, from which shadows are made. It may
// be used concurrently.
type Base struct {
	store   *Store
	dir     string
	about   about
	shadow  ShadowKind
	offline bool // as in the BaseSpec
	sweep   Sweeper
	entries []entry
	objects *Objects
	lock    *flock.Flock
	private bool       // it goes with its user
	shared  bool       // it is one of several users' who trust none of their programs
	known   *knownBase // what a shared one has in common with theirs
	durable bool
	rules   *ignore.Rules
	index   func() *lookup
	stamps  []stamp // of the files in the base's own tree

	mu   sync.Mutex
	warm []string // lower layers of homes, topmost first
}

// about is what is written down of a base.
type about struct {
	Schema string              `json:"schema"`
	Kind   BaseKind            `json:"kind"`
	Tree   TreeID              `json:"tree"`
	Commit string              `json:"commit"`
	Notes  []string            `json:"notes"`
	Dirty  []dirtyPath         `json:"dirty"`
	Rules  ruleText            `json:"rules"`
	Links  []bytestring.String `json:"submodules"`
	Home   bool                `json:"home"`   // setup left a home
	Stamps string              `json:"stamps"` // of its files and directories, as of stampsOf
}

const aboutSchema = "bestof.base/2"

const aboutFile = "base.json"

// A lookup finds what a tree has at a path.
type lookup struct {
	files map[string]int // position in entries
	trees map[string]oid // by directory, "" is the top
}

// Tree is the id of the base's tree.
func (b *Base) Tree() TreeID { return b.about.Tree }

// Commit is the commit that the base was made from or, for a snapshot, that
// was checked out; "" when there is none.
func (b *Base) Commit() string { return b.about.Commit }

// Files is how many files the tree has.
func (b *Base) Files() int { return len(b.entries) }

// Kind says what the base was made from.
func (b *Base) Kind() BaseKind { return b.about.Kind }

// ShadowKind is the kind of the shadows that are made of it.
func (b *Base) ShadowKind() ShadowKind { return b.shadow }

// Notes are sentences on what the base has not, or not in the usual way.
func (b *Base) Notes() []string { return slices.Clone(b.about.Notes) }

// Paths lists the files of the tree, sorted bytewise.
func (b *Base) Paths() []string {
	paths := make([]string, len(b.entries))
	for i, e := range b.entries {
		paths[i] = e.path
	}
	return paths
}

// Ignored reports whether a path that the tree does not have is left out of
// what is sealed.
func (b *Base) Ignored(path string, dir bool) bool { return b.rules.Match(path, dir) }

// Objects reads the base's objects and those sealed from its shadows.
func (b *Base) Objects() *Objects { return b.objects }

// ReadFile returns a file of the tree, or where a link points. A file larger
// than max bytes is an error.
func (b *Base) ReadFile(name string, max int64) ([]byte, error) {
	i, ok := b.index().files[name]
	if !ok {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	data, size, err := b.objects.read(b.entries[i].id, plumbing.BlobObject, max)
	if err == nil && size > max {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%d bytes are more than %d", size, max)}
	}
	return data, err
}

// Close lets gc take the base, and removes a private one. Its shadows must be
// gone.
func (b *Base) Close() error {
	var err error
	if b.private {
		err = b.store.discard(b.dir)
	}
	return errors.Join(err, b.lock.Unlock())
}

// privatePrefix begins the names of private bases.
const privatePrefix = "private-"

// Base returns the base that spec describes, from the cache or made now.
func (s *Store) Base(ctx context.Context, r *Repository, spec BaseSpec) (*Base, error) {
	kind, err := s.kind(ctx, spec, nil)
	if err != nil {
		return nil, err
	}
	var last error
	for range 4 { // a file that changes while it is read is read again
		b, err := s.tryBase(ctx, r, spec)
		if err == nil {
			if kind == ShadowAuto {
				if kind, err = s.kind(ctx, spec, b); err != nil {
					return nil, errors.Join(err, b.Close())
				}
			}
			b.shadow, b.offline, b.sweep = kind, spec.Offline, spec.Sweep
			return b, nil
		}
		if last = err; !errors.Is(err, errChanged) && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return nil, fmt.Errorf("make the base: %w", last)
}

func (s *Store) tryBase(ctx context.Context, r *Repository, spec BaseSpec) (*Base, error) {
	src, err := r.source(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer src.close()
	if r.sha256 && spec.History != 1 {
		return nil, errors.New("more history than the base itself is not available in a SHA-256 repository: use a history of 1")
	}
	if err := s.identify(ctx, src, r, spec.Private); err != nil {
		return nil, err
	}
	key, err := src.key(spec)
	if err != nil {
		return nil, err
	}
	shared := spec.Private && spec.Shared != ""
	switch {
	case shared:
		key = sharedKey(spec.Shared) + key
	case spec.Private:
		key = privatePrefix + rand.Text()
	}
	lock := flock.New(s.path("locks", key), flock.SetPermissions(0o600))
	var last error
	for range 10 {
		// Users of a base share its lock; who makes or evicts it has it alone.
		if _, err := lock.TryRLockContext(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
		load := s.loadBase
		if shared {
			load = s.loadShared
		}
		b, err := load(key)
		if err == nil {
			b.lock, b.private, b.shared = lock, spec.Private && !shared, shared
			if !b.durable && !spec.Private {
				s.makeDurable(b.dir)
			}
			return b, nil
		}
		last = err
		if err := lock.Unlock(); err != nil {
			return nil, err
		}
		if shared && s.has(key) { // written to: who uses it notices, and nobody else does
			key, shared = privatePrefix+rand.Text(), false
			lock = flock.New(s.path("locks", key), flock.SetPermissions(0o600))
			continue
		}
		if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
		if _, err := s.loadBase(key); err != nil { // absent, or spoilt
			if err := s.makeBase(ctx, r, src, spec, key); err != nil {
				return nil, errors.Join(err, lock.Unlock())
			}
		}
		// Between the two locks gc may have it: look again.
		if err := lock.Unlock(); err != nil {
			return nil, err
		}
	}
	return nil, last
}

func (r *Repository) source(ctx context.Context, spec BaseSpec) (*source, error) {
	switch spec.Kind {
	case BaseSnapshot:
		if r.bare {
			return nil, ErrNoWorkTree
		}
		return r.snapshot(ctx, spec.Exclude)
	case BaseHead:
		if r.head == "" {
			return nil, errors.New("there is no commit yet: use the tree as it is as the base")
		}
		return r.tree(ctx, r.head, spec.Exclude)
	case BaseRev:
		commit, err := r.commit(ctx, spec.Rev)
		if err != nil {
			return nil, err
		}
		return r.tree(ctx, commit, spec.Exclude)
	}
	return nil, fmt.Errorf("%q is no kind of base", spec.Kind)
}

// key names a base by everything that its content depends on.
func (src *source) key(spec BaseSpec) (string, error) {
	h := sha256.New()
	e := json.NewEncoder(h)
	entries := src.entries()
	builder := treeBuilder{}
	tree, err := builder.build("", entries)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(h, "base 1 %s %s\n", spec.Kind, tree)
	for _, f := range src.extra {
		fmt.Fprintf(h, "extra %q %o %s\n", f.path, f.mode, f.id)
	}
	if err := e.Encode([]any{src.commit, spec.History, spec.SetupKey, src.rules, src.notes, src.links}); err != nil {
		return "", err
	}
	for _, d := range src.dirty {
		fmt.Fprintf(h, "dirty %q\n", d)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (src *source) entries() []entry {
	out := make([]entry, len(src.files))
	for i, f := range src.files {
		out[i] = f.entry
	}
	return out
}

// loadBase opens a finished base.
func (s *Store) loadBase(key string) (*Base, error) {
	dir := s.path("bases", key)
	m, err := readMark(dir)
	if err != nil {
		return nil, err
	}
	if m.What != "base" {
		return nil, fmt.Errorf("%s is not a base", dir)
	}
	durable, err := survived(dir, m)
	if err != nil {
		return nil, err
	}
	b := &Base{store: s, dir: dir, objects: &Objects{}, durable: durable}
	text, err := os.ReadFile(filepath.Join(dir, aboutFile))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &b.about); err != nil || b.about.Schema != aboutSchema {
		return nil, fmt.Errorf("%s: base.json is not understood", dir)
	}
	if b.entries, err = readEntries(filepath.Join(dir, "entries")); err != nil {
		return nil, err
	}
	b.objects.open(filepath.Join(dir, "tree/.git"))
	b.objects.dirty = b.about.Dirty
	if b.rules, err = b.about.Rules.matcher(b.entries, func(e entry) ([]byte, error) { return b.objects.blob(e.id) }); err != nil {
		return nil, err
	}
	entries := b.entries // all that it keeps of b
	b.index = sync.OnceValue(func() *lookup { return newLookup(entries) })
	var stamps string
	if b.stamps, stamps, err = stampsOf(filepath.Join(dir, "tree"), b.entries); err != nil {
		return nil, err
	}
	if stamps != b.about.Stamps {
		return nil, fmt.Errorf("%s was written to after it was made", dir)
	}
	if b.about.Home {
		b.warm = []string{filepath.Join(dir, "home")}
	}
	now := time.Now()
	_ = os.Chtimes(filepath.Join(dir, markFile), now, now) // for eviction, least recently used first
	return b, nil
}

func newLookup(entries []entry) *lookup {
	l := &lookup{files: make(map[string]int, len(entries)), trees: make(map[string]oid)}
	for i, e := range entries {
		l.files[e.path] = i
	}
	builder := treeBuilder{emit: func(dir string, id oid, _ []byte) error {
		l.trees[dir] = id
		return nil
	}}
	_, _ = builder.build("", entries) // emit does not fail
	return l
}

func parseEntry(line string) (entry, error) {
	fields := strings.SplitN(line, " ", 4)
	if len(fields) != 4 {
		return entry{}, fmt.Errorf("%.80q is no entry", line)
	}
	mode, err1 := strconv.ParseUint(fields[0], 8, 32)
	id, err2 := parseOID(fields[1])
	size, err3 := strconv.ParseInt(fields[2], 10, 64)
	return entry{path: fields[3], mode: Mode(mode), id: id, size: size}, errors.Join(err1, err2, err3)
}

// writeEntries and readEntries keep the list of a base's files: mode, id,
// size and path, each file ended by a NUL byte.
func writeEntries(file string, entries []entry) error {
	var b bytes.Buffer
	b.Grow(100 * len(entries))
	var line []byte
	for _, e := range entries {
		line = strconv.AppendUint(line[:0], uint64(e.mode), 8)
		line = hex.AppendEncode(append(line, ' '), e.id[:])
		line = strconv.AppendInt(append(line, ' '), e.size, 10)
		b.Write(append(append(append(line, ' '), e.path...), 0))
	}
	return os.WriteFile(file, b.Bytes(), 0o600)
}

func readEntries(file string) ([]entry, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	entries := make([]entry, 0, len(text)/80)
	for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\x00"), "\x00") {
		if line == "" {
			continue
		}
		e, err := parseEntry(line)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}
