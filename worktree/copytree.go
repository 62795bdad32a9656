package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// makeParents makes the directories above a path, replacing what is in their
// way if it is not a directory.
func makeParents(root, name string) error {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}
	if err := makeParents(root, dir); err != nil {
		return err
	}
	at := filepath.Join(root, dir)
	if _, mode, err := lstat(at); err == nil && mode&unix.S_IFMT != unix.S_IFDIR {
		if err := os.Remove(at); err != nil {
			return err
		}
	}
	err := os.Mkdir(at, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// copyTree copies files, links and directories with their modes and
// modification times, and nothing else. Each file's stamp is handed to
// copied, which may be nil and is called concurrently.
func copyTree(ctx context.Context, from, to string, copied func(rel string, s stamp)) error {
	type job struct {
		rel  string
		mode fs.FileMode
	}
	var files []job
	type dirMode struct {
		path string
		mode fs.FileMode
	}
	var locked []dirMode
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		if !d.IsDir() {
			files = append(files, job{rel, d.Type()})
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		perm := info.Mode().Perm()
		if perm&0o700 != 0o700 {
			locked = append(locked, dirMode{filepath.Join(to, rel), perm})
			perm |= 0o700
		}
		err = os.Mkdir(filepath.Join(to, rel), perm)
		if rel == "." && errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	err = parallel(workers, len(files), func(i int) error {
		f := files[i]
		s, err := copyFile(filepath.Join(from, f.rel), filepath.Join(to, f.rel), f.mode)
		if err != nil {
			return fmt.Errorf("copy %s: %w", f.rel, err)
		}
		if copied != nil && s != (stamp{}) {
			copied(filepath.ToSlash(f.rel), s)
		}
		return nil
	})
	for _, l := range locked {
		err = errors.Join(err, os.Chmod(l.path, l.mode))
	}
	return err
}

var copyBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// copyFile copies one file or link; other kinds of file are passed over.
func copyFile(from, to string, mode fs.FileMode) (stamp, error) {
	switch mode.Type() {
	case fs.ModeSymlink:
		target, err := os.Readlink(from)
		if err != nil {
			return stamp{}, err
		}
		s, _, err := lstat(from)
		if err != nil {
			return stamp{}, err
		}
		if err := os.Symlink(target, to); err != nil {
			return stamp{}, err
		}
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, to, []unix.Timespec{s.mtime, s.mtime}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return stamp{}, err
		}
		s, _, err = lstat(to)
		return s, err
	case 0:
	default:
		return stamp{}, nil
	}
	in, err := unix.Open(from, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return stamp{}, err
	}
	defer unix.Close(in)
	var st unix.Stat_t
	if err := unix.Fstat(in, &st); err != nil {
		return stamp{}, err
	}
	out, err := unix.Open(to, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, st.Mode&0o777|0o200)
	if err != nil {
		return stamp{}, err
	}
	defer unix.Close(out)
	if err := copyData(in, out, st.Size); err != nil {
		return stamp{}, err
	}
	if st.Mode&0o200 == 0 {
		if err := unix.Fchmod(out, st.Mode&0o777); err != nil {
			return stamp{}, err
		}
	}
	times := [2]unix.Timeval{unix.NsecToTimeval(unix.TimespecToNsec(st.Mtim)), unix.NsecToTimeval(unix.TimespecToNsec(st.Mtim))}
	if err := unix.Futimes(out, times[:]); err != nil {
		return stamp{}, err
	}
	if err := unix.Fstat(out, &st); err != nil {
		return stamp{}, err
	}
	return stampOf(&st), nil
}

// copyData copies small files through memory, which is cheapest, and large
// ones in the kernel, which shares blocks where the file system can.
func copyData(in, out int, size int64) error {
	if size > 1<<20 {
		for {
			n, err := unix.CopyFileRange(in, nil, out, nil, 1<<30, 0)
			if err != nil {
				break // goes on below, where this left off
			}
			if n == 0 {
				return nil
			}
		}
	}
	buf := copyBuffers.Get().(*[64 << 10]byte)
	defer copyBuffers.Put(buf)
	for {
		n, err := unix.Read(in, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		for b := buf[:n]; len(b) > 0; {
			m, err := unix.Write(out, b)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return err
			}
			b = b[m:]
		}
	}
}
