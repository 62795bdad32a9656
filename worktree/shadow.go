package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/internal/proc"
)

// A Run owns the shadows of one run. Its methods may be called concurrently.
type Run struct {
	store *Store
	dir   string

	mu      sync.Mutex
	holders []*holder
	sweep   Sweeper // of the bases that shadows were made of
}

// NewRun claims the name of a run. Of several processes that try at once, one
// gets it; the error of the others is fs.ErrExist.
func (s *Store) NewRun(ctx context.Context, id, recordDir string) (*Run, error) {
	if !validID.MatchString(id) {
		return nil, fmt.Errorf("start run: %q is no name for one", id)
	}
	owner, err := proc.Self()
	if err != nil {
		return nil, fmt.Errorf("start run %s: %w", id, err)
	}
	m := mark{What: "run", Run: id, Record: recordDir, Owner: owner}
	work, err := s.newWork(m)
	if err == nil {
		err = os.MkdirAll(filepath.Join(work, "git/objects/pack"), 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("start run %s: %w", id, err)
	}
	r := &Run{store: s, dir: s.path("runs", id)}
	if err := unix.Renameat2(unix.AT_FDCWD, work, unix.AT_FDCWD, r.dir, unix.RENAME_NOREPLACE); err != nil {
		return nil, errors.Join(fmt.Errorf("start run %s: %w", id, err), s.discard(work))
	}
	return r, nil
}

// Dir is the directory that all shadows of the run and their homes are in.
func (r *Run) Dir() string { return r.dir }

// Close removes the run's shadows and what was sealed from them. What is to
// stay must have been kept before.
func (r *Run) Close(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.holders {
		h.stop()
	}
	if _, err := unmountBelow(r.dir); err != nil {
		return fmt.Errorf("close run: %w", err)
	}
	_, err := sweep(ctx, r.dir, r.sweep)
	if err = errors.Join(err, r.store.discard(r.dir)); err != nil {
		return fmt.Errorf("close run: %w", err)
	}
	return nil
}

// A Shadow is a copy of a base that one program may do anything to: a
// repository of its own with the base checked out, and a private home.
type Shadow struct {
	run  *Run
	base *Base
	kind ShadowKind
	dir  string
	top  stamp // of the directory that a seal reads

	stamps []stamp // by entry of the base, for copies
	mounts []layers
	holder *holder // for userns
	entry  Entry   // likewise
	notes  []string

	mu   sync.Mutex
	gone bool
}

// NewShadow makes a shadow of b. The name is one of its own within the run.
func (r *Run) NewShadow(ctx context.Context, b *Base, name string) (*Shadow, error) {
	if !validID.MatchString(name) || name == "git" || name == markFile || strings.HasPrefix(name, "warm-") || strings.HasPrefix(name, sweptPrefix) {
		return nil, fmt.Errorf("make shadow: %q is no name for one", name)
	}
	sh := &Shadow{run: r, base: b, kind: b.shadow, dir: filepath.Join(r.dir, name)}
	if err := os.Mkdir(sh.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make shadow: %w", err)
	}
	if b.sweep != nil {
		r.mu.Lock()
		r.sweep = b.sweep
		r.mu.Unlock()
	}
	if err := sh.make(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("make shadow %s: %w", name, err), sh.Remove(context.WithoutCancel(ctx)))
	}
	return sh, nil
}

