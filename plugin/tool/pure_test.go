package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o600) }

func TestNames(t *testing.T) {
	for _, good := range []string{"a", "weather", "a_1", strings.Repeat("a", 64)} {
		if n, err := ParseName(good); err != nil || n.File() != good+".py" {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "A", "1a", "_a", "a-b", "a b", "a.b", "é", "a\n", "a/b", strings.Repeat("a", 65)} {
		if _, err := ParseName(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestPins(t *testing.T) {
	h := HashOf([]byte("x"))
	p, err := ParsePin("weather@sha256:" + string(h))
	if err != nil || p.Name != "weather" || p.SHA256 != h || p.String() != "weather@sha256:"+string(h) {
		t.Errorf("%v %v", p, err)
	}
	for _, bad := range []string{"", "weather", "weather@" + string(h), "weather@sha256:", "weather@sha256:" + string(h[1:]), "W@sha256:" + string(h),
		"weather@sha256:" + strings.ToUpper(string(h)), "weather@sha256:" + string(h) + "\n"} {
		if _, err := ParsePin(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if _, err := ParsePins([]string{p.String(), p.String()}); err == nil {
		t.Error("one name twice was taken")
	}
	same, changed := file("same", "1"), file("changed", "2")
	set := Set{Tools: []Tool{{File: changed}, {File: same}, {File: file("unlisted", "3")}}}
	safe, stale := Pinned(set, []Pin{{"same", same.SHA256}, {"changed", same.SHA256}, {"gone", h}})
	if fmt.Sprint(safe.Names()) != "[same]" || len(stale) != 2 {
		t.Errorf("%v %v", safe.Names(), stale)
	}
}

// TestAllowList: presence is the approval; a written list replaces the built-in
// one whole and has to carry the door; refusals name the tool and the list.
func TestAllowList(t *testing.T) {
	natives := Natives("search")
	def := NewAllowList(nil, natives)
	for _, n := range natives {
		if err := def.Outer(n); err != nil {
			t.Errorf("the built-in list lacks the native %q", n)
		}
	}
	set := Set{Tools: []Tool{{File: file("weather", "")}}}
	for _, l := range []AllowList{def, NewAllowList([]string{}, natives), NewAllowList([]string{"search"}, natives)} {
		if err := l.Inner("weather", set, false); err != nil {
			t.Errorf("a live tool needs a line: %v", err)
		}
		err := l.Inner("forecast", set, true)
		if err == nil || !strings.Contains(err.Error(), `"forecast"`) || !strings.Contains(err.Error(), "allow-list") || !strings.Contains(err.Error(), "pending") {
			t.Errorf("a pending tool: %v", err)
		}
		if err := l.Inner("nothing", set, false); err == nil {
			t.Error("a tool that is not there was allowed")
		}
		if err := l.Outer("weather"); err == nil {
			t.Error("a live tool is no name on the wire")
		}
	}
	written := NewAllowList([]string{"search"}, natives)
	if err := written.Outer("search"); err != nil {
		t.Error(err)
	}
	if err := written.Outer(DoorName); err == nil || !strings.Contains(err.Error(), `"tool"`) || !strings.Contains(err.Error(), "[tools] allow") {
		t.Errorf("a list without the door: %v", err)
	}
	if err := NewAllowList([]string{}, natives).Outer("search"); err == nil {
		t.Error("an empty list was taken for none")
	}
}

// TestProvenance: both views of a target have to lie in pending.
func TestProvenance(t *testing.T) {
	home := t.TempDir()
	home, err := filepath.EvalSymlinks(home)
	if err != nil {
		t.Fatal(err)
	}
	z, err := Open(home, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTrainers(home, Settings{}); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(home, "work")
	tools := filepath.Join(home, "tools")
	for _, d := range []string{work, filepath.Join(tools, "pendingother"), filepath.Join(home, "toolsother")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		filepath.Join(work, "into"):                     tools,
		filepath.Join(work, "intopending"):              filepath.Join(tools, "pending"),
		filepath.Join(work, "file.py"):                  filepath.Join(tools, "x.py"),
		filepath.Join(work, "dangling"):                 "/nowhere/x",
		filepath.Join(tools, "pending", "up"):           tools,
		filepath.Join(tools, "pending", "out"):          work,
		filepath.Join(tools, "out"):                     work,
		filepath.Join(home, "alias"):                    home,
		filepath.Join(tools, "pendingother", "x"):       filepath.Join(tools, "pending"),
		filepath.Join(tools, "train", "pending", "out"): "/tmp",
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	g, err := z.Grounds()
	if err != nil {
		t.Fatal(err)
	}
	for path, allowed := range map[string]bool{
		"work/a.txt":                       true,
		"toolsother/x.py":                  true,
		"tools/pending/x.py":               true,
		"tools/pending/sub/x.py":           true,
		"tools/train/pending/x.py":         true,
		"tools/x.py":                       false,
		"tools":                            false,
		"tools/pending":                    false,
		"tools/pending/../x.py":            false,
		"tools/./pending/./x.py":           true,
		"tools/pendingother/x.py":          false,
		"tools/disabled/x.py":              false,
		"tools/train/x.py":                 false,
		"tools/train/disabled/x.py":        false,
		"tools/pending/up/x.py":            false,
		"tools/pending/up/pending/x.py":    true,
		"tools/pending/out/x.py":           false,
		"tools/out/x.py":                   false,
		"tools/train/pending/out/x.py":     false,
		"work/into/x.py":                   false,
		"work/into/pending/x.py":           false,
		"work/intopending/x.py":            false,
		"work/file.py":                     false,
		"work/dangling":                    false,
		"alias/tools/x.py":                 false,
		"alias/work/x":                     true,
		"tools/pendingother/x/y.py":        false,
		"work/../tools/x.py":               false,
		"work/../tools/pending/x.py":       true,
		"work/missing/../../tools/x.py":    false,
		"work/intopending/../disabled/y":   false,
		"work/missing/deep/not/there.py":   true,
		"":                                 false,
		"work/nul\x00":                     false,
		"~/tools/x.py":                     false,
		"~/tools/pending/x.py":             true,
		home + "/tools/x.py":               false,
		"tools/pending/x.py/":              true,
		"tools//x.py":                      false,
		"tools/pending/up/../pending/x.py": false,
	} {
		views, err := Look(path, home, home)
		if err == nil {
			err = g.MayWrite(views)
		}
		if allowed != (err == nil) {
			t.Errorf("%q: %v, allowed should be %v", path, err, allowed)
		}
	}
	views, _ := Look("tools/x.py", home, home)
	if err := g.MayWrite(views); err == nil || !strings.Contains(err.Error(), "pending/") || !strings.Contains(err.Error(), "approve") {
		t.Errorf("the refusal does not teach: %v", err)
	}
}

// TestProvenanceOfRelocatedPending: an operator may keep pending elsewhere.
func TestProvenanceOfRelocatedPending(t *testing.T) {
	home, _ := filepath.EvalSymlinks(t.TempDir())
	other := filepath.Join(home, "elsewhere")
	for _, d := range []string{other, filepath.Join(home, "tools")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(other, filepath.Join(home, "tools", "pending")); err != nil {
		t.Fatal(err)
	}
	z, err := Open(home, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := z.Grounds()
	if err != nil {
		t.Fatal(err)
	}
	views, err := Look("tools/pending/x.py", home, home)
	if err != nil || g.MayWrite(views) != nil {
		t.Errorf("%v %v", err, g.MayWrite(views))
	}
}

func FuzzProvenance(f *testing.F) {
	f.Add("tools/pending/x.py", "tools/pending/x.py")
	f.Add("a/../tools/x", "tools/x")
	f.Fuzz(func(t *testing.T, lexical, resolved string) {
		g := Grounds{Root: Views{"/h/tools", "/h/tools"}, Pending: []Views{{"/h/tools/pending", "/h/tools/pending"}}}
		v := Views{filepath.Clean("/h/" + lexical), filepath.Clean("/h/" + resolved)}
		err := g.MayWrite(v)
		in := func(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
		for _, p := range []string{v.Lexical, v.Resolved} {
			if err == nil && in(p, "/h/tools") && !in(p, "/h/tools/pending") {
				t.Errorf("%v may be written", v)
			}
		}
	})
}
