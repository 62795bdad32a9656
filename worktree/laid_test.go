package worktree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const laidPatch = `diff --git a/tests/a.txt b/tests/a.txt
--- a/tests/a.txt
+++ b/tests/a.txt
@@ -1,2 +1,2 @@
 one
-two
+TWO
diff --git a/tests/gone.txt b/tests/gone.txt
deleted file mode 100644
--- a/tests/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/tests/new.sh b/tests/new.sh
new file mode 100755
--- /dev/null
+++ b/tests/new.sh
@@ -0,0 +1 @@
+true`

// TestHazardsLaid: files of a hidden patch win over whatever a candidate puts
// in their way, and are in no shadow but the one that is asked for.
func TestHazardsLaid(t *testing.T) {
	kinds(t, func(t *testing.T, kind ShadowKind) {
		f := newFixture(t).write(map[string]string{"tests/a.txt": "one\ntwo\n", "tests/gone.txt": "x\n", "code": "1\n", "elsewhere/keep": "k\n"})
		f.commit("first")
		s := newStore(t)
		b := newBase(t, s, f.open(), BaseSpec{Kind: BaseHead, History: 1, Shadow: kind})
		laid, err := b.Patched([]byte(laidPatch))
		if err != nil {
			t.Fatal(err)
		}
		r := newRun(t, s)
		for name, hostile := range map[string]func(root string) error{
			"edited": func(root string) error {
				return os.WriteFile(filepath.Join(root, "tests/a.txt"), []byte("forged\n"), 0o644)
			},
			"dir": func(root string) error { return os.MkdirAll(filepath.Join(root, "tests/new.sh/deep"), 0o755) },
			"parent is a link": func(root string) error {
				if err := os.RemoveAll(filepath.Join(root, "tests")); err != nil {
					return err
				}
				return os.Symlink("elsewhere", filepath.Join(root, "tests"))
			},
			"parent is a file": func(root string) error {
				if err := os.RemoveAll(filepath.Join(root, "tests")); err != nil {
					return err
				}
				return os.WriteFile(filepath.Join(root, "tests"), []byte("t\n"), 0o644)
			},
		} {
			t.Run(name, func(t *testing.T) {
				id := strings.ReplaceAll(name, " ", "-")
				sh := newShadow(t, r, b, id)
				if err := hostile(sh.HostRoot()); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(sh.HostRoot(), "code"), []byte("2\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				sealed := seal(t, sh)
				v, err := r.NewVerificationWith(t.Context(), b, id+"-v", sealed.Tree, nil, laid)
				if err != nil {
					t.Fatal(err)
				}
				for path, want := range map[string]string{"tests/a.txt": "one\nTWO\n", "tests/new.sh": "true\n", "code": "2\n", "elsewhere/keep": "k\n"} {
					if got, err := os.ReadFile(filepath.Join(v.HostRoot(), path)); err != nil || string(got) != want {
						t.Errorf("%s: %q, %v", path, got, err)
					}
				}
				if _, err := os.Lstat(filepath.Join(v.HostRoot(), "tests/gone.txt")); !os.IsNotExist(err) {
					t.Errorf("gone.txt: %v", err)
				}
				if names, err := os.ReadDir(filepath.Join(v.HostRoot(), "elsewhere")); err != nil || len(names) != 1 {
					t.Errorf("laid through a link: %v, %v", names, err)
				}
				plain, err := r.NewVerification(t.Context(), b, id+"-p", b.Tree(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(filepath.Join(plain.HostRoot(), "tests/a.txt")); err != nil || string(got) != "one\ntwo\n" {
					t.Errorf("another shadow has it: %q, %v", got, err)
				}
			})
		}
	})
}

func TestPatchedRefuses(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "1\n", "b": "1\n"})
	f.commit("first")
	b := newBase(t, newStore(t), f.open(), BaseSpec{Kind: BaseHead, History: 1})
	for name, c := range map[string]struct{ patch, want string }{
		"other lines": {"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-2\n+3\n", "a: hunk 1: line 1 is not what the patch says"},
		"absent":      {"diff --git a/c b/c\n--- a/c\n+++ b/c\n@@ -1 +1 @@\n-2\n+3\n", "c: the base does not have it"},
		"there":       {"diff --git a/a b/a\nnew file mode 100644\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+3\n", "a: the patch adds it, and the base has it"},
		"not one":     {"rm -rf\n", "line 1"},
		"ours":        {"diff --git a/.bestof/x b/.bestof/x\nnew file mode 100644\n--- /dev/null\n+++ b/.bestof/x\n@@ -0,0 +1 @@\n+3\n", ".bestof/x: no file may be laid there"},
		"out":         {"diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+3\n", "../x"},
		"git":         {"diff --git a/.git/config b/.git/config\nnew file mode 100644\n--- /dev/null\n+++ b/.git/config\n@@ -0,0 +1 @@\n+3\n", ".git/config"},
	} {
		if laid, err := b.Patched([]byte(c.patch)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", name, laid, err)
		}
	}
	renamed, err := b.Patched([]byte("diff --git a/a b/z\nsimilarity index 100%\nrename from a\nrename to z\n"))
	if err != nil || len(renamed) != 2 || renamed[0].Path != "a" || renamed[0].Mode != ModeNone || string(renamed[1].Data) != "1\n" || renamed[1].Mode != ModeFile {
		t.Errorf("renamed: %+v, %v", renamed, err)
	}
}
