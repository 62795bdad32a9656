package ignore

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		rules, path string
		dir, want   bool
	}{
		{"*.log", "a/b.log", false, true},
		{"*.log\n!keep.log", "keep.log", false, false},
		{"out/", "out", false, false},
		{"out/", "out/x", false, true},
		{"/out", "a/out", false, false},
		{"a/**/b", "a/b", false, true},
		{"a/**/b", "a/x/y/b", false, true},
		{"**/b", "b", false, true},
		{"a/**", "a/b/c", false, true},
		{"a/**", "a", true, false},
		{"a/*", "a/b/c", false, true},
		{"a/*\n!a/b", "a/b", true, false},
		{"dir\n!dir/x", "dir/x", false, true},
		{"\\#x", "#x", false, true},
		{"#x", "#x", false, false},
		{"x ", "x", false, true},
		{"x\\ ", "x ", false, true},
		{"x\r\ny", "x", false, true},
		{"\xef\xbb\xbfx", "x", false, true},
		{"[a-c]", "b", false, true},
		{"[!a-c]", "b", false, false},
		{"[[:digit:]]x", "7x", false, true},
		{"[]]", "]", false, true},
		{"a?c", "a/c", false, false},
		{"/", "a", true, false},
		{"", "a", false, false},
		{"[", "[", false, false},
	} {
		var r Rules
		r.Add("", []byte(c.rules))
		if got := r.Match(c.path, c.dir); got != c.want {
			t.Errorf("%q on %q (directory: %t): %t", c.rules, c.path, c.dir, got)
		}
	}
}

func TestPrecedence(t *testing.T) {
	var r Rules
	r.AddGlobal([]byte("*.a\n*.b\n"))
	r.AddGlobal([]byte("!*.b\n"))
	r.Add("", []byte("*.c\n"))
	r.Add("sub", []byte("!*.c\n!x.a\n/top\n"))
	for name, want := range map[string]bool{
		"x.a": true, "x.b": false, "x.c": true, "sub/x.c": false, "sub/x.a": false, "sub/y.a": true,
		"sub/top": true, "sub/deep/top": false, "subx.c": true,
	} {
		if got := r.Match(name, false); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestMatchIsGits lets git check-ignore judge random rules on random paths.
func TestMatchIsGits(t *testing.T) {
	top := t.TempDir()
	t.Setenv("HOME", top)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	git := func(t rapid.TB, in string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = top, strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState.ExitCode() != 1 {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	git(t, "", "init", "-q")
	var paths []string
	names := []string{"a", "b", "ab", "a.log", "b c", "[x]", "A", "x-y"}
	for _, x := range names {
		paths = append(paths, x)
		for _, y := range names {
			paths = append(paths, x+"/"+y)
		}
	}
	paths = append(paths, "a/b/ab/a", "a/b/ab/b c/x-y", "ab/a/a/a", "b/b/b/b")
	dirs := make(map[string]bool)
	for _, p := range paths {
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	for d := range dirs {
		if err := os.MkdirAll(filepath.Join(top, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	piece := rapid.SampledFrom([]string{"a", "b", "*", "**", "/", "/", "?", "[ab]", "[!a]", "[a-", "[[:alpha:]]", "[[:nope:]]", "\\", " ", "!", "#", ".log", "**/", "/**", "x-y", "]", "^", "-", "[^-]", "ab", "\r"})
	rules := rapid.Custom(func(t *rapid.T) string {
		var lines []string
		for range rapid.IntRange(0, 4).Draw(t, "lines") {
			lines = append(lines, strings.Join(rapid.SliceOfN(piece, 1, 6).Draw(t, "pieces"), ""))
		}
		return strings.Join(lines, "\n") + rapid.SampledFrom([]string{"", "\n", "\r\n"}).Draw(t, "end")
	})
	rapid.Check(t, func(t *rapid.T) {
		var r Rules
		for dir, file := range map[string]string{"": ".gitignore", "a": "a/.gitignore", "global": ".git/info/exclude"} {
			text := rules.Draw(t, dir)
			if err := os.WriteFile(filepath.Join(top, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if dir == "global" {
				r.AddGlobal([]byte(text))
			} else {
				r.Add(dir, []byte(text))
			}
		}
		out := git(t, strings.Join(paths, "\x00")+"\x00", "check-ignore", "-z", "--stdin", "--no-index")
		ignored := make(map[string]bool)
		for _, p := range strings.Split(strings.TrimSuffix(out, "\x00"), "\x00") {
			ignored[p] = true
		}
		for _, p := range paths {
			if got := r.Match(p, dirs[p]); got != ignored[p] {
				t.Fatalf("%q (directory: %t): %t, git says %t", p, dirs[p], got, ignored[p])
			}
		}
	})
}

// TestWildmatchIsBounded answers in time what would take git for ever.
func TestWildmatchIsBounded(t *testing.T) {
	pattern := strings.Repeat("*a", 60) + "b"
	if Wildmatch(pattern, strings.Repeat("a", 5000), true) {
		t.Error("it matches")
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("a/**/b\n!x\n[", "a/c/b")
	f.Add("[[:alpha:]\n\\", "a")
	f.Fuzz(func(t *testing.T, rules, name string) {
		var r Rules
		r.Add("", []byte(rules))
		if r.Match(name, true) != r.Match(name, true) {
			t.Error("not the same twice")
		}
		// What is ignored as a file is ignored as a directory.
		if r.Here(name, false) && !r.Here(name, true) && !strings.Contains(rules, "!") {
			t.Errorf("%q ignores the file %q but not the directory", rules, name)
		}
	})
}
