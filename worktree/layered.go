package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A treeRoot is a tree that a change is written into: a directory, or the
// layers of an overlay that is not mounted where this process is.
type treeRoot interface {
	Lstat(name string) (fs.FileInfo, error)
	Remove(name string) error
	RemoveAll(name string) error
	MkdirAll(name string, perm fs.FileMode) error
	Symlink(target, name string) error
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	Close() error
}

// writable opens the tree of a shadow in which nothing has run.
func (sh *Shadow) writable() (treeRoot, error) {
	if sh.kind == ShadowEngine {
		return openLayered(sh.entry.Upper, sh.entry.Lower)
	}
	return os.OpenRoot(sh.HostRoot())
}

// opaqueMark says of a directory of an upper layer that it hides the lower
// one: see "whiteouts and opaque directories" of the kernel's overlayfs.rst,
// for overlays with the option userxattr.
const opaqueMark = "user.overlay.opaque"

// layered writes into an upper layer what an overlay would, so that whoever
// mounts the layers later finds the tree as if it had been written there.
type layered struct{ upper, lower *os.Root }

func openLayered(upper, lower string) (*layered, error) {
	up, err := os.OpenRoot(upper)
	if err != nil {
		return nil, err
	}
	low, err := os.OpenRoot(lower)
	if err != nil {
		return nil, errors.Join(err, up.Close())
	}
	return &layered{up, low}, nil
}

func (l *layered) Close() error { return errors.Join(l.upper.Close(), l.lower.Close()) }

// find looks a path up, through no link. raised says that the upper layer has
// it.
func (l *layered) find(name string) (info fs.FileInfo, raised bool, err error) {
	shows := true // what the lower layer has here is seen
	for end := 0; end < len(name); end++ {
		if end = end + strings.IndexByte(name[end:]+"/", '/'); end > len(name) {
			end = len(name)
		}
		at := name[:end]
		if info != nil && !info.IsDir() {
			return nil, false, &fs.PathError{Op: "find", Path: name, Err: unix.ENOTDIR}
		}
		up, err := l.upper.Lstat(at)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, false, err
		}
		var low fs.FileInfo
		if shows {
			if low, err = l.lower.Lstat(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, false, err
			}
		}
		switch info, raised = low, up != nil; {
		case raised && up.Mode()&fs.ModeCharDevice != 0: // nothing else makes devices: it is a whiteout
			info = nil
		case raised:
			if info = up; shows && low != nil && up.IsDir() {
				opaque, err := l.opaque(at)
				if err != nil {
					return nil, false, err
				}
				low = hidden(low, opaque)
			}
		}
		if info == nil {
			return nil, false, &fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}
		}
		shows = low != nil && low.IsDir()
	}
	return info, raised, nil
}

func hidden(low fs.FileInfo, opaque bool) fs.FileInfo {
	if opaque {
		return nil
	}
	return low
}

func (l *layered) opaque(dir string) (bool, error) {
	f, err := l.upper.Open(dir)
	if err != nil {
		return false, err
	}
	defer f.Close()
	v, err := xattr(int(f.Fd()), opaqueMark)
	return v != "", err
}

func (l *layered) Lstat(name string) (fs.FileInfo, error) {
	info, _, err := l.find(name)
	return info, err
}

// MkdirAll makes a directory and those above it, in the upper layer too.
func (l *layered) MkdirAll(name string, perm fs.FileMode) error {
	if name == "." {
		return nil
	}
	if err := l.MkdirAll(path.Dir(name), perm); err != nil {
		return err
	}
	info, raised, err := l.find(name)
	switch {
	case err == nil && !info.IsDir():
		return &fs.PathError{Op: "mkdir", Path: name, Err: unix.ENOTDIR}
	case err == nil && raised:
		return nil
	case err == nil: // as the lower layer has it
		if err := l.upper.Mkdir(name, 0o700); err != nil {
			return err
		}
		return l.upper.Chmod(name, info.Mode().Perm())
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	covers, err := l.uncover(name)
	if err == nil {
		err = l.upper.Mkdir(name, perm)
	}
	if err != nil || !covers {
		return err
	}
	f, err := l.upper.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fsetxattr(int(f.Fd()), opaqueMark, []byte("y"), 0)
}

// uncover removes a whiteout, and reports whether the lower layer has a
// directory below it.
func (l *layered) uncover(name string) (covers bool, err error) {
	if err := l.upper.Remove(name); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return false, err
	}
	info, _, err := l.find(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}

// vacant makes the place of a new file or link.
func (l *layered) vacant(name string) error {
	_, _, err := l.find(name)
	if err == nil {
		return &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := l.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	_, err = l.uncover(name)
	return err
}

// Symlink makes a link where nothing is.
func (l *layered) Symlink(target, name string) error {
	if err := l.vacant(name); err != nil {
		return err
	}
	return l.upper.Symlink(target, name)
}

// OpenFile makes a file where nothing is: flag must have O_CREATE and O_EXCL.
func (l *layered) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	if flag&(os.O_CREATE|os.O_EXCL) != os.O_CREATE|os.O_EXCL {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if err := l.vacant(name); err != nil {
		return nil, err
	}
	return l.upper.OpenFile(name, flag, perm)
}

// Remove removes a file, a link or an empty directory.
func (l *layered) Remove(name string) error {
	info, _, err := l.find(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		if full, err := l.full(name); err != nil || full {
			return errors.Join(err, &fs.PathError{Op: "remove", Path: name, Err: unix.ENOTEMPTY})
		}
	}
	return l.RemoveAll(name)
}

// RemoveAll removes what is at a path, which may be nothing.
func (l *layered) RemoveAll(name string) error {
	if _, _, err := l.find(name); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	if err := l.upper.RemoveAll(name); err != nil {
		return err
	}
	if _, _, err := l.find(name); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	return l.whiteout(name)
}

// whiteout hides what the lower layer has.
func (l *layered) whiteout(name string) error {
	if err := l.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	dir, err := l.upper.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Mknodat(int(dir.Fd()), path.Base(name), unix.S_IFCHR, 0); err != nil {
		return &fs.PathError{Op: "hide", Path: name, Err: err}
	}
	return nil
}

// full reports whether a directory has anything in it.
func (l *layered) full(dir string) (bool, error) {
	for _, layer := range []*os.Root{l.upper, l.lower} {
		f, err := layer.Open(dir)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		if err != nil {
			return false, err
		}
		names, err := f.Readdirnames(-1)
		f.Close()
		if err != nil {
			return false, err
		}
		for _, name := range names {
			if _, _, err := l.find(path.Join(dir, name)); err == nil {
				return true, nil
			} else if !errors.Is(err, fs.ErrNotExist) {
				return false, err
			}
		}
	}
	return false, nil
}

// plainPath reports whether a path can be an option of a mount that somebody
// else makes, who may not know how to protect what separates options.
func plainPath(p string) bool { return !strings.ContainsAny(p, ",:\\\n") }

var errNoEngine = errors.New("only the engine of --sandbox docker mounts them")

// engineWorks tries whether a sandbox mounts the layers of an overlay.
func engineWorks(ctx context.Context, dir string, try func(ctx context.Context, e Entry, root, home string) error) error {
	if try == nil {
		return errNoEngine
	}
	if !plainPath(dir) {
		return errors.New("the path has a character that separates the options of a mount")
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"lower", "tree-upper", workName, "root", "home"} {
		if err := os.Mkdir(at(name), 0o700); err != nil {
			return err
		}
	}
	return try(ctx, Entry{Lower: at("lower"), Upper: at("tree-upper"), Work: at(workName)}, at("root"), at("home"))
}
