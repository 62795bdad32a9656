package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/worktree/internal/gitexec"
	"github.com/bestof-dev/bestof/worktree/internal/ignore"
)

// maxBaseFile is the size from which a file is left out of a base.
const maxBaseFile = 256 << 20

// A source is what a base is made from: files, and a way to read each.
type source struct {
	files    []sourceFile                       // of the tree, sorted by path
	extra    []sourceFile                       // ignored files that .worktreeinclude names
	read     func(f sourceFile) ([]byte, error) // of a snapshot
	rules    ruleText
	notes    []string
	dirty    []string // paths that differ from the commit
	commit   string   // "" on an unborn branch
	links    []string // submodules
	snapshot bool
	begun    int64 // when listing a snapshot began, in seconds
	close    func()
	pack     *pack        // what the base holds of the user's repository; may be nil
	pointers atomic.Int32 // Git LFS pointers that were copied
}

type sourceFile struct {
	entry
	mtime  unix.Timespec
	stamp  stamp  // for a snapshot
	data   []byte // read ahead; may be nil
	object string // in the user's repository, for a commit
	repo   *Repository
	packed int64 // where the source's pack has it; 0 when it has not
}

// ruleText is what a base's ignore rules are made from, besides the
// .gitignore files in its tree: the user's own, which the tree does not hold.
type ruleText struct {
	Global [][]byte `json:"global"` // lowest precedence first
}

// rules reads the ignore rules that are not in the tree.
func (r *Repository) rules(ctx context.Context, more []string) (ruleText, error) {
	var t ruleText
	file, err := r.git.Line(ctx, "config", "--type=path", "--get", "core.excludesFile")
	if gitexec.Code(err) == 1 {
		config := os.Getenv("XDG_CONFIG_HOME")
		if home, herr := os.UserHomeDir(); config == "" && herr == nil {
			config = filepath.Join(home, ".config")
		}
		file, err = filepath.Join(config, "git/ignore"), nil
	}
	if err != nil {
		return t, err
	}
	for _, name := range []string{file, filepath.Join(r.commonDir, "info/exclude")} {
		if name == "" {
			continue
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(r.root, name)
		}
		b, err := os.ReadFile(name)
		if err == nil {
			t.Global = append(t.Global, b)
		} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return t, fmt.Errorf("read ignore rules: %w", err)
		}
	}
	if len(more) > 0 {
		t.Global = append(t.Global, []byte(strings.Join(more, "\n")+"\n"))
	}
	return t, nil
}

// matcher makes the rules of a base from the text and the .gitignore files of
// its tree.
func (t ruleText) matcher(files []entry, read func(entry) ([]byte, error)) (*ignore.Rules, error) {
	var rules ignore.Rules
	for _, b := range t.Global {
		rules.AddGlobal(b)
	}
	for _, f := range files {
		if path.Base(f.path) != ".gitignore" || f.mode == ModeLink {
			continue
		}
		b, err := read(f)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", f.path, err)
		}
		rules.Add(strings.TrimSuffix(path.Dir(f.path), "."), b)
	}
	return &rules, nil
}

// snapshot lists the user's tree as it is.
func (r *Repository) snapshot(ctx context.Context, exclude []string) (*source, error) {
	s := &source{commit: r.head, snapshot: true, begun: time.Now().Unix()}
	var err error
	if s.rules, err = r.rules(ctx, exclude); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	root, err := os.OpenRoot(r.root)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	s.close = func() { root.Close() }
	s.read = func(f sourceFile) ([]byte, error) { return readSource(root, f) }
	l := lister{root: root, source: s, dirs: map[string]bool{"": true}, seen: map[string]bool{}}
	var excluded ignore.Rules
	excluded.AddGlobal([]byte(strings.Join(exclude, "\n")))
	l.excluded = &excluded
	if err := l.repository(ctx, r, ""); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if err := l.include(ctx, r); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	slices.SortFunc(s.files, func(a, b sourceFile) int { return compareEntries(a.entry, b.entry) })
	slices.SortFunc(s.extra, func(a, b sourceFile) int { return compareEntries(a.entry, b.entry) })
	l.report()
	return s, nil
}

