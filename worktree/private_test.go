package worktree

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

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
