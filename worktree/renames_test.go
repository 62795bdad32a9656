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
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// move makes another tree from f in which some files have other names, and
// some of those other contents.
func (f forest) move(t *rapid.T, names []string) forest {
	g := forest{}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		n := f[name]
		if rapid.IntRange(0, 2).Draw(t, "moves") > 0 {
			name = rapid.SampledFrom(names).Draw(t, "to")
		}
		if rapid.Bool().Draw(t, "edited") && n.mode != ModeLink {
			n.content += rapid.SampledFrom([]string{"x\n", "", "y", "\x00"}).Draw(t, "more")
		}
		g.add(name, n)
	}
	return g
}

// TestRenamesApply lets git apply random patches with renames, to the index
// alone and to the work tree with it: both end in exactly the changed tree.
func TestRenamesApply(t *testing.T) {
	isolate(t)
	names := append([]string{"dir", "dir/sub", "a/b", "ü", "b/a", "e/x", "e/y"}, someNames...)
	top, n, renames := t.TempDir(), 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(top, strconv.Itoa(n))
		defer os.RemoveAll(dir)
		base := genForest(names).Draw(t, "base")
		next := base.move(t, names)
		o := &Objects{}
		from, to := base.plant(t, o, filepath.Join(dir, "objects")), next.plant(t, o, filepath.Join(dir, "objects"))
		c, err := o.Diff(t.Context(), from, to)
		if err != nil {
			t.Fatal(err)
		}
		c, note, err := o.Renames(t.Context(), c)
		if err != nil || note != "" {
			t.Fatal(note, err)
		}
		if c.Empty() {
			return
		}
		for _, f := range c.Files {
			if f.From != "" {
				renames++
			}
		}
		var patch bytes.Buffer
		if err := o.Patch(t.Context(), &patch, c); err != nil {
			t.Fatal(err)
		}
		repo := filepath.Join(dir, "repo")
		git := func(in []byte, args ...string) string { return strings.TrimSpace(runIn(t, repo, in, "git", args...)) }
		if err := os.MkdirAll(repo, 0o755); err != nil {
			t.Fatal(err)
		}
		git(nil, "init", "-q")
		base.write(t, repo)
		git(nil, "add", "-A", "-f")
		if got := git(nil, "write-tree"); got != string(from) {
			t.Fatalf("the base is %s, git says %s", from, got)
		}
		git(patch.Bytes(), "apply", "--cached", "--whitespace=nowarn", "-")
		if got := git(nil, "write-tree"); got != string(to) {
			t.Fatalf("after git apply --cached the tree is %s, not %s\n%s", got, to, patch.Bytes())
		}
		if loops(repo, base) {
			return // git apply cannot look behind such a link, which may go, in a work tree
		}
		git(nil, "read-tree", string(from))
		git(nil, "update-index", "-q", "--refresh")
		git(patch.Bytes(), "apply", "--index", "--whitespace=nowarn", "-")
		if got := git(nil, "write-tree"); got != string(to) {
			t.Fatalf("after git apply --index the tree is %s, not %s\n%s", got, to, patch.Bytes())
		}
		if left := git(nil, "ls-files", "--others") + git(nil, "diff-files", "--name-only"); left != "" {
			t.Fatalf("the work tree is not that of the index: %s\n%s", left, patch.Bytes())
		}
	})
	if renames == 0 {
		t.Error("no change had a rename")
	}
}

// TestRenamesPastALinkToItself: git apply takes a directory in the place of a
// link only where the patch states that the link goes, whatever moved there.
func TestRenamesPastALinkToItself(t *testing.T) {
	isolate(t)
	text := node{ModeFile, numbered(0, 20)}
	link := node{ModeLink, "a"}
	for name, c := range map[string]struct {
		base, next forest
		renames    int
	}{
		"the link moves in":                  {forest{"a": link}, forest{"a/b": link}, 0},
		"a file moves in":                    {forest{"a": link, "c": text}, forest{"a/b": text}, 1},
		"the link moves in, another one out": {forest{"a": link, "c": link}, forest{"a/b": link, "d": link}, 1},
		"it moves on and a file comes":       {forest{"a": link, "c": text}, forest{"z": link, "a/b": text}, 1},
		"a link comes for a directory":       {forest{"a/b": text, "c": link}, forest{"a": link, "d": text}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			o, dir := &Objects{}, t.TempDir()
			from, to := c.base.plant(t, o, filepath.Join(dir, "objects")), c.next.plant(t, o, filepath.Join(dir, "objects"))
			plain, err := o.Diff(t.Context(), from, to)
			if err != nil {
				t.Fatal(err)
			}
			paired, _, err := o.Renames(t.Context(), plain)
			if err != nil {
				t.Fatal(err)
			}
			renames := 0
			for _, f := range paired.Files {
				if f.From != "" {
					renames++
				}
			}
			if renames != c.renames {
				t.Errorf("%d renames", renames)
			}
			repo := filepath.Join(dir, "repo")
			run(t, "", nil, "git", "init", "-q", repo)
			c.base.write(t, repo)
			run(t, repo, nil, "git", "add", "-A")
			for _, change := range []Change{plain, paired} {
				var patch bytes.Buffer
				if err := o.Patch(t.Context(), &patch, change); err != nil {
					t.Fatal(err)
				}
				run(t, repo, nil, "git", "read-tree", strings.TrimSpace(run(t, repo, nil, "git", "write-tree")))
				run(t, repo, patch.Bytes(), "git", "apply", "--cached", "-")
				if got := strings.TrimSpace(run(t, repo, nil, "git", "write-tree")); got != string(to) {
					t.Errorf("git has %s, not %s, of\n%s", got, to, patch.Bytes())
				}
				run(t, repo, nil, "git", "add", "-A")
			}
		})
	}
}

