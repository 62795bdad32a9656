package worktree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestShadowContract is what every kind of shadow keeps.
func TestShadowContract(t *testing.T) {
	kinds(t, func(t *testing.T, kind ShadowKind) {
		f := newFixture(t).write(map[string]string{
			"a.txt": "one\ntwo\n", "dir/b.txt": "b\n", "dir/deep/c.txt": "c\n", "empty": "", ".gitignore": "*.log\nout/\n", "gone.txt": "x\n",
		})
		f.commit("first")
		f.write(map[string]string{"a.txt": "one\n2\n", "new.txt": "untracked\n", "x.log": "ignored"})
		if err := os.Remove(filepath.Join(f.dir, "gone.txt")); err != nil {
			t.Fatal(err)
		}
		s := newStore(t)
		b := newBase(t, s, f.open(), BaseSpec{History: 1, Shadow: kind})
		if b.ShadowKind() != kind {
			t.Fatalf("kind is %s", b.ShadowKind())
		}
		sh := newShadow(t, newRun(t, s), b, "c1")
		if got := run(t, sh.Root(), nil, "git", "status", "--porcelain"); got != "" {
			t.Errorf("git status: %s", got)
		}
		if sealed := seal(t, sh); sealed.Tree != b.Tree() || !sealed.Change.Empty() {
			t.Errorf("an untouched shadow has changed: %+v", sealed.Change)
		}
		writeFiles(t, sh.Root(), map[string]string{"a.txt": "one\n3\n", "out/o": "ignored", "dir/new.txt": "n\n", "y.log": "ignored"})
		if err := os.RemoveAll(filepath.Join(sh.Root(), "dir/deep")); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(sh.Root(), "empty"), 0o755); err != nil {
			t.Fatal(err)
		}
		sealed := seal(t, sh)
		var got []string
		for _, c := range sealed.Change.Files {
			got = append(got, c.Status()+" "+c.Path)
		}
		want := []string{"modified a.txt", "deleted dir/deep/c.txt", "added dir/new.txt", "mode empty"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}
