package worktree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHazardRepositories builds each state with git itself, lets a candidate
// change one file, adopts, and compares every byte of the tree and everything
// else that is the user's.
func TestHazardRepositories(t *testing.T) {
	states := []repoState{
		{name: "plain", branch: true, build: ok(func(t *testing.T, f *fixture) { start(f) })},
		{name: "staged unstaged untracked", branch: true, present: []string{"untracked.txt"}, missing: []string{"x.tmp", "other.txt"}, build: ok(func(t *testing.T, f *fixture) {
			start(f)
			f.write(map[string]string{"staged.txt": "staged\n", changed: "one\nstaged\nthree\n"})
			f.git("add", "-A")
			f.write(map[string]string{changed: "one\nunstaged\nthree\n", "untracked.txt": "u\n", "x.tmp": "ignored"})
			f.git("stash", "store", "-m", "old", f.git("stash", "create"))
			os.Remove(filepath.Join(f.dir, "other.txt"))
			f.git("add", "-N", "untracked.txt")
		})},
		{name: "unborn", branch: true, build: ok(func(t *testing.T, f *fixture) { f.write(map[string]string{changed: "x\n", "b": "b"}) })},
		{name: "conflicted", build: ok(func(t *testing.T, f *fixture) {
			start(f)
			f.git("checkout", "-q", "-b", "side")
			f.write(map[string]string{"other.txt": "side\n"}).commit("side")
			f.git("checkout", "-q", "main")
			f.write(map[string]string{"other.txt": "main\n"}).commit("main")
			if out, err := runErr(f.dir, "git", "merge", "side"); err == nil {
				t.Fatalf("no conflict: %s", out)
			}
		})},
		{name: "detached", branch: true, build: ok(func(t *testing.T, f *fixture) { start(f); f.git("checkout", "-q", "--detach") })},
		{name: "sub-directory", open: "src", build: ok(func(t *testing.T, f *fixture) { start(f) })},
		{name: "linked worktree", branch: true, build: func(t *testing.T, f *fixture) string {
			start(f)
			dir := filepath.Join(filepath.Dir(f.dir), "linked")
			f.git("worktree", "add", "-q", "-b", "linked", dir)
			writeFiles(t, dir, map[string]string{"only-here.txt": "x"})
			return dir
		}, present: []string{"only-here.txt"}},
		{name: "linked worktree of a bare repository", build: func(t *testing.T, f *fixture) string {
			start(f)
			bare, dir := filepath.Join(filepath.Dir(f.dir), "bare.git"), filepath.Join(filepath.Dir(f.dir), "checkout")
			f.git("clone", "-q", "--bare", f.dir, bare)
			run(t, bare, nil, "git", "worktree", "add", "-q", dir, "main")
			return dir
		}},
		{name: "shallow", branch: true, build: func(t *testing.T, f *fixture) string {
			start(f)
			f.write(map[string]string{"other.txt": "2\n"}).commit("second")
			dir := filepath.Join(filepath.Dir(f.dir), "shallow")
			f.git("clone", "-q", "--depth=1", "file://"+f.dir, dir)
			return dir
		}},
		{name: "partial clone without its remote", build: func(t *testing.T, f *fixture) string {
			start(f)
			f.write(map[string]string{"other.txt": "2\n"}).commit("second")
			f.git("config", "uploadpack.allowFilter", "true")
			dir := filepath.Join(filepath.Dir(f.dir), "partial")
			f.git("clone", "-q", "--filter=blob:none", "file://"+f.dir, dir)
			if err := os.Rename(f.dir, f.dir+".gone"); err != nil {
				t.Fatal(err)
			}
			return dir
		}},
		{name: "sparse with worktreeConfig", note: "sparse", missing: []string{"far/away.txt"}, build: ok(func(t *testing.T, f *fixture) {
			f.write(map[string]string{"far/away.txt": "x\n"})
			start(f)
			f.git("sparse-checkout", "set", "--cone", "src")
		})},
		{name: "sparse index", note: "sparse", build: ok(func(t *testing.T, f *fixture) {
			f.write(map[string]string{"far/away.txt": "x\n"})
			start(f)
			f.git("sparse-checkout", "set", "--cone", "--sparse-index", "src")
		})},
		{name: "split index and untracked cache", build: ok(func(t *testing.T, f *fixture) {
			start(f)
			f.git("update-index", "--split-index", "--untracked-cache")
		})},
		{name: "sha256", init: []string{"--object-format=sha256"}, branch: true, build: ok(func(t *testing.T, f *fixture) { start(f) })},
		{name: "index version 4, skip-worktree and assume-unchanged", build: ok(func(t *testing.T, f *fixture) {
			start(f)
			f.git("update-index", "--index-version", "4")
			f.git("update-index", "--assume-unchanged", "other.txt")
			f.write(map[string]string{"other.txt": "hidden edit\n"})
		}), present: []string{"other.txt"}},
		{name: "submodule with edits", note: "submodule lib", present: []string{"lib/code.txt", "lib/new.txt"}, build: ok(func(t *testing.T, f *fixture) {
			lib := filepath.Join(filepath.Dir(f.dir), "lib")
			run(t, "", nil, "git", "init", "-q", lib)
			writeFiles(t, lib, map[string]string{"code.txt": "code\n"})
			run(t, lib, nil, "git", "add", "-A")
			run(t, lib, nil, "git", "commit", "-qm", "lib")
			f.git("submodule", "--quiet", "add", lib, "lib")
			start(f)
			writeFiles(t, f.dir, map[string]string{"lib/code.txt": "edited\n", "lib/new.txt": "new\n"})
		})},
		{name: "nested submodules, dirty and ahead", note: "submodule lib/inner", present: []string{"lib/code.txt", "lib/inner/deep.txt", "lib/inner/new.txt"}, missing: []string{"lib/inner/x.tmp"}, build: ok(func(t *testing.T, f *fixture) {
			make := func(name, file string) *fixture {
				sub := &fixture{t, filepath.Join(filepath.Dir(f.dir), name)}
				run(t, "", nil, "git", "init", "-q", sub.dir)
				sub.write(map[string]string{file: name + "\n", ".gitignore": "*.tmp\n"}).commit(name)
				return sub
			}
			inner, lib := make("inner", "deep.txt"), make("lib", "code.txt")
			lib.git("submodule", "--quiet", "add", inner.dir, "inner")
			lib.commit("inner")
			f.git("submodule", "--quiet", "add", lib.dir, "lib")
			f.git("submodule", "--quiet", "update", "--init", "--recursive")
			start(f)
			in := &fixture{t, filepath.Join(f.dir, "lib/inner")}
			in.write(map[string]string{"deep.txt": "committed\n"}).commit("ahead")
			in.write(map[string]string{"deep.txt": "edited\n", "new.txt": "new\n", "x.tmp": "ignored"})
		})},
		{name: ".git is a file", branch: true, build: ok(func(t *testing.T, f *fixture) {
			start(f)
			f.git("init", "-q", "--separate-git-dir", filepath.Join(filepath.Dir(f.dir), "elsewhere.git"))
		})},
		{name: "working-tree-encoding", build: ok(func(t *testing.T, f *fixture) {
			f.write(map[string]string{"wide.txt": "\xff\xfeh\x00i\x00\n\x00", ".gitattributes": "wide.txt text working-tree-encoding=UTF-16\n"})
			start(f)
		}), present: []string{"wide.txt"}},
		{name: "packed, with alternates", branch: true, build: func(t *testing.T, f *fixture) string {
			start(f)
			f.git("repack", "-adq")
			dir := filepath.Join(filepath.Dir(f.dir), "col:on \"q")
			f.git("clone", "-q", "--shared", f.dir, dir)
			writeFiles(t, dir, map[string]string{"more.txt": "more\n"})
			run(t, dir, nil, "git", "add", "-A")
			run(t, dir, nil, "git", "commit", "-qm", "more")
			return dir
		}},
		{name: "inside a submodule", build: func(t *testing.T, f *fixture) string {
			lib := &fixture{t, filepath.Join(filepath.Dir(f.dir), "lib")}
			run(t, "", nil, "git", "init", "-q", lib.dir)
			start(lib)
			f.git("submodule", "--quiet", "add", lib.dir, "lib")
			f.commit("super")
			return filepath.Join(f.dir, "lib")
		}},
		{name: "LFS pointer and a required filter without its program", note: "LFS", build: ok(func(t *testing.T, f *fixture) {
			f.write(map[string]string{"big.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("a", 64) + "\nsize 12345\n"})
			start(f)
			f.write(map[string]string{".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"}).commit("attributes")
			f.git("config", "filter.lfs.process", "no-such-program")
			f.git("config", "filter.lfs.clean", "no-such-program %f")
			f.git("config", "filter.lfs.required", "true")
			if err := os.Chtimes(filepath.Join(f.dir, "big.bin"), fixedTime, fixedTime); err != nil {
				t.Fatal(err)
			}
		})},
		{name: "line ends", branch: true, build: ok(func(t *testing.T, f *fixture) {
			f.git("config", "core.autocrlf", "true")
			f.write(map[string]string{changed: "one\r\ntwo\r\n", "unix.sh": "a\nb\n", "mixed": "a\r\nb\n", ".gitattributes": "*.sh eol=lf\n*.id ident\n", "x.id": "$Id$\n"})
			f.git("add", "-A")
			f.git("commit", "-qm", "first")
			os.Remove(filepath.Join(f.dir, "x.id"))
			f.git("checkout", "x.id")
		})},
		{name: "modes, links and names", branch: true, build: ok(func(t *testing.T, f *fixture) {
			f.write(map[string]string{"run.sh": "#!/bin/sh\n", "empty": "", "sp ace/q\"uote": "x", "new\nline": "x", "-dash": "x", "\xff\xfe": "x", "tab\t": "x"})
			if err := os.Chmod(filepath.Join(f.dir, "run.sh"), 0o755); err != nil {
				t.Fatal(err)
			}
			for name, target := range map[string]string{"rel": "src/main.txt", "dangling": "nowhere", "todir": "src", "outside": "/etc", "up": "../.."} {
				if err := os.Symlink(target, filepath.Join(f.dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			start(f)
			if err := os.MkdirAll(filepath.Join(f.dir, "emptydir"), 0o755); err != nil {
				t.Fatal(err)
			}
		}), present: []string{"\xff\xfe", "new\nline", "outside"}},
		{name: "directory replaced by a link", missing: []string{"d/file"}, present: []string{"d"}, build: ok(func(t *testing.T, f *fixture) {
			f.write(map[string]string{"d/file": "x"})
			start(f)
			os.Rename(filepath.Join(f.dir, "d"), filepath.Join(filepath.Dir(f.dir), "moved"))
			if err := os.Symlink(filepath.Join(filepath.Dir(f.dir), "moved"), filepath.Join(f.dir, "d")); err != nil {
				t.Fatal(err)
			}
		})},
		{name: "nested repository and worktree", note: "another repository", missing: []string{"nested/x", "wt/other.txt"}, build: ok(func(t *testing.T, f *fixture) {
			start(f)
			run(t, f.dir, nil, "git", "init", "-q", "nested")
			f.write(map[string]string{"nested/x": "x"})
			f.git("worktree", "add", "-q", "--detach", "wt")
		})},
		{name: "special files", note: "neither a file", build: ok(func(t *testing.T, f *fixture) {
			start(f)
			f.write(map[string]string{"pipe": "x"})
			f.commit("pipe")
			os.Remove(filepath.Join(f.dir, "pipe"))
			if err := unix.Mkfifo(filepath.Join(f.dir, "pipe"), 0o600); err != nil {
				t.Fatal(err)
			}
		})},
		{name: "names equal but for case", branch: true, present: []string{"Readme", "README"}, build: ok(func(t *testing.T, f *fixture) {
			f.write(map[string]string{"Readme": "a", "README": "b"})
			start(f)
		})},
		{name: "our own directory, tracked", note: "bestof", missing: []string{".bestof/config.toml"}, build: ok(func(t *testing.T, f *fixture) {
			f.write(map[string]string{".bestof/config.toml": "secret"})
			start(f)
		})},
		{name: "owner is another user", branch: true, build: ok(func(t *testing.T, f *fixture) {
			start(f)
			run(t, "", nil, "chown", "-R", "12345:12345", f.dir)
		})},
		{name: "worktreeinclude", note: ".worktreeinclude", missing: []string{".env"}, build: ok(func(t *testing.T, f *fixture) {
			f.write(map[string]string{".gitignore": ".env\nnode_modules/\n", ".worktreeinclude": ".env\n**/keep.js\n", ".env": "A=1", "node_modules/a/keep.js": "k", "node_modules/a/drop.js": "d", "pkg/.worktreeinclude": "local.env\n", "pkg/.gitignore": "local.env\n", "pkg/local.env": "B=2"})
			f.write(map[string]string{changed: "one\n"}).commit("first")
		}), ignored: []string{".env", "node_modules/a/keep.js", "pkg/local.env"}},
	}
	for _, st := range states {
		for _, kind := range []ShadowKind{ShadowOverlay, ShadowCopy} {
			t.Run(st.name+"/"+string(kind), func(t *testing.T) { st.check(t, kind) })
		}
	}
}
