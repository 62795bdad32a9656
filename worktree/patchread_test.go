package worktree

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/worktree/patch"
)

// asRead is what a reader of the patch of c finds, and the hunks of each file.
func asRead(t rapid.TB, o *Objects, c Change) (out []patch.File, hunks []string) {
	for _, f := range c.Files {
		parts := []FileChange{f}
		if f.Status() == "type" {
			gone, made := f, f
			gone.New, gone.NewMode = "", ModeNone
			made.Old, made.OldMode = "", ModeNone
			parts = []FileChange{gone, made}
		}
		for _, f := range parts {
			if err := o.countOne(&f); err != nil {
				t.Fatal(err)
			}
			r := patch.File{OldMode: uint32(f.OldMode), NewMode: uint32(f.NewMode), Similarity: f.Similarity, Added: f.Added, Deleted: f.Deleted}
			if f.OldMode != ModeNone {
				r.Old = cmpOr(f.From, f.Path)
			}
			if f.NewMode != ModeNone {
				r.New = f.Path
			}
			if f.Old != f.New {
				r.OldID, r.NewID = f.Old, f.New
			} else if f.OldMode == f.NewMode {
				r.OldMode, r.NewMode = 0, 0 // a patch does not say what stays
			}
			old, new, err := o.sides(f)
			if err != nil {
				t.Fatal(err)
			}
			if f.Old != f.New && (isBinary(old) || isBinary(new)) {
				r.Binary = &patch.Binary{Forward: patch.Data{Kind: "literal", Size: len(new)}, Reverse: patch.Data{Kind: "literal", Size: len(old)}}
			}
			var text bytes.Buffer
			if w := bufio.NewWriter(&text); f.Old != f.New && r.Binary == nil {
				writeHunks(w, splitLines(old), splitLines(new), diffLines(splitLines(old), splitLines(new)))
				w.Flush()
			}
			out, hunks = append(out, r), append(hunks, text.String())
		}
	}
	return out, hunks
}

// onlySizes takes away what asRead does not tell.
func onlySizes(files []patch.File) []patch.File {
	for i := range files {
		files[i].Hunks = nil
		if b := files[i].Binary; b != nil {
			b.Forward.Packed, b.Reverse.Packed = 0, 0
		}
	}
	return files
}

// TestPatchesReadBack: every patch that is written reads back as the files,
// modes and lines of the change, and so do git's own of the same trees.
func TestPatchesReadBack(t *testing.T) {
	isolate(t)
	names := append([]string{"dir", "dir/sub", "a/b", "ü"}, someNames...)
	top, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(top, strconv.Itoa(n))
		defer os.RemoveAll(dir)
		base := genForest(names).Draw(t, "base")
		next := base.change(t, names)
		if rapid.Bool().Draw(t, "moved") {
			next = base.move(t, names)
		}
		o := &Objects{}
		c, err := o.Diff(t.Context(), base.plant(t, o, dir), next.plant(t, o, dir))
		if err == nil && rapid.Bool().Draw(t, "renames") {
			c, _, err = o.Renames(t.Context(), c)
		}
		var text bytes.Buffer
		if err == nil {
			err = o.Patch(t.Context(), &text, c)
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := patch.Read(text.Bytes())
		if err != nil {
			t.Fatalf("%v\n%s", err, text.Bytes())
		}
		want, hunks := asRead(t, o, c)
		for i, f := range got {
			var read strings.Builder
			for _, h := range f.Hunks {
				fmt.Fprintf(&read, "@@ -%s +%s @@\n%s", lineRange(h.OldStart, h.OldLines), lineRange(h.NewStart, h.NewLines), h.Body)
			}
			if i >= len(hunks) || read.String() != hunks[i] {
				t.Fatalf("hunks of file %d read as\n%s\nof\n%s", i, read.String(), text.Bytes())
			}
		}
		if diff := cmp.Diff(want, onlySizes(got)); diff != "" {
			t.Fatalf("%s\n%s", diff, text.Bytes())
		}

		runIn(t, dir, nil, "git", "init", "-q", "--bare", "git")
		var counted strings.Builder
		for _, f := range got {
			if f.Binary != nil {
				fmt.Fprintf(&counted, "-\t-\t%s\x00", f.Path())
			} else {
				fmt.Fprintf(&counted, "%d\t%d\t%s\x00", f.Added, f.Deleted, f.Path())
			}
		}
		if !c.Empty() {
			if gits := runIn(t, filepath.Join(dir, "git"), text.Bytes(), "git", "apply", "--numstat", "-z", "-"); gits != counted.String() {
				t.Fatalf("git reads %q, not %q", gits, counted.String())
			}
		}
		git := filepath.Join(dir, "git")
		if err := os.RemoveAll(filepath.Join(git, "objects")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "objects"), filepath.Join(git, "objects")); err != nil {
			if c.Empty() {
				return // two empty trees have no objects
			}
			t.Fatal(err)
		}
		theirs := runIn(t, git, nil, "git", "-c", "core.quotePath="+strconv.FormatBool(n%2 == 0), "diff-tree", "-p", "-r", "--binary", "-M", "-C", "--find-copies-harder", string(c.Base), string(c.Tree))
		if _, err := patch.Read([]byte(theirs)); err != nil {
			t.Fatalf("git's own: %v\n%s", err, theirs)
		}
	})
}

func lineRange(start, n int) string {
	if n == 1 {
		return strconv.Itoa(start)
	}
	return fmt.Sprintf("%d,%d", start, n)
}
