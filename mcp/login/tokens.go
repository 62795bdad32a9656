package login

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/mcp"
)

// A Store keeps one file for each login in $BESTOF_HOME/mcp/tokens: owner-only,
// replaced as a whole, named by the server's name and address together.
type Store struct{ dir string }

// NewStore keeps tokens below home, which is $BESTOF_HOME.
func NewStore(home string) *Store { return &Store{filepath.Join(home, "mcp", "tokens")} }

// A record is one login. It is good for one name at one address only.
type record struct {
	Schema     string    `json:"schema"`
	Name       string    `json:"name"`
	URL        string    `json:"url"`
	Resource   string    `json:"resource"`
	Issuer     string    `json:"issuer"`
	Token      string    `json:"token_endpoint"`
	Revocation string    `json:"revocation_endpoint,omitempty"`
	Client     client    `json:"client"`
	Scope      string    `json:"scope,omitempty"`  // that was granted
	Wanted     string    `json:"wanted,omitempty"` // that the server asked for later
	Access     string    `json:"access_token,omitempty"`
	Refresh    string    `json:"refresh_token,omitempty"`
	Expires    time.Time `json:"expires_at,omitzero"` // zero: it does not say
	Since      time.Time `json:"since"`
	Local      bool      `json:"local,omitempty"` // the server is on this machine or its network
}

const schema = "bestof.mcp-login/1"

// bound is the address that a login is for, written one way.
func bound(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	u.Fragment, u.RawFragment = "", ""
	return canonical(u) + "?" + u.RawQuery
}

func (s *Store) path(name, address, ending string) string {
	sum := sha256.Sum256([]byte(name + "\x00" + bound(address)))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16])+ending)
}

// get finds the login of a server at its present address.
func (s *Store) get(server mcp.Server) (record, bool, error) {
	r, ok, err := s.read(s.path(server.Name, server.URL, ".json"))
	if err != nil || !ok {
		return record{}, false, err
	}
	if r.Name != server.Name || bound(r.URL) != bound(server.URL) {
		return record{}, false, nil
	}
	return r, true, nil
}

func (s *Store) read(path string) (record, bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, false, nil
	}
	if err != nil {
		return record{}, false, fmt.Errorf("read a stored login: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return record{}, false, fmt.Errorf("the stored login %s is not a regular file: remove it", path)
	}
	var r record
	b, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil || r.Schema != schema {
		return record{}, false, fmt.Errorf("the stored login %s cannot be read: remove it and log in again", path)
	}
	return r, true, nil
}

func (s *Store) put(r record) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(s.dir, 0o700); err != nil { // it may be older
		return err
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(s.path(r.Name, r.URL, ".json"), append(b, '\n'), 0o600)
}

// lock keeps other callers, of this and other processes, from one login.
func (s *Store) lock(ctx context.Context, server mcp.Server) (unlock func(), err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	l := flock.New(s.path(server.Name, server.URL, ".lock"))
	ok, err := l.TryLockContext(ctx, 10*time.Millisecond)
	if err != nil {
		return nil, fmt.Errorf("wait for another refresh: %w", err)
	}
	if !ok {
		return nil, errors.New("a login is locked")
	}
	return func() { _ = l.Close() }, nil
}

// named lists the logins of a name at whatever addresses.
func (s *Store) named(name string) ([]record, error) {
	files, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []record
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		if r, ok, err := s.read(filepath.Join(s.dir, f.Name())); err == nil && ok && r.Name == name {
			out = append(out, r)
		}
	}
	return out, nil
}

// A State is whether a server's login can be used.
type State string

// The states of a login.
const (
	None    State = "none"    // nobody logged in for this name at this address
	Valid   State = "valid"   // there is a token, or one can be had without a person
	Expired State = "expired" // a person has to log in again
)

// State says whether there is a login for a server.
func (s *Store) State(server mcp.Server, now time.Time) (State, error) {
	r, ok, err := s.get(server)
	switch {
	case err != nil || !ok:
		return None, err
	case r.Refresh != "" || r.Access != "" && r.fresh(now):
		return Valid, nil
	}
	return Expired, nil
}

// Secrets are the tokens of a server's login as they are now, and its client
// secret, for whoever has to keep them out of what is written.
func (s *Store) Secrets(server mcp.Server) []string {
	r, ok, err := s.get(server)
	if err != nil || !ok {
		return nil
	}
	return slices.DeleteFunc([]string{r.Access, r.Refresh, r.Client.Secret}, func(t string) bool { return t == "" })
}

// early is how long before its end a token is replaced.
const early = time.Minute

func (r record) fresh(now time.Time) bool {
	return r.Expires.IsZero() || now.Add(early).Before(r.Expires)
}

// forget removes a login.
func (s *Store) forget(ctx context.Context, r record) error {
	server := mcp.Server{Name: r.Name, URL: r.URL}
	unlock, err := s.lock(ctx, server)
	if err != nil {
		return err
	}
	defer unlock()
	return os.Remove(s.path(r.Name, r.URL, ".json"))
}
