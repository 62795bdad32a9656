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
// copied, which may be nil and is called concurrently. When clone is set,
// larger files share their blocks with the copies.
func copyTree(ctx context.Context, from, to string, clone bool, copied func(rel string, s stamp)) error {
	c := copier{clone: clone, copied: copied, jobs: make(chan copyJob, 4*workers)}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for j := range c.jobs {
				if ctx.Err() == nil {
					if err := c.files(j); err != nil {
						cancel(err)
					}
				}
				unix.Close(j.from)
				unix.Close(j.to)
			}
		})
	}
	if err := os.Mkdir(to, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		cancel(err)
	}
	if err := c.dir(ctx, unix.AT_FDCWD, unix.AT_FDCWD, from, to, ""); err != nil {
		cancel(err)
	}
	close(c.jobs)
	wg.Wait()
	err := context.Cause(ctx)
	// Directories that may not be written into become so when they are full.
	for _, l := range c.locked {
		err = errors.Join(err, os.Chmod(filepath.Join(to, l.rel), l.mode))
	}
	return err
}

// A copier copies one tree. One goroutine makes the directories, a few fill
// them.
type copier struct {
	clone  bool
	copied func(rel string, s stamp)
	jobs   chan copyJob
	locked []struct {
		rel  string
		mode fs.FileMode
	}
}

// A copyJob is some entries of one directory. It owns the descriptors.
type copyJob struct {
	from, to int
	rel      string
	names    []fs.DirEntry
}

func (c *copier) dir(ctx context.Context, fromParent, toParent int, from, to, rel string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW
	in, err := unix.Openat(fromParent, from, flags, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: from, Err: err}
	}
	f := os.NewFile(uintptr(in), from)
	defer f.Close()
	out, err := unix.Openat(toParent, to, flags, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: to, Err: err}
	}
	defer unix.Close(out)
	entries, err := f.ReadDir(-1)
	if err != nil {
		return err
	}
	files := entries[:0:0]
	for _, e := range entries {
		if !e.IsDir() {
			files = append(files, e)
			continue
		}
		name := e.Name()
		var st unix.Stat_t
		if err := unix.Fstatat(in, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return &os.PathError{Op: "stat", Path: join(rel, name), Err: err}
		}
		if perm := st.Mode & 0o777; perm&0o700 != 0o700 {
			c.locked = append(c.locked, struct {
				rel  string
				mode fs.FileMode
			}{join(rel, name), fs.FileMode(perm)})
		}
		if err := unix.Mkdirat(out, name, st.Mode&0o777|0o700); err != nil {
			return &os.PathError{Op: "mkdir", Path: join(rel, name), Err: err}
		}
		if err := c.dir(ctx, in, out, name, name, join(rel, name)); err != nil {
			return err
		}
	}
	for len(files) > 0 {
		n := min(len(files), 256)
		j := copyJob{rel: rel, names: files[:n]}
		files = files[n:]
		if j.from, err = unix.FcntlInt(uintptr(in), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return err
		}
		if j.to, err = unix.FcntlInt(uintptr(out), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			unix.Close(j.from)
			return err
		}
		c.jobs <- j
	}
	return nil
}

func (c *copier) files(j copyJob) error {
	for _, e := range j.names {
		s, err := c.file(j.from, j.to, e.Name(), e.Type())
		if err != nil {
			return fmt.Errorf("copy %s: %w", join(j.rel, e.Name()), err)
		}
		if c.copied != nil && s != (stamp{}) {
			c.copied(join(j.rel, e.Name()), s)
		}
	}
	return nil
}

// file copies one file or link; other kinds of file are passed over.
func (c *copier) file(from, to int, name string, mode fs.FileMode) (stamp, error) {
	switch mode {
	case fs.ModeSymlink:
		var st unix.Stat_t
		if err := unix.Fstatat(from, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return stamp{}, err
		}
		target := make([]byte, 4097)
		n, err := unix.Readlinkat(from, name, target)
		if err != nil {
			return stamp{}, err
		}
		if err := unix.Symlinkat(string(target[:n]), to, name); err != nil {
			return stamp{}, err
		}
		return finish(to, name, []unix.Timespec{st.Mtim, st.Mtim})
	case 0:
	default:
		return stamp{}, nil
	}
	in, err := unix.Openat(from, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return stamp{}, err
	}
	defer unix.Close(in)
	var st unix.Stat_t
	if err := unix.Fstat(in, &st); err != nil {
		return stamp{}, err
	}
	out, err := unix.Openat(to, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, st.Mode&0o777|0o200)
	if err != nil {
		return stamp{}, err
	}
	if c.clone && st.Size >= cloneFrom {
		err = unix.IoctlFileClone(out, in)
	} else {
		err = copyData(in, out, st.Size)
	}
	if err == nil && st.Mode&0o200 == 0 {
		err = unix.Fchmod(out, st.Mode&0o777)
	}
	if cerr := unix.Close(out); err == nil {
		err = cerr
	}
	if err != nil {
		return stamp{}, err
	}
	return finish(to, name, []unix.Timespec{st.Mtim, st.Mtim})
}

var copyBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

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
		if err != nil || n == 0 {
			return err
		}
		if err := writeAll(out, buf[:n]); err != nil {
			return err
		}
		if int64(n) == size {
			return nil // nothing writes to what is copied
		}
	}
}

// moveTree renames a directory, which takes a copy when it is to be in
// another subvolume.
func moveTree(ctx context.Context, from, to string) error {
	err := os.Rename(from, to)
	if !errors.Is(err, unix.EXDEV) {
		return err
	}
	if err := copyTree(ctx, from, to, true, nil); err != nil {
		return err
	}
	return removeAll(ctx, from)
}
