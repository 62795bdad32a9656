package worktree

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// asUser runs a test of this program, not the caller's work, again as a user
// who is nobody special. It must have so many subtests.
func asUser(t *testing.T, test string, subtests int) {
	t.Helper()
	dir, err := os.MkdirTemp("", "user")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	at := filepath.Join(dir, "worktree.test")
	copied, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = io.Copy(copied, program)
		copied.Close()
	}
	if err == nil {
		err = os.Chown(dir, 12345, 12345)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(at, "-test.run=^"+test+"$", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS: "+test+"/") != subtests {
		t.Errorf("as another user: %v\n%s", err, out)
	}
}

var usernsHazards = []struct {
	name, script string
	want         []string
	err          string // path of the SealError
}{
	{name: "deletes its root", script: `cd /; rm -rf "$1" 2>/dev/null && echo removed; test -d "$1"`, want: []string{"deleted .gitignore", "deleted a.txt", "deleted d/e/z", "deleted d/x"}},
	{name: "puts a link in its place", script: `cd /; mv "$1" "$1-old" 2>/dev/null && echo moved; mkdir "$1-new"; mv -T "$1-new" "$1" 2>/dev/null && echo replaced; ln -sT /etc "$1" 2>/dev/null && echo linked; true`},
	{name: "deletes and makes anew", script: `rm -r d; mkdir -p d/e; echo x >d/x; echo new >d/e/new`, want: []string{"added d/e/new", "deleted d/e/z"}},
	{name: "directory becomes a file and a file a directory", script: `rm -r d a.txt; echo >d; mkdir a.txt; echo >a.txt/in`,
		want: []string{"deleted a.txt", "added a.txt/in", "added d", "deleted d/e/z", "deleted d/x"}},
	{name: "renames", script: `mv d f; mv a.txt b.txt`, want: []string{"deleted a.txt", "added b.txt", "deleted d/e/z", "deleted d/x", "added f/e/z", "added f/x"}},
	{name: "marks of overlays", script: `mknod white c 0 0 2>/dev/null && echo a whiteout; for m in opaque whiteout redirect metacopy origin; do
		python3 -c 'import os, sys; os.setxattr(sys.argv[1], "user.overlay."+sys.argv[2], b"y")' d $m 2>/dev/null; done; true`},
	{name: "mounts of its own", script: `unshare --user --map-root-user --mount sh -c 'umount "$0" 2>/dev/null && echo unmounted; mount -t tmpfs x "$0" && echo x >"$0/hidden"' "$1"`},
	{name: "its repository", script: `echo new >a.txt; git checkout -qb mine; git -c user.name=x -c user.email=x@example.com commit -qam x; git gc -q --prune=now; git status --porcelain; git fsck 2>&1 | grep error || true`,
		want: []string{"modified a.txt"}},
	{name: "a pipe", script: `mkfifo pipe`, err: "pipe"},
	{name: "a device", script: `mknod null c 1 3 2>/dev/null && echo a device; true`},
	{name: "modes", script: `chmod 0 d/e; mkdir build; echo x >build/x; chmod 0 build; chmod 755 a.txt; chmod 700 d/e`, want: []string{"mode a.txt"}},
}

// TestHazardUserns lets candidates do what they do inside of a user namespace,
// as root and as an ordinary user. In the end nothing is left.
func TestHazardUserns(t *testing.T) {
	for _, c := range usernsHazards {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t).write(map[string]string{"a.txt": "one\n", "d/x": "x\n", "d/e/z": "z\n", ".gitignore": "build/\n"})
			f.commit("base")
			s := newStore(t)
			b := newBase(t, s, f.open(), BaseSpec{History: 1, Shadow: ShadowUserns})
			r, err := s.NewRun(t.Context(), "r1", t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := r.Close(t.Context()); err != nil {
					t.Error(err)
				}
				s.Wait()
				if u, err := s.Usage(t.Context()); err != nil || u.Runs != 0 || u.Trash != 0 {
					t.Errorf("left: %+v, %v", u, err)
				}
			}()
			sh := newShadow(t, r, b, "c1")
			if got := inShadow(t, sh, "git", "status", "--porcelain"); got != "" {
				t.Errorf("git status at once: %s", got)
			}
			if got := inShadow(t, sh, "sh", "-euc", c.script, "sh", sh.Root()); got != "" {
				t.Errorf("it said %s", got)
			}
			sealed, err := sh.Seal(t.Context(), Limits{})
			if c.err != "" {
				var refused *SealError
				if !errors.As(err, &refused) || refused.Path != c.err {
					t.Errorf("error %v, want one about %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, statuses(sealed)); diff != "" {
				t.Error(diff)
			}
			all, err := sh.SealAll(t.Context(), Limits{})
			if err != nil || all.Tree != sealed.Tree {
				t.Errorf("all of it is not what its upper layer says: %v", err)
			}
			v, err := r.NewVerification(t.Context(), b, "v1", sealed.Tree, nil)
			if err != nil {
				t.Fatal(err)
			}
			if all, err = v.SealAll(t.Context(), Limits{}); err != nil || all.Tree != sealed.Tree {
				t.Errorf("the verification is not its tree: %v", err)
			}
		})
	}
	if os.Geteuid() == 0 {
		t.Run("as an ordinary user", func(t *testing.T) { asUser(t, "TestHazardUserns", len(usernsHazards)) })
	}
}

// TestHazardUpperLayerReplaced: where programs run as the user they can put
// something else in the place of what a seal reads.
func TestHazardUpperLayerReplaced(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "a"})
	f.commit("x")
	s := newStore(t)
	b := newBase(t, s, f.open(), BaseSpec{History: 1, Shadow: ShadowUserns})
	r := newRun(t, s)
	for name, replace := range map[string]func(at string) error{
		"gone":  func(string) error { return nil },
		"link":  func(at string) error { return os.Symlink("/etc", at) },
		"other": func(at string) error { return os.Mkdir(at, 0o700) },
	} {
		sh := newShadow(t, r, b, name)
		at := filepath.Join(sh.dir, "tree-upper")
		if err := errors.Join(os.Rename(at, at+"-old"), replace(at)); err != nil {
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
}

// TestHolderKilled: without the process that holds it, a shadow cannot be
// entered or read as a whole, but sealed and removed.
func TestHolderKilled(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "a"})
	f.commit("x")
	s := newStore(t)
	b := newBase(t, s, f.open(), BaseSpec{History: 1, Shadow: ShadowUserns})
	sh := newShadow(t, newRun(t, s), b, "c1")
	inShadow(t, sh, "sh", "-c", "echo b >a")
	if err := sh.holder.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Its parent has not waited, so its number belongs to nobody else.
	argv := append(slices.Clone(sh.Enter().Argv), "true")
	eventuallyFails(t, func() error { return exec.Command(argv[0], argv[1:]...).Run() })
	if got := statuses(seal(t, sh)); !slices.Equal(got, []string{"modified a"}) {
		t.Errorf("sealed %v", got)
	}
	if _, err := sh.SealAll(t.Context(), Limits{}); err == nil {
		t.Error("what is not there was read")
	}
	if err := sh.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

func eventuallyFails(t *testing.T, f func() error) {
	t.Helper()
	for range 10000 {
		if f() != nil {
			return
		}
	}
	t.Fatal("it goes on working")
}
