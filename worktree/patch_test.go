package worktree

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"pgregory.net/rapid"
)

// A node is a file of a made-up tree.
type node struct {
	mode    Mode
	content string
}

type forest map[string]node

// plant writes a tree into an object store and returns its id.
func (f forest) plant(t rapid.TB, o *Objects, dir string) TreeID {
	s := o.open(dir)
	var entries []entry
	for name, n := range f {
		id, err := put(s, plumbing.BlobObject, []byte(n.content))
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry{path: name, mode: n.mode, id: id})
	}
	slices.SortFunc(entries, compareEntries)
	b := treeBuilder{emit: func(_ string, _ oid, content []byte) error {
		_, err := put(s, plumbing.TreeObject, content)
		return err
	}}
	id, err := b.build("", entries)
	if err != nil {
		t.Fatal(err)
	}
	return TreeID(id.String())
}

// write makes the files of a tree below dir.
func (f forest) write(t rapid.TB, dir string) {
	for name, n := range f {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch n.mode {
		case ModeLink:
			err = os.Symlink(n.content, at)
		case ModeExec:
			err = os.WriteFile(at, []byte(n.content), 0o755)
		default:
			err = os.WriteFile(at, []byte(n.content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

var someNames = []string{
	"a", "b.txt", "dir/x", "dir/y", "dir/sub/z", "with space", "tab\there", "new\nline", `quo"te`, `back\slash`,
	"-dash", "ü/é", "\xff\xfe", "dir.txt", "dir-", "a b/c d", "\x01", "x'y", "*", "[a]", " lead", "trail ", "#", "!n", "dir/.hidden", "\x7f",
}

// genForest makes a tree in which no file is also a directory.
func genForest(names []string) *rapid.Generator[forest] {
	return rapid.Custom(func(t *rapid.T) forest {
		f := forest{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 9, rapid.ID).Draw(t, "names") {
			f.add(name, genNode().Draw(t, "node"))
		}
		return f
	})
}

func (f forest) add(name string, n node) {
	for d := path.Dir(name); d != "."; d = path.Dir(d) {
		delete(f, d)
	}
	for other := range f {
		if strings.HasPrefix(other, name+"/") {
			delete(f, other)
		}
	}
	f[name] = n
}

func genNode() *rapid.Generator[node] {
	return rapid.Custom(func(t *rapid.T) node {
		mode := rapid.SampledFrom([]Mode{ModeFile, ModeFile, ModeFile, ModeExec, ModeLink}).Draw(t, "mode")
		if mode == ModeLink {
			return node{mode, rapid.SampledFrom([]string{"a", "../out", "nowhere", "dir", "/etc/passwd", "\xff"}).Draw(t, "target")}
		}
		switch rapid.IntRange(0, 5).Draw(t, "content") {
		case 0:
			return node{mode, ""}
		case 1:
			return node{mode, string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes")) + "\x00"}
		default:
			return node{mode, genText(t)}
		}
	})
}

func genText(t *rapid.T) string {
	lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "", " ", "\tx", "--- a", "+++ b", "@@ -1 +1 @@", "diff --git a/x b/x", `\ No newline`, "é", "\xff"}), 0, 30).Draw(t, "lines")
	end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
	text := strings.Join(lines, end)
	if rapid.Bool().Draw(t, "newline") {
		text += end
	}
	return text
}

// change makes another tree from f.
func (f forest) change(t *rapid.T, names []string) forest {
	g := forest{}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		n := f[name]
		switch rapid.IntRange(0, 4).Draw(t, "what") {
		case 0: // deleted
		case 1:
			if n.mode != ModeLink {
				n.mode ^= ModeFile ^ ModeExec
			}
			g[name] = n
		case 2:
			lines := strings.SplitAfter(n.content, "\n")
			i := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
			lines[i] = rapid.SampledFrom([]string{"", "changed\n", "changed"}).Draw(t, "to") + lines[i]
			if text := strings.Join(lines, ""); n.mode != ModeLink {
				n.content = text
			}
			g[name] = n
		default:
			g[name] = n
		}
	}
	more := genForest(names).Draw(t, "more")
	for _, name := range slices.Sorted(maps.Keys(more)) {
		g.add(name, more[name])
	}
	return g
}

// TestHazardPatchAndAdoptRoundTrip makes random trees and changes, with git as
// the judge: git apply and Adopt both end in exactly the changed tree.
func TestHazardPatchAndAdoptRoundTrip(t *testing.T) {
	isolate(t)
	names := append([]string{"dir", "dir/sub", "a/b", "ü"}, someNames...)
	n := 0
	top := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(top, strconv.Itoa(n))
		defer os.RemoveAll(dir)
		base := genForest(names).Draw(t, "base")
		next := base.change(t, names)
		o := &Objects{}
		store := filepath.Join(dir, "objects")
		from, to := base.plant(t, o, store), next.plant(t, o, store)
		c, err := o.Diff(t.Context(), from, to)
		if err != nil {
			t.Fatal(err)
		}
		kept := filepath.Join(dir, "kept")
		if err := o.Keep(t.Context(), kept, c); err != nil {
			t.Fatal(err)
		}
		if o, err = OpenObjects(kept); err != nil {
			t.Fatal(err)
		}
		again, err := o.Diff(t.Context(), from, to)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(again) != fmt.Sprint(c) {
			t.Fatalf("what was kept reads otherwise:\n%v\n%v", again, c)
		}

		var patch bytes.Buffer
		if err := o.Patch(t.Context(), &patch, c); err != nil {
			t.Fatal(err)
		}
		git := func(in []byte, args ...string) string {
			return runIn(t, filepath.Join(dir, "repo"), in, "git", args...)
		}
		repo := filepath.Join(dir, "repo")
		if err := os.MkdirAll(repo, 0o755); err != nil {
			t.Fatal(err)
		}
		git(nil, "init", "-q")
		base.write(t, repo)
		git(nil, "add", "-A", "-f")
		if got := strings.TrimSpace(git(nil, "write-tree")); got != string(from) {
			t.Fatalf("the base is %s, git says %s", from, got)
		}
		if !c.Empty() {
			git(patch.Bytes(), "apply", "--cached", "--whitespace=nowarn", "-")
		}
		if got := strings.TrimSpace(git(nil, "write-tree")); got != string(to) {
			t.Fatalf("after git apply the tree is %s, not %s\n%s", got, to, patch.Bytes())
		}
		git(nil, "read-tree", string(from))
		var added, deleted int
		git(nil, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "--allow-empty", "-m", "base")
		r, err := Open(t.Context(), repo)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Adopt(t.Context(), o, c, AdoptOptions{Mode: AdoptApply, RunID: "r", JournalDir: filepath.Join(dir, "journal")})
		if err != nil {
			t.Fatal(err)
		}
		if got.Tree != to {
			t.Fatalf("adopted %s, not %s", got.Tree, to)
		}
		git(nil, "add", "-A", "-f")
		if got := strings.TrimSpace(git(nil, "write-tree")); got != string(to) {
			t.Fatalf("after Adopt the tree is %s, not %s", got, to)
		}
		// The number of lines is git's own, but where it stops searching early.
		for _, line := range strings.Split(strings.TrimSuffix(git(nil, "diff", "--numstat", "--no-renames", "--minimal", string(from), string(to)), "\n"), "\n") {
			var a, d int
			if n, _ := fmt.Sscanf(line, "%d\t%d", &a, &d); n == 2 {
				added += a
				deleted += d
			}
		}
		if added != c.Added || deleted != c.Deleted {
			t.Fatalf("+%d -%d, git says +%d -%d", c.Added, c.Deleted, added, deleted)
		}
	})
}

