package app

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bestof-dev/bestof/internal/ownedlock"
)

// Copies for a diff tool lie in a directory of their own in the temporary
// folder. Its lock is held by whoever made it and by the tool, and is its mark.
const (
	copiesPrefix = "bestof-diff-"
	copiesLock   = "bestof.lock"
	copiesFresh  = time.Minute // one that is younger may not have its lock yet
)

// placeForCopies makes such a directory.
func placeForCopies() (string, *ownedlock.Lock, error) {
	dir, err := os.MkdirTemp("", copiesPrefix)
	if err != nil {
		return "", nil, err
	}
	lock, _, err := ownedlock.Take(filepath.Join(dir, copiesLock), "diff")
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, lock, nil
}

// sweepCopies removes the copies of which neither the one that made them nor
// its tool lives, as after a kill, and returns their directories. Only a
// directory of this user's with our mark is touched, and a link is none.
func sweepCopies(now time.Time, dryRun bool) (gone []string) {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), copiesPrefix) || !e.IsDir() {
			continue
		}
		dir := filepath.Join(os.TempDir(), e.Name())
		made, err := e.Info()
		if err != nil || now.Sub(made.ModTime()) < copiesFresh || !ownFile(made) {
			continue
		}
		if mark, err := os.Lstat(filepath.Join(dir, copiesLock)); err != nil || !mark.Mode().IsRegular() || !ownFile(mark) {
			continue
		}
		lock, _, err := ownedlock.Take(filepath.Join(dir, copiesLock), "sweep")
		if err != nil {
			continue // somebody looks at them
		}
		if dryRun || removeCopies(dir) == nil {
			gone = append(gone, dir)
		}
		_ = lock.Release() // of a file that is gone
	}
	return gone
}

// ownFile reports whether a file is this user's.
func ownFile(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
