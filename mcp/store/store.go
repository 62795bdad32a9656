// Package store keeps what is configured about MCP servers: the mcp.toml of
// the repository and of the operator, and the operator's grants, which lie
// where no repository can write.
package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/internal/stricttoml"
	"github.com/bestof-dev/bestof/mcp"
)

// A Store knows the files of two scopes: the operator's and, inside a
// repository, the repository's.
type Store struct {
	home    string // $BESTOF_HOME
	top     string // of the repository, "" outside of one
	trusted bool
}

// New returns the store of an operator whose files are in home, for the
// repository at top. trusted says whether what the repository brings may be
// used; only the operator's environment can say so.
func New(home, top string, trusted bool) *Store {
	s := &Store{home, top, trusted}
	if top != "" && sameDir(filepath.Join(top, ".bestof"), home) {
		s.top = "" // the operator's home is a repository: the file is the operator's
	}
	return s
}

func sameDir(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// Trusted reports whether the repository's file counts.
func (s *Store) Trusted() bool { return s.trusted }

// Repository reports whether there is a repository's file, or could be.
func (s *Store) Repository() bool { return s.top != "" }

// Shown is how messages call the file of a scope.
func Shown(scope mcp.Scope) string {
	if scope == mcp.User {
		return "$BESTOF_HOME/mcp.toml"
	}
	return ".bestof/mcp.toml"
}

// Loaded is what may be connected, and why the rest may not.
type Loaded struct {
	Entries  []mcp.Entry    // sorted by name; mcp.Entry.Withheld says which may be called
	Unusable []mcp.Unusable // sorted by name
	Notices  []string       // about the files, not about what is Unusable; for stderr, once, cleaned by whoever prints them
}

// Load reads both files for a run. Without trust nothing of the repository's
// is used, and one notice says so. A repository's file that cannot be read
// costs the repository's servers; if the operator's cannot be read no server is
// used at all, since it cannot be said which names are the operator's.
func (s *Store) Load() Loaded {
	user, err := s.Read(mcp.User)
	if err != nil {
		return Loaded{Notices: []string{fmt.Sprintf("no MCP server is used: %v", err)}}
	}
	var out Loaded
	var project mcp.Config
	switch {
	case s.top == "":
	case !s.trusted:
		if s.exists() {
			out.Notices = append(out.Notices, Shown(mcp.Project)+" is not read, since this repository is not trusted (BESTOF_TRUST_PROJECT=1 trusts it)")
		}
	default:
		if project, err = s.Read(mcp.Project); err != nil {
			out.Notices = append(out.Notices, fmt.Sprintf("no MCP server of this repository is used: %v", err))
		}
	}
	var shadowed []string
	out.Entries, out.Unusable, shadowed = mcp.Merge(project, user)
	s.attach(out.Entries)
	out.Notices = append(out.Notices, slices.Concat(user.Notices, project.Notices)...)
	out.Notices = append(out.Notices, ShadowNotice(shadowed)...)
	return out
}

// ShadowNotice says once which names both files have.
func ShadowNotice(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return []string{fmt.Sprintf("both mcp.toml have %s: the one in %s counts", strings.Join(quoted, ", "), Shown(mcp.User))}
}

// attach gives each entry what the operator reviewed of it.
func (s *Store) attach(entries []mcp.Entry) {
	for i, e := range entries {
		entries[i].Record = s.Record(e.Scope, e.Name)
	}
}

// exists reports whether the repository has an mcp.toml, of whatever kind.
func (s *Store) exists() bool {
	_, err := os.Lstat(s.path(mcp.Project))
	return err == nil
}

func (s *Store) dir(scope mcp.Scope) string {
	if scope == mcp.User {
		return s.home
	}
	return filepath.Join(s.top, ".bestof")
}

func (s *Store) path(scope mcp.Scope) string { return filepath.Join(s.dir(scope), "mcp.toml") }

// ErrNoRepository means that there is no repository whose file could be meant.
var ErrNoRepository = errors.New("there is no repository here: choose the scope user, or name a repository with -C")

// Read reads the file of a scope, trusted or not. One that is not there is
// empty.
func (s *Store) Read(scope mcp.Scope) (mcp.Config, error) {
	text, mode, err := s.text(scope)
	if err != nil {
		return mcp.Config{}, err
	}
	c, err := mcp.ParseConfig(Shown(scope), text)
	if err == nil && mode.Perm()&0o077 != 0 && holdsSecrets(c) {
		c.Notices = append(c.Notices, Shown(scope)+" holds credentials and can be read by others: `chmod 600` it")
	}
	return c, err
}

func holdsSecrets(c mcp.Config) bool {
	return slices.ContainsFunc(c.Servers, mcp.Server.HasSecrets)
}

// text reads a file without following a link, also not the directory's.
func (s *Store) text(scope mcp.Scope) ([]byte, fs.FileMode, error) {
	if scope == mcp.Project && s.top == "" {
		return nil, 0, ErrNoRepository
	}
	if err := s.sound(scope); err != nil {
		return nil, 0, err
	}
	f, err := os.OpenFile(s.path(scope), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if errors.Is(err, syscall.ELOOP) {
		return nil, 0, fmt.Errorf("%s is a link: put the file itself there", Shown(scope))
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", Shown(scope), err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a regular file: put one there", Shown(scope))
	}
	text, err := io.ReadAll(io.LimitReader(f, stricttoml.MaxSize+1))
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", Shown(scope), err)
	}
	return text, info.Mode(), nil
}

