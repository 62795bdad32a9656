package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBareMirror: bases come from the commits of a mirror, which no shadow
// shares anything with and which stays as it is.
func TestBareMirror(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "1\n"})
	first := f.commit("first")
	f.write(map[string]string{"a": "2\n"})
	f.commit("second")
	mirror := filepath.Join(t.TempDir(), "mirrors", "owner__name.git")
	if err := Mirror(t.Context(), f.dir, mirror); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Dir(mirror)); err != nil || len(left) != 1 {
		t.Errorf("left beside the mirror: %v, %v", left, err)
	}
	r, err := OpenAny(t.Context(), mirror)
	if err != nil {
		t.Fatal(err)
	}
	before, err := r.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(before.state) == 0 {
		t.Error("the fingerprint is empty")
	}
	s := newStore(t)
	b := newBase(t, s, r, BaseSpec{Kind: BaseRev, Rev: first, History: 1})
	sh := newShadow(t, newRun(t, s), b, "c1")
	if got, err := os.ReadFile(filepath.Join(sh.HostRoot(), "a")); err != nil || string(got) != "1\n" {
		t.Errorf("a: %q, %v", got, err)
	}
	if head := newBase(t, s, r, BaseSpec{Kind: BaseHead, History: 1}); head.Commit() != r.Head() || r.Head() == first {
		t.Errorf("head: %s", head.Commit())
	}
	if _, err := s.Base(t.Context(), r, BaseSpec{Kind: BaseSnapshot, History: 1}); !errors.Is(err, ErrNoWorkTree) {
		t.Errorf("snapshot: %v", err)
	}
	after, err := r.Fingerprint(t.Context())
	if diff := before.Diff(after); err != nil || len(diff) > 0 {
		t.Errorf("changed: %v, %v", diff, err)
	}
	f.git("push", "-q", mirror, "HEAD:refs/heads/other")
	after, err = r.Fingerprint(t.Context())
	if diff := before.Diff(after); err != nil || len(diff) != 1 || diff[0] != "refs/heads/other" {
		t.Errorf("a new branch: %v, %v", diff, err)
	}
}

func TestOpenAny(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "1\n"})
	f.commit("first")
	if r, err := OpenAny(t.Context(), f.dir); err != nil || r.bare {
		t.Errorf("a work tree: %+v, %v", r, err)
	}
	for name, c := range map[string]struct{ dir, want string }{
		"its .git": {filepath.Join(f.dir, ".git"), "bare repository"},
		"nothing":  {t.TempDir(), "not in a git repository"},
		"absent":   {filepath.Join(f.dir, "absent"), "no such file"},
	} {
		if _, err := OpenAny(t.Context(), c.dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Mirror(t.Context(), "ext::sh -c true", filepath.Join(t.TempDir(), "m")); err == nil {
		t.Error("a url ran a program")
	}
}
