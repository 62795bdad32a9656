// Package atomicfile writes files so that a reader, also one after a crash,
// sees the old content or the new and nothing between.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Write replaces the file at path. The content and the name are on the disk
// when it returns. What a process that was killed in a Write left in the
// directory an hour ago or more is removed.
func Write(path string, data []byte, perm os.FileMode) (err error) {
	removeStale(filepath.Dir(path))
	f, err := create(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
		if cerr := f.Close(); err == nil { // not before the rename: it ends the lock
			err = cerr
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(perm)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err == nil {
		err = SyncDir(filepath.Dir(path))
	}
	return err
}

// temporary begins the names of what is being written.
const temporary = ".tmp-bestof-"

// create makes a temporary in dir that is locked until it is closed, so however
// this process ends. On a file system without locks it has none, and nobody
// can take it for stale.
func create(dir string) (*os.File, error) {
	for range 100 {
		f, err := os.CreateTemp(dir, temporary+"*")
		if err != nil {
			return nil, err
		}
		locked := lock(f)
		if _, err := os.Lstat(f.Name()); !errors.Is(locked, unix.EWOULDBLOCK) && !errors.Is(err, fs.ErrNotExist) {
			return f, nil
		}
		os.Remove(f.Name()) // somebody took it for stale before it was locked
		f.Close()
	}
	return nil, fmt.Errorf("write in %s: another process locks or removes what is being written: end it", dir)
}

// stale is the age of a temporary that can be removed. Where the locks of a file
// system are known to one host only, no write of another host takes so long.
const stale = time.Hour

// isTemporary reports whether a name is one that create makes.
func isTemporary(name string) bool {
	number, ok := strings.CutPrefix(name, temporary)
	n, err := strconv.ParseUint(number, 10, 32)
	return ok && err == nil && number == strconv.FormatUint(n, 10)
}

// removeStale removes the temporaries in dir that are ours, old, and written by
// nobody. It looks at so many names only.
func removeStale(dir string) {
	const most = 10_000
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	entries, _ := d.ReadDir(most)
	for _, e := range entries {
		if !isTemporary(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		f, err := os.OpenFile(filepath.Join(dir, e.Name()), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if held, err := f.Stat(); err == nil && ours(held) && time.Since(held.ModTime()) > stale && lock(f) == nil {
			if there, err := os.Lstat(f.Name()); err == nil && os.SameFile(held, there) {
				os.Remove(f.Name())
			}
		}
		f.Close()
	}
}

func ours(info fs.FileInfo) bool {
	sys, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Getuid()
}

func lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
