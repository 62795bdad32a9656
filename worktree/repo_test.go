package worktree

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A fixture is a repository that a test builds with git itself.
type fixture struct {
	t   *testing.T
	dir string
}

// newFixture makes an empty repository with an identity.
func newFixture(t *testing.T, args ...string) *fixture {
	t.Helper()
	isolate(t)
	f := &fixture{t, filepath.Join(t.TempDir(), "repo")}
	run(t, "", nil, "git", append([]string{"init", "-q", "-b", "main", f.dir}, args...)...)
	return f
}

// isolate gives a test a home without configuration.
func isolate(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	config := "[user]\n\tname = Ada Łovelace\n\temail = ada@example.com\n[protocol \"file\"]\n\tallow = always\n"
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs a program and returns what it prints.
func run(t testing.TB, dir string, in []byte, name string, args ...string) string {
	t.Helper()
	return runIn(t, dir, in, name, args...)
}

func runIn(t rapid.TB, dir string, in []byte, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out)
}

func (f *fixture) git(args ...string) string {
	f.t.Helper()
	return strings.TrimSuffix(run(f.t, f.dir, nil, "git", args...), "\n")
}

// write makes files: content by path.
func (f *fixture) write(files map[string]string) *fixture {
	f.t.Helper()
	writeFiles(f.t, f.dir, files)
	return f
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func (f *fixture) commit(message string) string {
	f.t.Helper()
	f.git("add", "-A")
	f.git("commit", "-q", "--allow-empty", "-m", message)
	return f.git("rev-parse", "HEAD")
}

func (f *fixture) open() *Repository {
	f.t.Helper()
	r, err := Open(f.t.Context(), f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// newStore opens a store of a test's own, which is empty of mounts at the end.
func newStore(t testing.TB) *Store {
	t.Helper()
	return newStoreAt(t, filepath.Join(t.TempDir(), "store"))
}

func newStoreAt(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Wait()
		if left, err := unmountBelow(s.dir); err != nil || len(left) > 0 {
			t.Errorf("mounts were left: %q, %v", left, err)
		}
	})
	return s
}

// newBase makes a base that is closed with the test.
func newBase(t testing.TB, s *Store, r *Repository, spec BaseSpec) *Base {
	t.Helper()
	if spec.Kind == "" {
		spec.Kind = BaseSnapshot
	}
	b, err := s.Base(t.Context(), r, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func newRun(t testing.TB, s *Store) *Run {
	t.Helper()
	r, err := s.NewRun(t.Context(), strings.ToLower("r-"+strings.NewReplacer("/", "-", "#", "-", "=", "-").Replace(filepath.Base(t.Name()))), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func newShadow(t testing.TB, r *Run, b *Base, name string) *Shadow {
	t.Helper()
	sh, err := r.NewShadow(t.Context(), b, name)
	if err != nil {
		t.Fatal(err)
	}
	return sh
}

func seal(t testing.TB, sh *Shadow) *Sealed {
	t.Helper()
	s, err := sh.Seal(t.Context(), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// kinds runs a test for every kind of shadow.
func kinds(t *testing.T, f func(t *testing.T, kind ShadowKind)) {
	for _, kind := range []ShadowKind{ShadowOverlay, ShadowCopy} {
		t.Run(string(kind), func(t *testing.T) { f(t, kind) })
	}
}

// gitTree is the tree id git gives a directory, of all of its files.
func gitTree(t testing.TB, dir string) TreeID {
	t.Helper()
	tmp := t.TempDir()
	cmd := func(args ...string) string {
		c := exec.Command("git", args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GIT_DIR="+tmp, "GIT_WORK_TREE="+dir)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run(t, "", nil, "git", "init", "-q", "--bare", tmp)
	cmd("config", "core.bare", "false")
	attributes := filepath.Join(tmp, "info", "attributes")
	if err := os.WriteFile(attributes, []byte("* -text -ident !eol !filter !working-tree-encoding\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd("add", "-f", "-A")
	return TreeID(cmd("write-tree"))
}

var fixedTime = time.Unix(1_000_000_000, 0)

// runErr runs a program that may fail.
func runErr(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}
