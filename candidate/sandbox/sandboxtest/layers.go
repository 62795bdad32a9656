package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
)

// A layerer is a sandbox that mounts layers.
type layerer interface {
	MountsLayers() bool
	Sweep(ctx context.Context, dirs []string) error
}

// layersOf makes the layers of an overlay. In the end nothing may be left that
// the user cannot remove.
func (s *suite) layersOf(t *testing.T) sandbox.Entry {
	t.Helper()
	dir := t.TempDir()
	e := sandbox.Entry{Lower: filepath.Join(dir, "lower"), Upper: filepath.Join(dir, "upper"), Work: filepath.Join(dir, "work")}
	for _, d := range []string{e.Lower, e.Upper, e.Work, filepath.Join(e.Lower, "low"), filepath.Join(e.Lower, "low/deep")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"kept", "gone", "low/in"} {
		if err := os.WriteFile(filepath.Join(e.Lower, name), []byte("lower\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		work := filepath.Join(e.Work, "work")
		if err := os.Remove(work); err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		b := s.sandbox(t, sandbox.Options{}).(layerer)
		if err := b.Sweep(context.Background(), []string{e.Work}); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(work); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after a sweep: %v", err)
		}
	})
	return e
}

// layers tests a root that the sandbox mounts.
func (s *suite) layers(t *testing.T) {
	in := *s
	in.layered = true
	for name, test := range map[string]func(*testing.T){
		"merged":        in.merged,
		"shared":        in.shared,
		"hidden":        in.hidden,
		"swept":         in.swept,
		"bad layers":    in.badLayers,
		"directory":     in.directory,
		"place":         in.place,
		"writable":      in.writable,
		"concurrent":    in.concurrent,
		"killed caller": in.killedCaller,
	} {
		t.Run(name, test)
	}
}

// merged: the program sees both layers, what it changes is in the upper one and
// belongs to its user, and the lower one stays as it was.
func (s *suite) merged(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	spec := s.spec(t)
	if err := os.WriteFile(filepath.Join(spec.HostRoot(), "planted"), []byte("upper\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec.Argv = []string{"sh", "-ec", "cat kept planted low/in; rm gone; rm -r low; mkdir low; echo new >low/new; echo more >>kept; mkdir dir; chmod 700 dir"}
	if got := ok(t, b, spec); got != "lower\nupper\nlower\n" {
		t.Errorf("it saw %q", got)
	}
	for name, want := range map[string]uint32{"gone": unix.S_IFCHR, "low/new": unix.S_IFREG, "kept": unix.S_IFREG, "dir": unix.S_IFDIR} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(spec.Enter.Upper, name), &st); err != nil || st.Mode&unix.S_IFMT != want || want == unix.S_IFCHR && st.Rdev != 0 {
			t.Errorf("%s: %o, %v", name, st.Mode, err)
		} else if want != unix.S_IFCHR && int(st.Uid) != os.Getuid() {
			t.Errorf("%s belongs to %d", name, st.Uid)
		}
	}
	mark := make([]byte, 8)
	if n, err := unix.Lgetxattr(filepath.Join(spec.Enter.Upper, "low"), "user.overlay.opaque", mark); err != nil || string(mark[:n]) != "y" {
		t.Errorf("the directory that was replaced is not marked: %q, %v", mark[:max(n, 0)], err)
	}
	for _, name := range []string{"kept", "gone", "low/in"} {
		if data, err := os.ReadFile(filepath.Join(spec.Enter.Lower, name)); err != nil || string(data) != "lower\n" {
			t.Errorf("the lower layer's %s is %q, %v", name, data, err)
		}
	}
	spec.WorkDir = "low/deep"
	if res := run(t, b, spec); res.End != sandbox.NotRun || res.Reason == "" {
		t.Errorf("in a directory that was replaced: %+v", res)
	}
	spec.WorkDir = ""
	// The next program goes on where this one stopped.
	spec.Argv = []string{"sh", "-ec", "cat kept low/new; test ! -e gone; test ! -e low/in"}
	if got := ok(t, b, spec); got != "lower\nmore\nnew\n" {
		t.Errorf("the next program saw %q", got)
	}
}

