package worktree

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// link makes links: target by name.
func (f *fixture) link(links map[string]string) {
	f.t.Helper()
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(f.dir, name)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// conflict merges two commits that cannot be: one edits both files, the other
// edits one and deletes one.
func (f *fixture) conflict() {
	f.t.Helper()
	start(f)
	f.write(map[string]string{"gone.txt": "1\n"}).commit("both")
	f.git("checkout", "-q", "-b", "side")
	f.git("rm", "-q", "gone.txt")
	f.write(map[string]string{"other.txt": "side\n"}).commit("side")
	f.git("checkout", "-q", "main")
	f.write(map[string]string{"other.txt": "main\n", "gone.txt": "2\n"}).commit("main")
	if out, err := runErr(f.dir, "git", "merge", "side"); err == nil {
		f.t.Fatalf("no conflict: %s", out)
	}
}

// TestHazardMoreRepositories are states beyond those of
// TestHazardRepositories, and adoption onto a branch in more of them.
func TestHazardMoreRepositories(t *testing.T) {
	attribute := func(attr, content string, config ...string) func(t *testing.T, f *fixture) string {
		return ok(func(t *testing.T, f *fixture) {
			f.write(map[string]string{".gitattributes": "*.txt " + attr + "\n", changed: content, "other.txt": content})
			f.commit("first")
			for i := 0; i < len(config); i += 2 {
				f.git("config", config[i], config[i+1])
			}
		})
	}
	states := []repoState{
		{name: "staged", commits: []string{"other.txt", changed}, build: ok(func(t *testing.T, f *fixture) {
			start(f)
			f.write(map[string]string{"other.txt": "staged\n"})
			f.git("add", "other.txt")
		})},
		{name: "staged, and put back in the work tree", commits: []string{changed}, build: ok(func(t *testing.T, f *fixture) {
			start(f)
			f.write(map[string]string{"other.txt": "staged\n"})
			f.git("add", "other.txt")
			f.write(map[string]string{"other.txt": "other\n"})
		})},
		{name: "unstaged", commits: []string{"other.txt", changed}, build: ok(func(t *testing.T, f *fixture) {
			start(f)
			f.write(map[string]string{"other.txt": "unstaged\n"})
		})},
		{name: "untracked", commits: []string{"new.txt", changed}, present: []string{"new.txt"}, missing: []string{"x.tmp", "ignored/y"}, build: ok(func(t *testing.T, f *fixture) {
			start(f)
			f.write(map[string]string{"new.txt": "new\n", "x.tmp": "x", "ignored/y": "y"})
		})},
		{name: "intent to add", commits: []string{"new.txt", changed}, present: []string{"new.txt"}, build: ok(func(t *testing.T, f *fixture) {
			start(f)
			f.write(map[string]string{"new.txt": "new\n"})
			f.git("add", "-N", "new.txt")
		})},
		{name: "staged renames, deletions and modes", commits: []string{"gone.txt", "moved.txt", "other.txt", "run.sh", changed}, missing: []string{"gone.txt", "other.txt"}, build: ok(func(t *testing.T, f *fixture) {
			f.write(map[string]string{"gone.txt": "gone\n", "run.sh": "#!/bin/sh\n"})
			start(f)
			f.git("mv", "other.txt", "moved.txt")
			f.git("rm", "-q", "gone.txt")
			f.git("update-index", "--chmod=+x", "run.sh")
			if err := os.Chmod(filepath.Join(f.dir, "run.sh"), 0o755); err != nil {
				t.Fatal(err)
			}
		})},
		{name: "removed from the index alone", present: []string{"other.txt"}, commits: []string{changed}, build: ok(func(t *testing.T, f *fixture) {
			start(f)
			f.git("rm", "-q", "--cached", "other.txt")
		})},
		{name: "conflicted and adopted onto a branch", commits: []string{"other.txt", changed}, present: []string{"gone.txt"}, build: ok(func(t *testing.T, f *fixture) { f.conflict() })},
		{name: "in the middle of a rebase", commits: []string{"other.txt", changed}, build: ok(func(t *testing.T, f *fixture) {
			start(f)
			f.git("checkout", "-q", "-b", "side")
			f.write(map[string]string{"other.txt": "side\n"}).commit("side")
			f.git("checkout", "-q", "main")
			f.write(map[string]string{"other.txt": "main\n"}).commit("main")
			if out, err := runErr(f.dir, "git", "rebase", "side"); err == nil {
				t.Fatalf("no conflict: %s", out)
			}
		})},
		{name: "sub-directory of a linked worktree", open: "src", branch: true, build: func(t *testing.T, f *fixture) string {
			start(f)
			dir := filepath.Join(filepath.Dir(f.dir), "linked")
			f.git("worktree", "add", "-q", "--detach", dir)
			return dir
		}},
		{name: "linked worktree of a bare repository with worktreeConfig", branch: true, build: func(t *testing.T, f *fixture) string {
			start(f)
			bare, dir := filepath.Join(filepath.Dir(f.dir), "bare.git"), filepath.Join(filepath.Dir(f.dir), "checkout")
			f.git("clone", "-q", "--bare", f.dir, bare)
			run(t, bare, nil, "git", "config", "extensions.worktreeConfig", "true")
			run(t, bare, nil, "git", "config", "--worktree", "core.bare", "true")
			run(t, bare, nil, "git", "config", "--unset", "core.bare")
			run(t, bare, nil, "git", "worktree", "add", "-q", dir, "main")
			run(t, dir, nil, "git", "config", "--worktree", "user.name", "Only Here")
			return dir
		}},
		{name: ".git is a link", branch: true, build: ok(func(t *testing.T, f *fixture) {
			start(f)
			elsewhere := filepath.Join(filepath.Dir(f.dir), "elsewhere.git")
			if err := errors.Join(os.Rename(filepath.Join(f.dir, ".git"), elsewhere), os.Symlink(elsewhere, filepath.Join(f.dir, ".git"))); err != nil {
				t.Fatal(err)
			}
		})},
		{name: "sparse onto a branch", note: "sparse", commits: []string{changed}, build: ok(func(t *testing.T, f *fixture) {
			f.write(map[string]string{"far/away.txt": "x\n"})
			start(f)
			f.git("sparse-checkout", "set", "--cone", "--sparse-index", "src")
		})},
		{name: "partial clone without its remote, onto a branch", commits: []string{"more.txt", changed}, build: func(t *testing.T, f *fixture) string {
			start(f)
			f.write(map[string]string{"other.txt": "2\n"}).commit("second")
			f.git("config", "uploadpack.allowFilter", "true")
			dir := filepath.Join(filepath.Dir(f.dir), "partial")
			f.git("clone", "-q", "--filter=blob:none", "file://"+f.dir, dir)
			if err := os.Rename(f.dir, f.dir+".gone"); err != nil {
				t.Fatal(err)
			}
			writeFiles(t, dir, map[string]string{"more.txt": "more\n"})
			return dir
		}},
		{name: "SHA-256 with edits", init: []string{"--object-format=sha256"}, commits: []string{"gone.txt", "new.txt", changed}, build: ok(func(t *testing.T, f *fixture) {
			f.write(map[string]string{"gone.txt": "x"})
			start(f)
			f.write(map[string]string{"new.txt": "new\n"})
			os.Remove(filepath.Join(f.dir, "gone.txt"))
		})},
		{name: "dirty submodule, onto a branch", note: "submodule lib", commits: []string{changed}, present: []string{"lib/code.txt"}, build: ok(func(t *testing.T, f *fixture) {
			lib := &fixture{t, filepath.Join(filepath.Dir(f.dir), "lib")}
			run(t, "", nil, "git", "init", "-q", lib.dir)
			lib.write(map[string]string{"code.txt": "code\n"}).commit("lib")
			f.git("submodule", "--quiet", "add", lib.dir, "lib")
			start(f)
			in := &fixture{t, filepath.Join(f.dir, "lib")}
			in.write(map[string]string{"code.txt": "ahead\n"}).commit("ahead")
			in.write(map[string]string{"code.txt": "edited\n", "new.txt": "new\n"})
		})},
		{name: "sub-directory of a submodule", open: "src", branch: true, build: func(t *testing.T, f *fixture) string {
			lib := &fixture{t, filepath.Join(filepath.Dir(f.dir), "lib")}
			run(t, "", nil, "git", "init", "-q", lib.dir)
			start(lib)
			f.git("submodule", "--quiet", "add", lib.dir, "lib")
			f.commit("super")
			return filepath.Join(f.dir, "lib")
		}},
		{name: "the changed file has eol=crlf", commits: []string{changed}, build: attribute("text eol=crlf", "one\r\ntwo\r\n")},
		{name: "the changed file has mixed line ends", commits: []string{changed}, build: attribute("text=auto", "one\r\ntwo\n", "core.autocrlf", "input")},
		{name: "the changed file has ident", commits: []string{changed}, build: attribute("ident", "$Id$\n")},
		{name: "the changed file has another encoding", build: attribute("text working-tree-encoding=UTF-16LE", "o\x00\n\x00")},
		{name: "the changed file is filtered by a missing program", build: attribute("filter=no", "x\n", "filter.no.clean", "no-such-program", "filter.no.required", "true", "filter.lfs.clean", "x")},
		{name: "a required filter without any program", build: attribute("filter=lfs", "x\n", "filter.lfs.required", "true")},
		{name: "links of every kind", commits: []string{changed, "untracked link"}, present: []string{"loop", "chain", "inside", "git", "odd", "nowhere"}, build: ok(func(t *testing.T, f *fixture) {
			f.link(map[string]string{"loop": "loop", "chain": "inside", "inside": filepath.Join(f.dir, changed), "git": ".git/config", "odd": "\xff\n\x1b[2J", "nowhere": "/no/such/place", "dir": "src/", "long": strings.Repeat("x/", 2000)})
			start(f)
			f.link(map[string]string{"untracked link": ".."})
		})},
		{name: "exec bits and empty files", branch: true, build: ok(func(t *testing.T, f *fixture) {
			f.write(map[string]string{"empty": "", "empty.sh": "", "private": "x"})
			if err := errors.Join(os.Chmod(filepath.Join(f.dir, "empty.sh"), 0o700), os.Chmod(filepath.Join(f.dir, "private"), 0o600)); err != nil {
				t.Fatal(err)
			}
			start(f)
		})},
		{name: "hostile names", branch: true, present: []string{"$(touch x)", "\x1b[2J\x07", ":(top)x"}, build: ok(func(t *testing.T, f *fixture) {
			for _, name := range []string{"$(touch x)", "`touch x`", ";touch x", "| x", "\x1b[2J\x07", "*", "?", "[a]", "con", "aux.txt", "dot.", "space ", " space", "~", "-", "--", "--help", ":(top)x", "!x", "#x", "@{u}", "HEAD", "refs", "\u202egnp.exe", "a\u0308", "ä", strings.Repeat("n", 255), strings.Repeat(strings.Repeat("p", 200)+"/", 15) + "x", strings.Repeat("d/", 90) + "x", "\xc3\x28"} {
				f.write(map[string]string{name: name})
			}
			start(f)
		})},
		{name: "directories equal but for case", branch: true, present: []string{"Dir/a", "dir/a", "SRC/main.txt"}, build: ok(func(t *testing.T, f *fixture) {
			f.write(map[string]string{"Dir/a": "1", "dir/a": "2", "SRC/main.txt": "3"})
			start(f)
		})},
		{name: "nested repository without a commit", note: "another repository", missing: []string{"nested/x"}, commits: []string{changed}, build: ok(func(t *testing.T, f *fixture) {
			start(f)
			run(t, f.dir, nil, "git", "init", "-q", "nested")
			f.write(map[string]string{"nested/x": "x"})
		})},
		{name: "replaced and grafted objects", branch: true, build: ok(func(t *testing.T, f *fixture) {
			start(f)
			f.write(map[string]string{"other.txt": "2\n"}).commit("second")
			f.git("replace", "HEAD", "HEAD~1")
		})},
		{name: "a branch called HEAD and refs like files", branch: true, build: ok(func(t *testing.T, f *fixture) {
			start(f)
			f.git("update-ref", "refs/heads/HEAD", "HEAD")
			f.git("update-ref", "refs/heads/"+changed, "HEAD")
			f.git("tag", "other.txt")
		})},
	}
	for _, st := range states {
		t.Run(strings.ReplaceAll(st.name, ",", ""), func(t *testing.T) { st.check(t, ShadowCopy) })
	}
}

// TestHazardReftable works where git knows it, and is refused in a sentence
// where it does not.
func TestHazardReftable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "try")
	isolate(t)
	if exec.Command("git", "init", "-q", "--ref-format=reftable", dir).Run() == nil {
		repoState{name: "reftable", init: []string{"--ref-format=reftable"}, branch: true, build: ok(func(t *testing.T, f *fixture) { start(f) })}.check(t, ShadowCopy)
		return
	}
	f := newFixture(t)
	start(f)
	before := files(t, f.dir)
	f.git("config", "core.repositoryFormatVersion", "1")
	f.git("config", "extensions.refStorage", "reftable")
	_, err := Open(t.Context(), f.dir)
	if err == nil || !strings.Contains(err.Error(), `the extension "refstorage"`) || !strings.HasSuffix(err.Error(), "install a newer git") {
		t.Errorf("opened: %v", err)
	}
	if diff := cmp.Diff(before, files(t, f.dir)); diff != "" {
		t.Error(diff)
	}
}

