package worktree

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// sharedKey begins the names of the private bases that share a word.
func sharedKey(word string) string {
	sum := sha256.Sum256([]byte(word))
	return privatePrefix + hex.EncodeToString(sum[:8]) + "-"
}

// has reports whether a base of a name was made, whatever became of it.
func (s *Store) has(key string) bool {
	_, err := readMark(s.path("bases", key))
	return err == nil
}

// Shared reports whether others may use the base whose programs could write to
// it.
func (b *Base) Shared() bool { return b.shared }

// Intact reports whether no file of a base was written to, replaced or added
// since it was made.
func (b *Base) Intact() bool {
	_, word, err := stampsOf(filepath.Join(b.dir, "tree"), b.entries)
	return err == nil && word == b.about.Stamps
}

// DropShared removes the private bases that shared a word. Nobody uses them any
// more.
func (s *Store) DropShared(word string) error {
	names, err := s.names("bases")
	for _, name := range names {
		if !strings.HasPrefix(name, sharedKey(word)) {
			continue
		}
		lock := flock.New(s.path("locks", name), flock.SetPermissions(0o600))
		if free, lockErr := lock.TryLock(); lockErr != nil || !free {
			err = errors.Join(err, lockErr) // gc takes it later
			continue
		}
		err = errors.Join(err, s.discard(s.path("bases", name)), lock.Unlock())
	}
	return err
}