// sound refuses a .bestof of a repository that leads somewhere else. The
// operator may have a home that is a link.
func (s *Store) sound(scope mcp.Scope) error {
	if scope == mcp.User {
		return nil
	}
	if info, err := os.Lstat(s.dir(scope)); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a directory of its own: make it one", filepath.Dir(Shown(scope)))
	}
	return nil
}

// change edits the file of a scope, under the lock of the store. A file that
// edit leaves as it is is not written.
func (s *Store) change(scope mcp.Scope, edit func(text []byte) ([]byte, error)) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return s.changeLocked(scope, edit)
}

func (s *Store) changeLocked(scope mcp.Scope, edit func(text []byte) ([]byte, error)) error {
	text, err := s.edited(scope, edit)
	if err != nil {
		return err
	}
	return s.put(scope, text)
}

// edited is the file of a scope with an edit, nil where that changes nothing.
func (s *Store) edited(scope mcp.Scope, edit func(text []byte) ([]byte, error)) ([]byte, error) {
	text, _, err := s.text(scope)
	if err != nil {
		return nil, err
	}
	edited, err := edit(text)
	var line *stricttoml.Error
	switch {
	case errors.As(err, &line):
		return nil, &stricttoml.Error{Name: Shown(scope), Line: line.Line, Problem: line.Problem}
	case err != nil:
		return nil, fmt.Errorf("%s: %w", Shown(scope), err)
	case bytes.Equal(edited, text):
		return nil, nil
	}
	_, err = mcp.ParseConfig(Shown(scope), edited)
	return edited, err
}

// put writes the file of a scope; nil leaves it as it is.
func (s *Store) put(scope mcp.Scope, text []byte) error {
	if text == nil {
		return nil
	}
	if err := os.MkdirAll(s.dir(scope), 0o700); err != nil {
		return err
	}
	if err := s.sound(scope); err != nil {
		return err
	}
	if err := atomicfile.Write(s.path(scope), text, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", Shown(scope), err)
	}
	return nil
}

// lock keeps other processes from the files and the records.
func (s *Store) lock() (unlock func(), err error) {
	if err := os.MkdirAll(s.grants(), 0o700); err != nil {
		return nil, err
	}
	l := flock.New(filepath.Join(s.home, "mcp", ".lock"))
	if err := l.Lock(); err != nil {
		return nil, fmt.Errorf("lock the MCP servers: %w", err)
	}
	return func() { _ = l.Close() }, nil
}

// Find is the entry of a name. Without a scope it is the one that counts: the
// operator's, if there is one.
func (s *Store) Find(scope mcp.Scope, name string) (mcp.Entry, error) {
	for _, in := range s.scopes(scope) {
		c, err := s.Read(in)
		if err != nil {
			return mcp.Entry{}, err
		}
		for _, u := range c.Unusable {
			if u.Name == name {
				return mcp.Entry{}, fmt.Errorf("the MCP server %q in %s cannot be used: %s", name, Shown(in), u.Reason)
			}
		}
		if server, ok := c.Server(name); ok {
			return mcp.Entry{Server: server, Scope: in, Record: s.Record(in, name)}, nil
		}
	}
	return mcp.Entry{}, fmt.Errorf("%w: %q (`bestof mcp list` lists them)", mcp.ErrNoServer, name)
}