// loops reports whether a link of a tree leads to itself.
func loops(repo string, tree forest) bool {
	for name, n := range tree {
		if n.mode != ModeLink {
			continue
		}
		if _, err := os.Stat(filepath.Join(repo, name)); errors.Is(err, syscall.ELOOP) {
			return true
		}
	}
	return false
}

func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "this is line %d of %d\n", i*i, i)
	}
	return b.String()
}

// TestRenamesAreGits compares what is paired, and every byte of the patch,
// with what git makes of the same trees.
func TestRenamesAreGits(t *testing.T) {
	isolate(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	noise[0] = 0
	from := forest{
		"same.txt": {ModeFile, "same\n"}, "exec.sh": {ModeFile, "#!/bin/sh\n" + numbered(0, 20)}, "edited.go": {ModeFile, numbered(100, 130)},
		"half": {ModeFile, numbered(200, 220)}, "less": {ModeFile, numbered(300, 320)}, "link": {ModeLink, "same.txt"}, "crlf": {ModeFile, numbered(400, 410)},
		"noise": {ModeFile, string(noise)}, "long": {ModeFile, strings.Repeat("0123456789", 200)}, "sp ace/\"q\"": {ModeFile, numbered(500, 510)},
		"one/name": {ModeFile, "twice\n"}, "two/other": {ModeFile, "twice\n"}, "stays": {ModeFile, numbered(600, 610)}, "empty": {ModeFile, ""},
	}
	to := forest{
		"d/same.txt": {ModeFile, "same\n"}, "run.sh": {ModeExec, "#!/bin/sh\n" + numbered(0, 20)}, "new.go": {ModeExec, numbered(100, 128) + "other\n"},
		"halved": {ModeFile, numbered(200, 211) + numbered(900, 909)}, "lesser": {ModeFile, numbered(300, 309) + numbered(800, 812)}, "lnk": {ModeLink, "same.txt"},
		"crlf.txt": {ModeFile, strings.ReplaceAll(numbered(400, 410), "\n", "\r\n")}, "noisy": {ModeFile, string(noise[:4900]) + "tail"},
		"longer": {ModeFile, strings.Repeat("0123456789", 210)}, "sp ace/\"r\"\n": {ModeFile, numbered(500, 509)},
		"x/name": {ModeFile, "twice\n"}, "y/other": {ModeFile, "twice\n"}, "stays": {ModeFile, numbered(601, 610)}, "void": {ModeFile, ""},
	}
	dir := t.TempDir()
	o := &Objects{}
	a, b := from.plant(t, o, dir), to.plant(t, o, dir)
	c, err := o.Diff(t.Context(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	if c, _, err = o.Renames(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	repo := t.TempDir()
	run(t, repo, nil, "git", "init", "-q", "--bare", ".")
	for _, f := range []forest{from, to} {
		files := t.TempDir()
		f.write(t, files)
		run(t, repo, nil, "git", "--work-tree", files, "-c", "core.bare=false", "read-tree", "--empty")
		run(t, repo, nil, "git", "--work-tree", files, "-c", "core.bare=false", "add", "-A", files)
		run(t, repo, nil, "git", "write-tree")
	}
	want := run(t, repo, nil, "git", "diff", "-M", "--raw", "--no-abbrev", "-z", string(a), string(b))
	var got strings.Builder
	for _, f := range c.Files {
		mark := map[string]string{"added": "A", "deleted": "D", "modified": "M", "type": "T", "mode": "M"}[f.Status()]
		paths := f.Path
		if f.From != "" {
			mark, paths = fmt.Sprintf("R%03d", f.Similarity), f.From+"\x00"+f.Path
		}
		zero := strings.Repeat("0", 40)
		fmt.Fprintf(&got, ":%06o %06o %s %s %s\x00%s\x00", f.OldMode, f.NewMode, cmpOr(f.Old, zero), cmpOr(f.New, zero), mark, paths)
	}
	if got.String() != want {
		t.Errorf("paired otherwise than git:\n%s\n%s", strings.ReplaceAll(got.String(), ":", "\n:"), strings.ReplaceAll(want, ":", "\n:"))
	}
	var patch bytes.Buffer
	if err := o.Patch(t.Context(), &patch, c); err != nil {
		t.Fatal(err)
	}
	theirs := run(t, repo, nil, "git", "diff", "-M", "--binary", "--full-index", "--minimal", "--inter-hunk-context=0", string(a), string(b))
	for i, line := range headers(patch.String()) {
		if h := headers(theirs); i >= len(h) || h[i] != line {
			t.Fatalf("header %d is %q, not as git has it:\n%s", i, line, strings.Join(h, "\n"))
		}
	}
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// headers are the lines of a patch that say which file is meant.
func headers(patch string) []string {
	var out []string
	for line := range strings.Lines(patch) {
		for _, p := range []string{"diff ", "old mode", "new mode", "new file", "deleted file", "similarity", "rename ", "index ", "--- ", "+++ "} {
			if strings.HasPrefix(line, p) {
				out = append(out, line)
			}
		}
	}
	return out
}

// TestRenamesAreBounded pairs the unchanged files alone when there are too
// many, too large, or too costly ones, and says so.
func TestRenamesAreBounded(t *testing.T) {
	forestOf := func(dir string, n int, content func(i int) string) forest {
		f := forest{dir + "/same": {ModeFile, "the same\n"}}
		for i := range n {
			f[fmt.Sprintf("%s/%d", dir, i)] = node{ModeFile, content(i)}
		}
		return f
	}
	equal := func(content string) func(int) string { return func(int) string { return content } }
	salted := func(salt string) func(int) string {
		return func(i int) string { return fmt.Sprintf("%s%d\n", salt, i) + strings.Repeat("x\n", 20) }
	}
	lines := func(n int, salt string) func(int) string {
		return equal(numbered(0, n) + salt)
	}
	small := defaultLimits
	small.file, small.all, small.steps = 1000, 4000, 1000
	for name, c := range map[string]struct {
		n             int
		before, after func(int) string
		limits        renameLimits
		note          string
		renames       int
	}{
		"pairs":      {1001, equal("x\nx\n"), equal("x\ny\n"), defaultLimits, "1001 files that went and 1001 that came would take too long", 1},
		"not close":  {1001, equal("x\nx\n"), equal("x\nx\nx\nx\nx\n"), defaultLimits, "", 1},
		"within":     {30, salted("a"), salted("b"), defaultLimits, "", 31},
		"large":      {1, lines(100, "a"), lines(100, "b"), small, "2 files larger", 1},
		"in sum":     {5, lines(30, "a"), lines(30, "b"), small, "have more than", 1},
		"in steps":   {4, lines(12, "a"), lines(12, "b"), renameLimits{1000, 300, 1000, 1 << 20}, "too long", 1},
		"in no step": {4, lines(12, "a"), lines(12, "b"), renameLimits{1000, 1000, 1000, 1 << 20}, "", 5},
	} {
		t.Run(name, func(t *testing.T) {
			o, dir := &Objects{}, t.TempDir()
			ch, err := o.Diff(t.Context(), forestOf("a", c.n, c.before).plant(t, o, dir), forestOf("b", c.n, c.after).plant(t, o, dir))
			if err != nil {
				t.Fatal(err)
			}
			got, note, err := o.renames(t.Context(), ch, c.limits)
			if err != nil {
				t.Fatal(err)
			}
			renames := 0
			for _, f := range got.Files {
				if f.From != "" {
					renames++
				}
			}
			if renames != c.renames || (c.note == "") != (note == "") || !strings.Contains(note, c.note) {
				t.Errorf("%d renames, note %q", renames, note)
			}
		})
	}
}

// TestRenamedChangeIsNotAdopted: it has paths that a plan would not look at.
func TestRenamedChangeIsNotAdopted(t *testing.T) {
	m := makeChange(t, forest{"a": {ModeFile, numbered(0, 9)}}, forest{"b": {ModeFile, numbered(0, 9)}})
	c, _, err := m.objects.Renames(t.Context(), m.change)
	if err != nil || len(c.Files) != 1 || c.Files[0].Status() != "renamed" || c.Added+c.Deleted != 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	m.change = c
	if err := m.adopt(t.TempDir()); err == nil || !strings.Contains(err.Error(), "for reading") {
		t.Errorf("adopted: %v", err)
	}
}
