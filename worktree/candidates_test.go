package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// statuses are the changes of a sealed tree, "added path".
func statuses(s *Sealed) []string {
	var out []string
	for _, f := range s.Change.Files {
		out = append(out, f.Status()+" "+f.Path)
	}
	return out
}

// TestHazardCandidates lets a candidate do what candidates do.
func TestHazardCandidates(t *testing.T) {
	base := map[string]string{
		"a.txt": "one\ntwo\n", "b.txt": "b\n", "d/x": "x\n", "d/y": "y\n", "d/e/z": "z\n", ".gitignore": "*.tmp\nbuild/\n", "tracked.tmp": "in spite of the rule\n", "build/kept": "tracked\n",
	}
	for _, c := range []struct {
		name string
		do   func(t *testing.T, root string)
		want []string
		note string
		err  string // path of the SealError
	}{
		{name: "nothing", do: func(t *testing.T, root string) {}},
		{name: "commits, branches and resets", want: []string{"modified a.txt"}, do: func(t *testing.T, root string) {
			writeFiles(t, root, map[string]string{"a.txt": "changed\n"})
			run(t, root, nil, "git", "checkout", "-q", "-b", "mine")
			run(t, root, nil, "git", "commit", "-qam", "mine")
			run(t, root, nil, "git", "gc", "-q", "--prune=now")
			run(t, root, nil, "git", "reset", "-q", "--soft", "HEAD~1")
			writeFiles(t, root, map[string]string{"b.txt": "stash me\n"})
			run(t, root, nil, "git", "stash", "-q")
			writeFiles(t, root, map[string]string{"a.txt": "changed\n"})
		}},
		{name: "hides edits from git", want: []string{"modified .gitignore", "modified a.txt", "modified b.txt", "added conftest.py"}, do: func(t *testing.T, root string) {
			run(t, root, nil, "git", "update-index", "--assume-unchanged", "a.txt")
			run(t, root, nil, "git", "update-index", "--skip-worktree", "b.txt")
			writeFiles(t, root, map[string]string{"a.txt": "hidden\n", "b.txt": "hidden\n", ".git/info/exclude": "*\n", ".gitignore": "*\n", "conftest.py": "x\n"})
		}},
		{name: "same size and the old time", want: []string{"modified b.txt"}, do: func(t *testing.T, root string) {
			at := filepath.Join(root, "b.txt")
			info, err := os.Stat(at)
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(at, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString("B\n"); err != nil {
				t.Fatal(err)
			}
			f.Close()
			if err := os.Chtimes(at, info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "programs in its repository", want: []string{"added .gitattributes", "modified a.txt"}, do: func(t *testing.T, root string) {
			evil := "touch " + filepath.Join(filepath.Dir(root), "executed")
			writeFiles(t, root, map[string]string{
				".git/config":              "[core]\n\tfsmonitor = " + evil + "\n[filter \"z\"]\n\tclean = " + evil + "\n[diff]\n\texternal = " + evil + "\n",
				".git/hooks/post-checkout": "#!/bin/sh\n" + evil + "\n", ".gitattributes": "* filter=z\n", "a.txt": "x\n",
			})
		}},
		{name: "removes its repository", want: []string{"deleted a.txt"}, do: func(t *testing.T, root string) {
			if err := errors.Join(os.RemoveAll(filepath.Join(root, ".git")), os.Remove(filepath.Join(root, "a.txt"))); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "nested repository", want: []string{"added n/f"}, note: "nested", do: func(t *testing.T, root string) {
			writeFiles(t, root, map[string]string{"n/f": "x\n"})
			run(t, filepath.Join(root, "n"), nil, "git", "init", "-q")
			if err := os.MkdirAll(filepath.Join(root, "m/.git"), 0o755); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "directory becomes a file", want: []string{"added d", "deleted d/e/z", "deleted d/x", "deleted d/y"}, do: func(t *testing.T, root string) {
			if err := os.RemoveAll(filepath.Join(root, "d")); err != nil {
				t.Fatal(err)
			}
			writeFiles(t, root, map[string]string{"d": "file\n"})
		}},
		{name: "file becomes a directory", want: []string{"deleted a.txt", "added a.txt/in"}, do: func(t *testing.T, root string) {
			if err := os.Remove(filepath.Join(root, "a.txt")); err != nil {
				t.Fatal(err)
			}
			writeFiles(t, root, map[string]string{"a.txt/in": "x\n"})
		}},
		{name: "directory made anew", want: []string{"deleted d/e/z", "modified d/y"}, do: func(t *testing.T, root string) {
			if err := os.RemoveAll(filepath.Join(root, "d")); err != nil {
				t.Fatal(err)
			}
			writeFiles(t, root, map[string]string{"d/x": "x\n", "d/y": "new\n"})
		}},
		{name: "directory renamed", want: []string{"deleted d/e/z", "deleted d/x", "deleted d/y", "added f/e/z", "added f/x", "added f/y"}, do: func(t *testing.T, root string) {
			run(t, root, nil, "mv", "d", "f")
		}},
		{name: "links, modes and names", want: []string{"type a.txt", "added \xff", "added evil\x1b[2J", "added link", "mode b.txt"}, do: func(t *testing.T, root string) {
			os.Remove(filepath.Join(root, "a.txt"))
			if err := errors.Join(os.Symlink("/etc/passwd", filepath.Join(root, "a.txt")), os.Symlink("..", filepath.Join(root, "link")), os.Chmod(filepath.Join(root, "b.txt"), 0o700)); err != nil {
				t.Fatal(err)
			}
			writeFiles(t, root, map[string]string{"\xff": "", "evil\x1b[2J": "x"})
		}},
		{name: "ignored files, and tracked ones among them", want: []string{"deleted build/kept", "modified tracked.tmp"}, do: func(t *testing.T, root string) {
			writeFiles(t, root, map[string]string{"x.tmp": "x", "build/out": "x", "deep/er/y.tmp": "x", "tracked.tmp": "now\n"})
			if err := os.Remove(filepath.Join(root, "build/kept")); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "names equal but for case", want: []string{"added A.TXT", "added D/x"}, note: "case", do: func(t *testing.T, root string) {
			writeFiles(t, root, map[string]string{"A.TXT": "x", "D/x": "x"})
		}},
		{name: "hard link", want: []string{"added l"}, do: func(t *testing.T, root string) {
			if err := os.Link(filepath.Join(root, "a.txt"), filepath.Join(root, "l")); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "pipe", err: "pipe", do: func(t *testing.T, root string) {
			if err := unix.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "socket", err: "d/s", do: func(t *testing.T, root string) {
			if err := unix.Mknod(filepath.Join(root, "d/s"), unix.S_IFSOCK|0o600, 0); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "device", err: "null", do: func(t *testing.T, root string) {
			if err := unix.Mknod(filepath.Join(root, "null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
				t.Fatal(err)
			}
		}},
		{name: ".GIT", err: ".GIT", do: func(t *testing.T, root string) { writeFiles(t, root, map[string]string{".GIT/config": "x"}) }},
		{name: "git~1", err: "d/git~1", do: func(t *testing.T, root string) { writeFiles(t, root, map[string]string{"d/git~1": "x"}) }},
		{name: "invisible", err: ".g\u200cit", do: func(t *testing.T, root string) { writeFiles(t, root, map[string]string{".g\u200cit": "x"}) }},
		{name: "ours", err: ".bestof", do: func(t *testing.T, root string) { writeFiles(t, root, map[string]string{".bestof/config.toml": "x"}) }},
		{name: "too deep", err: "deep" + strings.Repeat("/d", 100), do: func(t *testing.T, root string) {
			writeFiles(t, root, map[string]string{"deep" + strings.Repeat("/d", 101) + "/f": "x"})
		}},
		{name: "huge", err: "huge", do: func(t *testing.T, root string) {
			writeFiles(t, root, map[string]string{"huge": ""})
			if err := os.Truncate(filepath.Join(root, "huge"), 5<<30); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		for _, kind := range []ShadowKind{ShadowOverlay, ShadowCopy} {
			t.Run(c.name+"/"+string(kind), func(t *testing.T) {
				f := newFixture(t).write(base)
				f.git("add", "-f", ".")
				f.git("commit", "-qm", "base")
				s := newStore(t)
				b := newBase(t, s, f.open(), BaseSpec{History: 1, Shadow: kind})
				r := newRun(t, s)
				sh := newShadow(t, r, b, "c1")
				c.do(t, sh.Root())
				sealed, err := sh.Seal(t.Context(), Limits{})
				if _, lerr := os.Lstat(filepath.Join(sh.dir, "executed")); lerr == nil {
					t.Error("the host executed what the candidate planted")
				}
				if c.err != "" {
					var refused *SealError
					if !errors.As(err, &refused) || refused.Path != c.err {
						t.Fatalf("error %v, want one about %q", err, c.err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				want := slices.Clone(c.want)
				slices.SortFunc(want, func(a, b string) int { return strings.Compare(a[strings.Index(a, " "):], b[strings.Index(b, " "):]) })
				if diff := cmp.Diff(want, statuses(sealed)); diff != "" {
					t.Error(diff)
				}
				if c.note != "" && !strings.Contains(strings.Join(sealed.Notes, "\n"), c.note) {
					t.Errorf("no note with %q in %q", c.note, sealed.Notes)
				}
				// The verification has exactly the sealed tree, and nothing that was ignored.
				v, err := r.NewVerification(t.Context(), b, "c1-verify-0", sealed.Tree, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := seal(t, v); got.Tree != sealed.Tree {
					t.Errorf("the verification has tree %s, not %s: %v", got.Tree, sealed.Tree, statuses(got))
				}
				if err := os.RemoveAll(filepath.Join(v.Root(), ".git")); err != nil {
					t.Fatal(err)
				}
				if got := gitTree(t, v.Root()); got != sealed.Tree {
					t.Errorf("git says the tree is %s, not %s", got, sealed.Tree)
				}
			})
		}
	}
}

// TestHazardSubmoduleIsArmed: git that looks at a tree with a submodule looks
// into the submodule's own repository too, and does what that is set to do. The
// files of one are in the base, so a candidate can arm it.
func TestHazardSubmoduleIsArmed(t *testing.T) {
	f := newFixture(t)
	lib := &fixture{t, filepath.Join(filepath.Dir(f.dir), "lib")}
	run(t, "", nil, "git", "init", "-q", lib.dir)
	lib.write(map[string]string{"code.txt": "code\n"}).commit("lib")
	f.write(map[string]string{"a.txt": "a\n"})
	f.git("submodule", "--quiet", "add", lib.dir, "lib")
	f.commit("base")
	s := newStore(t)
	repo := f.open()
	for _, kind := range []ShadowKind{ShadowOverlay, ShadowCopy} {
		t.Run(string(kind), func(t *testing.T) {
			b := newBase(t, s, repo, BaseSpec{History: 1, Shadow: kind})
			r := newRun(t, s)
			sh := newShadow(t, r, b, "c1")
			executed := filepath.Join(sh.dir, "executed")
			evil := "touch " + executed
			at := filepath.Join(sh.Root(), "lib")
			if err := os.RemoveAll(filepath.Join(at, ".git")); err != nil {
				t.Fatal(err)
			}
			run(t, at, nil, "git", "init", "-q")
			run(t, at, nil, "git", "add", ".")
			run(t, at, nil, "git", "commit", "-qm", "its own")
			run(t, sh.Root(), nil, "git", "rm", "-rq", "--cached", "lib")
			run(t, sh.Root(), nil, "git", "update-index", "--add", "--cacheinfo", "160000,"+strings.TrimSpace(run(t, at, nil, "git", "rev-parse", "HEAD"))+",lib")
			writeFiles(t, at, map[string]string{
				".git/config":          "[core]\n\tfsmonitor = " + evil + "\n[filter \"z\"]\n\tclean = " + evil + "\n[diff]\n\texternal = " + evil + "\n",
				".git/info/attributes": "* filter=z\n", ".gitattributes": "* filter=z\n", "code.txt": "CODE\n",
			})
			later := time.Now().Add(time.Hour) // the same size at another time, so that git has to read it
			if err := os.Chtimes(filepath.Join(at, "code.txt"), later, later); err != nil {
				t.Fatal(err)
			}
			sealed, err := sh.Seal(t.Context(), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			v, err := r.NewVerification(t.Context(), b, "c1-verify-0", sealed.Tree, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := seal(t, v); got.Tree != sealed.Tree {
				t.Errorf("the verification has tree %s, not %s", got.Tree, sealed.Tree)
			}
			if _, err := os.Lstat(executed); err == nil {
				t.Error("the host executed what the submodule was armed with")
			}
			if diff := cmp.Diff([]string{"added lib/.gitattributes", "modified lib/code.txt"}, statuses(sealed)); diff != "" {
				t.Errorf("%s\nnotes %q", diff, sealed.Notes)
			}
			// It is what git itself would have done.
			run(t, sh.Root(), nil, "git", "status", "--short")
			if _, err := os.Lstat(executed); err != nil {
				t.Error("it was not armed")
			}
		})
	}
}

// TestHazardShadowDirectoryReplaced: a candidate that deletes its directory,
// or puts a link there, fails alone.
func TestHazardShadowDirectoryReplaced(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "a"})
	f.commit("x")
	s := newStore(t)
	b := newBase(t, s, f.open(), BaseSpec{History: 1, Shadow: ShadowCopy})
	r := newRun(t, s)
	for name, replace := range map[string]func(root string) error{
		"gone":  func(string) error { return nil },
		"link":  func(root string) error { return os.Symlink("/etc", root) },
		"file":  func(root string) error { return os.WriteFile(root, nil, 0o600) },
		"other": func(root string) error { return os.Mkdir(root, 0o700) },
	} {
		sh := newShadow(t, r, b, name)
		if err := errors.Join(os.Rename(sh.Root(), sh.Root()+"-old"), replace(sh.Root())); err != nil {
			t.Fatal(err)
		}
		_, err := sh.Seal(t.Context(), Limits{})
		var refused *SealError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
		if err := sh.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat("/etc/passwd"); err != nil {
		t.Error("a link was followed by a removal")
	}
}

func TestHazardSealLimits(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "a"})
	f.commit("x")
	s := newStore(t)
	b := newBase(t, s, f.open(), BaseSpec{History: 1})
	sh := newShadow(t, newRun(t, s), b, "c1")
	writeFiles(t, sh.Root(), map[string]string{"x/1": "12345", "x/2": "12345"})
	for _, l := range []Limits{{Files: 1}, {Bytes: 9}, {File: 4}, {Depth: -1}} {
		_, err := sh.Seal(t.Context(), l)
		var refused *SealError
		if !errors.As(err, &refused) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if _, err := sh.Seal(t.Context(), Limits{Files: 2, Bytes: 10, File: 5, Depth: 1}); err != nil {
		t.Error(err)
	}
}

// TestHazardTheFixIsNotThere looks for everything else that the user's
// repository has, in shadows of each history.
func TestHazardTheFixIsNotThere(t *testing.T) {
	f := newFixture(t)
	for _, v := range []string{"v1", "v2", "v3", "v4"} {
		f.write(map[string]string{"a.txt": v + "\n"}).commit(v)
	}
	f.git("checkout", "-q", "-b", "fix")
	f.write(map[string]string{"a.txt": "the fix\n"}).commit("the fix")
	f.git("tag", "fixed")
	f.git("checkout", "-q", "main")
	f.write(map[string]string{"a.txt": "stashed fix\n"})
	f.git("stash", "-q")
	f.git("remote", "add", "origin", "https://example.com/x.git")
	s := newStore(t)
	r := f.open()
	run1 := newRun(t, s)
	for _, c := range []struct {
		name    string
		kind    BaseKind
		history int
		dirty   bool
		commits int
	}{{"one", BaseHead, 1, false, 1}, {"two", BaseHead, 2, false, 2}, {"all", BaseHead, 0, false, 4}, {"two-dirty", BaseSnapshot, 2, true, 3}, {"one-dirty", BaseSnapshot, 1, true, 1}} {
		t.Run(c.name, func(t *testing.T) {
			if c.dirty {
				f.write(map[string]string{"dirty": "d"})
			}
			b := newBase(t, s, r, BaseSpec{Kind: c.kind, History: c.history})
			sh := newShadow(t, run1, b, c.name)
			git := func(args ...string) string { return run(t, sh.Root(), nil, "git", args...) }
			if got := strings.Count(git("log", "--all", "--format=%H"), "\n"); got != 0 && got != c.commits {
				t.Errorf("git log --all shows %d commits", got)
			}
			if got := strings.Count(git("rev-list", "HEAD"), "\n"); got != c.commits {
				t.Errorf("%d commits can be seen, not %d", got, c.commits)
			}
			for _, args := range [][]string{{"reflog"}, {"stash", "list"}, {"remote"}, {"branch", "--list"}, {"tag"}, {"fsck", "--unreachable", "--no-progress", "--full"}, {"status", "--porcelain"}, {"for-each-ref"}} {
				got := git(args...)
				if args[0] == "branch" && strings.Contains(got, "no branch") {
					got = ""
				}
				if got != "" {
					t.Errorf("git %v: %s", args, got)
				}
			}
			objects := git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
			for id := range strings.Lines(objects) {
				if text, _ := runErr(sh.Root(), "git", "cat-file", "-p", strings.TrimSpace(id)); strings.Contains(text, "fix") {
					t.Errorf("object %s is readable: %s", strings.TrimSpace(id), text)
				}
			}
			if c.history == 1 && strings.Contains(objects, f.git("rev-parse", "main")) {
				t.Error("the user's commit is there")
			}
			if _, err := os.Stat(filepath.Join(sh.Root(), ".git/objects/info/alternates")); !errors.Is(err, fs.ErrNotExist) {
				t.Error("there are alternates")
			}
		})
	}
}

// TestVerificationProtects keeps protected paths as the base has them.
func TestVerificationProtects(t *testing.T) {
	kinds(t, func(t *testing.T, kind ShadowKind) {
		f := newFixture(t).write(map[string]string{"src": "1\n", "tests/a": "a\n", "tests/b": "b\n", "keep/x": "x\n"})
		f.commit("x")
		s := newStore(t)
		b := newBase(t, s, f.open(), BaseSpec{History: 1, Shadow: kind})
		r := newRun(t, s)
		sh := newShadow(t, r, b, "c1")
		if err := errors.Join(os.Remove(filepath.Join(sh.Root(), "tests/b")), os.RemoveAll(filepath.Join(sh.Root(), "keep"))); err != nil {
			t.Fatal(err)
		}
		writeFiles(t, sh.Root(), map[string]string{"src": "2\n", "tests/a": "cheat\n", "tests/conftest.py": "cheat\n", "keep": "file\n", "out.tmp": "x"})
		sealed := seal(t, sh)
		v, err := r.NewVerification(t.Context(), b, "v", sealed.Tree, func(p string) bool { return strings.HasPrefix(p, "tests/") || p == "keep/x" })
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"src": "0 2\n", "tests/a": "0 a\n", "tests/b": "0 b\n", "keep/x": "0 x\n", "out.tmp": "0 x"}
		if diff := cmp.Diff(want, files(t, v.Root())); diff != "" {
			t.Error(diff)
		}
		if len(v.Notes()) != 1 {
			t.Errorf("notes: %q", v.Notes())
		}
	})
}

// TestSetupRunsOnce keeps what setup makes, for all shadows and later runs,
// and undoes what it does to the tree.
func TestSetupRunsOnce(t *testing.T) {
	kinds(t, func(t *testing.T, kind ShadowKind) {
		f := newFixture(t).write(map[string]string{"a": "a\n", "b": "b\n", "lock": "1\n", ".gitignore": "node_modules/\n"})
		f.commit("x")
		s := newStore(t)
		runs := 0
		spec := BaseSpec{History: 1, Shadow: kind, SetupKey: []string{"npm", "ci"}, Setup: func(ctx context.Context, root, home string) error {
			runs++
			writeFiles(t, root, map[string]string{"node_modules/m/index.js": "m", "venv/bin/python": "p", "lock": "2\n", ".git/hooks/pre-commit": "evil"})
			writeFiles(t, home, map[string]string{".cache/x": "warm"})
			run(t, root, nil, "git", "log")
			return os.Remove(filepath.Join(root, "b"))
		}}
		var b *Base
		for range 2 {
			b = newBase(t, s, f.open(), spec)
		}
		if runs != 1 {
			t.Errorf("setup ran %d times", runs)
		}
		sh := newShadow(t, newRun(t, s), b, "c1")
		want := map[string]string{"a": "0 a\n", "b": "0 b\n", "lock": "0 1\n", ".gitignore": "0 node_modules/\n", "node_modules/m/index.js": "0 m", "venv/bin/python": "0 p"}
		if diff := cmp.Diff(want, files(t, sh.Root())); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[string]string{".cache/x": "0 warm"}, files(t, sh.Home())); diff != "" {
			t.Error(diff)
		}
		if _, err := os.Stat(filepath.Join(sh.Root(), ".git/hooks/pre-commit")); err == nil {
			t.Error("a hook that setup wrote is in the shadow")
		}
		if got := run(t, sh.Root(), nil, "git", "status", "--porcelain"); got != "" {
			t.Errorf("git status: %s", got)
		}
		if got := seal(t, sh); !got.Change.Empty() {
			t.Errorf("change: %v", statuses(got))
		}
		fail := spec
		fail.Kind = BaseSnapshot
		fail.SetupKey = []string{"false"}
		fail.Setup = func(context.Context, string, string) error { return errors.New("no network") }
		if _, err := s.Base(t.Context(), f.open(), fail); err == nil || !strings.Contains(err.Error(), "setup: no network") {
			t.Errorf("a setup that failed: %v", err)
		}
		if n, err := s.names("bases"); err != nil || len(n) != 1 {
			t.Errorf("bases: %q, %v", n, err)
		}
	})
}

// TestWarm gives the home of the baseline to the candidates, each its own.
func TestWarm(t *testing.T) {
	kinds(t, func(t *testing.T, kind ShadowKind) {
		f := newFixture(t).write(map[string]string{"a": "a\n"})
		f.commit("x")
		s := newStore(t)
		b := newBase(t, s, f.open(), BaseSpec{History: 1, Shadow: kind, SetupKey: []string{"s"}, Setup: func(_ context.Context, _, home string) error {
			return os.WriteFile(filepath.Join(home, "setup"), []byte("s"), 0o600)
		}})
		r := newRun(t, s)
		for _, name := range []string{"one", "two"} {
			sh := newShadow(t, r, b, name)
			writeFiles(t, sh.Home(), map[string]string{name: name})
			if err := b.Warm(t.Context(), sh); err != nil {
				t.Fatal(err)
			}
			if err := sh.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		c1, c2 := newShadow(t, r, b, "c1"), newShadow(t, r, b, "c2")
		writeFiles(t, c1.Home(), map[string]string{"one": "poison", "new": "x"})
		want := map[string]string{"setup": "0 s", "one": "0 one", "two": "0 two"}
		if diff := cmp.Diff(want, files(t, c2.Home())); diff != "" {
			t.Error(diff)
		}
	})
}

// TestHazardDeepBase: what the base has is not too deep for its candidates.
func TestHazardDeepBase(t *testing.T) {
	deep := "d" + strings.Repeat("/d", 129)
	f := newFixture(t).write(map[string]string{deep + "/f": "x"})
	f.commit("x")
	s := newStore(t)
	b := newBase(t, s, f.open(), BaseSpec{})
	sh := newShadow(t, newRun(t, s), b, "c1")
	writeFiles(t, sh.Root(), map[string]string{deep + "/f": "y", deep + "/g": "z"})
	sealed, err := sh.Seal(t.Context(), Limits{})
	if err != nil || len(sealed.Change.Files) != 2 {
		t.Fatalf("%+v, %v", sealed, err)
	}
	writeFiles(t, sh.Root(), map[string]string{deep + "/e/f": "y"})
	var refused *SealError
	if _, err := sh.Seal(t.Context(), Limits{}); !errors.As(err, &refused) || !refused.Limit {
		t.Errorf("deeper than the base: %v", err)
	}
}