// TestHazardManyFiles is a repository of 25,000 files, with an edit, a new and
// a deleted one: nothing is lost, and nothing but the change is written.
func TestHazardManyFiles(t *testing.T) {
	const dirs, each = 250, 100
	f := newFixture(t)
	many := map[string]string{}
	for d := range dirs {
		for i := range each {
			many[fmt.Sprintf("d%03d/f%02d.txt", d, i)] = fmt.Sprintf("%d\n", i) // few objects, many files
		}
	}
	f.write(many).commit("many")
	f.write(map[string]string{"d000/f00.txt": "edited\n", "d001/new.txt": "new\n"})
	if err := os.Remove(filepath.Join(f.dir, "d002/f00.txt")); err != nil {
		t.Fatal(err)
	}
	before, state := files(t, f.dir), f.userState()
	r, s := f.open(), newStore(t)
	b := newBase(t, s, r, BaseSpec{History: 1})
	if b.Files() != dirs*each {
		t.Errorf("%d files in the base", b.Files())
	}
	sh := newShadow(t, newRun(t, s), b, "c1")
	writeFiles(t, sh.Root(), map[string]string{"d100/f50.txt": "changed\n", "d249/added.txt": "added\n"})
	if err := os.RemoveAll(filepath.Join(sh.Root(), "d200")); err != nil {
		t.Fatal(err)
	}
	sealed := seal(t, sh)
	if n := len(sealed.Change.Files); n != each+2 {
		t.Errorf("%d files changed", n)
	}
	if diff := cmp.Diff(state, f.userState()); diff != "" {
		t.Error(diff)
	}
	opt := AdoptOptions{Mode: AdoptBranch, Branch: "won", Message: "m", RunID: "r1", JournalDir: t.TempDir(), BaseCommit: b.Commit(), BaseKind: b.Kind()}
	if _, err := r.Adopt(t.Context(), b.Objects(), sealed.Change, opt); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(f.git("diff-tree", "-r", "--name-only", "main", "won"), "\n") + 1; n != each+5 {
		t.Errorf("the branch differs in %d files", n)
	}
	opt.Mode = AdoptApply
	if _, err := r.Adopt(t.Context(), b.Objects(), sealed.Change, opt); err != nil {
		t.Fatal(err)
	}
	for i := range each {
		delete(before, fmt.Sprintf("d200/f%02d.txt", i))
	}
	before["d100/f50.txt"], before["d249/added.txt"] = "0 changed\n", "0 added\n"
	after := files(t, f.dir)
	if len(after) != len(before) {
		t.Errorf("%d files, not %d", len(after), len(before))
	}
	for p, want := range before {
		if after[p] != want {
			t.Fatalf("%s is %q, not %q", p, after[p], want)
		}
	}
}

// TestHazardHugeFileInTheWay of an added file: it is not read, and named.
func TestHazardHugeFileInTheWay(t *testing.T) {
	m := makeChange(t, forest{"a": {ModeFile, "a"}, "b": {ModeFile, "b"}}, forest{"a": {ModeFile, "2"}, "b": {ModeFile, "c"}, "huge.bin": {ModeFile, "x"}})
	for _, p := range []string{"huge.bin", "b"} {
		big, err := os.Create(filepath.Join(m.dir, p))
		if err == nil {
			err = errors.Join(big.Truncate(5<<30), big.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var moved *MovedError
	if err := m.adopt(t.TempDir()); !errors.As(err, &moved) || fmt.Sprint(moved.Paths) != "[b huge.bin]" {
		t.Errorf("adopted: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(m.dir, "a")); err != nil || string(b) != "a" {
		t.Errorf("half applied: %q, %v", b, err)
	}
}
