package worktree

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// plainState is the state of a repository in as few words as it can be said: by
// the names that a difference has, what git says or what lstat says.
func plainState(t *testing.T, f *fixture) map[string]string {
	t.Helper()
	state := map[string]string{"index": f.git("ls-files", "-v", "--stage")}
	for line := range strings.Lines(f.git("for-each-ref", "--format=%(refname) %(objectname) %(symref)")) {
		name, value, _ := strings.Cut(line, " ")
		state[name] = strings.TrimSuffix(value, "\n")
	}
	for name, at := range map[string]string{"HEAD": "HEAD", "config": "config", "stash": "logs/refs/stash", "info/exclude": "info/exclude"} {
		if b, err := os.ReadFile(filepath.Join(f.dir, ".git", at)); err == nil {
			state[name] = string(b)
		}
	}
	hooks, err := os.ReadDir(filepath.Join(f.dir, ".git/hooks"))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hooks {
		state["hooks/"+h.Name()] = plainFile(filepath.Join(f.dir, ".git/hooks", h.Name()))
	}
	for name := range strings.SplitSeq(f.git("ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		if name != "" && !strings.HasPrefix(name, ".bestof/") {
			state["work tree: "+name] = plainFile(filepath.Join(f.dir, name))
		}
	}
	return state
}

func plainFile(at string) string {
	info, err := os.Lstat(at)
	if err != nil {
		return "absent"
	}
	st := info.Sys().(*syscall.Stat_t)
	if info.IsDir() {
		return fmt.Sprint("directory ", st.Ino)
	}
	return fmt.Sprint(st.Mode, st.Ino, st.Ctim, st.Size)
}

