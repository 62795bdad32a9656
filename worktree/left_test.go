package worktree

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestHazardsLeft: what a program leaves in files of a shadow is read from
// regular files alone, bounded, and nothing that was there before it counts.
func TestHazardsLeft(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside.xml")
	if err := os.WriteFile(outside, []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	kinds(t, func(t *testing.T, kind ShadowKind) {
		f := newFixture(t).write(map[string]string{"code": "1\n", "out/a.xml": "base\n", "out/keep.txt": "k\n"})
		f.commit("first")
		s := newStore(t)
		b := newBase(t, s, f.open(), BaseSpec{Kind: BaseHead, History: 1, Shadow: kind})
		r := newRun(t, s)
		sh := newShadow(t, r, b, "c1")
		put := func(root, name, text string) {
			t.Helper()
			at := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		put(sh.HostRoot(), "out/planted.xml", "planted")
		put(sh.HostRoot(), "out/dir.xml/x", "planted")
		sealed := seal(t, sh)
		v, err := r.NewVerification(t.Context(), b, "v", sealed.Tree, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Forget("out/*.xml"); err != nil {
			t.Fatal(err)
		}
		if got, err := v.Left("out/*.xml", 100); err != nil || len(got) != 0 {
			t.Errorf("left before anything ran: %q, %v", got, err)
		}
		if names, err := os.ReadDir(filepath.Join(v.HostRoot(), "out")); err != nil || len(names) != 1 {
			t.Errorf("%v, %v: only keep.txt stays", names, err)
		}
		root := v.HostRoot()
		put(root, "out/b.xml", "two")
		put(root, "out/a.xml", "one")
		put(root, "out/empty.xml", "")
		put(root, "out/in.xml/c.xml", "deep")
		if err := os.Symlink(outside, filepath.Join(root, "out/link.xml")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("out", filepath.Join(root, "way")); err != nil {
			t.Fatal(err)
		}
		got, err := v.Left("out/*.xml", 6)
		if err != nil || len(got) != 3 || string(got[0]) != "one" || string(got[1]) != "two" || len(got[2]) != 0 {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := v.Left("way/a.xml", 100); err != nil || len(got) != 0 {
			t.Errorf("through a link: %q, %v", got, err)
		}
		if _, err := v.Left("out/*.xml", 5); err == nil || !strings.Contains(err.Error(), "b.xml") {
			t.Errorf("more than may be read: %v", err)
		}
		if got, err := v.Left("nowhere/*/a", 5); err != nil || len(got) != 0 {
			t.Errorf("nothing: %q, %v", got, err)
		}
	})
}

func TestCheckLeft(t *testing.T) {
	for _, bad := range []string{"", "/a", "../a", "a/../b", "a//b", "a/", ".git/x", "x/.GIT/y", ".bestof/x", "[", "a/**/b", "."} {
		if err := CheckLeft(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	for _, good := range []string{"junit.xml", "target/surefire-reports/*.xml", "*/target/TEST-?[a-z].xml"} {
		if err := CheckLeft(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	var means []string
	for _, name := range []string{"t/a.xml", "t/b/a.xml", "t/a.xml/x", "t", "a.xml"} {
		if MatchLeft("t/*.xml", name) {
			means = append(means, name)
		}
	}
	if want := []string{"t/a.xml", "t/a.xml/x"}; !slices.Equal(means, want) {
		t.Errorf("%q, want %q", means, want)
	}
}
