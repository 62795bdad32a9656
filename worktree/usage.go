package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Usage is what the store takes on the disk, in bytes. Trash includes what
// was never finished. Blocks that files share (reflinks, snapshots) count for
// each of them.
type Usage struct {
	Bases, Runs, Trash              int
	BaseBytes, RunBytes, TrashBytes int64
	Shadows                         []ShadowUse // of each of the runs
}

// A ShadowUse is what the shadows of one run take.
type ShadowUse struct {
	Run    string
	Record string // directory of its record, in the repository it works for; "" when its mark is not readable
	Bytes  int64
}

// Usage measures the store.
func (s *Store) Usage(ctx context.Context) (Usage, error) {
	var u Usage
	for _, part := range []struct {
		dir   string
		n     *int
		bytes *int64
	}{{"bases", &u.Bases, &u.BaseBytes}, {"runs", &u.Runs, &u.RunBytes}, {"trash", &u.Trash, &u.TrashBytes}, {"work", &u.Trash, &u.TrashBytes}} {
		names, err := s.names(part.dir)
		if err != nil {
			return u, fmt.Errorf("measure the store: %w", err)
		}
		for _, name := range names {
			dir := s.path(part.dir, name)
			n := diskBytes(ctx, dir)
			*part.n++
			*part.bytes += n
			if part.dir != "runs" {
				continue
			}
			use := ShadowUse{Run: name, Bytes: n}
			if m, err := readMark(dir); err == nil && m.What == "run" && m.Run == name {
				use.Record = m.Record
			}
			u.Shadows = append(u.Shadows, use)
		}
	}
	return u, ctx.Err()
}

// DiskUse adds up what a directory takes on its file system, in bytes, by the
// name that sort gives to each slash separated path below it; "." is the
// directory itself. It follows no link, does not look into what is mounted
// there, counts a file with several names once, and counts what it cannot
// read as nothing. A directory that is not there takes nothing.
func DiskUse(ctx context.Context, dir string, sort func(rel string) string) (map[string]int64, error) {
	used := make(map[string]int64)
	mounts, err := mountsBelow(dir)
	if err != nil {
		return nil, fmt.Errorf("measure %s: %w", dir, err)
	}
	seen := make(map[[2]uint64]bool)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var st unix.Stat_t
		if err != nil || unix.Lstat(path, &st) != nil {
			return nil
		}
		if d.IsDir() && slices.Contains(mounts, path) {
			return fs.SkipDir
		}
		if st.Nlink > 1 && !d.IsDir() {
			id := [2]uint64{uint64(st.Dev), st.Ino}
			if seen[id] {
				return nil
			}
			seen[id] = true
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		used[sort(filepath.ToSlash(rel))] += st.Blocks * 512
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("measure %s: %w", dir, err)
	}
	return used, nil
}

// diskBytes is all of what DiskUse finds, or nothing.
func diskBytes(ctx context.Context, dir string) int64 {
	used, err := DiskUse(ctx, dir, func(string) string { return "" })
	if err != nil {
		return 0
	}
	return used[""]
}
