package worktree

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// layersOf is a spec of bases whose shadows this test mounts.
func layersOf() BaseSpec {
	return BaseSpec{History: 1, Shadow: ShadowEngine, TryLayers: func(context.Context, Entry, string, string) error { return nil }}
}

// mounted mounts the layers of a shadow as an engine does, and returns where
// the tree is.
func mounted(t *testing.T, sh *Shadow) string {
	t.Helper()
	e := sh.Enter()
	h, err := startHolder([]layers{{[]string{e.Lower}, e.Upper, e.Work, sh.Root()}}, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.stop)
	return h.path(sh.Root())
}

// listing is every path of a tree but its repository, with what is there.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || at == dir {
			return err
		}
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %v", strings.TrimPrefix(at, dir+"/"), info.Mode())
		switch {
		case d.IsDir():
			if names, err := os.ReadDir(at); err != nil || len(names) == 0 {
				line += " empty"
			}
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(at)
			line += fmt.Sprint(" ", target, err)
		default:
			data, err := os.ReadFile(at)
			line += fmt.Sprintf(" %q %v", data, err)
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestLayeredIsATree: what is written into the layers of an overlay is, once
// that is mounted, what would be in a tree.
func TestLayeredIsATree(t *testing.T) {
	paths := []string{"a", "b", "d/x", "d/e/z", "d/e/y", "f/g/h", "new/one", "d/new", "a/in", "b/deep/er", "f/g", "ignored/kept"}
	f := newFixture(t).write(map[string]string{"a": "a", "b": "b", "d/x": "x", "d/e/z": "z", "d/e/y": "y", "f/g/h": "h", ".gitignore": "ignored/\n"})
	f.commit("base")
	s := newStore(t)
	repo := f.open()
	plain := newBase(t, s, repo, BaseSpec{History: 1, Shadow: ShadowCopy})
	engine := newBase(t, s, repo, layersOf())
	r := newRun(t, s)
	for seed := range 24 {
		random := rand.New(rand.NewPCG(uint64(seed), 6))
		c := newShadow(t, r, plain, fmt.Sprintf("c%d", seed))
		for range 1 + random.IntN(8) {
			at := filepath.Join(c.Root(), paths[random.IntN(len(paths))])
			_ = os.RemoveAll(at)
			switch random.IntN(4) {
			case 0:
			case 1:
				if os.MkdirAll(filepath.Dir(at), 0o755) == nil {
					_ = os.Symlink("d", at)
				}
			default:
				if os.MkdirAll(filepath.Dir(at), 0o755) == nil {
					_ = os.WriteFile(at, fmt.Appendf(nil, "%d", random.IntN(9)), 0o644|fs.FileMode(random.IntN(2)*0o111))
				}
			}
		}
		sealed, err := c.Seal(t.Context(), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		engine.objects.reopen(filepath.Join(r.dir, "git"))
		guarded := paths[random.IntN(len(paths))]
		protected := func(p string) bool { return p == guarded }
		var laid []Laid
		for range random.IntN(3) {
			p := paths[random.IntN(len(paths))]
			if !slices.ContainsFunc(laid, func(l Laid) bool {
				return l.Path == p || strings.HasPrefix(l.Path, p+"/") || strings.HasPrefix(p, l.Path+"/")
			}) {
				laid = append(laid, Laid{Path: p, Mode: []Mode{ModeNone, ModeFile, ModeLink}[random.IntN(3)], Data: []byte("laid")})
			}
		}
		want, err := r.NewVerificationWith(t.Context(), plain, fmt.Sprintf("p%d", seed), sealed.Tree, protected, laid)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.NewVerificationWith(t.Context(), engine, fmt.Sprintf("e%d", seed), sealed.Tree, protected, laid)
		if err != nil {
			t.Fatal(err)
		}
		before, err := got.SealAll(t.Context(), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(listing(t, want.Root()), listing(t, mounted(t, got))); diff != "" {
			t.Fatalf("seed %d, protected %s, laid %v:\n%s", seed, guarded, laid, diff)
		}
		whole, err := want.SealAll(t.Context(), Limits{})
		if err != nil || whole.Tree != before.Tree {
			t.Errorf("seed %d: sealed differently, %v", seed, err)
		}
	}
}

// TestLayeredRefuses: nothing is written through a link or over a file.
func TestLayeredRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"up", "low", "low/dir", "low/dir/in", "out"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "out"), filepath.Join(dir, "low/link")); err != nil {
		t.Fatal(err)
	}
	l, err := openLayered(filepath.Join(dir, "up"), filepath.Join(dir, "low"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.OpenFile("link/x", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); !inTheWay(err) {
		t.Errorf("through a link: %v", err)
	}
	if _, err := l.OpenFile("dir", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); !inTheWay(err) {
		t.Errorf("over a directory: %v", err)
	}
	if _, err := l.OpenFile("dir/x", os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
		t.Error("a file was opened that may be there")
	}
	if err := l.Remove("dir"); !inTheWay(err) {
		t.Errorf("a directory with something in it: %v", err)
	}
	if names, err := os.ReadDir(filepath.Join(dir, "out")); err != nil || len(names) > 0 {
		t.Errorf("written outside: %v, %v", names, err)
	}
}

// TestEngineShadowsAreTaken: by name where they work, by themselves where a
// base is worth it, and never where nobody mounts them.
func TestEngineShadowsAreTaken(t *testing.T) {
	if os.Geteuid() == 0 {
		asUser(t, "TestEngineShadowsAreTaken", 3)
		return
	}
	few, many := newFixture(t).write(map[string]string{"a": "a"}), newFixture(t)
	files := map[string]string{}
	for i := range engineFrom {
		files[fmt.Sprintf("d%d/f%d", i%20, i)] = "x"
	}
	many.write(files)
	few.commit("x")
	many.commit("x")
	s := newStore(t)
	s.probes.known = map[ShadowKind]error{ShadowUserns: unix.EPERM, ShadowBtrfs: unix.EPERM, ShadowReflink: unix.EPERM}
	tried := 0
	spec := BaseSpec{History: 1, TryLayers: func(context.Context, Entry, string, string) error { tried++; return nil }}
	for name, c := range map[string]struct {
		f    *fixture
		spec BaseSpec
		want ShadowKind
	}{
		"small": {few, spec, ShadowCopy},
		"large": {many, spec, ShadowEngine},
		"alone": {many, BaseSpec{History: 1}, ShadowCopy},
	} {
		t.Run(name, func(t *testing.T) {
			if b := newBase(t, s, c.f.open(), c.spec); b.ShadowKind() != c.want {
				t.Errorf("took %s, want %s", b.ShadowKind(), c.want)
			}
		})
	}
	if tried != 1 {
		t.Errorf("tried %d times", tried)
	}
	if _, err := s.kind(t.Context(), BaseSpec{Shadow: ShadowEngine}, nil); err == nil {
		t.Error("nobody mounts them, and they work")
	}
}