// A lister collects the files of a work tree and of the submodules in it.
type lister struct {
	root                       *os.Root
	source                     *source
	excluded                   *ignore.Rules
	dirs                       map[string]bool // whether a path is a real directory
	seen                       map[string]bool
	sparse                     int
	big, nested, special, ours []string
}

func (l *lister) repository(ctx context.Context, r *Repository, at string) error {
	tracked, err := r.git.List(ctx, "ls-files", "-z", "--cached", "--stage", "-t")
	if err != nil {
		return err
	}
	for _, line := range tracked {
		// "H 100644 <id> 0\tpath"
		meta, name, ok := strings.Cut(line, "\t")
		fields := strings.Fields(meta)
		if !ok || len(fields) != 4 {
			return fmt.Errorf("git ls-files: %q is not understood", line)
		}
		full := join(at, name)
		if fields[1] == "160000" {
			if err := l.submodule(ctx, r, full, name); err != nil {
				return err
			}
			continue
		}
		present, err := l.file(full)
		if err != nil {
			return err
		}
		if !present && fields[0] == "S" {
			l.sparse++
		}
	}
	dirty, others, err := r.uncommitted(ctx)
	if err != nil {
		return err
	}
	if at == "" {
		l.source.dirty = dirty
	}
	for _, name := range others {
		full := join(at, name)
		if strings.HasSuffix(name, "/") {
			if !isOurs(full) {
				l.nested = append(l.nested, strings.TrimSuffix(full, "/"))
			}
			continue
		}
		if l.excluded.Match(full, false) {
			continue
		}
		if _, err := l.file(full); err != nil {
			return err
		}
	}
	return nil
}

// submodule lists the files of one; they are plain files of the base.
func (l *lister) submodule(ctx context.Context, r *Repository, full, name string) error {
	l.source.links = append(l.source.links, full)
	if !l.isDir(full) {
		return nil
	}
	dir := filepath.Join(r.root, name)
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
		l.source.notes = append(l.source.notes, fmt.Sprintf("submodule %s is not checked out: it is empty in the base", full))
		return nil
	}
	sub, err := Open(ctx, dir)
	if err != nil {
		return fmt.Errorf("submodule %s: %w", full, err)
	}
	if sub.root != dir {
		return nil
	}
	l.source.notes = append(l.source.notes, fmt.Sprintf("submodule %s: its files are plain files in the base; a change to them is reported and not adopted", full))
	return l.repository(ctx, sub, full)
}

// include adds what .worktreeinclude files, in directories that have a file
// of the base, name among the ignored files.
func (l *lister) include(ctx context.Context, r *Repository) error {
	found := false
	for dir, is := range l.dirs {
		if is && !found {
			_, _, err := lstat(filepath.Join(r.root, dir, ".worktreeinclude"))
			found = err == nil
		}
	}
	if !found {
		return nil
	}
	names, err := r.git.List(ctx, "ls-files", "-z", "--others", "--ignored", "--exclude-per-directory=.worktreeinclude")
	if err != nil {
		return err
	}
	n := len(l.source.files)
	for _, name := range names {
		if strings.HasSuffix(name, "/") || l.seen[name] || isNamedGit(name) {
			continue
		}
		if _, err := l.file(name); err != nil {
			return err
		}
	}
	l.source.extra = slices.Clone(l.source.files[n:])
	l.source.files = l.source.files[:n:n]
	return nil
}

