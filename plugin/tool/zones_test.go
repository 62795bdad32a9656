package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// zones is a home with nothing in it.
func zones(t testing.TB, s Settings) *Zones {
	t.Helper()
	if s.Python.Env == nil {
		s.Python = python()
	}
	z, err := Open(t.TempDir(), s)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func put(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// described is a good file with a description.
func described(d string) string {
	return source(fmt.Sprintf("DESCRIPTION = %q", d), okSchema, okRun)
}

func skips(s Set) map[string]string {
	all := map[string]string{}
	for _, k := range s.Skipped {
		all[k.File] = k.String()
	}
	return all
}

// TestLive: the top level's *.py in the order of their names; every other
// entry is a loud skip of its own or none of its affair.
func TestLive(t *testing.T) {
	z := zones(t, Settings{})
	if info, err := os.Stat(z.Path(Pending, "x")); err == nil || !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(info, err)
	}
	if info, err := os.Stat(filepath.Join(z.Dir(), "pending")); err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("pending: %v %v", info, err)
	}
	put(t, z.Path(Live, "weather"), described("the weather"))
	put(t, z.Path(Live, "add"), described("sums"))
	put(t, z.Path(Live, "broken"), "def")
	put(t, z.Path(Live, "Upper"), described("x"))
	put(t, z.Path(Live, "1st"), described("x"))
	put(t, filepath.Join(z.Dir(), ".py"), described("x"))
	put(t, filepath.Join(z.Dir(), strings.Repeat("a", 65)+".py"), described("x"))
	put(t, filepath.Join(z.Dir(), "README.md"), "x")
	put(t, filepath.Join(z.Dir(), "folder.py", "x"), "x")
	put(t, filepath.Join(z.Dir(), "sub", "nested.py"), described("x"))
	put(t, z.Path(Pending, "waiting"), described("x"))
	put(t, z.Path(Disabled, "off"), described("x"))
	put(t, filepath.Join(z.Dir(), "train", "trainer.py"), "x")
	if err := os.Symlink(z.Path(Pending, "waiting"), z.Path(Live, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", z.Path(Live, "zero")); err != nil {
		t.Fatal(err)
	}
	put(t, z.Path(Live, "large"), strings.Repeat("#", MaxSource+1))
	set, err := z.Live(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(set.Names()); got != "[add weather]" {
		t.Errorf("live: %s", got)
	}
	got := skips(set)
	for file, want := range map[string]string{
		"broken.py": "it is not Python", "Upper.py": "no name of a tool", "1st.py": "no name of a tool", ".py": "no name of a tool",
		strings.Repeat("a", 65) + ".py": "no name of a tool", "link.py": "it is a link", "zero.py": "it is a link", "large.py": "larger than",
	} {
		if !strings.Contains(got[file], want) {
			t.Errorf("%s: %q, want %s", file, got[file], want)
		}
		delete(got, file)
	}
	if len(got) > 0 {
		t.Errorf("more was skipped: %v", got)
	}
	if !slices.IsSortedFunc(set.Skipped, func(a, b Skip) int { return strings.Compare(a.File, b.File) }) {
		t.Error("skips are not in order")
	}
}

// TestNothing: without files nothing is started, so that no interpreter is
// needed, and a home that cannot be written is no error.
func TestNothing(t *testing.T) {
	z := zones(t, Settings{Python: Python{Program: "/nowhere", Env: []string{}}})
	set, err := z.Live(t.Context())
	if err != nil || len(set.Tools)+len(set.Skipped) > 0 {
		t.Errorf("%v %v", set, err)
	}
	if _, err := Open("/proc/nowhere", Settings{}); err != nil {
		t.Error(err)
	}
	if _, err := Open("relative", Settings{}); err == nil {
		t.Error("a relative home was taken")
	}
	if _, err := Open("/x", Settings{Max: -1}); err == nil {
		t.Error("a negative cap was taken")
	}
}

// TestCap: the first by name are live, the rest is skipped with the reason and
// without being imported; files that are skipped anyway take no place.
func TestCap(t *testing.T) {
	z := zones(t, Settings{Max: 2})
	for _, name := range []Name{"d", "b", "c", "e"} {
		put(t, z.Path(Live, name), described("x"))
	}
	put(t, z.Path(Live, "a"), "broken(")
	set, err := z.Live(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(set.Names()); got != "[b c]" {
		t.Errorf("live: %s", got)
	}
	got := skips(set)
	for _, name := range []string{"d.py", "e.py"} {
		if got[name] != name+": disabled: over the config.toml tools.max cap" {
			t.Errorf("%s: %q", name, got[name])
		}
	}
}

// TestCollision: the name of a native tool refuses the whole load, and
// everything that would write such a file.
func TestCollision(t *testing.T) {
	z := zones(t, Settings{Natives: Natives("mcp__docs__search", "search")})
	for _, name := range []Name{"tool", "plugin", "search"} {
		put(t, z.Path(Live, "fine"), described("x"))
		put(t, z.Path(Live, name), "raise SystemExit")
		var collision *CollisionError
		if _, err := z.Live(t.Context()); !errors.As(err, &collision) || collision.Name != string(name) {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Remove(z.Path(Live, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := z.Create(t.Context(), name, described("x")); !errors.As(err, &collision) {
			t.Errorf("create %s: %v", name, err)
		}
		put(t, z.Path(Pending, name), described("x"))
		if _, err := z.Approve(t.Context(), name, HashOf([]byte(described("x")))); !errors.As(err, &collision) {
			t.Errorf("approve %s: %v", name, err)
		}
		put(t, z.Path(Disabled, name), described("x"))
		if _, err := z.Enable(t.Context(), name, 0); !errors.As(err, &collision) {
			t.Errorf("enable %s: %v", name, err)
		}
	}
}

// TestLifeOfATool: created, updated, approved by its hash, replaced, switched
// off and on; nothing that was ever live is lost.
func TestLifeOfATool(t *testing.T) {
	z, ctx := zones(t, Settings{}), t.Context()
	w, err := z.Create(ctx, "weather", described("one")+"\n\n  \n")
	if err != nil || w.Updated || w.Tool.Description != "one" {
		t.Fatalf("%+v %v", w, err)
	}
	if set, err := z.Live(ctx); err != nil || len(set.Tools)+len(set.Skipped) != 0 {
		t.Fatalf("a pending file is seen: %v %v", set, err)
	}
	b, err := os.ReadFile(z.Path(Pending, "weather"))
	if err != nil || string(b) != described("one") || HashOf(b) != w.Tool.SHA256 {
		t.Fatalf("%q %v", b, err)
	}
	second, err := z.Create(ctx, "weather", described("two"))
	if err != nil || !second.Updated {
		t.Fatalf("%+v %v", second, err)
	}
	var refusal *Refusal
	if _, err := z.Approve(ctx, "weather", w.Tool.SHA256); !errors.As(err, &refusal) || !strings.Contains(err.Error(), "not what was shown") {
		t.Fatalf("approved what was not shown: %v", err)
	}
	a, err := z.Approve(ctx, "weather", second.Tool.SHA256)
	if err != nil || a.Replaced != nil {
		t.Fatalf("%+v %v", a, err)
	}
	if _, err := z.Find(Pending, "weather"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("it is pending still: %v", err)
	}
	third, err := z.Create(ctx, "weather", described("three"))
	if err != nil || third.Updated {
		t.Fatalf("%+v %v", third, err)
	}
	if a, err = z.Approve(ctx, "weather", third.Tool.SHA256); err != nil || a.Replaced == nil || a.Replaced.SHA256 != second.Tool.SHA256 {
		t.Fatalf("%+v %v", a, err)
	}
	if off, err := z.Find(Disabled, "weather"); err != nil || off.SHA256 != second.Tool.SHA256 {
		t.Fatalf("what was replaced is lost: %v", err)
	}
	if _, err := z.Enable(ctx, "weather", 0); !errors.As(err, &refusal) {
		t.Fatalf("enabled over a live one: %v", err)
	}
	if _, err := z.Disable(ctx, Live, "weather"); err != nil {
		t.Fatal(err)
	}
	if set, _ := z.Live(ctx); len(set.Tools) != 0 {
		t.Fatal("a disabled tool is live")
	}
	if off, err := z.Find(Disabled, "weather"); err != nil || off.SHA256 != third.Tool.SHA256 {
		t.Fatalf("disabled: %v", err)
	}
	older, err := os.ReadFile(z.Path(Disabled, "weather") + ".1")
	if err != nil || HashOf(older) != second.Tool.SHA256 {
		t.Fatalf("the older one is lost: %v", err)
	}
	if _, err := z.Enable(ctx, "weather", 0); err != nil {
		t.Fatal(err)
	}
	set, err := z.Live(ctx)
	if err != nil || len(set.Tools) != 1 || set.Tools[0].SHA256 != third.Tool.SHA256 {
		t.Fatalf("%v %v", set, err)
	}
	if _, err := z.Disable(ctx, Live, "weather"); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(z.Versions()); got != "map[weather:[1]]" {
		t.Fatalf("versions: %s", got)
	}
	for _, version := range []int{-1, 2} {
		if _, err := z.Enable(ctx, "weather", version); !errors.As(err, &refusal) && version > 0 || err == nil {
			t.Errorf("enabled version %d: %v", version, err)
		}
	}
	if got, err := z.Enable(ctx, "weather", 1); err != nil || got.SHA256 != second.Tool.SHA256 {
		t.Fatalf("%s, %v", got.SHA256, err)
	}
	if f, err := z.Find(Live, "weather"); err != nil || f.SHA256 != second.Tool.SHA256 || len(z.Versions()) > 0 {
		t.Fatalf("%s, %v, %v", f.SHA256, err, z.Versions())
	}
	if _, err := z.Disable(ctx, Live, "nothing"); !errors.As(err, &refusal) {
		t.Errorf("disable nothing: %v", err)
	}
	for _, name := range []Name{"", ".", "..", "../x", "a/b", "/etc/passwd", "a.py"} {
		if _, err := z.Create(ctx, name, described("x")); err == nil {
			t.Errorf("created %q", name)
		}
		if _, err := z.Approve(ctx, name, ""); err == nil {
			t.Errorf("approved %q", name)
		}
		if _, err := z.Disable(ctx, Live, name); err == nil {
			t.Errorf("disabled %q", name)
		}
		if _, err := z.Enable(ctx, name, 0); err == nil {
			t.Errorf("enabled %q", name)
		}
	}
}

// TestRefusalsOfTrainers: the commands that they name are about trainers.
func TestRefusalsOfTrainers(t *testing.T) {
	z, err := OpenTrainers(t.TempDir(), Settings{Python: python()})
	if err != nil {
		t.Fatal(err)
	}
	put(t, z.Path(Pending, "x"), "def train(a, b): pass\ndef evaluate(a, b): pass\n")
	if _, err := z.Approve(t.Context(), "x", HashOf(nil)); err == nil || !strings.Contains(err.Error(), "show x --pending --trainers`") {
		t.Error(err)
	}
}

// TestCreateChecks: only what could be approved is written.
func TestCreateChecks(t *testing.T) {
	z := zones(t, Settings{})
	for source, want := range map[string]string{
		"":                              "there is no source",
		" \n":                           "there is no source",
		"# DESCRIPTION SCHEMA def run(": "DESCRIPTION: it is missing",
		source(okDescription, "SCHEMA = make()", okRun):        "SCHEMA: it is not a literal",
		described("x") + strings.Repeat("#", MaxSource):        "larger than",
		source(okDescription, okSchema, "async def run(a): 1"): "run: it is async",
	} {
		if _, err := z.Create(t.Context(), "x", source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", source, err, want)
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(z.Dir(), "pending")); len(entries) > 0 {
		t.Errorf("something was written: %v", entries)
	}
}

// TestLinks: no link is followed, whoever put it there and wherever it leads.
func TestLinks(t *testing.T) {
	ctx, outside := t.Context(), filepath.Join(t.TempDir(), "outside.py")
	fresh := func(t *testing.T) *Zones { put(t, outside, described("outside")); return zones(t, Settings{}) }
	hash := HashOf([]byte(described("outside")))
	unchanged := func(t *testing.T) {
		t.Helper()
		if b, err := os.ReadFile(outside); err != nil || HashOf(b) != hash {
			t.Errorf("outside was written: %q %v", b, err)
		}
	}
	t.Run("a pending file is a link", func(t *testing.T) {
		z := fresh(t)
		if err := os.Symlink(outside, z.Path(Pending, "x")); err != nil {
			t.Fatal(err)
		}
		if _, err := z.Approve(ctx, "x", hash); err == nil || !strings.Contains(err.Error(), "it is a link") {
			t.Errorf("approve: %v", err)
		}
		if _, err := z.Create(ctx, "x", described("y")); err == nil {
			t.Error("created over a link")
		}
		unchanged(t)
	})
	t.Run("a live file is a link", func(t *testing.T) {
		z := fresh(t)
		if err := os.Symlink(outside, z.Path(Live, "x")); err != nil {
			t.Fatal(err)
		}
		w, err := z.Create(ctx, "x", described("y"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := z.Approve(ctx, "x", w.Tool.SHA256); err == nil {
			t.Error("approved over a link")
		}
		if _, err := z.Disable(ctx, Live, "x"); err == nil {
			t.Error("disabled a link")
		}
		unchanged(t)
	})
	for _, zone := range []Zone{Pending, Disabled} {
		t.Run(string(zone)+" is a link", func(t *testing.T) {
			z := fresh(t)
			other := t.TempDir()
			folder := filepath.Join(z.Dir(), string(zone))
			_ = os.Remove(folder)
			if err := os.Symlink(other, folder); err != nil {
				t.Fatal(err)
			}
			if _, err := z.Create(ctx, "x", described("y")); zone == Pending && err == nil {
				t.Error("created through a link")
			}
			put(t, z.Path(Live, "x"), described("y"))
			if _, err := z.Disable(ctx, Live, "x"); zone == Disabled && err == nil {
				t.Error("disabled through a link")
			}
			if entries, _ := os.ReadDir(other); len(entries) > 0 {
				t.Errorf("%v was written", entries)
			}
		})
	}
	t.Run("a pipe does not block", func(t *testing.T) {
		z := fresh(t)
		if err := mkfifo(z.Path(Live, "x")); err != nil {
			t.Fatal(err)
		}
		set, err := z.Live(ctx)
		if err != nil || !strings.Contains(skips(set)["x.py"], "not a regular file") {
			t.Errorf("%v %v", set, err)
		}
	})
}

// TestApprovedBytes: whoever still writes to the pending file does not reach
// what is live.
func TestApprovedBytes(t *testing.T) {
	z := zones(t, Settings{})
	w, err := z.Create(t.Context(), "x", described("good"))
	if err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(z.Path(Pending, "x"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := z.Approve(t.Context(), "x", w.Tool.SHA256); err != nil {
		t.Fatal(err)
	}
	if _, err := held.WriteString("import os; os.system('x')\n"); err != nil {
		t.Fatal(err)
	}
	if f, err := z.Find(Live, "x"); err != nil || f.SHA256 != w.Tool.SHA256 {
		t.Errorf("what is live changed: %v", err)
	}
}

// TestAtOnce: many who create and approve one name at the same time leave one
// whole file, and every content that was approved.
func TestAtOnce(t *testing.T) {
	z := zones(t, Settings{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			w, err := z.Create(t.Context(), "x", described(fmt.Sprint(i)))
			if err != nil {
				t.Error(err)
				return
			}
			_, err = z.Approve(t.Context(), "x", w.Tool.SHA256)
			var refusal *Refusal
			if err != nil && !errors.As(err, &refusal) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	set, err := z.Live(t.Context())
	if err != nil || len(set.Tools) != 1 || len(set.Skipped) != 0 {
		t.Errorf("%v %v", set, err)
	}
}

// TestZonesModel walks random moves and holds the folders against a model: what
// is live is what was approved, and no content that was live is ever lost.
func TestZonesModel(t *testing.T) {
	names := []Name{"a", "b"}
	// Contracts are read once for all; the moves are what is tested here.
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "zones")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		z, err := Open(dir, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		was := map[Hash]bool{}  // contents that were live or disabled
		live := map[Name]Hash{} // what the model says
		off := map[Name]Hash{}
		step := 0
		t.Repeat(map[string]func(*rapid.T){
			"install": func(t *rapid.T) {
				n := rapid.SampledFrom(names).Draw(t, "name")
				if _, ok := live[n]; ok {
					return
				}
				step++
				b := fmt.Appendf(nil, "content %d", step%3)
				root, err := z.makeRoot(Live)
				if err != nil {
					t.Fatal(err)
				}
				defer root.Close()
				if err := install(root, n.File(), b); err != nil {
					t.Fatal(err)
				}
				live[n] = HashOf(b)
				was[HashOf(b)] = true
			},
			"disable": func(t *rapid.T) {
				n := rapid.SampledFrom(names).Draw(t, "name")
				_, err := z.Disable(t.Context(), Live, n)
				if _, ok := live[n]; ok != (err == nil) {
					t.Fatalf("disable %s: %v, live %v", n, err, ok)
				}
				if err == nil {
					off[n] = live[n]
					delete(live, n)
				}
			},
			"": func(t *rapid.T) {
				for zone, model := range map[Zone]map[Name]Hash{Live: live, Disabled: off} {
					files, skipped, err := z.list(zone)
					if err != nil || len(skipped) > 0 {
						t.Fatal(skipped, err)
					}
					got := map[Name]Hash{}
					for _, f := range files {
						got[f.Name] = f.SHA256
					}
					if !maps.Equal(got, model) {
						t.Fatalf("%s: %v, want %v", zone, got, model)
					}
				}
				have := map[Hash]bool{}
				_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
					if b, err := os.ReadFile(path); err == nil {
						have[HashOf(b)] = true
					}
					if strings.HasPrefix(d.Name(), ".tmp-") {
						t.Fatalf("%s is left", path)
					}
					return nil
				})
				for h := range was {
					if !have[h] {
						t.Fatalf("content %s is lost", h)
					}
				}
			},
		})
	})
}