// scopes are those that a choice leaves, the operator's first.
func (s *Store) scopes(chosen mcp.Scope) []mcp.Scope {
	switch {
	case chosen != "":
		return []mcp.Scope{chosen}
	case s.top == "":
		return []mcp.Scope{mcp.User}
	}
	return []mcp.Scope{mcp.User, mcp.Project}
}

// Put writes the server that decide makes of the entry of a name; old is nil
// if there is none that can be read. Nothing is written when decide fails.
func (s *Store) Put(scope mcp.Scope, name string, decide func(old *mcp.Server) (mcp.Server, error)) error {
	return s.change(scope, func(text []byte) ([]byte, error) {
		c, err := mcp.ParseConfig(Shown(scope), text)
		if err != nil {
			return nil, err
		}
		var old *mcp.Server
		if known, ok := c.Server(name); ok {
			old = &known
		}
		server, err := decide(old)
		if err != nil {
			return nil, err
		}
		server.Name = name
		return mcp.PutServer(text, server)
	})
}

// ErrTaken means that a file has an entry of a name already.
var ErrTaken = errors.New("there is an entry of this name already: remove it first")

// Add writes a server under a name that the file does not have yet.
func (s *Store) Add(scope mcp.Scope, server mcp.Server) error {
	return s.change(scope, func(text []byte) ([]byte, error) {
		c, err := mcp.ParseConfig(Shown(scope), text)
		if err != nil {
			return nil, err
		}
		if c.Has(server.Name) {
			return nil, ErrTaken
		}
		return mcp.PutServer(text, server)
	})
}

// SetCandidateSafe writes whether candidates may reach a server.
func (s *Store) SetCandidateSafe(scope mcp.Scope, name string, safe bool) error {
	return s.change(scope, func(text []byte) ([]byte, error) { return mcp.SetCandidateSafe(text, name, safe) })
}

// Remove deletes an entry and what the operator answered about it. An entry
// that cannot be used can be removed too.
func (s *Store) Remove(scope mcp.Scope, name string) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.changeLocked(scope, func(text []byte) ([]byte, error) { return mcp.RemoveServer(text, name) }); err != nil {
		return err
	}
	return s.forget(scope, name)
}

// ErrChanged means that an entry is not the one that was shown any more.
var ErrChanged = errors.New("the entry changed while it was being reviewed: look at it again")

// Grant records that the operator agreed to what print says, and writes
// granted = true. It refuses when the entry is not at that endpoint any more.
func (s *Store) Grant(scope mcp.Scope, name string, print mcp.Print, now time.Time) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	e, err := s.Find(scope, name)
	if err != nil {
		return err
	}
	if c := mcp.Review(print, mcp.Fingerprint(e.Server, nil)); len(c.Endpoint) > 0 {
		return ErrChanged
	}
	if err := s.record(scope, name, mcp.Record{Print: print, Agreed: now.UTC()}); err != nil {
		return err
	}
	return s.changeLocked(scope, func(text []byte) ([]byte, error) { return mcp.SetGranted(text, name, true) })
}

// Revoke takes a grant back: granted = false in the file, and for an entry of
// the repository a record that says so whatever its file will say. Each is tried
// though the other cannot be written, and withholds the server by itself; an
// error says which of them does.
func (s *Store) Revoke(scope mcp.Scope, name string, now time.Time) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	edited, err := s.edited(scope, func(text []byte) ([]byte, error) { return mcp.SetGranted(text, name, false) })
	if err != nil {
		return err
	}
	unrecorded := s.record(scope, name, mcp.Record{Revoked: true, Agreed: now.UTC()})
	unwritten := s.put(scope, edited)
	switch {
	case unrecorded != nil && unwritten != nil:
		return fmt.Errorf("%q is not withheld: %w; %w", name, unrecorded, unwritten)
	case unwritten != nil:
		return fmt.Errorf("%q is withheld, but its entry does not say so: %w", name, unwritten)
	case scope == mcp.User: // whose file counts by itself
		return s.forget(scope, name)
	case unrecorded != nil:
		return fmt.Errorf("%q is withheld, but only as long as its entry says so: %w", name, unrecorded)
	}
	return nil
}
