package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Hazard: runs of several tasks share a base to which their programs could
// write. Each run notices, those that come after have one of their own, and
// nothing of it stays.
func TestHazardSharedBaseIsWrittenTo(t *testing.T) {
	f := newFixture(t).write(map[string]string{"test": "exit 1\n", "deep/other": "x\n"})
	f.commit("First")
	store, repo := newStore(t), f.open()
	spec := BaseSpec{Kind: BaseHead, History: 1, Shadow: ShadowCopy, Private: true, Shared: "w"}
	get := func(word string) *Base {
		t.Helper()
		spec.Shared = word
		b, err := store.Base(t.Context(), repo, spec)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, spoil := range map[string]func(tree string) error{
		"written": func(tree string) error { return os.WriteFile(filepath.Join(tree, "test"), []byte("exit 0\n"), 0o644) },
		"added":   func(tree string) error { return os.WriteFile(filepath.Join(tree, "deep/conftest.py"), nil, 0o644) },
		"removed": func(tree string) error { return os.Remove(filepath.Join(tree, "deep/other")) },
		"back in time": func(tree string) error {
			at := filepath.Join(tree, "test")
			return errors.Join(os.WriteFile(at, []byte("exit 0\n"), 0o644), os.Chtimes(at, time.Unix(1, 0), time.Unix(1, 0)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			one, two, other := get(name), get(name), get(name+"x")
			if one.dir != two.dir || other.dir == one.dir || !one.Shared() || !one.Intact() {
				t.Fatalf("%s, %s and another's %s", one.dir, two.dir, other.dir)
			}
			if err := one.Close(); err != nil {
				t.Fatal(err)
			}
			if err := spoil(filepath.Join(one.dir, "tree")); err != nil {
				t.Fatal(err)
			}
			if two.Intact() || !other.Intact() {
				t.Error("nobody notices, or another is blamed")
			}
			three := get(name) // while two is in use
			if three.dir == two.dir || three.Shared() || !three.Intact() {
				t.Errorf("it is given on: %s", three.dir)
			}
			for _, b := range []*Base{two, three, other} {
				if err := b.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(store.DropShared(name), store.DropShared(name+"x")); err != nil {
				t.Fatal(err)
			}
			if left, err := store.names("bases"); err != nil || len(left) > 0 {
				t.Errorf("left: %q, %v", left, err)
			}
		})
	}
}

// Hazard: a base was found intact a moment ago, and is written to or removed
// before the next of the same process uses it.
func TestHazardKnownBaseIsWrittenToOrRemoved(t *testing.T) {
	f := newFixture(t).write(map[string]string{"test": "exit 1\n"})
	f.commit("First")
	store, repo := newStore(t), f.open()
	elsewhere, err := OpenStore(store.dir)
	if err != nil {
		t.Fatal(err)
	}
	get := func() *Base {
		t.Helper()
		b, err := store.Base(t.Context(), repo, BaseSpec{Kind: BaseHead, History: 1, Shadow: ShadowCopy, Private: true, Shared: "w"})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	closed := func(b *Base) *Base {
		t.Helper()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := closed(get())
	if err := elsewhere.DropShared("w"); err != nil {
		t.Fatal(err)
	}
	second := get()
	if text, err := second.ReadFile("test", 100); err != nil || string(text) != "exit 1\n" || !second.Shared() || !second.Intact() {
		t.Fatalf("made again: %q, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(first.dir, "tree/test"), []byte("exit 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	third := get()
	if third.Shared() && third.Intact() || second.Intact() {
		t.Error("nobody notices")
	}
	fourth := get()
	if fourth.Shared() || !fourth.Intact() {
		t.Errorf("it is given on: %s", fourth.dir)
	}
	for _, b := range []*Base{second, third, fourth} {
		closed(b)
	}
}

// Hazard: where candidates run as this user, one of them writes to the base
// that others are verified on.
func TestHazardBaseIsWrittenTo(t *testing.T) {
	for _, kind := range []ShadowKind{ShadowOverlay, ShadowCopy} {
		t.Run(string(kind), func(t *testing.T) {
			f := newFixture(t).write(map[string]string{"test": "exit 1\n", "other": "x\n"})
			f.commit("First")
			store, repo := newStore(t), f.open()
			b, err := store.Base(t.Context(), repo, BaseSpec{Kind: BaseSnapshot, History: 1, Shadow: kind, Private: true})
			if err != nil {
				t.Fatal(err)
			}
			run, err := store.NewRun(t.Context(), "r1", "")
			if err != nil {
				t.Fatal(err)
			}
			clean, err := run.NewVerification(t.Context(), b, "clean", b.Tree(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if s, err := clean.SealAll(t.Context(), Limits{}); err != nil || s.Tree != b.Tree() {
				t.Fatalf("an untouched shadow: %v, %v", s, err)
			}
			if err := clean.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(b.dir, "tree/test"), []byte("exit 0\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			poisoned, err := run.NewVerification(t.Context(), b, "poisoned", b.Tree(), nil)
			if err != nil {
				t.Fatal(err)
			}
			s, err := poisoned.SealAll(t.Context(), Limits{})
			if err != nil || s.Tree == b.Tree() {
				t.Errorf("the poisoned base was not found out: %v, %v", s, err)
			}
			if len(s.Change.Files) != 1 || s.Change.Files[0].Path != "test" {
				t.Errorf("what differs: %+v", s.Change.Files)
			}
			if err := run.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			// Nobody else gets it, not even when its run was killed before Close.
			again, err := store.Base(t.Context(), repo, BaseSpec{Kind: BaseSnapshot, History: 1, Shadow: kind})
			if err != nil {
				t.Fatal(err)
			}
			if again.dir == b.dir {
				t.Error("a private base is shared")
			}
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
			if err := b.lock.Unlock(); err != nil {
				t.Fatal(err)
			}
			if _, err := store.GC(t.Context(), GCOptions{Now: time.Now()}); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(b.dir); !os.IsNotExist(err) {
				t.Errorf("gc left a private base: %v", err)
			}
			if _, err := os.Lstat(again.dir); err != nil {
				t.Errorf("gc took a shared base: %v", err)
			}
		})
	}
}