// file adds one path if it is a file or a link there.
func (l *lister) file(name string) (present bool, err error) {
	if l.seen[name] {
		return true, nil // a conflict has several entries of one path
	}
	if isOurs(name) {
		l.ours = append(l.ours, name)
		return true, nil
	}
	if reason := refusedName(name); reason != "" {
		l.special = append(l.special, name)
		return true, nil
	}
	if dir := path.Dir(name); dir != "." && !l.isDir(dir) {
		return false, nil
	}
	s, mode, err := lstat(filepath.Join(l.root.Name(), name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	f := sourceFile{entry: entry{path: name, size: s.size}, mtime: s.mtime, stamp: s}
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		f.mode = ModeFile
		if mode&0o100 != 0 {
			f.mode = ModeExec
		}
	case unix.S_IFLNK:
		f.mode = ModeLink
	case unix.S_IFDIR:
		return false, nil // a directory in the place of a tracked file
	default:
		l.special = append(l.special, name)
		return true, nil
	}
	l.seen[name] = true
	if s.size > maxBaseFile {
		l.big = append(l.big, name)
		return true, nil
	}
	l.source.files = append(l.source.files, f)
	return true, nil
}

// isDir reports whether a path is a directory through directories only: git
// takes what lies behind a symbolic link for absent.
func (l *lister) isDir(dir string) bool {
	if known, ok := l.dirs[dir]; ok {
		return known
	}
	is := false
	if parent := strings.TrimSuffix(path.Dir(dir), "."); l.isDir(parent) {
		_, mode, err := lstat(filepath.Join(l.root.Name(), dir))
		is = err == nil && mode&unix.S_IFMT == unix.S_IFDIR
	}
	l.dirs[dir] = is
	return is
}

func (l *lister) report() {
	s := l.source
	note := func(names []string, what string) {
		if len(names) > 0 {
			s.notes = append(s.notes, fmt.Sprintf("%s: %s", what, some(names)))
		}
	}
	note(l.nested, "left out, another repository or work tree")
	note(l.special, "left out, neither a file nor a link, or of a name that git refuses")
	note(l.big, fmt.Sprintf("left out, larger than %d MiB", maxBaseFile>>20))
	note(l.ours, "left out, bestof's own")
	if l.sparse > 0 {
		s.notes = append(s.notes, fmt.Sprintf("sparse checkout: %d tracked files that are not checked out are not in the base", l.sparse))
	}
}

// some lists at most five names, in a form that is safe to print.
func some(names []string) string {
	var shown []string
	for _, n := range names[:min(5, len(names))] {
		shown = append(shown, quote(n))
	}
	if len(names) > 5 {
		shown = append(shown, fmt.Sprintf("and %d more", len(names)-5))
	}
	return strings.Join(shown, ", ")
}

// errChanged means that a file moved while it was read.
var errChanged = errors.New("changed while it was read")

// readSource reads a file of a snapshot and proves that it is what was
// listed.
func readSource(root *os.Root, f sourceFile) ([]byte, error) {
	if f.mode == ModeLink {
		target, err := root.Readlink(f.path)
		return []byte(target), err
	}
	file, err := root.OpenFile(f.path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b := make([]byte, f.size)
	if _, err := io.ReadFull(file, b); err != nil {
		return nil, errChanged
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || !stampOf(&st).same(f.stamp) {
		return nil, errChanged
	}
	return b, nil
}

// uncommitted lists the paths in which the user's tree differs from HEAD by
// git's own rules, so that line ends or filters make no edit of their own, and
// apart from them what git does not know, directories with a slash at the end.
func (r *Repository) uncommitted(ctx context.Context) (paths, untracked []string, err error) {
	lines, err := r.git.List(ctx, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=all")
	if err != nil {
		return nil, nil, err
	}
	for _, l := range lines {
		if len(l) < 4 {
			return nil, nil, fmt.Errorf("git status: %q is not understood", l)
		}
		name := l[3:]
		if l[0] == '?' {
			untracked = append(untracked, name)
		}
		if !strings.HasSuffix(name, "/") && !isOurs(name) {
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), untracked, nil
}

// tree lists the files of a commit.
func (r *Repository) tree(ctx context.Context, commit string, exclude []string) (*source, error) {
	s := &source{commit: commit}
	var err error
	if s.rules, err = r.rules(ctx, exclude); err != nil {
		return nil, fmt.Errorf("read commit %.12s: %w", commit, err)
	}
	listed, err := r.list(ctx, commit)
	if err == nil {
		err = r.commitFiles(ctx, s, "", listed)
	}
	if err != nil {
		return nil, fmt.Errorf("read commit %.12s: %w", commit, err)
	}
	slices.SortFunc(s.files, func(a, b sourceFile) int { return compareEntries(a.entry, b.entry) })
	s.close = func() {}
	return s, nil
}

// A listedCommit is what git says of a commit.
type listedCommit struct {
	commit string
	when   unix.Timespec
	lines  []string // of its files
}

// mostListed is how many bytes of names are kept of the commit that was listed
// last: many runs, one after the other, may be of one commit.
const mostListed = 8 << 20

// list lists the files of a commit, by its full id.
func (r *Repository) list(ctx context.Context, commit string) (*listedCommit, error) {
	if l := r.listed.Load(); l != nil && l.commit == commit {
		return l, nil
	}
	when, err := r.git.Line(ctx, "show", "-s", "--format=%ct", commit)
	if err != nil {
		return nil, err
	}
	sec, err := strconv.ParseInt(when, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("its date is %q", when)
	}
	l := &listedCommit{commit: commit, when: unix.Timespec{Sec: max(sec, 1)}}
	if l.lines, err = r.lsTree(ctx, commit); err != nil {
		return nil, err
	}
	size := 0
	for _, line := range l.lines {
		size += len(line)
	}
	if size <= mostListed {
		r.listed.Store(l)
	}
	return l, nil
}

func (r *Repository) lsTree(ctx context.Context, commit string) ([]string, error) {
	lines, err := r.git.List(ctx, "ls-tree", "-r", "-z", "--full-tree", commit)
	if err != nil {
		return nil, errors.Join(errMissingObject, err)
	}
	return lines, nil
}

func (r *Repository) commitFiles(ctx context.Context, s *source, at string, listed *listedCommit) error {
	var ours, odd []string
	s.files = slices.Grow(s.files, len(listed.lines))
	for _, l := range listed.lines {
		meta, name, ok1 := strings.Cut(l, "\t")
		mode, meta, ok2 := strings.Cut(meta, " ")
		kind, object, ok3 := strings.Cut(meta, " ")
		if !ok1 || !ok2 || !ok3 || strings.Contains(object, " ") {
			return fmt.Errorf("git ls-tree: %q is not understood", l)
		}
		full := join(at, name)
		f := sourceFile{entry: entry{path: full}, mtime: listed.when, object: object, repo: r}
		switch {
		case isOurs(full):
			ours = append(ours, full)
			continue
		case refusedName(full) != "":
			odd = append(odd, full)
			continue
		case mode == "100755":
			f.mode = ModeExec
		case mode == "120000":
			f.mode = ModeLink
		case kind == "blob":
			f.mode = ModeFile
		default:
			s.links = append(s.links, full)
			sub, err := Open(ctx, filepath.Join(r.root, name))
			if err == nil && sub.root == filepath.Join(r.root, name) {
				inside := &listedCommit{when: listed.when}
				if inside.lines, err = sub.lsTree(ctx, object); err == nil && sub.commitFiles(ctx, s, full, inside) == nil {
					s.notes = append(s.notes, fmt.Sprintf("submodule %s: its files are plain files in the base; a change to them is reported and not adopted", full))
					continue
				}
			}
			s.notes = append(s.notes, fmt.Sprintf("submodule %s at %.12s is not checked out here: it is empty in the base", full, object))
			continue
		}
		s.files = append(s.files, f)
	}
	if len(ours) > 0 {
		s.notes = append(s.notes, "left out, bestof's own: "+some(ours))
	}
	if len(odd) > 0 {
		s.notes = append(s.notes, "left out, of a name that git refuses: "+some(odd))
	}
	return nil
}

// isPointer reports whether a file is a Git LFS pointer.
func isPointer(b []byte) bool {
	return len(b) < 1024 && bytes.HasPrefix(b, []byte("version https://git-lfs.github.com/spec/"))
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
