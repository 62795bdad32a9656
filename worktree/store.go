package worktree

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/internal/proc"
)

// A Store keeps bases and the shadows of runs in one directory of the host's.
type Store struct {
	dir        string
	background background //  what is deleted, or brought to the disk

	probes probes

	knowing sync.Mutex
	known   map[string]*knownBase // shared ones that were loaded, by key
}

// markFile proves that a directory is ours: it names the inode of the
// directory it was made for, so a copy of the mark elsewhere proves nothing.
const markFile = "bestof.mark"

// A mark says who made a directory.
type mark struct {
	Schema string        `json:"schema"`
	What   string        `json:"what"` // store, base, run, work
	Inode  uint64        `json:"inode"`
	Boot   string        `json:"boot,omitempty"` // of a base: the boot in which it was made
	Run    string        `json:"run,omitempty"`
	Record string        `json:"record,omitempty"`
	Owner  proc.Identity `json:"owner,omitzero"`
}

const markSchema = "bestof.mark/1"

func writeMark(dir string, m mark) error {
	s, _, err := lstat(dir)
	if err != nil {
		return err
	}
	m.Schema, m.Inode = markSchema, s.ino
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, markFile), append(b, '\n'), 0o600)
}

// readMark reads the mark of a directory that is provably ours.
func readMark(dir string) (mark, error) {
	var m mark
	s, mode, err := lstat(dir)
	if err != nil {
		return m, err
	}
	if mode&unix.S_IFMT != unix.S_IFDIR {
		return m, fmt.Errorf("%s is not a directory", dir)
	}
	b, err := os.ReadFile(filepath.Join(dir, markFile))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil || m.Schema != markSchema {
		return m, fmt.Errorf("%s: the mark is not one of ours", dir)
	}
	if m.Inode != s.ino {
		return m, fmt.Errorf("%s: the mark was made for another directory", dir)
	}
	return m, nil
}

// OpenStore opens the store below dir, which it makes if need be. It refuses
// a directory inside of a repository, since whoever controls that would then
// control the store.
func OpenStore(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	for d := dir; d != filepath.Dir(d); d = filepath.Dir(d) {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return nil, fmt.Errorf("open store: %s is inside the repository %s: choose a directory outside of any", dir, d)
		}
	}
	if _, err := readMark(dir); errors.Is(err, fs.ErrNotExist) {
		names, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
		if len(names) > 0 && !onlyTemporary(names) {
			return nil, fmt.Errorf("open store: %s holds other files: choose an empty directory", dir)
		}
		if err := writeMark(dir, mark{What: "store"}); err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{dir: dir}
	for _, sub := range []string{"bases", "locks", "runs", "work", "trash"} {
		if err := os.Mkdir(s.path(sub), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("open store: %w", err)
		}
	}
	return s, nil
}

// onlyTemporary allows what another process that opens the store is writing.
func onlyTemporary(names []fs.DirEntry) bool {
	for _, n := range names {
		if !strings.HasPrefix(n.Name(), ".tmp-") && n.Name() != markFile {
			return false
		}
	}
	return true
}

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// RunDir is where the shadows of the run of that id are, or would be.
func (s *Store) RunDir(id string) string { return filepath.Join(s.dir, "runs", id) }

var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// A work directory is where something is made before it gets its name.
func (s *Store) newWork(m mark) (string, error) {
	owner, err := proc.Self()
	if err != nil {
		return "", err
	}
	m.Owner = owner
	dir := s.path("work", rand.Text())
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	return dir, writeMark(dir, m)
}

// discard takes a directory of ours out of sight at once and deletes it in
// the background. What is mounted below it must be unmounted before.
func (s *Store) discard(dir string) error {
	if !strings.HasPrefix(dir, s.dir+"/") {
		return fmt.Errorf("remove %s: it is not in the store", dir)
	}
	if mounts, err := mountsBelow(dir); err != nil || len(mounts) > 0 {
		return errors.Join(err, fmt.Errorf("remove %s: something is mounted there", dir))
	}
	to := s.path("trash", rand.Text())
	err := os.Rename(dir, to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	s.background.Go(func() { _ = removeAll(context.Background(), to) }) // gc finds what stays
	return nil
}

// Wait returns when what was removed so far is deleted, and the bases that
// were made are on the disk.
func (s *Store) Wait() { s.background.Wait() }

// removeAll removes a tree without following links, also where a program took
// away the right to write into directories.
func removeAll(ctx context.Context, dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
