package worktree

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bestof-dev/bestof/internal/proc"
)

// TestHazardRunNameIsClaimedOnce lets many try at once.
func TestHazardRunNameIsClaimedOnce(t *testing.T) {
	s := newStore(t)
	var wg sync.WaitGroup
	won := make([]*Run, 16)
	for i := range won {
		wg.Go(func() {
			r, err := s.NewRun(t.Context(), "same", "")
			if err != nil && !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
			won[i] = r
		})
	}
	wg.Wait()
	n := 0
	for _, r := range won {
		if r != nil {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d claimed it", n)
	}
	for _, bad := range []string{"", "..", "a/b", ".x", "-x", strings.Repeat("x", 101)} {
		if _, err := s.NewRun(t.Context(), bad, ""); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// deadIdentity is that of a process that has ended.
func deadIdentity(t *testing.T) proc.Identity {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := proc.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return id
}

// abandon makes a run look as after a kill -9 of its process.
func abandon(t *testing.T, s *Store, id string) {
	t.Helper()
	if err := writeMark(s.path("runs", id), mark{What: "run", Run: id, Owner: deadIdentity(t)}); err != nil {
		t.Fatal(err)
	}
}

// TestHazardGCAfterAKill collects what dead processes left, mounts first, and
// touches nothing else.
func TestHazardGCAfterAKill(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "a"})
	f.commit("x")
	s := newStore(t)
	b := newBase(t, s, f.open(), BaseSpec{History: 1, Shadow: ShadowOverlay})
	outside := t.TempDir()
	writeFiles(t, outside, map[string]string{"precious": "x"})
	for _, id := range []string{"dead", "kept", "alive", "copied"} {
		r, err := s.NewRun(t.Context(), id, "")
		if err != nil {
			t.Fatal(err)
		}
		sh := newShadow(t, r, b, "c1")
		writeFiles(t, sh.Root(), map[string]string{"new": "x"})
		if err := os.Symlink(outside, filepath.Join(sh.Root(), "link")); err != nil {
			t.Fatal(err)
		}
		if id != "alive" && id != "copied" {
			abandon(t, s, id)
		}
	}
	// Not ours: no mark, a mark that was made for another directory, a link.
	foreign := s.path("runs", "foreign")
	if err := errors.Join(os.Mkdir(foreign, 0o700), os.WriteFile(filepath.Join(foreign, "x"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	abandoned, err := os.ReadFile(s.path("runs", "dead", markFile))
	if err != nil {
		t.Fatal(err)
	}
	stolen := s.path("runs", "stolen")
	if err := errors.Join(os.Mkdir(stolen, 0o700), os.WriteFile(filepath.Join(stolen, markFile), abandoned, 0o600), os.Symlink(outside, s.path("runs", "link"))); err != nil {
		t.Fatal(err)
	}
	// Half-made: one marked by a dead process, one still without a mark.
	half, young := s.path("work", "half"), s.path("work", "young")
	if err := errors.Join(os.Mkdir(half, 0o700), writeMark(half, mark{What: "work", Owner: deadIdentity(t)}), os.Mkdir(young, 0o700), os.WriteFile(filepath.Join(young, ".tmp-1"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(s.path("trash", "old/x"), 0o500)); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	o := GCOptions{Keep: func(run string) bool { return run == "kept" }, Now: now.Add(2 * time.Hour), DryRun: true}
	dry, err := s.GC(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(dry.Runs) != 1 || len(dry.Mounts) != 1 {
		t.Errorf("a dry run reports %+v", dry)
	}
	if _, err := os.Stat(s.path("runs", "dead", "c1", "root", "new")); err != nil {
		t.Errorf("a dry run removed something: %v", err)
	}
	o.DryRun = false
	o.OlderThan = 3 * time.Hour
	if got, err := s.GC(t.Context(), o); err != nil || len(got.Runs) != 0 {
		t.Errorf("a young run was collected: %+v, %v", got, err)
	}
	o.OlderThan = 0
	if err := os.MkdirAll(s.path("trash", "old/x"), 0o500); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.GC(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.names("runs")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"alive", "copied", "foreign", "kept", "link", "stolen"}, got); diff != "" {
		t.Errorf("runs: %s", diff)
	}
	for _, sub := range []string{"work", "trash"} {
		if got, err := s.names(sub); err != nil || len(got) != 0 {
			t.Errorf("%s: %q, %v", sub, got, err)
		}
	}
	if left, err := mountsBelow(s.path("runs")); err != nil || len(left) != 3 {
		t.Errorf("mounts: %q, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Error("a link was followed")
	}
	if u, err := s.Usage(t.Context()); err != nil || u.Bases != 1 || u.BaseBytes == 0 || u.Runs != 6 {
		t.Errorf("usage: %+v, %v", u, err)
	}
	if _, err := unmountBelow(s.path("runs")); err != nil {
		t.Fatal(err)
	}
}

// TestHazardBasesOverBudget evicts the least recently used, never one in use.
func TestHazardBasesOverBudget(t *testing.T) {
	f := newFixture(t)
	s := newStore(t)
	var bases []*Base
	for i := range 3 {
		f.write(map[string]string{"a": strconv.Itoa(i)})
		b, err := s.Base(t.Context(), f.open(), BaseSpec{Kind: BaseSnapshot, History: 1})
		if err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(filepath.Join(b.dir, markFile), old, old); err != nil {
			t.Fatal(err)
		}
		bases = append(bases, b)
	}
	if err := errors.Join(bases[1].Close(), bases[2].Close()); err != nil {
		t.Fatal(err)
	}
	u, err := s.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.GC(t.Context(), GCOptions{Now: time.Now(), MaxBaseBytes: u.BaseBytes - 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Bases) != 1 || got.Bases[0] != filepath.Base(bases[1].dir) {
		t.Errorf("evicted %q; the oldest is in use, the second is %s", got.Bases, filepath.Base(bases[1].dir))
	}
	if err := bases[0].Close(); err != nil {
		t.Fatal(err)
	}
}

// TestHazardSpoiltBaseIsMadeAnew for each of its parts.
func TestHazardSpoiltBaseIsMadeAnew(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "a"})
	s := newStore(t)
	for _, part := range []string{markFile, "base.json", "entries"} {
		b, err := s.Base(t.Context(), f.open(), BaseSpec{Kind: BaseSnapshot, History: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(filepath.Join(b.dir, part), []byte("torn"), 0o600), b.Close()); err != nil {
			t.Fatal(err)
		}
		b, err = s.Base(t.Context(), f.open(), BaseSpec{Kind: BaseSnapshot, History: 1})
		if err != nil {
			t.Fatalf("%s: %v", part, err)
		}
		if got, err := b.ReadFile("a", 10); err != nil || string(got) != "a" {
			t.Errorf("%s: %q, %v", part, got, err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHazardPoisonedBaseIsMadeAnew: one whose tree somebody wrote to, such as a
// candidate of an earlier run that was a plain process, is of no use, whatever
// size and time it left.
func TestHazardPoisonedBaseIsMadeAnew(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "a", "d/b": "b"})
	if err := os.Symlink("a", filepath.Join(f.dir, "l")); err != nil {
		t.Fatal(err)
	}
	s := newStore(t)
	base := func() *Base {
		t.Helper()
		b, err := s.Base(t.Context(), f.open(), BaseSpec{Kind: BaseSnapshot, History: 1, Shadow: ShadowCopy})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	r := newRun(t, s)
	made := func(b *Base) uint64 {
		t.Helper()
		st, _, err := lstat(b.dir)
		if err != nil {
			t.Fatal(err)
		}
		return st.ino
	}
	for name, poison := range map[string]func(tree string) error{
		"the same size and time": func(tree string) error {
			at := filepath.Join(tree, "d/b")
			info, err := os.Stat(at)
			return errors.Join(err, os.WriteFile(at, []byte("x"), 0o644), os.Chtimes(at, info.ModTime(), info.ModTime()))
		},
		"another file": func(tree string) error {
			return errors.Join(os.WriteFile(filepath.Join(tree, "x"), []byte("x"), 0o644), os.Rename(filepath.Join(tree, "x"), filepath.Join(tree, "a")))
		},
		"a file more": func(tree string) error { return os.WriteFile(filepath.Join(tree, "d/conftest.py"), nil, 0o644) },
		"a link": func(tree string) error {
			return errors.Join(os.Remove(filepath.Join(tree, "l")), os.Symlink("b", filepath.Join(tree, "l")))
		},
		"a file less": func(tree string) error { return os.Remove(filepath.Join(tree, "a")) },
	} {
		b := base()
		first := made(b)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if b = base(); made(b) != first {
			t.Errorf("%s: an untouched base was made anew", name)
		}
		if err := errors.Join(b.Close(), poison(filepath.Join(b.dir, "tree"))); err != nil {
			t.Fatal(err)
		}
		b = base()
		sh := newShadow(t, r, b, strings.ReplaceAll(name, " ", "-"))
		if diff := cmp.Diff(map[string]string{"a": "0 a", "d/b": "0 b", "l": "-> a"}, files(t, sh.Root())); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBaseIsMadeOnce by whoever comes first.
func TestBaseIsMadeOnce(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "a"})
	s := newStore(t)
	r := f.open()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			b, err := s.Base(t.Context(), r, BaseSpec{Kind: BaseSnapshot, History: 1})
			if err != nil {
				t.Error(err)
				return
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if names, err := s.names("bases"); err != nil || len(names) != 1 {
		t.Errorf("bases: %q, %v", names, err)
	}
}

func TestOpenStoreRefuses(t *testing.T) {
	f := newFixture(t)
	if _, err := OpenStore(filepath.Join(f.dir, "sub")); err == nil {
		t.Error("a store inside of a repository")
	}
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"mine": "x"})
	if _, err := OpenStore(dir); err == nil {
		t.Error("a store among other files")
	}
}

// TestHazardStorePathNeedsEscapes: a mount's options have separators of their own.
func TestHazardStorePathNeedsEscapes(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "a"})
	s, err := OpenStore(filepath.Join(t.TempDir(), `a,b:c\d e`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Wait)
	b := newBase(t, s, f.open(), BaseSpec{History: 1, Shadow: ShadowOverlay})
	sh := newShadow(t, newRun(t, s), b, "c1")
	writeFiles(t, sh.Root(), map[string]string{"b": "b"})
	if got := seal(t, sh); len(got.Change.Files) != 1 {
		t.Errorf("change: %v", statuses(got))
	}
}

func TestOpenRefusesInOneSentence(t *testing.T) {
	isolate(t)
	bare := filepath.Join(t.TempDir(), "bare.git")
	run(t, "", nil, "git", "init", "-q", "--bare", bare)
	for _, dir := range []string{t.TempDir(), bare, filepath.Join(bare, "nothing")} {
		_, err := Open(t.Context(), dir)
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Open(t.Context(), bare); err == nil || !strings.Contains(err.Error(), "git is not installed") {
		t.Errorf("without git: %v", err)
	}
}

func TestCapabilitiesLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	if got := Capabilities(t.Context(), dir, nil); len(got) != len(shadowKinds) || got[0].Kind != ShadowOverlay {
		t.Errorf("kinds: %+v", got)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}
