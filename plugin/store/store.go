// Package store keeps installed plugins: it stages a package, installs what
// was agreed to and nothing else, loads what is still what was agreed to, and
// removes it.
package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/plugin"
)

// A Scope is where a plugin is installed.
type Scope string

const (
	Project Scope = "project" // this repository only
	User    Scope = "user"    // every repository
)

// ErrNotInstalled means that no tier has a plugin of the name.
var ErrNotInstalled = errors.New("no such plugin is installed")

// A Store knows two tiers: the operator's and, inside a repository, the
// repository's.
type Store struct {
	home    string // $BESTOF_HOME
	top     string // of the repository, "" outside of one
	trusted bool
}

// New returns the store of an operator whose files are in home, for the
// repository at top. trusted says whether what the repository brings may be
// used; only the operator's environment can say so.
func New(home, top string, trusted bool) *Store { return &Store{home, top, trusted} }

// tier is the directory that holds the plugins of a scope.
func (s *Store) tier(scope Scope) string {
	if scope == User {
		return filepath.Join(s.home, "plugins")
	}
	return filepath.Join(s.top, ".bestof", "plugins")
}

func (s *Store) scopes() []Scope {
	if s.top == "" {
		return []Scope{User}
	}
	return []Scope{Project, User}
}

// A receipt is what someone agreed to. Receipts are the operator's: a
// repository cannot bring one.
type receipt struct {
	Schema     string        `json:"schema"`
	Name       plugin.Name   `json:"name"`
	Scope      Scope         `json:"scope"`
	Repository string        `json:"repository,omitempty"`
	Digest     string        `json:"digest"`
	Files      []plugin.File `json:"files"`
	Agreed     time.Time     `json:"agreed"`
}

const receiptSchema = "bestof.receipt/1"

func (s *Store) receipts() string { return filepath.Join(s.home, "receipts") }

// repository is what a receipt is bound to, besides the name.
func (s *Store) repository(scope Scope) string {
	if scope == User {
		return ""
	}
	if real, err := filepath.EvalSymlinks(s.top); err == nil {
		return real
	}
	return s.top
}

func (s *Store) receiptPath(scope Scope, name plugin.Name) string {
	sum := sha256.Sum256([]byte(string(scope) + "\x00" + s.repository(scope) + "\x00" + string(name)))
	return filepath.Join(s.receipts(), hex.EncodeToString(sum[:16])+".json")
}

// receipt reads what was agreed to; nil means nothing. A receipt that cannot
// be read counts as an agreement to nothing that exists.
func (s *Store) receipt(scope Scope, name plugin.Name) *receipt {
	b, err := os.ReadFile(s.receiptPath(scope, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var r receipt
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil || r.Schema != receiptSchema || r.Name != name || r.Scope != scope || r.Repository != s.repository(scope) {
		return &receipt{}
	}
	return &r
}

// A Staged package is a copy of a package that nobody can change any more but
// who could change everything: what is shown of it is what is installed.
type Staged struct {
	Package *plugin.Package
	Tree    plugin.Tree
	Scope   Scope
	Dir     string // the copy
	store   *Store
}

// Stage copies the package in dir next to where it would be installed, and
// reads the copy. Someone has to Discard it.
func (s *Store) Stage(dir string, scope Scope) (*Staged, error) {
	tier, err := s.prepare(scope)
	if err != nil {
		return nil, err
	}
	sweep(tier)
	st, err := stage(dir, tier)
	if err != nil {
		return nil, err
	}
	st.Scope, st.store = scope, s
	return st, nil
}

// StageIn copies the package in dir into a directory of the caller's, to look
// at it. It cannot be installed.
func StageIn(dir, into string) (*Staged, error) { return stage(dir, into) }

func stage(dir, into string) (*Staged, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	from, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	st := &Staged{}
	if st.Dir, err = os.MkdirTemp(into, fmt.Sprintf(".staging-%d-*", os.Getpid())); err != nil {
		return nil, err
	}
	if err := st.fill(from); err != nil {
		return nil, errors.Join(err, st.Discard())
	}
	return st, nil
}

func (st *Staged) fill(from *os.Root) error {
	if err := os.Chmod(st.Dir, 0o755); err != nil {
		return err
	}
	to, err := os.OpenRoot(st.Dir)
	if err != nil {
		return err
	}
	defer to.Close()
	if st.Tree, err = copyTree(from, to); err != nil {
		return err
	}
	if st.Package, err = plugin.Read(to.FS()); err != nil {
		return err
	}
	return st.Package.Name.Check()
}

// prepare makes a tier's directory. In a repository no part of its path may be
// a link.
func (s *Store) prepare(scope Scope) (string, error) {
	tier := s.tier(scope)
	if scope == User {
		return tier, os.MkdirAll(tier, 0o700)
	}
	if scope != Project || s.top == "" {
		return "", errors.New("there is no repository to install it in: choose the scope user, or name a repository")
	}
	for _, dir := range []string{filepath.Dir(tier), tier} {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	return tier, s.sound(scope)
}

// sound refuses a tier of a repository that leads somewhere else.
func (s *Store) sound(scope Scope) error {
	if scope == User {
		return nil
	}
	tier := s.tier(scope)
	for _, dir := range []string{filepath.Dir(tier), tier} {
		if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
			return fmt.Errorf("%s is not a directory of its own", dir)
		}
	}
	return nil
}

// sweep removes what killed installations left.
func sweep(tier string) {
	names, _ := filepath.Glob(filepath.Join(tier, ".staging-*"))
	for _, name := range names {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(name), ".staging-"), "-")
		if n, err := strconv.Atoi(pid); err == nil && n > 0 && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			_ = os.RemoveAll(name)
		}
	}
}

