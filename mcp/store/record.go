package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/mcp"
)

const recordSchema = "bestof.mcp-grant/1"

// maxRecord is far above what mcp.Fingerprint makes of MaxTools tools.
const maxRecord = 64 << 20

// A recordFile is a record with what it is bound to.
type recordFile struct {
	Schema     string    `json:"schema"`
	Scope      mcp.Scope `json:"scope"`
	Repository string    `json:"repository,omitempty"`
	Name       string    `json:"name"`
	Digest     string    `json:"digest"` // of the print, for people who compare
	mcp.Record
}

func (s *Store) grants() string { return filepath.Join(s.home, "mcp", "grants") }

// repository is what a record is bound to, besides the name.
func (s *Store) repository(scope mcp.Scope) string {
	if scope == mcp.User {
		return ""
	}
	if real, err := filepath.EvalSymlinks(s.top); err == nil {
		return real
	}
	return s.top
}

func (s *Store) recordPath(scope mcp.Scope, name string) string {
	sum := sha256.Sum256([]byte(string(scope) + "\x00" + s.repository(scope) + "\x00" + name))
	return filepath.Join(s.grants(), hex.EncodeToString(sum[:16])+".json")
}

// Record reads what the operator answered about a server, nil if nothing. A
// record that cannot be read counts as an answer to something else, so that
// what it was about is withheld.
func (s *Store) Record(scope mcp.Scope, name string) *mcp.Record {
	b, err := readRegular(s.recordPath(scope, name), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var r recordFile
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil || r.Schema != recordSchema || r.Scope != scope || r.Name != name || r.Repository != s.repository(scope) {
		return &mcp.Record{}
	}
	return &r.Record
}

func readRegular(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s is not a file of ours", path)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

func (s *Store) record(scope mcp.Scope, name string, r mcp.Record) error {
	file := recordFile{Schema: recordSchema, Scope: scope, Repository: s.repository(scope), Name: name, Digest: r.Digest(), Record: r}
	b, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(s.recordPath(scope, name), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("record the answer about %q: %w", name, err)
	}
	return nil
}

func (s *Store) forget(scope mcp.Scope, name string) error {
	err := os.Remove(s.recordPath(scope, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