func (sh *Shadow) make(ctx context.Context) error {
	if err := sh.makeHome(ctx); err != nil {
		return err
	}
	tree := filepath.Join(sh.base.dir, "tree")
	if sh.kind == ShadowBtrfs {
		if err := snapshotTree(tree, sh.Root()); err != nil {
			return err
		}
		return sh.opened(sh.Root())
	}
	if err := os.Mkdir(sh.Root(), 0o755); err != nil {
		return err
	}
	if sh.kind == ShadowEngine {
		return sh.makeLayers(tree)
	}
	if sh.kind == ShadowOverlay || sh.kind == ShadowUserns {
		if err := sh.layer("tree", []string{tree}, sh.Root(), 0o755); err != nil {
			return err
		}
		if sh.kind == ShadowUserns {
			h, err := startHolder(sh.mounts, sh.base.offline)
			if err != nil {
				return err
			}
			sh.holder = h
			sh.run.mu.Lock()
			sh.run.holders = append(sh.run.holders, h)
			sh.run.mu.Unlock()
			if sh.entry, err = h.entry(); err != nil {
				return err
			}
		}
		return sh.opened(filepath.Join(sh.dir, "tree-upper"))
	}
	files := sh.base.index().files
	sh.stamps = make([]stamp, len(sh.base.entries))
	if err := copyTree(ctx, tree, sh.Root(), sh.kind == ShadowReflink, func(rel string, s stamp) {
		if i, ok := files[rel]; ok {
			sh.stamps[i] = s
		}
	}); err != nil {
		return err
	}
	// The copied index has the stamps of the base's files. With those of the
	// copies, the first git status reads nothing.
	index := encodeIndex(sh.base.entries, sh.stamps, sh.base.index().trees)
	if err := os.WriteFile(filepath.Join(sh.Root(), ".git/index"), index, 0o644); err != nil {
		return err
	}
	return sh.opened(sh.Root())
}

// makeLayers makes an overlay for somebody else to mount.
func (sh *Shadow) makeLayers(lower string) error {
	sh.entry = Entry{Lower: lower, Upper: filepath.Join(sh.dir, "tree-upper"), Work: filepath.Join(sh.dir, workName)}
	if !plainPath(lower) || !plainPath(sh.dir) {
		return errors.New("the path has a character that separates the options of a mount")
	}
	if err := errors.Join(os.Mkdir(sh.entry.Upper, 0o755), os.Mkdir(sh.entry.Work, 0o700)); err != nil {
		return err
	}
	return sh.opened(sh.entry.Upper)
}

// opened remembers the directory that a seal will read.
func (sh *Shadow) opened(dir string) error {
	s, _, err := lstat(dir)
	sh.top = s
	return err
}

// layer mounts an overlay whose upper and work directory are named after what.
func (sh *Shadow) layer(what string, lowers []string, target string, perm os.FileMode) error {
	upper, work := filepath.Join(sh.dir, what+"-upper"), filepath.Join(sh.dir, what+"-work")
	for dir, perm := range map[string]os.FileMode{upper: perm, work: 0o700} {
		if err := os.Mkdir(dir, perm); err != nil {
			return err
		}
	}
	if sh.kind == ShadowUserns {
		sh.mounts = append(sh.mounts, layers{lowers, upper, work, target})
		return nil
	}
	return mountOverlay(lowers, upper, work, target, ownMarks)
}

func (sh *Shadow) makeHome(ctx context.Context) error {
	if err := os.Mkdir(sh.Home(), 0o700); err != nil {
		return err
	}
	sh.base.mu.Lock()
	warm := append([]string{}, sh.base.warm...)
	sh.base.mu.Unlock()
	if len(warm) == 0 {
		return nil
	}
	if sh.kind == ShadowOverlay || sh.kind == ShadowUserns {
		return sh.layer("home", warm, sh.Home(), 0o700)
	}
	return copyTree(ctx, warm[0], sh.Home(), sh.kind == ShadowReflink || sh.kind == ShadowBtrfs, nil)
}

// Root is the directory of the tree, for programs that are started with what
// Enter returns before their command line.
func (sh *Shadow) Root() string { return filepath.Join(sh.dir, "root") }

// Home is a private directory beside the tree. It starts as what setup and
// Warm left.
func (sh *Shadow) Home() string { return filepath.Join(sh.dir, "home") }

// Kind says how the shadow shares the base's files.
func (sh *Shadow) Kind() ShadowKind { return sh.kind }

// Notes are sentences on how a verification differs from what was sealed.
func (sh *Shadow) Notes() []string { return sh.notes }

