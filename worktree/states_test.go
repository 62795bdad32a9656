package worktree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestHazardUnknownExtension is what a reftable repository, or one of a later
// format, gives with a git that is too old for it.
func TestHazardUnknownExtension(t *testing.T) {
	for _, c := range []struct{ config, want string }{
		{"[core]\n\trepositoryformatversion = 1\n[extensions]\n\tnewStorage = tables\n", `the extension "newstorage"`},
		{"[core]\n\trepositoryformatversion = 9\n", `the extension "<= 1, found 9"`},
	} {
		f := newFixture(t).write(map[string]string{"a": "a", ".git/config": c.config})
		_, err := Open(t.Context(), f.dir)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasSuffix(err.Error(), "install a newer git") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v", err)
		}
	}
}

// TestHazardHugeFile is left out of the base, refused in a change, and never
// read.
func TestHazardHugeFile(t *testing.T) {
	huge := func(dir string) {
		f, err := os.Create(filepath.Join(dir, "huge.bin"))
		if err == nil {
			err = errors.Join(f.Truncate(5<<30), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f := newFixture(t).write(map[string]string{"a": "a\n"})
	f.commit("a")
	huge(f.dir)
	s := newStore(t)
	b := newBase(t, s, f.open(), BaseSpec{History: 1})
	if got := strings.Join(b.Notes(), "\n"); !strings.Contains(got, "larger than 256 MiB: huge.bin") || b.Files() != 1 {
		t.Errorf("%d files, notes %q", b.Files(), got)
	}
	sh := newShadow(t, newRun(t, s), b, "c1")
	writeFiles(t, sh.Root(), map[string]string{"a": "b\n"})
	if got := seal(t, sh); len(got.Change.Files) != 1 {
		t.Errorf("change: %+v", got.Change)
	}
	huge(sh.Root())
	var refused *SealError
	if _, err := sh.Seal(t.Context(), Limits{}); !errors.As(err, &refused) || refused.Path != "huge.bin" {
		t.Errorf("sealed: %v", err)
	}
}

// TestHazardReadOnlyRepository gives bases; adopting into it fails whole.
func TestHazardReadOnlyRepository(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "a\n", "d/b": "b\n"})
	f.commit("a")
	f.git("repack", "-adq")
	f.write(map[string]string{"a": "edited\n"})
	run(t, "", nil, "mount", "--bind", f.dir, f.dir)
	t.Cleanup(func() { run(t, "", nil, "umount", f.dir) })
	run(t, "", nil, "mount", "-o", "remount,bind,ro", f.dir)
	s, r := newStore(t), f.open()
	before := files(t, f.dir)
	for _, kind := range []BaseKind{BaseSnapshot, BaseHead} {
		for _, history := range []int{0, 1} {
			newBase(t, s, r, BaseSpec{Kind: kind, History: history})
		}
	}
	b := newBase(t, s, r, BaseSpec{History: 1})
	sh := newShadow(t, newRun(t, s), b, "c1")
	writeFiles(t, sh.Root(), map[string]string{"a": "b\n", "d/b": "c\n"})
	sealed := seal(t, sh)
	for _, mode := range []AdoptMode{AdoptApply, AdoptBranch} {
		_, err := r.Adopt(t.Context(), b.Objects(), sealed.Change, AdoptOptions{Mode: mode, Branch: "won", Message: "m", BaseCommit: b.Commit(),
			BaseKind: b.Kind(), RunID: "r1", JournalDir: filepath.Join(t.TempDir(), "journal")})
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), "read-only") {
			t.Errorf("%s: %v", mode, err)
		}
	}
	if after := files(t, f.dir); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("files: %q", after)
	}
}

// TestHazardPartialCloneLacksObjects of an older commit, and says so; what is
// checked out is there.
func TestHazardPartialCloneLacksObjects(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "old\n"})
	f.commit("old")
	f.write(map[string]string{"a": "new\n"}).commit("new")
	f.git("config", "uploadpack.allowFilter", "true")
	dir := filepath.Join(filepath.Dir(f.dir), "partial")
	f.git("clone", "-q", "--filter=blob:none", "file://"+f.dir, dir)
	if err := os.Rename(f.dir, f.dir+".gone"); err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(t)
	newBase(t, s, r, BaseSpec{Kind: BaseHead, History: 1})
	if _, err := s.Base(t.Context(), r, BaseSpec{Kind: BaseRev, Rev: "HEAD~1", History: 1}); err == nil || !strings.Contains(err.Error(), "partial clone") {
		t.Errorf("base of a commit that is not there: %v", err)
	}
}

// TestHazardReusedObjectsEndAtTheBase although git had stored the base's
// files as differences to the fix.
func TestHazardReusedObjectsEndAtTheBase(t *testing.T) {
	f := newFixture(t)
	var text strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&text, "line %d of a file\n", i*i)
	}
	f.write(map[string]string{"d/a.txt": text.String(), "d/same.txt": "same\n", "b.txt": "b\n"}).commit("base")
	f.git("checkout", "-q", "-b", "fix")
	f.write(map[string]string{"d/a.txt": text.String() + "the fix, which is longer than the base\n"}).commit("fix")
	f.git("checkout", "-q", "main")
	f.git("repack", "-adfq", "--depth=50", "--window=50")
	packs, err := filepath.Glob(filepath.Join(f.dir, ".git/objects/pack/*.idx"))
	if err != nil || len(packs) != 1 {
		t.Fatalf("packs: %q, %v", packs, err)
	}
	blob := f.git("rev-parse", "main:d/a.txt")
	delta := false
	for line := range strings.Lines(f.git("verify-pack", "-v", packs[0])) {
		if fields := strings.Fields(line); fields[0] == blob {
			delta = len(fields) == 7
		}
	}
	if !delta {
		t.Fatal("git did not store the base as a difference")
	}
	for _, kind := range []BaseKind{BaseHead, BaseSnapshot} {
		s := newStore(t)
		b := newBase(t, s, f.open(), BaseSpec{Kind: kind, History: 1})
		sh := newShadow(t, newRun(t, s), b, string(kind))
		got := strings.Fields(run(t, sh.Root(), nil, "git", "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"))
		want := []string{run(t, sh.Root(), nil, "git", "rev-parse", "HEAD")[:40]}
		for line := range strings.Lines(f.git("ls-tree", "-r", "-t", "main") + "\n") {
			want = append(want, strings.Fields(line)[2])
		}
		want = append(want, f.git("rev-parse", "main^{tree}"))
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: objects %q, not %q", kind, got, want)
		}
		if got := run(t, sh.Root(), nil, "git", "fsck", "--full", "--strict"); strings.Contains(got, "error") {
			t.Errorf("fsck: %s", got)
		}
		if len(must(filepath.Glob(filepath.Join(b.dir, "tree/.git/objects/pack/*.pack")))) != 2 {
			t.Errorf("%s: git's objects were not used again", kind)
		}
	}
}

func must(names []string, err error) []string {
	if err != nil {
		panic(err)
	}
	return names
}
