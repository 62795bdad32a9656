package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"
)

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
	Branch     string // the new branch, for AdoptBranch
	Message    string // of its commit
	BaseCommit string // what the base was made from, "" on an unborn branch
	BaseKind   BaseKind
	RunID      string
	JournalDir string // a directory for nothing else, out of the repository's reach

	// Done, when not nil, is told what was adopted as soon as it is in place
	// and verified. If it fails, or never returns, an AdoptApply is undone, so
	// that what it writes down is true once the journal is gone.
	Done func(Adopted) error

	step func() // called after each change to the user's tree; for tests
}

// Adopted is what an adoption made.
type Adopted struct {
	Tree           TreeID // the tree whose changed paths are now the user's, verified
	Commit, Branch string // for AdoptBranch
}

// A MovedError names the user's files that are not what the base had.
type MovedError struct{ Paths []string }

func (e *MovedError) Error() string {
	return "adopt: changed since the run began, so nothing was written: " + some(e.Paths)
}

// A RefusedError names a path that is never adopted.
type RefusedError struct{ Path, Reason string }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("adopt: %s is refused: %s", quote(e.Path), e.Reason)
}

// Adopt brings a change into the user's repository, all of it or nothing. A
// crash in the middle leaves a journal, with which Recover puts back what was
// there. The index is not touched.
func (r *Repository) Adopt(ctx context.Context, o *Objects, c Change, opt AdoptOptions) (Adopted, error) {
	if err := r.refuse(ctx, c); err != nil {
		return Adopted{}, err
	}
	if opt.JournalDir == "" || !validID.MatchString(opt.RunID) {
		return Adopted{}, fmt.Errorf("adopt: run %q needs a name and a directory for its journal", opt.RunID)
	}
	if err := os.MkdirAll(opt.JournalDir, 0o755); err != nil {
		return Adopted{}, fmt.Errorf("adopt: %w", err)
	}
	// One adoption at a time; the lock is on the directory, so no file is left.
	lock, err := lockDir(r.root)
	if err != nil {
		return Adopted{}, fmt.Errorf("adopt: %w", err)
	}
	defer lock.Close()
	switch opt.Mode {
	case AdoptBranch:
		done, err := r.adoptBranch(ctx, o, c, opt)
		if err == nil && opt.Done != nil {
			err = opt.Done(done)
		}
		return done, err
	case AdoptApply:
	default:
		return Adopted{}, fmt.Errorf("adopt: %q is no way to adopt", opt.Mode)
	}
	root, err := os.OpenRoot(r.root)
	if err != nil {
		return Adopted{}, fmt.Errorf("adopt: %w", err)
	}
	defer root.Close()
	j, err := plan(root, c, opt)
	if err != nil {
		return Adopted{}, err
	}
	if err := j.write(o); err != nil {
		return Adopted{}, fmt.Errorf("adopt: %w", errors.Join(err, j.clear()))
	}
	done := Adopted{Tree: c.Tree}
	err = j.apply(ctx, root, opt.step)
	if err == nil && opt.Done != nil {
		err = opt.Done(done)
	}
	if err != nil {
		left, rerr := j.rollback(root)
		if len(left) > 0 {
			rerr = errors.Join(rerr, fmt.Errorf("left as they are, edited meanwhile: %s", some(left)))
		}
		return Adopted{}, fmt.Errorf("adopt: nothing was changed: %w", errors.Join(err, rerr))
	}
	if err := j.clear(); err != nil {
		return Adopted{}, fmt.Errorf("adopt: %w", err)
	}
	return done, nil
}

// ErrBusy means that another adoption into the same work tree is under way.
var ErrBusy = errors.New("another adoption is under way")

func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%w in %s", ErrBusy, dir)
	}
	return f, nil
}

// refuse looks at the names alone.
func (r *Repository) refuse(ctx context.Context, c Change) error {
	lines, err := r.git.List(ctx, "ls-files", "-z", "--stage")
	if err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	links := make(map[string]bool)
	for _, l := range lines {
		if meta, name, ok := strings.Cut(l, "\t"); ok && strings.HasPrefix(meta, "160000 ") {
			links[name] = true
		}
	}
	for _, f := range c.Files {
		if f.From != "" {
			return fmt.Errorf("adopt: %s: a change with renames is for reading", quote(f.Path))
		}
		if reason := refusedName(f.Path); reason != "" {
			return &RefusedError{f.Path, reason}
		}
		if isOurs(f.Path) {
			return &RefusedError{f.Path, "it belongs to bestof"}
		}
		if f.Path == ".gitmodules" {
			return &RefusedError{f.Path, "it says where submodules come from"}
		}
		if !filepath.IsLocal(f.Path) || path.Clean(f.Path) != f.Path || strings.ContainsRune(f.Path, 0) {
			return &RefusedError{f.Path, "it is not a path below the top level"}
		}
		for _, m := range []Mode{f.OldMode, f.NewMode} {
			if m != ModeNone && m != ModeFile && m != ModeExec && m != ModeLink {
				return &RefusedError{f.Path, fmt.Sprintf("mode %o is not that of a file or a link", m)}
			}
		}
		for p := f.Path; p != "."; p = path.Dir(p) {
			if links[p] {
				return &RefusedError{f.Path, "it is in the submodule " + quote(p)}
			}
		}
	}
	return nil
}

