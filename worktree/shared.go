package worktree

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

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
	if b.known != nil {
		return b.known.intact(0)
	}
	_, word, err := stampsOf(filepath.Join(b.dir, "tree"), b.entries)
	return err == nil && word == b.about.Stamps
}

// A knownBase is what several users of a shared base in one process read once.
type knownBase struct {
	of       *Base // as it was loaded, without its objects
	made     stamp // of its base.json: another base may come to have its name
	names    []string
	checking sync.Mutex
	checked  time.Time // when the last look that found it intact began
	spoilt   bool
	used     time.Time // last; under the store's lock
}

// mostKnown is how many shared bases are remembered. Each can be megabytes, and
// of many only a few are in use at a time.
const mostKnown = 4

// recently is how long ago a shared base may have been found intact to be used
// once more. Whoever uses it looks again before anything rests on that.
const recently = time.Second

// loadShared opens a finished base that others in this process may use too.
func (s *Store) loadShared(key string) (*Base, error) {
	s.knowing.Lock()
	defer s.knowing.Unlock()
	if k := s.known[key]; k != nil {
		if b := k.another(); b != nil {
			k.used = time.Now()
			return b, nil
		}
		delete(s.known, key)
	}
	began := time.Now()
	b, err := s.loadBase(key)
	if err != nil {
		return nil, err
	}
	k := &knownBase{of: b.same(), names: stampedOf(b.entries), checked: began}
	if k.made, _, err = lstat(filepath.Join(b.dir, aboutFile)); err != nil {
		return nil, err
	}
	b.known = k
	if s.known == nil {
		s.known = make(map[string]*knownBase)
	}
	s.known[key], k.used = k, time.Now()
	for len(s.known) > mostKnown {
		oldest := key
		for name, other := range s.known {
			if other.used.Before(s.known[oldest].used) {
				oldest = name
			}
		}
		delete(s.known, oldest) // who uses it goes on to
	}
	return b, nil
}

// another is the base for one more user, nil when it has to be loaded again.
func (k *knownBase) another() *Base {
	now, _, err := lstat(filepath.Join(k.of.dir, aboutFile))
	if err != nil || !now.same(k.made) || !k.intact(recently) {
		return nil
	}
	b := k.of.same()
	b.objects, b.known = &Objects{dirty: b.about.Dirty}, k
	b.objects.open(filepath.Join(b.dir, "tree/.git"))
	return b
}

// same is what a base that was loaded has before anybody used it, but for its
// objects.
func (b *Base) same() *Base {
	return &Base{store: b.store, dir: b.dir, about: b.about, durable: b.durable, entries: b.entries, rules: b.rules, index: b.index, stamps: b.stamps, warm: slices.Clone(b.warm)}
}

// intact looks at all of the base, unless a look that began no longer than that
// before this call found it intact. One who waits for another's look does not
// look again if that began after this call.
func (k *knownBase) intact(before time.Duration) bool {
	since := time.Now().Add(-before)
	k.checking.Lock()
	defer k.checking.Unlock()
	if k.spoilt || k.checked.After(since) {
		return !k.spoilt
	}
	began := time.Now()
	_, word, err := stampAll(filepath.Join(k.of.dir, "tree"), k.names)
	if k.spoilt = err != nil || word != k.of.about.Stamps; !k.spoilt {
		k.checked = began
	}
	return !k.spoilt
}

// DropShared removes the private bases that shared a word. Nobody uses them any
// more.
func (s *Store) DropShared(word string) error {
	s.knowing.Lock()
	maps.DeleteFunc(s.known, func(key string, _ *knownBase) bool { return strings.HasPrefix(key, sharedKey(word)) })
	s.knowing.Unlock()
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