// Remove takes the shadow away. It may be called twice.
func (sh *Shadow) Remove(ctx context.Context) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.gone {
		return nil
	}
	if _, err := unmountBelow(sh.dir); err != nil {
		return fmt.Errorf("remove shadow: %w", err)
	}
	if sh.holder != nil {
		sh.holder.stop()
		sh.holder = nil
	}
	if sh.kind == ShadowEngine {
		if err := sh.leaveWork(); err != nil {
			return fmt.Errorf("remove shadow: %w", err)
		}
	}
	if sh.kind == ShadowBtrfs {
		_ = subvolume(btrfsDestroy, sh.Root(), 0) // quick; what stays is deleted file by file
	}
	if err := sh.run.store.discard(sh.dir); err != nil {
		return fmt.Errorf("remove shadow: %w", err)
	}
	sh.gone = true
	return nil
}

// Warm keeps the home of sh for the homes of later shadows of the same run,
// and takes it from sh. No candidate may have run in sh.
func (b *Base) Warm(ctx context.Context, sh *Shadow) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	to := filepath.Join(sh.run.dir, "warm-"+filepath.Base(sh.dir))
	from, layered := sh.Home(), false
	if (sh.kind == ShadowOverlay || sh.kind == ShadowUserns) && len(b.warm) > 0 {
		if sh.holder != nil {
			sh.holder.stop() // which takes the tree away too
			sh.holder = nil
		} else if err := unmount(sh.Home()); err != nil {
			return fmt.Errorf("keep a warm home: %w", err)
		}
		from, layered = filepath.Join(sh.dir, "home-upper"), true
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("keep a warm home: %w", err)
	}
	if layered {
		b.warm = append([]string{to}, b.warm...)
	} else {
		b.warm = []string{to}
	}
	return nil
}

// Seal reads the tree of a shadow in which nothing runs any more. Its error is
// a *SealError when the tree is refused, which is the candidate's doing.
func (sh *Shadow) Seal(ctx context.Context, l Limits) (*Sealed, error) { return sh.seal(ctx, l, false) }

// SealAll is Seal by reading every file there is. It finds what came into the
// tree from outside of the shadow, through the base: where programs run with
// the rights of this process, they can write there.
func (sh *Shadow) SealAll(ctx context.Context, l Limits) (*Sealed, error) {
	return sh.seal(ctx, l, true)
}

func (sh *Shadow) seal(ctx context.Context, l Limits, all bool) (*Sealed, error) {
	b := sh.base
	git := filepath.Join(sh.run.dir, "git")
	to, err := newPack(filepath.Join(git, "objects/pack"))
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	w := walker{entries: b.entries, lookup: b.index(), rules: b.rules, limits: l.over(b.entries), to: to, fresh: make(map[string][]byte)}
	dir, top := sh.Root(), &sh.top
	switch {
	case sh.kind == ShadowEngine: // whoever runs in it reaches no base
		w.overlay, dir = "user.overlay.", sh.entry.Upper
	case all:
		dir, top = sh.HostRoot(), nil
	case sh.kind == ShadowOverlay || sh.kind == ShadowUserns:
		w.overlay, dir = "trusted.overlay.", filepath.Join(sh.dir, "tree-upper")
		if sh.kind == ShadowUserns {
			w.overlay = "user.overlay."
		}
	case sh.kind == ShadowBtrfs:
		w.unchanged = unchanged(b.entries, b.stamps)
	default:
		w.unchanged = unchanged(b.entries, sh.stamps)
	}
	tree, err := w.seal(ctx, dir, top)
	if err != nil {
		to.abandon()
		return nil, err
	}
	if err := to.close(); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	b.objects.reopen(git)
	s := &Sealed{Tree: TreeID(tree.String()), Notes: w.notes(b)}
	s.Change = Change{Base: b.Tree(), Tree: s.Tree, Files: w.fileChanges()}
	if err := b.objects.count(ctx, &s.Change, w.fresh); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	for _, link := range b.about.Links {
		for _, f := range s.Change.Files {
			if f.Path == string(link) || strings.HasPrefix(f.Path, string(link)+"/") {
				s.Notes = append(s.Notes, fmt.Sprintf("changed inside the submodule %s, which cannot be adopted: %s", quote(string(link)), quote(f.Path)))
			}
		}
	}
	return s, nil
}