// plan checks that every path of the user's is what the base had.
func plan(root *os.Root, c Change, opt AdoptOptions) (*journal, error) {
	j := &journal{dir: opt.JournalDir, Schema: journalSchema, Run: opt.RunID}
	goes := make(map[string]bool)
	for _, f := range c.Files {
		if f.NewMode == ModeNone {
			goes[f.Path] = true
		}
	}
	var moved []string
	made := make(map[string]bool)
	for _, f := range c.Files {
		present, err := parents(root, f.Path, goes, made)
		if err != nil {
			return nil, err
		}
		s := step{FileChange: f}
		if present {
			var st state
			if st, err = look(root, f.Path); err != nil {
				return nil, fmt.Errorf("adopt: %w", err)
			}
			s.Perm, s.UID, s.GID, s.Mtime = st.perm, st.uid, st.gid, st.mtime
			if st.dir && f.OldMode == ModeNone {
				if present, err = onlyGoing(root, f.Path, goes); err != nil {
					return nil, fmt.Errorf("adopt: %w", err)
				}
				if !present {
					moved = append(moved, f.Path)
				}
			} else if !st.is(f.OldMode, f.Old) {
				moved = append(moved, f.Path)
			}
		} else if f.OldMode != ModeNone {
			moved = append(moved, f.Path)
		}
		j.Steps = append(j.Steps, s)
	}
	if len(moved) > 0 {
		slices.Sort(moved)
		return nil, &MovedError{slices.Compact(moved)}
	}
	for d := range made {
		j.Made = append(j.Made, d)
	}
	slices.Sort(j.Made)
	return j, nil
}

// parents looks at the directories above a path: whether all are there. It
// adds those that are not to made. A link among them is refused; a file among
// them must be one that goes.
func parents(root *os.Root, name string, goes, made map[string]bool) (bool, error) {
	for i := 0; i < len(name); i++ {
		if name[i] != '/' {
			continue
		}
		dir := name[:i]
		info, err := root.Lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			for d := path.Dir(name); d != "." && len(d) >= len(dir); d = path.Dir(d) {
				made[d] = true
			}
			return false, nil
		case err != nil:
			return false, fmt.Errorf("adopt: %w", err)
		case info.IsDir():
		case goes[dir]:
			for d := path.Dir(name); d != "." && len(d) >= len(dir); d = path.Dir(d) {
				made[d] = true
			}
			return false, nil
		case info.Mode()&fs.ModeSymlink != 0:
			return false, &RefusedError{name, "it leads through the link " + quote(dir)}
		default:
			return false, &MovedError{[]string{dir}}
		}
	}
	return true, nil
}

// onlyGoing reports whether a directory holds only files that go.
func onlyGoing(root *os.Root, dir string, goes map[string]bool) (bool, error) {
	only := true
	err := fs.WalkDir(root.FS(), dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !goes[p] {
			only = false
			return fs.SkipAll
		}
		return err
	})
	return only, err
}

// A state is what is at a path of the user's tree.
type state struct {
	mode     Mode // ModeNone when there is nothing, or no file
	id       string
	dir      bool
	other    bool // a device, a socket, a file larger than any that is adopted …
	perm     uint32
	uid, gid uint32
	mtime    int64
}

func (s state) is(mode Mode, id string) bool {
	return !s.dir && !s.other && s.mode == mode && s.id == id
}

// reachable reports whether a path's directories are there and none of them
// is a link, which an os.Root would follow as long as it stays inside.
func reachable(root *os.Root, name string) bool {
	for i := 0; i < len(name); i++ {
		if name[i] == '/' {
			if info, err := root.Lstat(name[:i]); err != nil || !info.IsDir() {
				return false
			}
		}
	}
	return true
}

// look sees nothing behind a link: as for git, such a path is absent.
func look(root *os.Root, name string) (state, error) {
	if !reachable(root, name) {
		return state{}, nil
	}
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	if err != nil {
		return state{}, err
	}
	s := state{perm: uint32(info.Mode().Perm()), mtime: info.ModTime().UnixNano()}
	s.uid, s.gid = owner(info)
	var data []byte
	switch {
	case info.IsDir():
		s.dir = true
		return s, nil
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		if err != nil {
			return s, err
		}
		data, s.mode = []byte(target), ModeLink
	case info.Mode().IsRegular() && info.Size() <= maxBlob:
		if data, err = readIn(root, name); err != nil {
			return s, err
		}
		s.mode = ModeFile
		if s.perm&0o100 != 0 {
			s.mode = ModeExec
		}
	default:
		s.other = true
		return s, nil
	}
	s.id = hashObject(plumbing.BlobObject, data).String()
	return s, nil
}

// readIn reads a file that is not larger than a blob may be. One that grows
// meanwhile is cut, and then is not what was looked for.
func readIn(root *os.Root, name string) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxBlob+1))
}
