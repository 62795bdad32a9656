package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"
	"unsafe"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/worktree/internal/gitexec"
)

// A group is a few files that are worked on together: neighbours, which are
// mostly in one directory.
const (
	groupFiles = 64
	groupBytes = 4 << 20
)

// each reads files and hands their contents to f, those of a group at a time
// with their places in files, from a few goroutines. A commit's contents hold
// until f returns.
func (src *source) each(ctx context.Context, files []sourceFile, f func(at []int, data [][]byte) error) error {
	if !src.snapshot {
		return src.eachBlob(ctx, files, f)
	}
	var starts []int
	var bytes int64
	for i := range files {
		if n := len(starts); n == 0 || i-starts[n-1] == groupFiles || bytes+files[i].size > groupBytes {
			starts, bytes = append(starts, i), 0
		}
		bytes += files[i].size
	}
	return parallel(workers, len(starts), func(n int) error {
		to := len(files)
		if n+1 < len(starts) {
			to = starts[n+1]
		}
		var at []int
		var data [][]byte
		for i := starts[n]; i < to; i++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			b := files[i].data
			files[i].data = nil
			if b == nil {
				var err error
				if b, err = src.read(files[i]); err != nil {
					return fmt.Errorf("%s: %w", files[i].path, err)
				}
			}
			at, data = append(at, i), append(data, b)
		}
		return f(at, data)
	})
}

// eachBlob reads the files of a commit: those that were packed from there,
// the others through one process of git's for each repository in a run.
func (src *source) eachBlob(ctx context.Context, files []sourceFile, f func(at []int, data [][]byte) error) error {
	var there []located
	var rest []int
	for i := range files {
		if off := files[i].packed; off > 0 {
			there = append(there, located{i, off})
		} else {
			rest = append(rest, i)
		}
	}
	if len(there) > 0 {
		if err := src.pack.each(ctx, there, f); err != nil {
			return err
		}
	}
	return eachOfGit(ctx, files, rest, f)
}

// eachOfGit is eachBlob for what git must be asked for: the files in which.
func eachOfGit(ctx context.Context, files []sourceFile, which []int, f func(at []int, data [][]byte) error) error {
	type group struct {
		at   []int
		data [][]byte
	}
	groups := make(chan group)
	done := make(chan error, workers)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for range workers {
		go func() {
			var err error
			for g := range groups {
				if err == nil {
					if err = f(g.at, g.data); err != nil {
						cancel(err)
					}
				}
			}
			done <- err
		}()
	}
	var err error
	for len(which) > 0 && err == nil {
		repo := files[which[0]].repo
		var ids []string
		for _, i := range which {
			if files[i].repo != repo {
				break
			}
			ids = append(ids, files[i].object)
		}
		var next group
		bytes := 0
		err = repo.git.Blobs(ctx, ids, maxBaseFile, func(i int, data []byte) error {
			next.at, next.data = append(next.at, which[i]), append(next.data, data)
			if bytes += len(data); len(next.data) == groupFiles || bytes >= groupBytes || i == len(ids)-1 {
				groups <- next
				next, bytes = group{}, 0
			}
			return ctx.Err()
		})
		if errors.Is(err, gitexec.ErrMissing) || repo.partial && gitexec.Code(err) > 0 {
			err = errMissingObject
		}
		which = which[len(ids):]
	}
	close(groups)
	for range workers {
		if werr := <-done; werr != nil {
			err = werr // the cause of the reader's
		}
	}
	return err
}

