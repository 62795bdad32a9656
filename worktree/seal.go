package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/worktree/internal/ignore"
)

// Limits bounds what a seal accepts. A zero field means its default.
type Limits struct {
	Files int   // files that were added or changed; 20,000
	Bytes int64 // in all of them; 1 GiB
	File  int64 // in one of them; 256 MiB
	Depth int   // directories above a file; 100, or as many as the base has
}

// over is l with the defaults for a base of those entries.
func (l Limits) over(base []entry) Limits {
	depth := 100
	for _, e := range base {
		depth = max(depth, strings.Count(e.path, "/"))
	}
	return Limits{
		Files: cmp.Or(l.Files, 20_000), Bytes: cmp.Or(l.Bytes, 1<<30),
		File: cmp.Or(l.File, maxBaseFile), Depth: cmp.Or(l.Depth, depth),
	}
}

// maxFresh bounds what is kept in memory of what was sealed.
const maxFresh = 32 << 20

// maxListed bounds how many names a walk looks at, ignored ones included.
const maxListed = 5_000_000

// Sealed is a candidate's tree, read back.
type Sealed struct {
	Tree   TreeID
	Change Change
	Notes  []string
}

// A SealError says which path a tree was refused for.
type SealError struct {
	Path, Reason string
	Limit        bool // it is over one of the Limits
}

func (e *SealError) Error() string { return fmt.Sprintf("seal: %s: %s", quote(e.Path), e.Reason) }

// A walker reads a tree that a candidate wrote, and compares it with a base.
// It follows no link, opens nothing but files and directories, and takes
// every name for hostile.
type walker struct {
	entries []entry
	lookup  *lookup
	rules   *ignore.Rules
	limits  Limits
	lenient bool   // pass over what would be refused
	overlay string // the names of its marks begin so when it is the upper layer of one
	// unchanged tells from a stamp alone that a file of the base is as it was.
	unchanged func(i int, s stamp, mode uint32) bool
	to        *packWriter       // where new blobs go; may be nil
	fresh     map[string][]byte // some of them, by id; may be nil

	seen    []bool // by entry: it is there, changed or not
	changed []bool // by entry: replaced by now[i]
	now     map[int]entry
	added   []entry
	nested  []string
	clashes []string
	listed  int
	files   int
	bytes   int64
}

// unchanged is the proof for trees whose files were stamped when made.
func unchanged(entries []entry, stamps []stamp) func(int, stamp, uint32) bool {
	return func(i int, s stamp, mode uint32) bool {
		return fileMode(mode) == entries[i].mode && stamps[i].same(s)
	}
}

func fileMode(mode uint32) Mode {
	switch {
	case mode&unix.S_IFMT == unix.S_IFLNK:
		return ModeLink
	case mode&0o100 != 0:
		return ModeExec
	default:
		return ModeFile
	}
}

// walk reads the tree at dir. When it is an upper layer, all of the base is
// there until something in it says otherwise.
func (w *walker) walk(ctx context.Context, dir string, expect *stamp) error {
	w.seen, w.changed, w.now = make([]bool, len(w.entries)), make([]bool, len(w.entries)), make(map[int]entry)
	if w.overlay != "" {
		for i := range w.seen {
			w.seen[i] = true
		}
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return &SealError{Path: ".", Reason: "the shadow's directory is gone"}
	}
	if err != nil {
		return fmt.Errorf("seal: open the tree: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return fmt.Errorf("seal: %w", err)
	}
	if expect != nil && (st.Ino != expect.ino || uint64(st.Dev) != expect.dev) {
		unix.Close(fd)
		return &SealError{Path: ".", Reason: "the shadow's directory was replaced"}
	}
	return w.dir(ctx, fd, "", 0, false)
}

// dir reads one open directory and closes it. ignored says that the rules
// ignore it, so that only what the base has in it counts.
func (w *walker) dir(ctx context.Context, fd int, dir string, depth int, ignored bool) error {
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if depth > w.limits.Depth {
		return &SealError{Path: dir, Reason: fmt.Sprintf("it is more than %d directories deep", w.limits.Depth), Limit: true}
	}
	if w.overlay != "" {
		if err := w.layer(fd, dir); err != nil {
			return err
		}
	}
	for {
		names, err := f.Readdirnames(4096)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("seal: list %s: %w", quote(dir), err)
		}
		if w.listed += len(names); w.listed > maxListed {
			return &SealError{Path: dir, Reason: fmt.Sprintf("the tree has more than %d names", maxListed), Limit: true}
		}
		for _, name := range names {
			if err := w.name(ctx, fd, dir, name, depth, ignored); err != nil {
				return err
			}
		}
	}
}