// TestEveryEditIsInTheFingerprint makes edits of all kinds in a random order.
// After each, one looker that saw all states before, and another that saw none,
// find the very differences that a plain comparison finds.
func TestEveryEditIsInTheFingerprint(t *testing.T) {
	edits := map[string]func(f *fixture) error{
		"content": func(f *fixture) error { return os.WriteFile(filepath.Join(f.dir, "a/b/one"), []byte("two\n"), 0o644) },
		"mode":    func(f *fixture) error { return os.Chmod(filepath.Join(f.dir, "a/two"), 0o755) },
		"times": func(f *fixture) error {
			return os.Chtimes(filepath.Join(f.dir, "a/two"), time.Unix(1, 0), time.Unix(1, 0))
		},
		"a link instead": func(f *fixture) error {
			return replaceFile(f, "three", func(at string) error { return os.Symlink("a/two", at) })
		},
		"a hard link":   func(f *fixture) error { return os.Link(filepath.Join(f.dir, "four"), filepath.Join(f.dir, "a/four")) },
		"removed":       func(f *fixture) error { return os.Remove(filepath.Join(f.dir, "five")) },
		"untracked":     func(f *fixture) error { return makeFile(f, "new/deep/file") },
		"beside others": func(f *fixture) error { return makeFile(f, "a/b/zwei") },
		"an odd name":   func(f *fixture) error { return makeFile(f, "a/\xff\n name") },
		"at the top":    func(f *fixture) error { return makeFile(f, "top") },
		"ignored":       func(f *fixture) error { return makeFile(f, "a/some.log") },
		"ignored no more": func(f *fixture) error {
			return os.WriteFile(filepath.Join(f.dir, ".git/info/exclude"), []byte("nothing\n"), 0o644)
		},
		"ours":              func(f *fixture) error { return makeFile(f, ".bestof/runs/x") },
		"an empty folder":   func(f *fixture) error { return os.MkdirAll(filepath.Join(f.dir, "empty/er"), 0o755) },
		"a folder moves":    func(f *fixture) error { return os.Rename(filepath.Join(f.dir, "m"), filepath.Join(f.dir, "moved")) },
		"a folder, linked":  func(f *fixture) error { return linkFolder(f, "l") },
		"a file instead":    func(f *fixture) error { return fileForFolder(f, "n") },
		"no entry":          func(f *fixture) error { f.git("rm", "-q", "--cached", "six"); return nil },
		"an entry":          func(f *fixture) error { f.git("add", "-A", "a"); return nil },
		"assumed":           func(f *fixture) error { f.git("update-index", "--assume-unchanged", "four"); return nil },
		"skipped":           func(f *fixture) error { f.git("update-index", "--skip-worktree", "seven"); return nil },
		"a refreshed index": func(f *fixture) error { f.git("status"); return nil },
		"a branch":          func(f *fixture) error { f.git("branch", "other", "refs/heads/main"); return nil },
		"a tag":             func(f *fixture) error { f.git("tag", "v1", "refs/heads/main"); return nil },
		"packed":            func(f *fixture) error { f.git("pack-refs", "--all"); return nil },
		"a link of refs":    func(f *fixture) error { f.git("symbolic-ref", "refs/heads/again", "refs/heads/main"); return nil },
		"HEAD":              func(f *fixture) error { f.git("symbolic-ref", "HEAD", "refs/heads/elsewhere"); return nil },
		"a broken ref": func(f *fixture) error {
			return os.WriteFile(filepath.Join(f.dir, ".git/refs/heads/broken"), []byte("no id\n"), 0o644)
		},
		"configuration": func(f *fixture) error { f.git("config", "core.pager", "evil"); return nil },
		"a hook": func(f *fixture) error {
			return os.WriteFile(filepath.Join(f.dir, ".git/hooks/pre-commit"), []byte("#!/bin/sh\n"), 0o755)
		},
		"a nested repository": func(f *fixture) error { f.git("init", "-q", "nested"); return makeFile(f, "nested/file") },
		"in the nested one":   func(f *fixture) error { return makeFile(f, "module/file") },
		"the submodule moves": func(f *fixture) error {
			f.git("-C", "module", "commit", "-q", "--allow-empty", "-m", "More")
			return nil
		},
	}
	f := newFixture(t).write(map[string]string{
		"a/b/one": "one\n", "a/two": "two\n", "three": "", "four": "4\n", "five": "", "six": "", "seven": "", "m/x": "", "m/y/z": "", "l/in/it": "", "n/x": "", ".gitignore": "*.log\n",
	})
	f.commit("First")
	run(t, "", nil, "git", "clone", "-q", f.dir, filepath.Join(f.dir, "module"))
	f.git("-c", "advice.addEmbeddedRepo=false", "add", "module")
	r := f.open()
	lookers := [2]*Looker{r.Looker(), nil}
	look := func() (seen [2]Fingerprint) {
		t.Helper()
		lookers[1] = r.Looker()
		for i, l := range lookers {
			var err error
			if seen[i], err = l.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return seen
	}
	last := look()
	plain := plainState(t, f)
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	names := slices.Sorted(maps.Keys(edits))
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	t.Logf("order: %q", names)
	for _, name := range names {
		if err := edits[name](f); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		seen := look()
		now := plainState(t, f)
		want := []string{}
		for _, m := range []map[string]string{plain, now} {
			for key := range m {
				if !same(plain, now, key) && !slices.Contains(want, key) {
					want = append(want, key)
				}
			}
		}
		slices.Sort(want)
		if name == "a broken ref" {
			want = []string{"refs/heads/broken"} // git does not list it
		}
		for what, got := range map[string][]string{
			"after the last": last[0].Diff(seen[0]), "anew": last[1].Diff(seen[1]), "one and the other": last[0].Diff(seen[1]),
		} {
			if diff := cmp.Diff(want, append([]string{}, got...)); diff != "" {
				t.Errorf("%s, looked at %s:\n%s", name, what, diff)
			}
		}
		last, plain = seen, now
	}
}

// TestLookerAsksOnce: git is not asked again about refs and index that hold what
// they held, and always where they may be read from elsewhere.
func TestLookerAsksOnce(t *testing.T) {
	const text = "refs/heads/told 1 \n"
	for name, c := range map[string]struct {
		before, after func(f *fixture) error
		asks          bool
	}{
		"nothing": {},
		"touched": {after: func(f *fixture) error {
			f.git("update-index", "--force-write-index")
			return os.Chtimes(filepath.Join(f.dir, ".git/refs/heads/main"), time.Unix(1, 0), time.Unix(1, 0))
		}},
		"a new ref and entry": {asks: true, after: func(f *fixture) error {
			f.git("branch", "new")
			f.git("update-index", "--assume-unchanged", "a")
			return nil
		}},
		"linked from elsewhere": {asks: true, before: func(f *fixture) error {
			f.git("pack-refs", "--all")
			return errors.Join(linkFile(f, ".git/index"), linkFile(f, ".git/packed-refs"))
		}},
		"changed through a mapping": {asks: true, after: func(f *fixture) error {
			return errors.Join(rewrite(f, ".git/index", func(b []byte) { b[bytes.Index(b, []byte("\x00\x01a\x00"))] |= 0x80 }),
				rewrite(f, ".git/refs/heads/main", func(b []byte) { copy(b, "1234") }))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t).write(map[string]string{"a": "1\n"})
			f.commit("First")
			l := f.open().Looker()
			if c.before != nil {
				if err := c.before(f); err != nil {
					t.Fatal(err)
				}
			}
			first, err := l.Look(t.Context())
			if err != nil || first.state["refs/heads/main"] == "" || len(first.index) == 0 {
				t.Fatal(err, first.state, first.index)
			}
			l.refs.out, l.index.out = []byte(text), []byte(text)
			if c.after != nil {
				if err := c.after(f); err != nil {
					t.Fatal(err)
				}
			}
			second, err := l.Look(t.Context())
			_, told := second.state["refs/heads/told"]
			if err != nil || told == c.asks || string(second.index) == text == c.asks {
				t.Errorf("as it was: %v, index %q, %v", told, second.index, err)
			}
		})
	}
	for name, change := range map[string]func(f *fixture) error{
		"a ref to elsewhere": func(f *fixture) error {
			return os.WriteFile(filepath.Join(f.dir, ".git/refs/heads/away"), []byte("ref: SOMEWHERE\n"), 0o644)
		},
		"a pipe":               func(f *fixture) error { return syscall.Mkfifo(filepath.Join(f.dir, ".git/refs/heads/pipe"), 0o644) },
		"a table":              func(f *fixture) error { return makeFile(f, ".git/reftable/tables.list") },
		"in storage elsewhere": func(f *fixture) error { f.git("config", "extensions.refStorage", "files"); return nil },
	} {
		f := newFixture(t).write(map[string]string{"a": "1\n"})
		f.commit("First")
		r := f.open()
		if err := change(f); err != nil {
			t.Fatal(err)
		}
		if d, _, err := r.refFiles(); err != nil || d != (digest{}) {
			t.Errorf("%s: refs are taken to be known: %v", name, err)
		}
	}
}