// copyFiles writes files below root and returns their stamps. It adds the
// contents to the pack that the source's pack does not have, and fails with
// errChanged when a content is not what its id says.
func (src *source) copyFiles(ctx context.Context, root string, files []sourceFile, pack *packWriter) ([]stamp, error) {
	made := map[string]bool{".": true}
	var mkdir func(dir string) error
	mkdir = func(dir string) error {
		if made[dir] {
			return nil
		}
		made[dir] = true
		if err := mkdir(path.Dir(dir)); err != nil {
			return err
		}
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		return nil
	}
	for _, f := range files {
		if err := mkdir(path.Dir(f.path)); err != nil {
			return nil, err
		}
	}
	stamps := make([]stamp, len(files))
	err := src.each(ctx, files, func(at []int, contents [][]byte) error {
		dir := openDir{root: root, fd: -1}
		defer dir.close()
		for n, data := range contents {
			f := &files[at[n]]
			// git proved its own; a file of the user's is proved by its
			// stamp, but for one so young that it may have changed within it.
			if src.snapshot && f.stamp.ctime.Sec >= src.begun-settled && hashObject(plumbing.BlobObject, data) != f.id {
				return fmt.Errorf("%s: %w", f.path, errChanged)
			}
			f.size = int64(len(data))
			fd, err := dir.open(path.Dir(f.path))
			if err != nil {
				return err
			}
			if stamps[at[n]], err = writeNew(fd, path.Base(f.path), f.mode, data, f.mtime); err != nil {
				return err
			}
			if pack == nil {
				continue
			}
			if isPointer(data) {
				src.pointers.Add(1)
			}
			if f.packed > 0 {
				continue
			}
			if err := pack.add(plumbing.BlobObject, f.id, data); err != nil {
				return err
			}
		}
		return nil
	})
	return stamps, err
}

// An openDir keeps the directory open that was needed last.
type openDir struct {
	root, dir string
	fd        int
}

func (d *openDir) open(dir string) (int, error) {
	if d.fd >= 0 && d.dir == dir {
		return d.fd, nil
	}
	d.close()
	at := filepath.Join(d.root, dir)
	fd, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: at, Err: err}
	}
	d.dir, d.fd = dir, fd
	return fd, nil
}

func (d *openDir) close() {
	if d.fd >= 0 {
		unix.Close(d.fd)
		d.fd = -1
	}
}

// settled is how many seconds old a file's ctime must be before another
// change is certain to show in it.
const settled = 2

// clampPast keeps a modification time a little in the past, so that git's
// index, which is written now, need not doubt the file.
func clampPast(t unix.Timespec) unix.Timespec {
	limit := time.Now().Add(-3 * time.Second).Unix()
	if t.Sec > limit {
		return unix.Timespec{Sec: limit}
	}
	return t
}

// writeNew makes a file or link that must not exist, below an open directory.
func writeNew(dirfd int, name string, mode Mode, data []byte, mtime unix.Timespec) (stamp, error) {
	fail := func(op string, err error) (stamp, error) {
		return stamp{}, &os.PathError{Op: op, Path: name, Err: err}
	}
	mtime = clampPast(mtime)
	times := [2]unix.Timespec{mtime, mtime}
	if mode == ModeLink {
		if err := unix.Symlinkat(string(data), dirfd, name); err != nil {
			return fail("symlink", err)
		}
		return finish(dirfd, name, times[:])
	}
	perm := uint32(0o644)
	if mode == ModeExec {
		perm = 0o755
	}
	fd, err := unix.Openat(dirfd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
	if err != nil {
		return fail("create", err)
	}
	err = writeAll(fd, data)
	var st unix.Stat_t
	if err == nil {
		err = setTimes(fd, &times)
	}
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	if err != nil {
		return fail("write", err)
	}
	return stampOf(&st), nil
}

// setTimes is futimens(3): it spares another look-up of the name.
func setTimes(fd int, times *[2]unix.Timespec) error {
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(times)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// writeAll writes to a file that may take it in parts.
func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// finish sets the times of a link and returns its stamp.
func finish(dirfd int, name string, times []unix.Timespec) (stamp, error) {
	if err := unix.UtimesNanoAt(dirfd, name, times, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return stamp{}, fmt.Errorf("set the time of %s: %w", name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return stamp{}, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	return stampOf(&st), nil
}
