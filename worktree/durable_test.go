package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestHazardPowerFailure uses a base of an earlier boot only when all of it
// had reached the disk.
func TestHazardPowerFailure(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "a"})
	s := newStore(t)
	r := f.open()
	use := func() (dir string, inode uint64) {
		t.Helper()
		b, err := s.Base(t.Context(), r, BaseSpec{Kind: BaseSnapshot, History: 1})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.ReadFile("a", 10); err != nil || string(got) != "a" {
			t.Errorf("%q, %v", got, err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		st, _, err := lstat(b.dir)
		if err != nil {
			t.Fatal(err)
		}
		return b.dir, st.ino
	}
	reboot := func(dir string) {
		t.Helper()
		if err := writeMark(dir, mark{What: "base", Boot: "an earlier boot"}); err != nil {
			t.Fatal(err)
		}
	}
	current, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	dir, first := use()
	s.Wait()
	durable := filepath.Join(dir, durableFile)
	if _, err := os.Lstat(durable); err != nil {
		t.Fatalf("the base is not noted as on the disk: %v", err)
	}
	reboot(dir)
	if _, again := use(); again != first {
		t.Error("a base that was on the disk was made anew")
	}
	if err := errors.Join(writeMark(dir, mark{What: "base", Boot: current}), os.Remove(durable)); err != nil {
		t.Fatal(err)
	}
	if _, again := use(); again != first {
		t.Error("a base of this boot was made anew")
	}
	s.Wait()
	if _, err := os.Lstat(durable); err != nil {
		t.Errorf("nobody tried again to bring it to the disk: %v", err)
	}
	// What a power failure leaves of a base whose mark alone was synced.
	packs := must(filepath.Glob(filepath.Join(dir, "tree/.git/objects/pack/*.pack")))
	if len(packs) == 0 {
		t.Fatal("the base has no pack")
	}
	for _, p := range append(packs, filepath.Join(dir, "tree/a")) {
		if err := os.Truncate(p, 0); err != nil {
			t.Fatal(err)
		}
	}
	reboot(dir)
	if err := os.Remove(durable); err != nil {
		t.Fatal(err)
	}
	use()
	if text, err := os.ReadFile(filepath.Join(dir, "tree/a")); err != nil || string(text) != "a" {
		t.Errorf("the tree has %q, %v", text, err)
	}
}

// TestDurableIsNotedWhereItWasAsked and not in what took the name since.
func TestDurableIsNotedWhereItWasAsked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "base")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := errors.Join(os.Rename(dir, dir+".trash"), os.Mkdir(dir, 0o700), noteDurable(root)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, durableFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the new one is noted: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir+".trash", durableFile)); err != nil {
		t.Errorf("the old one is not: %v", err)
	}
}