// seal walks the tree and writes the trees in which it differs.
func (w *walker) seal(ctx context.Context, dir string, top *stamp) (oid, error) {
	if err := w.walk(ctx, dir, top); err != nil {
		return oid{}, err
	}
	entries, dirs := w.result()
	builder := treeBuilder{
		known: func(dir string) (oid, bool) {
			id, ok := w.lookup.trees[dir]
			return id, ok && !dirs[dir]
		},
		emit: func(_ string, id oid, content []byte) error { return w.to.add(plumbing.TreeObject, id, content) },
	}
	tree, err := builder.build("", entries)
	if err != nil {
		return oid{}, fmt.Errorf("seal: %w", err)
	}
	w.clashes = w.twins(entries)
	return tree, nil
}

func (w *walker) notes(b *Base) []string {
	var out []string
	if len(w.nested) > 0 {
		out = append(out, "a nested repository's .git was dropped, its files are in the change: "+some(w.nested))
	}
	if len(w.clashes) > 0 {
		out = append(out, "names that differ only in case: "+some(w.clashes))
	}
	return out
}

// NewVerification makes a fresh shadow of b with the change that leads to
// tree applied, but for the protected paths, which stay as the base has them.
func (r *Run) NewVerification(ctx context.Context, b *Base, name string, tree TreeID, protected func(path string) bool) (*Shadow, error) {
	a, err := parseOID(string(b.Tree()))
	if err != nil {
		return nil, fmt.Errorf("make verification: %w", err)
	}
	to, err := parseOID(string(tree))
	if err != nil {
		return nil, fmt.Errorf("make verification: %w", err)
	}
	var files []FileChange
	if err := b.objects.diffTrees(ctx, "", a, to, &files); err != nil {
		return nil, fmt.Errorf("make verification: %w", err)
	}
	sh, err := r.NewShadow(ctx, b, name)
	if err != nil {
		return nil, err
	}
	if err := sh.apply(files, protected); err != nil {
		return nil, errors.Join(fmt.Errorf("make verification %s: %w", name, err), sh.Remove(context.WithoutCancel(ctx)))
	}
	return sh, nil
}

// apply writes a change into a shadow in which nothing has run.
func (sh *Shadow) apply(files []FileChange, protected func(string) bool) error {
	root, err := sh.writable()
	if err != nil {
		return err
	}
	defer root.Close()
	var todo []FileChange
	for _, f := range files {
		if protected == nil || !protected(f.Path) {
			todo = append(todo, f)
		}
	}
	// Everything that goes makes way first: a file may take the place of a
	// directory and the reverse.
	for _, f := range todo {
		if f.OldMode == ModeNone {
			continue
		}
		if err := root.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		removeEmptyParents(root, f.Path)
	}
	for _, f := range todo {
		if f.NewMode == ModeNone {
			continue
		}
		id, err := parseOID(f.New)
		if err != nil {
			return err
		}
		data, err := sh.base.objects.blob(id)
		if err != nil {
			return err
		}
		err = writeInto(root, f.Path, f.NewMode, data)
		if inTheWay(err) {
			// Only what is protected or ignored in the base can be.
			sh.notes = append(sh.notes, "not applied, a path of the base is in its way: "+quote(f.Path))
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func inTheWay(err error) bool {
	return errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EISDIR) || errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY)
}

// removeEmptyParents removes the directories above a path that are empty, as
// git does, which knows no empty directory.
func removeEmptyParents(root treeRoot, name string) {
	for d := filepath.Dir(name); d != "."; d = filepath.Dir(d) {
		if root.Remove(d) != nil {
			return
		}
	}
}

// writeInto makes a file or link below root, whose directories it makes too.
func writeInto(root treeRoot, name string, mode Mode, data []byte) error {
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if mode == ModeLink {
		return root.Symlink(string(data), name)
	}
	perm := os.FileMode(0o644)
	if mode == ModeExec {
		perm = 0o755
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