// Discard removes the copy. After Install it does nothing.
func (st *Staged) Discard() error { return os.RemoveAll(st.Dir) }

// Install puts the package in its place, under the lock of the store and only
// if the copy still is what it was when it was staged. It replaces nothing: a
// plugin of the same name has to be removed first.
func (st *Staged) Install(now time.Time) (Installed, error) {
	s, name := st.store, st.Package.Name
	if s == nil {
		return Installed{}, errors.New("this copy is not to be installed")
	}
	unlock, err := s.lock()
	if err != nil {
		return Installed{}, err
	}
	defer unlock()
	if err := s.Free(name, st.Scope); err != nil {
		return Installed{}, err
	}
	root, err := os.OpenRoot(st.Dir)
	if err != nil {
		return Installed{}, err
	}
	tree, err := treeOf(root)
	root.Close()
	if err != nil {
		return Installed{}, err
	}
	if tree.Digest != st.Tree.Digest {
		return Installed{}, fmt.Errorf("the copy of %q changed since it was shown: %s", name, changes(st.Tree.Files, tree.Files))
	}
	b, err := json.MarshalIndent(receipt{receiptSchema, name, st.Scope, s.repository(st.Scope), tree.Digest, tree.Files, now.UTC()}, "", "  ")
	if err != nil {
		return Installed{}, err
	}
	path := s.receiptPath(st.Scope, name)
	if err := atomicfile.Write(path, append(b, '\n'), 0o600); err != nil {
		return Installed{}, fmt.Errorf("write the receipt: %w", err)
	}
	dest := filepath.Join(s.tier(st.Scope), string(name))
	err = unix.Renameat2(unix.AT_FDCWD, st.Dir, unix.AT_FDCWD, dest, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		err = os.Rename(st.Dir, dest) // this file system cannot promise; the lock and Free did
	}
	if err != nil {
		return Installed{}, errors.Join(fmt.Errorf("put %q in its place: %w", name, err), os.Remove(path))
	}
	if err := atomicfile.SyncDir(filepath.Dir(dest)); err != nil {
		return Installed{}, err
	}
	return Installed{Package: st.Package, Tree: tree, Scope: st.Scope, Dir: dest, Agreed: now.UTC()}, nil
}

func (s *Store) lock() (unlock func(), err error) {
	if err := os.MkdirAll(s.receipts(), 0o700); err != nil {
		return nil, err
	}
	l := flock.New(filepath.Join(s.receipts(), ".lock"))
	if err := l.Lock(); err != nil {
		return nil, fmt.Errorf("lock the plugins: %w", err)
	}
	return func() { _ = l.Close() }, nil
}

// Free refuses a name that the scope has already.
func (s *Store) Free(name plugin.Name, scope Scope) error {
	tier := s.tier(scope)
	if _, err := os.Lstat(filepath.Join(tier, string(name))); err == nil {
		return fmt.Errorf("%q is installed in the scope %s already: remove it first with `bestof plugin remove`", name, scope)
	}
	for _, dir := range directories(tier) {
		if n, err := nameIn(filepath.Join(tier, dir)); err == nil && n == name {
			return fmt.Errorf("%s in the scope %s is called %q already: remove it first with `bestof plugin remove`", dir, scope, name)
		}
	}
	return nil
}

// directories lists what could be plugins in a tier, sorted.
func directories(tier string) []string {
	entries, _ := os.ReadDir(tier)
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && (e.IsDir() || e.Type()&fs.ModeSymlink != 0) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names
}

// nameIn is the name in the manifest of a directory.
func nameIn(dir string) (plugin.Name, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	m, err := plugin.ReadManifest(root.FS())
	if err != nil {
		return "", err
	}
	return m.Name, nil
}