// TestDiffLinesIsShortest compares the edits with git's on texts with much
// repetition.
func TestDiffLinesIsShortest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "d\n"})
		a, b := rapid.SliceOfN(word, 0, 40).Draw(t, "a"), rapid.SliceOfN(word, 0, 40).Draw(t, "b")
		edits := diffLines(splitLines([]byte(strings.Join(a, ""))), splitLines([]byte(strings.Join(b, ""))))
		var built []string
		at, cost := 0, 0
		for _, e := range edits {
			built = append(built, a[at:e.a0]...)
			built = append(built, b[e.b0:e.b1]...)
			at = e.a1
			cost += e.a1 - e.a0 + e.b1 - e.b0
		}
		built = append(built, a[at:]...)
		if !slices.Equal(built, b) {
			t.Fatalf("edits %v lead from %q to %q, not %q", edits, a, built, b)
		}
		if want := editDistance(a, b); cost != want {
			t.Fatalf("%d edits, %d would do", cost, want)
		}
	})
}

// editDistance is the slow and obvious way.
func editDistance(a, b []string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			keep := diagonal
			diagonal = row[j+1]
			if a[i] == b[j] {
				row[j+1] = keep
			} else {
				row[j+1] = 1 + min(row[j+1], row[j])
			}
		}
	}
	return row[len(b)]
}

// TestDiffLinesIsBounded gives up the shortest way for a fast one when the
// files have nothing but their words in common.
func TestDiffLinesIsBounded(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	lines := func() [][]byte {
		var out [][]byte
		for range 60_000 {
			out = append(out, strconv.AppendInt(nil, rnd.Int64N(5000), 10))
		}
		return out
	}
	a, b := lines(), lines()
	var built [][]byte
	at := 0
	for _, e := range diffLines(a, b) {
		built = append(append(built, a[at:e.a0]...), b[e.b0:e.b1]...)
		at = e.a1
	}
	built = append(built, a[at:]...)
	if !slices.EqualFunc(built, b, bytes.Equal) {
		t.Error("the edits do not lead to the new file")
	}
}

func TestNormalisedIgnoresWhiteSpaceOnly(t *testing.T) {
	o := &Objects{}
	dir := t.TempDir()
	base := forest{"x.go": {ModeFile, "a b\n"}}.plant(t, o, dir)
	key := func(content string) string {
		tree := forest{"x.go": {ModeFile, content}}.plant(t, o, dir)
		c, err := o.Diff(t.Context(), base, tree)
		if err != nil {
			t.Fatal(err)
		}
		return c.Normalised
	}
	if key("a  c\n") != key("a\tc\n\n") {
		t.Error("white space makes a difference")
	}
	if key("a c\n") == key("ac\n") || key("a c\n") == key("a d\n") {
		t.Error("words make no difference")
	}
	other := func(name, content string) string {
		c, err := o.Diff(t.Context(), base, forest{"x.go": {ModeFile, "a b\n"}, name: {ModeFile, content}}.plant(t, o, dir))
		if err != nil {
			t.Fatal(err)
		}
		return c.Normalised
	}
	if other("m.py", "if a:\n  b\n  c\n") == other("m.py", "if a:\n  b\nc\n") {
		t.Error("Python's indentation makes no difference")
	}
	if other("m.py", "if a:\n  b =  c\n") != other("m.py", "if a:\n\n  b = c \n") {
		t.Error("white space inside of Python's lines makes a difference")
	}
}
