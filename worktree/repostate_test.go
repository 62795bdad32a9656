package worktree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// changed is the file that the candidate changes in every state.
const changed = "src/main.txt"

// A repoState is a repository that a test builds with git itself.
type repoState struct {
	name    string
	init    []string
	build   func(t *testing.T, f *fixture) (dir string) // "" is the fixture's own
	open    string                                      // a sub-directory to open
	branch  bool                                        // also adopt onto a branch, and check that out
	commits []string                                    // also adopt onto a branch: all paths in which that differs from the base's commit
	note    string                                      // that the base must have
	missing []string                                    // paths that must not be in the base
	present []string
	ignored []string // ignored files that must be in the shadow
}

func ok(build func(t *testing.T, f *fixture)) func(*testing.T, *fixture) string {
	return func(t *testing.T, f *fixture) string { build(t, f); return "" }
}

func start(f *fixture) {
	f.write(map[string]string{changed: "one\ntwo\nthree\n", "other.txt": "other\n", ".gitignore": "*.tmp\n/ignored/\n"})
	f.commit("first")
}

// userState is what must be the same before and after a run.
func (f *fixture) userState() string {
	f.t.Helper()
	var b strings.Builder
	git := func(args ...string) {
		f.t.Helper()
		cmd := append([]string{"GIT_OPTIONAL_LOCKS=0", "git", "-c", "filter.lfs.required=false", "-c", "filter.lfs.process=", "-c", "filter.lfs.clean=", "-c", "filter.no.required=false", "-c", "filter.no.clean="}, args...)
		b.WriteString(run(f.t, f.dir, nil, "env", cmd...) + "\n")
	}
	gitDir := f.git("rev-parse", "--absolute-git-dir")
	index, err := os.ReadFile(filepath.Join(gitDir, "index"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.t.Fatal(err)
	}
	fmt.Fprintf(&b, "index %s\n", hashObject(3, index))
	git("status", "--porcelain=v2", "--branch", "--untracked-files=all", "--ignored")
	git("for-each-ref")
	git("stash", "list")
	git("config", "--list", "--local")
	git("worktree", "list", "--porcelain")
	return b.String()
}

// files reads every file of a work tree, .git and .bestof apart.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		if d.Name() == ".git" || rel == ".bestof" {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			return err
		}
		if info.Mode()&os.ModeSymlink != 0 {
			target, err := os.Readlink(p)
			out[rel] = "-> " + target
			return err
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(p)
		out[rel] = fmt.Sprintf("%o %s", info.Mode().Perm()&0o100, b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// check lets a candidate change one file, adopts that, and compares every byte
// of the tree and everything else that is the user's before and after.
func (st repoState) check(t *testing.T, kind ShadowKind) {
	f := newFixture(t, st.init...)
	if dir := st.build(t, f); dir != "" {
		f.dir = dir
	}
	if st.name == "owner is another user" {
		run(t, f.dir, nil, "git", "config", "--global", "--add", "safe.directory", f.dir)
	}
	before, bytesBefore := f.userState(), files(t, f.dir)
	if st.name == "owner is another user" {
		f.t.Setenv("HOME", t.TempDir()) // without the exception that the test's own git needs
	}
	r, err := Open(t.Context(), filepath.Join(f.dir, st.open))
	if err != nil {
		t.Fatal(err)
	}
	if r.Prefix() != st.open {
		t.Errorf("prefix %q", r.Prefix())
	}
	print, err := r.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(t)
	b := newBase(t, s, r, BaseSpec{History: 1, Shadow: kind})
	if st.note != "" && !strings.Contains(strings.Join(b.Notes(), "\n"), st.note) {
		t.Errorf("no note with %q in %q", st.note, b.Notes())
	}
	paths := "\x00" + strings.Join(b.Paths(), "\x00") + "\x00"
	for _, p := range st.present {
		if !strings.Contains(paths, "\x00"+p+"\x00") {
			t.Errorf("%q is not in the base", p)
		}
	}
	for _, p := range st.missing {
		if strings.Contains(paths, "\x00"+p+"\x00") {
			t.Errorf("%q is in the base", p)
		}
	}
	sh := newShadow(t, newRun(t, s), b, "c1")
	if got := run(t, sh.Root(), nil, "git", "status", "--porcelain"); got != "" {
		t.Errorf("a fresh shadow has a status: %s", got)
	}
	for p, content := range files(t, sh.Root()) {
		if bytesBefore[p] != content {
			t.Errorf("%q in the shadow: %q, %q with the user", p, content, bytesBefore[p])
		}
	}
	for _, p := range st.ignored {
		if _, err := os.Lstat(filepath.Join(sh.Root(), p)); err != nil {
			t.Errorf("an included file is not in the shadow: %v", err)
		}
	}
	writeFiles(t, sh.Root(), map[string]string{changed: "the candidate's\n"})
	run(t, sh.Root(), nil, "git", "commit", "-qam", "the candidate's own")
	sealed := seal(t, sh)
	if len(sealed.Change.Files) != 1 || sealed.Change.Files[0].Path != changed {
		t.Fatalf("change: %+v", sealed.Change)
	}
	kept := filepath.Join(t.TempDir(), "kept")
	if err := b.Objects().Keep(t.Context(), kept, sealed.Change); err != nil {
		t.Fatal(err)
	}
	after, err := r.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := print.Diff(after); len(diff) > 0 {
		t.Errorf("the fingerprint changed: %q", diff)
	}
	if st.name == "owner is another user" {
		run(t, f.dir, nil, "git", "config", "--global", "--add", "safe.directory", f.dir)
		run(t, f.dir, nil, "git", "config", "--global", "user.name", "x")
		run(t, f.dir, nil, "git", "config", "--global", "user.email", "x@example.com")
	}
	if diff := cmp.Diff(before, f.userState()); diff != "" {
		t.Errorf("the user's state changed:\n%s", diff)
	}
	if diff := cmp.Diff(bytesBefore, files(t, f.dir)); diff != "" {
		t.Errorf("the user's files changed:\n%s", diff)
	}
	o, err := OpenObjects(kept)
	if err != nil {
		t.Fatal(err)
	}
	opt := AdoptOptions{RunID: "r1", JournalDir: filepath.Join(t.TempDir(), "journal"), BaseCommit: b.Commit(), BaseKind: b.Kind(), Message: "Adopted\n"}
	if st.branch {
		opt.Mode, opt.Branch = AdoptBranch, "won"
		got, err := r.Adopt(t.Context(), o, sealed.Change, opt)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(bytesBefore, files(t, f.dir)); diff != "" {
			t.Errorf("a branch changed the user's files:\n%s", diff)
		}
		checkBranch(t, f, b, sh, got)
	}
	if st.commits != nil {
		opt.Mode, opt.Branch = AdoptBranch, "paths"
		got, err := r.Adopt(t.Context(), o, sealed.Change, opt)
		if err != nil {
			t.Fatal(err)
		}
		diff := []string{"diff-tree", "-r", "-z", "--no-renames", "--name-only", b.Commit(), got.Commit}
		paths := strings.Split(strings.TrimSuffix(run(t, f.dir, nil, "git", diff...), "\x00"), "\x00")
		if diff := cmp.Diff(st.commits, paths); diff != "" {
			t.Errorf("the branch differs from the commit in:\n%s", diff)
		}
	}
	index, _ := os.ReadFile(filepath.Join(r.gitDir, "index"))
	before = f.userState()
	opt.Mode = AdoptApply
	if _, err := r.Adopt(t.Context(), o, sealed.Change, opt); err != nil {
		t.Fatal(err)
	}
	bytesBefore[changed] = "0 the candidate's\n"
	if diff := cmp.Diff(bytesBefore, files(t, f.dir)); diff != "" {
		t.Errorf("adopting wrote something else:\n%s", diff)
	}
	if now, _ := os.ReadFile(filepath.Join(r.gitDir, "index")); !bytes.Equal(index, now) {
		t.Error("adopting touched the index")
	}
	if diff := cmp.Diff(without(before, changed), without(f.userState(), changed)); diff != "" {
		t.Errorf("adopting changed more than one file's status:\n%s", diff)
	}
	if st.name == "owner is another user" {
		var stat unix.Stat_t
		if err := unix.Lstat(filepath.Join(f.dir, changed), &stat); err != nil || stat.Uid != 12345 {
			t.Errorf("the adopted file belongs to %d, %v", stat.Uid, err)
		}
	}
}

// without leaves the lines out that end in a word.
func without(text, word string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(strings.TrimSuffix(line, "\n"), word) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// checkBranch checks out what was adopted beside the user's tree.
func checkBranch(t *testing.T, f *fixture, b *Base, sh *Shadow, got Adopted) {
	t.Helper()
	if id := f.git("rev-parse", "refs/heads/won"); id != got.Commit {
		t.Errorf("the branch is at %s, not %s", id, got.Commit)
	}
	out := filepath.Join(t.TempDir(), "out")
	f.git("worktree", "add", "-q", out, "won")
	want, have := files(t, sh.Root()), files(t, out)
	if f.git("config", "--default=false", "core.autocrlf") == "true" {
		// Then no checkout of the user's has other line ends, whatever is committed.
		for _, m := range []map[string]string{want, have} {
			for name, content := range m {
				m[name] = strings.ReplaceAll(content, "\r\n", "\n")
			}
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("the branch's files are not those of the candidate:\n%s", diff)
	}
	f.git("worktree", "remove", "--force", out)
}