// layer looks at the marks that an overlay leaves on a directory.
func (w *walker) layer(fd int, dir string) error {
	opaque, err := xattr(fd, w.overlay+"opaque")
	if err != nil {
		return fmt.Errorf("seal: %s: %w", quote(dir), err)
	}
	switch opaque {
	case "":
	case "y":
		w.gone(dir)
	default:
		return &SealError{Path: dir, Reason: "the overlay marked it in a way that is not known"}
	}
	redirect, err := xattr(fd, w.overlay+"redirect")
	if err != nil {
		return fmt.Errorf("seal: %s: %w", quote(dir), err)
	}
	if redirect != "" {
		return &SealError{Path: dir, Reason: "the overlay redirects it"}
	}
	return nil
}

func xattr(fd int, name string) (string, error) {
	var buf [256]byte
	n, err := unix.Fgetxattr(fd, name, buf[:])
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return string(buf[:n]), nil
}

// gone marks what the base has at and below a path as deleted.
func (w *walker) gone(name string) {
	if i, ok := w.lookup.files[name]; ok {
		w.seen[i] = false
		return
	}
	if _, ok := w.lookup.trees[name]; !ok {
		return
	}
	prefix := name + "/"
	if name == "" {
		prefix = ""
	}
	from, _ := slices.BinarySearchFunc(w.entries, prefix, func(e entry, p string) int { return strings.Compare(e.path, p) })
	for i := from; i < len(w.entries) && strings.HasPrefix(w.entries[i].path, prefix); i++ {
		w.seen[i] = false
	}
}

func (w *walker) name(ctx context.Context, dirfd int, dir, name string, depth int, ignored bool) error {
	full := join(dir, name)
	if name == ".git" {
		if dir != "" {
			w.nested = append(w.nested, dir)
		}
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &SealError{Path: full, Reason: "it moved while it was read"}
	}
	if w.overlay != "" && isWhiteout(&st) {
		w.gone(full)
		return nil
	}
	i, tracked := w.lookup.files[full]
	_, isTree := w.lookup.trees[full]
	kind := st.Mode & unix.S_IFMT
	skip := !tracked && !isTree && (ignored || w.rules.Here(full, kind == unix.S_IFDIR))
	if skip {
		return nil
	}
	if !w.lenient {
		if reason := refusedName(name); reason != "" {
			return &SealError{Path: full, Reason: reason}
		}
		if isOurs(full) {
			return &SealError{Path: full, Reason: "it belongs to bestof, not to the tree"}
		}
		if len(full) > 4095 {
			return &SealError{Path: full[:80] + "…", Reason: "the path is longer than 4,095 bytes"}
		}
	}
	switch kind {
	case unix.S_IFDIR:
		if w.overlay != "" && tracked {
			w.seen[i] = false
		}
		fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.EACCES) {
			return &SealError{Path: full, Reason: "the directory may not be read"}
		}
		if err != nil {
			return &SealError{Path: full, Reason: "it moved while it was read"}
		}
		return w.dir(ctx, fd, full, depth+1, ignored || w.rules.Here(full, true))
	case unix.S_IFREG, unix.S_IFLNK:
		if w.overlay != "" && isTree {
			w.gone(full)
		}
		return w.file(dirfd, full, name, &st, i, tracked)
	}
	if w.lenient {
		return nil
	}
	return &SealError{Path: full, Reason: "it is neither a file, a link nor a directory"}
}

// file takes a file or link into account, reading it only when it may differ.
func (w *walker) file(dirfd int, full, name string, st *unix.Stat_t, i int, tracked bool) error {
	if tracked {
		w.seen[i] = true
		if w.unchanged != nil && w.unchanged(i, stampOf(st), st.Mode) {
			return nil
		}
	}
	if w.lenient && !tracked {
		w.added = append(w.added, entry{path: full, mode: fileMode(st.Mode)})
		return nil
	}
	if st.Size > w.limits.File {
		return &SealError{Path: full, Reason: fmt.Sprintf("it is larger than %d bytes", w.limits.File), Limit: true}
	}
	data, err := readAt(dirfd, name, st)
	if errors.Is(err, errChanged) {
		return &SealError{Path: full, Reason: err.Error()}
	}
	if errors.Is(err, unix.EACCES) {
		return &SealError{Path: full, Reason: "the file may not be read"}
	}
	if err != nil {
		return fmt.Errorf("seal: read %s: %w", quote(full), err)
	}
	e := entry{path: full, mode: fileMode(st.Mode), id: hashObject(plumbing.BlobObject, data), size: int64(len(data))}
	if tracked && e.mode == w.entries[i].mode && e.id == w.entries[i].id {
		return nil
	}
	if w.files++; w.files > w.limits.Files {
		return &SealError{Path: full, Reason: fmt.Sprintf("more than %d files were changed", w.limits.Files), Limit: true}
	}
	if w.bytes += e.size; w.bytes > w.limits.Bytes {
		return &SealError{Path: full, Reason: fmt.Sprintf("the changed files are larger than %d bytes together", w.limits.Bytes), Limit: true}
	}
	if w.to != nil {
		if err := w.to.add(plumbing.BlobObject, e.id, data); err != nil {
			return fmt.Errorf("seal: %w", err)
		}
	}
	if w.fresh != nil && w.bytes < maxFresh {
		w.fresh[e.id.String()] = data
	}
	if tracked {
		w.changed[i] = true
		w.now[i] = e
	} else {
		w.added = append(w.added, e)
	}
	return nil
}

