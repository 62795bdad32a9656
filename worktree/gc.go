package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// GCOptions says what a collection may remove.
type GCOptions struct {
	Keep         func(run string) bool // runs to leave although nobody runs them; nil keeps none
	MaxBaseBytes int64                 // what all bases may take together; 0 is no limit
	OlderThan    time.Duration         // only runs that began so long before Now
	Now          time.Time
	DryRun       bool
	Sweep        Sweeper // for what engine shadows left; nil leaves it
}

// A GCReport says what was, or would be, removed.
type GCReport struct {
	Runs   []string // whose process has died
	Bases  []string // least recently used first
	Trash  []string // taken out of sight earlier, or never finished
	Mounts []string
	Left   []string // only an engine's root can remove what is in them, and it did not
	Bytes  int64
}

// GC removes what nobody will use again. It takes nothing that does not bear
// our mark, nothing of a process that lives and no base in use. It may be
// interrupted and run again at any point.
func (s *Store) GC(ctx context.Context, o GCOptions) (GCReport, error) {
	if o.Now.IsZero() {
		return GCReport{}, errors.New("gc: the time is not set")
	}
	var report GCReport
	err := errors.Join(s.gcRuns(ctx, o, &report), s.gcWork(ctx, o, &report), s.gcBases(ctx, o, &report), s.gcTrash(ctx, o, &report))
	if err != nil {
		err = fmt.Errorf("gc: %w", err)
	}
	s.Wait()
	return report, err
}

// names lists a directory of the store.
func (s *Store) names(sub string) ([]string, error) {
	entries, err := os.ReadDir(s.path(sub))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (s *Store) gcRuns(ctx context.Context, o GCOptions, report *GCReport) error {
	ids, err := s.names("runs")
	if err != nil {
		return err
	}
	for _, id := range ids {
		dir := s.path("runs", id)
		m, err := readMark(dir)
		if err != nil || m.What != "run" || m.Run != id || m.Owner.Alive() || (o.Keep != nil && o.Keep(id)) {
			continue
		}
		info, err := os.Lstat(filepath.Join(dir, markFile))
		if err != nil || o.Now.Sub(info.ModTime()) < o.OlderThan {
			continue
		}
		if err := s.collect(ctx, dir, o, report); err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		report.Runs = append(report.Runs, id)
	}
	return nil
}

// collect unmounts what is below a directory of ours and discards it.
func (s *Store) collect(ctx context.Context, dir string, o GCOptions, report *GCReport) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	report.Mounts = append(report.Mounts, mounts...)
	if o.DryRun {
		report.Bytes += diskBytes(ctx, dir)
		return nil
	}
	if _, err := unmountBelow(dir); err != nil {
		return err
	}
	report.Bytes += diskBytes(ctx, dir)
	return s.discard(dir)
}

// gcWork removes what a process that died was making.
func (s *Store) gcWork(ctx context.Context, o GCOptions, report *GCReport) error {
	names, err := s.names("work")
	if err != nil {
		return err
	}
	for _, name := range names {
		dir := s.path("work", name)
		m, err := readMark(dir)
		if errors.Is(err, fs.ErrNotExist) && o.Now.Sub(modTime(dir)) > time.Hour && !o.DryRun {
			// Its maker died before it could mark it: it holds at most an
			// unfinished mark. A directory with anything else in it stays.
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), ".tmp-") {
					_ = os.Remove(filepath.Join(dir, e.Name()))
				}
			}
			_ = os.Remove(dir)
		}
		if err != nil || m.Owner.Alive() {
			continue
		}
		if err := s.collect(ctx, dir, o, report); err != nil {
			return fmt.Errorf("unfinished %s: %w", name, err)
		}
		report.Trash = append(report.Trash, name)
	}
	return nil
}

func modTime(path string) time.Time {
	info, err := os.Lstat(path)
	if err != nil {
		return time.Unix(1<<40, 0)
	}
	return info.ModTime()
}

func (s *Store) gcTrash(ctx context.Context, o GCOptions, report *GCReport) error {
	s.Wait() // what this process is deleting is as good as gone
	names, err := s.names("trash")
	if err != nil {
		return err
	}
	for _, name := range names {
		dir := s.path("trash", name)
		report.Trash = append(report.Trash, name)
		report.Bytes += diskBytes(ctx, dir)
		if o.DryRun {
			continue
		}
		mounts, err := unmountBelow(dir)
		if err != nil {
			return err
		}
		report.Mounts = append(report.Mounts, mounts...)
		left, err := sweep(ctx, dir, o.Sweep)
		report.Left = append(report.Left, left...)
		if rerr := removeAll(ctx, dir); rerr != nil && len(left) == 0 {
			err = errors.Join(err, rerr)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gcBases evicts bases, least recently used first, until they fit.
func (s *Store) gcBases(ctx context.Context, o GCOptions, report *GCReport) error {
	keys, err := s.names("bases")
	if err != nil {
		return err
	}
	type base struct {
		key   string
		used  time.Time
		bytes int64
	}
	var bases []base
	var total int64
	for _, key := range keys {
		dir := s.path("bases", key)
		if m, err := readMark(dir); err != nil || m.What != "base" {
			continue
		}
		b := base{key, modTime(filepath.Join(dir, markFile)), diskBytes(ctx, dir)}
		total += b.bytes
		bases = append(bases, b)
	}
	slices.SortFunc(bases, func(a, b base) int { return a.used.Compare(b.used) })
	for _, b := range bases {
		// A private base outlives its run only when that was killed.
		fits := o.MaxBaseBytes <= 0 || total <= o.MaxBaseBytes
		if fits && !strings.HasPrefix(b.key, privatePrefix) {
			continue
		}
		lock := flock.New(s.path("locks", b.key), flock.SetPermissions(0o600))
		free, err := lock.TryLock()
		if err != nil {
			return fmt.Errorf("base %s: %w", b.key, err)
		}
		if !free {
			continue
		}
		err = s.collect(ctx, s.path("bases", b.key), o, report)
		if err = errors.Join(err, lock.Unlock()); err != nil {
			return fmt.Errorf("base %s: %w", b.key, err)
		}
		total -= b.bytes
		report.Bases = append(report.Bases, b.key)
	}
	return nil
}
