package worktree

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fileSystem makes and mounts one of its kind, and returns a directory on it.
func fileSystem(t *testing.T, kind string) string {
	t.Helper()
	dir := t.TempDir()
	if kind == "tmpfs" {
		run(t, "", nil, "mount", "-t", "tmpfs", "tmpfs", dir)
	} else {
		image := filepath.Join(t.TempDir(), "image")
		if err := os.WriteFile(image, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(image, 512<<20); err != nil {
			t.Fatal(err)
		}
		run(t, "", nil, "mkfs."+kind, "-q", image)
		run(t, "", nil, "mount", "-o", "loop", image, dir)
	}
	t.Cleanup(func() { run(t, "", nil, "umount", dir) })
	return dir
}

// TestShadowContract is what every kind of shadow keeps, on every file system
// that has it; where it does not, it is refused by name.
func TestShadowContract(t *testing.T) {
	everywhere := []ShadowKind{ShadowOverlay, ShadowUserns, ShadowCopy}
	for fs, works := range map[string][]ShadowKind{
		"ext4":  everywhere,
		"tmpfs": everywhere,
		"xfs":   append([]ShadowKind{ShadowReflink}, everywhere...),
		"btrfs": append([]ShadowKind{ShadowReflink, ShadowBtrfs}, everywhere...),
	} {
		t.Run(fs, func(t *testing.T) {
			dir := fileSystem(t, fs)
			for _, c := range Capabilities(t.Context(), dir, nil) {
				if want := slices.Contains(works, c.Kind); c.Works != want {
					t.Errorf("%s works: %v, %s", c.Kind, c.Works, c.Reason)
				}
			}
			for _, k := range shadowKinds {
				t.Run(string(k.kind), func(t *testing.T) {
					store := filepath.Join(dir, string(k.kind))
					if slices.Contains(works, k.kind) {
						shadowContract(t, store, k.kind)
						return
					}
					_, err := newStoreAt(t, store).kind(t.Context(), BaseSpec{Shadow: k.kind}, nil)
					if err == nil || !strings.Contains(err.Error(), string(k.kind)+" shadows do not work in "+store) {
						t.Errorf("refusal: %v", err)
					}
				})
			}
		})
	}
}

// TestShadowContractWithoutRoot runs the contract as another user, who may
// mount an overlay in a user namespace only.
func TestShadowContractWithoutRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		for _, kind := range []ShadowKind{ShadowUserns, ShadowCopy} {
			t.Run(string(kind), func(t *testing.T) { shadowContract(t, filepath.Join(t.TempDir(), "store"), kind) })
		}
		return
	}
	asUser(t, "TestShadowContractWithoutRoot", 2)
}

// inShadow runs a program as a candidate's would be.
func inShadow(t *testing.T, sh *Shadow, args ...string) string {
	t.Helper()
	args = append(slices.Clone(sh.Enter().Argv), append([]string{"env", "-C", sh.Root()}, args...)...)
	return run(t, "/", nil, args[0], args[1:]...)
}