// shared: programs that work in one root at the same time see what the others
// do.
func (s *suite) shared(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	one := s.spec(t)
	other := one
	other.Home = t.TempDir()
	one.Argv = []string{"sh", "-c", "echo one >one; until test -e two; do sleep 0.02; done"}
	other.Argv = []string{"sh", "-c", "until test -e one; do sleep 0.02; done; echo two >two"}
	var both sync.WaitGroup
	for _, spec := range []sandbox.Spec{one, other} {
		both.Go(func() {
			if res, err := b.Run(t.Context(), spec); err != nil || !res.OK() {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	both.Wait()
}

// hidden: no program reaches the layers themselves, writes their marks, or
// makes one.
func (s *suite) hidden(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	spec := s.spec(t)
	spec.Argv = []string{"sh", "-c", `for d; do ls "$d" 2>/dev/null; done; true`, "sh", spec.Enter.Lower, spec.Enter.Upper, spec.Enter.Work}
	if got := ok(t, b, spec); got != "" {
		t.Errorf("it reached %q", got)
	}
	spec.Argv = []string{s.probes, probeWord, "overlay-marks"}
	if got := ok(t, b, spec); got != "" {
		t.Errorf("it made %q", got)
	}
	for _, mark := range []string{"opaque", "redirect", "metacopy"} {
		if n, err := unix.Lgetxattr(filepath.Join(spec.Enter.Upper, "low"), "user.overlay."+mark, make([]byte, 8)); err == nil {
			t.Errorf("the mark %s has %d bytes", mark, n)
		}
	}
}

// probeOverlayMarks prints what it could make of that which tells an overlay
// what is hidden.
func probeOverlayMarks(_ context.Context, p *fake.Process) fake.Exit {
	if unix.Mknod("whiteout", unix.S_IFCHR, 0) == nil {
		fmt.Fprintln(p.Stdout, "a whiteout")
	}
	for _, mark := range []string{"opaque", "whiteout", "redirect", "metacopy", "origin"} {
		_ = unix.Setxattr("low", "user.overlay."+mark, []byte("y"), 0) // newer kernels keep it under another name
	}
	entries, err := os.ReadDir("low")
	if err != nil || len(entries) != 2 {
		fmt.Fprintln(p.Stdout, "low has", entries, err)
	}
	return fake.Exit{}
}

// swept: a sweep takes what the overlay left and nothing else, and follows no
// link.
func (s *suite) swept(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{}).(layerer)
	dir, out := t.TempDir(), t.TempDir()
	var dirs []string
	for _, name := range []string{"a", "b", "c"} {
		d := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Join(d, "other"), 0o755), os.WriteFile(filepath.Join(d, "file"), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, d)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(dirs[0], "work/#1"), 0o755), os.Symlink(out, filepath.Join(dirs[0], "work/#2")), os.Symlink(out, filepath.Join(dirs[1], "work")),
		os.WriteFile(filepath.Join(out, "kept"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := b.Sweep(t.Context(), dirs); err != nil {
		t.Fatal(err)
	}
	for _, d := range append(dirs, out) {
		entries, err := os.ReadDir(d)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if want := []string{"file", "other"}; err != nil || d != out && !slices.Equal(names, want) || d == out && !slices.Equal(names, []string{"kept"}) {
			t.Errorf("%s has %v, %v", d, names, err)
		}
	}
	if err := b.Sweep(t.Context(), []string{filepath.Join(dir, "not there")}); err == nil {
		t.Error("what is not there was swept")
	}
}

// badLayers: what separates the options of a mount is refused before anything
// is made.
func (s *suite) badLayers(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	for _, bad := range []string{"relative", "/a,upperdir=/etc", "/a:/etc", `/a\b`, "/a\nb", "/a/../b"} {
		spec := s.spec(t, "exit", "0")
		spec.Enter.Lower = bad
		if res, err := b.Run(t.Context(), spec); err == nil {
			t.Errorf("%q: %+v", bad, res)
		}
	}
}

// noLayers: who does not mount layers says so, so that another kind of shadow
// is taken.
func (s *suite) noLayers(t *testing.T) {
	in := *s
	in.layered = true
	spec := in.spec(t, "exit", "0")
	if res, err := s.sandbox(t, sandbox.Options{}).Run(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "another kind of shadow") {
		t.Errorf("%+v, %v", res, err)
	}
}