// readAt reads a file or link that was just looked at, and fails with
// errChanged unless it stayed as it was.
func readAt(dirfd int, name string, before *unix.Stat_t) ([]byte, error) {
	if before.Mode&unix.S_IFMT == unix.S_IFLNK {
		buf := make([]byte, 4097)
		n, err := unix.Readlinkat(dirfd, name, buf)
		if err != nil || int64(n) != before.Size {
			return nil, errChanged
		}
		return buf[:n], nil
	}
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, errChanged
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	same := func() (bool, error) {
		var now unix.Stat_t
		err := unix.Fstat(fd, &now)
		return now.Mode == before.Mode && stampOf(&now).same(stampOf(before)), err
	}
	// A pipe that came in the file's place could keep its reader waiting.
	if is, err := same(); err != nil || !is {
		return nil, cmp.Or(err, errChanged)
	}
	data := make([]byte, before.Size+1)
	n, err := io.ReadFull(f, data)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if is, err := same(); err != nil || !is || int64(n) != before.Size {
		return nil, cmp.Or(err, errChanged)
	}
	return data[:n], nil
}

// result is the sealed tree's entries, and the directories in which it
// differs from the base.
func (w *walker) result() (entries []entry, dirs map[string]bool) {
	dirs = make(map[string]bool)
	touch := func(name string) {
		for name != "." {
			name = path.Dir(name)
			key := strings.TrimSuffix(name, ".")
			if name == "." {
				key = ""
			}
			if dirs[key] {
				return
			}
			dirs[key] = true
		}
	}
	entries = make([]entry, 0, len(w.entries)+len(w.added))
	for i, e := range w.entries {
		switch {
		case !w.seen[i]:
			touch(e.path)
		case w.changed[i]:
			touch(e.path)
			entries = append(entries, w.now[i])
		default:
			entries = append(entries, e)
		}
	}
	if len(w.added) > 0 {
		for _, e := range w.added {
			touch(e.path)
		}
		entries = append(entries, w.added...)
		slices.SortFunc(entries, compareEntries)
	}
	return entries, dirs
}

// fileChanges lists what differs from the base.
func (w *walker) fileChanges() []FileChange {
	var out []FileChange
	for i, e := range w.entries {
		if w.seen[i] && !w.changed[i] {
			continue
		}
		f := FileChange{Path: e.path, OldMode: e.mode, Old: e.id.String()}
		if w.seen[i] {
			f.NewMode, f.New = w.now[i].mode, w.now[i].id.String()
		}
		out = append(out, f)
	}
	for _, e := range w.added {
		out = append(out, FileChange{Path: e.path, NewMode: e.mode, New: e.id.String()})
	}
	slices.SortFunc(out, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// addedTops names what was added by the topmost directory that the base does
// not have; those end in a slash.
func (w *walker) addedTops() []string {
	var tops []string
	for _, e := range w.added {
		top := e.path
		for d := path.Dir(e.path); d != "."; d = path.Dir(d) {
			if _, ok := w.lookup.trees[d]; ok {
				break
			}
			top = d + "/"
		}
		tops = append(tops, top)
	}
	slices.Sort(tops)
	return slices.Compact(tops)
}

// twins lists names among entries that differ only in case, when one of them
// was added.
func (w *walker) twins(entries []entry) []string {
	if len(w.added) == 0 {
		return nil
	}
	added := make(map[string]bool)
	for _, e := range w.added {
		for p := e.path; p != "."; p = path.Dir(p) {
			added[strings.ToLower(p)] = true
		}
	}
	first := make(map[string]string)
	var out []string
	seen := make(map[string]bool)
	for _, e := range entries {
		for p := e.path; p != "." && !seen[p]; p = path.Dir(p) {
			seen[p] = true
			fold := strings.ToLower(p)
			if other, ok := first[fold]; ok && added[fold] {
				out = append(out, other+" and "+p)
			}
			first[fold] = p
		}
	}
	slices.Sort(out)
	return out
}