func shadowContract(t *testing.T, store string, kind ShadowKind) {
	large := strings.Repeat("large ", cloneFrom)
	f := newFixture(t).write(map[string]string{
		"a.txt": "one\ntwo\n", "dir/b.txt": "b\n", "dir/deep/c.txt": "c\n", "empty": "", ".gitignore": "*.log\nout/\n", "gone.txt": "x\n",
		"large.txt": large, "replaced/d.txt": "d\n", "old/e.txt": "e\n", "old/f.txt": "f\n", "same.txt": "same\n", "sub/file": "x\n",
	})
	if err := os.Symlink("dir/b.txt", filepath.Join(f.dir, "link")); err != nil {
		t.Fatal(err)
	}
	f.commit("first")
	f.write(map[string]string{"a.txt": "one\n2\n", "new.txt": "untracked\n", "x.log": "ignored"})
	if err := os.Remove(filepath.Join(f.dir, "gone.txt")); err != nil {
		t.Fatal(err)
	}
	s := newStoreAt(t, store)
	setups := 0
	b := newBase(t, s, f.open(), BaseSpec{History: 1, Shadow: kind, SetupKey: []string{"setup"}, Setup: func(_ context.Context, root, home string) error {
		setups++
		writeFiles(t, root, map[string]string{"out/built": "built\n"})
		writeFiles(t, home, map[string]string{"cache": "warm\n"})
		return nil
	}})
	if b.ShadowKind() != kind {
		t.Fatalf("kind is %s", b.ShadowKind())
	}
	r, err := s.NewRun(t.Context(), "r1", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		s.Wait()
		if u, err := s.Usage(t.Context()); err != nil || u.Runs != 0 || u.Trash != 0 || u.Bases != 1 || u.BaseBytes == 0 {
			t.Errorf("left: %+v, %v", u, err)
		}
	}()
	sh, other := newShadow(t, r, b, "c1"), newShadow(t, r, b, "c2")
	for _, sh := range []*Shadow{sh, other} {
		if got := inShadow(t, sh, "git", "status", "--porcelain"); got != "" {
			t.Errorf("git status: %s", got)
		}
		if got := inShadow(t, sh, "git", "diff", "HEAD"); got != "" {
			t.Errorf("git diff: %s", got)
		}
		if got := inShadow(t, sh, "cat", "a.txt", "link", "out/built", filepath.Join(sh.Home(), "cache")); got != "one\n2\nb\nbuilt\nwarm\n" {
			t.Errorf("files: %q", got)
		}
		if got := inShadow(t, sh, "git", "fsck", "--full", "--strict"); strings.Contains(got, "error") {
			t.Errorf("git fsck: %s", got)
		}
	}
	if setups != 1 {
		t.Errorf("setup ran %d times", setups)
	}
	if sealed := seal(t, sh); sealed.Tree != b.Tree() || !sealed.Change.Empty() {
		t.Errorf("an untouched shadow has changed: %+v", sealed.Change)
	}
	inShadow(t, sh, "sh", "-euc", `
		printf 'one\n3\n' >a.txt
		mkdir -p out; echo ignored >out/o; echo ignored >y.log
		echo n >dir/new.txt
		rm -r dir/deep
		chmod 755 empty
		printf x >>large.txt
		rm -r replaced; ln -s dir replaced
		rm -r old; mkdir old; echo e >old/e.txt
		touch -r same.txt stamp.log; printf 'SAME\n' >same.txt; touch -r stamp.log same.txt
		rm -r sub; echo file >sub
		echo mine >"$1"/cache`, "sh", sh.Home())
	sealed := seal(t, sh)
	var got []string
	for _, c := range sealed.Change.Files {
		got = append(got, c.Status()+" "+c.Path)
	}
	want := []string{"modified a.txt", "deleted dir/deep/c.txt", "added dir/new.txt", "mode empty", "modified large.txt",
		"deleted old/f.txt", "added replaced", "deleted replaced/d.txt", "modified same.txt", "added sub", "deleted sub/file"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// What one does shows in no other, nor in the base.
	if got := seal(t, other); got.Tree != b.Tree() {
		t.Errorf("the other shadow has changed: %+v", got.Change)
	}
	if got := inShadow(t, other, "cat", filepath.Join(other.Home(), "cache"), "same.txt"); got != "warm\nsame\n" {
		t.Errorf("the other shadow: %q", got)
	}
	v, err := r.NewVerification(t.Context(), b, "v1", sealed.Tree, func(p string) bool { return p == "same.txt" })
	if err != nil {
		t.Fatal(err)
	}
	if got := inShadow(t, v, "cat", "a.txt", "dir/new.txt", "sub", "same.txt"); got != "one\n3\nn\nfile\nsame\n" {
		t.Errorf("the verification: %q", got)
	}
	if got := seal(t, newShadow(t, r, b, "c3")); got.Tree != b.Tree() {
		t.Errorf("a later shadow has changed: %+v", got.Change)
	}
	if _, err := s.loadBase(filepath.Base(b.dir)); err != nil {
		t.Errorf("the base is not what it was before shadows were made of it: %v", err)
	}
	if err := sh.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(sh.dir); !os.IsNotExist(err) {
		t.Errorf("a removed shadow is there: %v", err)
	}
}