// linkFile puts a link in the place of a file, to where that went.
func linkFile(f *fixture, name string) error {
	at := filepath.Join(f.dir, name)
	return errors.Join(os.Rename(at, at+"-went"), os.Symlink(at+"-went", at))
}

// rewrite changes bytes of a file in its place, as one does who can set its times.
func rewrite(f *fixture, name string, change func(b []byte)) error {
	at := filepath.Join(f.dir, name)
	b, err := os.ReadFile(at)
	if err != nil {
		return err
	}
	change(b)
	file, err := os.OpenFile(at, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteAt(b, 0)
	return err
}

func same(a, b map[string]string, key string) bool {
	x, in := a[key]
	y, too := b[key]
	return in == too && x == y
}

func makeFile(f *fixture, name string) error {
	at := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return os.WriteFile(at, []byte(name), 0o644)
}

func replaceFile(f *fixture, name string, with func(at string) error) error {
	at := filepath.Join(f.dir, name)
	if err := os.Remove(at); err != nil {
		return err
	}
	return with(at)
}

// linkFolder puts a link in the place of a folder, to where that went.
func linkFolder(f *fixture, name string) error {
	at := filepath.Join(f.dir, name)
	if err := os.Rename(at, at+"-went"); err != nil {
		return err
	}
	return os.Symlink(name+"-went", at)
}

func fileForFolder(f *fixture, name string) error {
	at := filepath.Join(f.dir, name)
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	return os.WriteFile(at, nil, 0o644)
}
