package worktree

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/bestof-dev/bestof/worktree/patch"
)

// contextLines surround an edit in a patch.
const contextLines = 3

// Patch writes c as git does with --binary --full-index: git apply makes
// exactly the new tree from it. Files that Renames paired are written as
// renames.
func (o *Objects) Patch(ctx context.Context, w io.Writer, c Change) error {
	out := bufio.NewWriter(w)
	for _, f := range c.Files {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("write the patch: %w", err)
		}
		old, new, err := o.sides(f)
		if err != nil {
			return fmt.Errorf("write the patch: %w", err)
		}
		if f.Status() == "type" {
			gone, made := f, f
			gone.New, gone.NewMode = "", ModeNone
			made.Old, made.OldMode = "", ModeNone
			err = writeFile(out, gone, old, nil)
			if err == nil {
				err = writeFile(out, made, nil, new)
			}
		} else {
			err = writeFile(out, f, old, new)
		}
		if err != nil {
			return fmt.Errorf("write the patch: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the patch: %w", err)
	}
	return nil
}

func writeFile(w *bufio.Writer, f FileChange, old, new []byte) error {
	from := cmp.Or(f.From, f.Path)
	a, b := quote("a/"+from), quote("b/"+f.Path)
	fmt.Fprintf(w, "diff --git %s %s\n", a, b)
	was, is := f.Old, f.New
	switch {
	case f.OldMode == ModeNone:
		fmt.Fprintf(w, "new file mode %06o\n", f.NewMode)
		was = oid{}.String()
		a = "/dev/null"
	case f.NewMode == ModeNone:
		fmt.Fprintf(w, "deleted file mode %06o\n", f.OldMode)
		is = oid{}.String()
		b = "/dev/null"
	case f.OldMode != f.NewMode:
		fmt.Fprintf(w, "old mode %06o\nnew mode %06o\n", f.OldMode, f.NewMode)
	}
	if f.From != "" {
		fmt.Fprintf(w, "similarity index %d%%\nrename from %s\nrename to %s\n", f.Similarity, quote(f.From), quote(f.Path))
	}
	if was == is {
		return nil
	}
	fmt.Fprintf(w, "index %s..%s", was, is)
	if f.OldMode == f.NewMode {
		fmt.Fprintf(w, " %06o", f.NewMode)
	}
	w.WriteByte('\n')
	if isBinary(old) || isBinary(new) {
		w.WriteString("GIT binary patch\n")
		if err := writeLiteral(w, new); err != nil {
			return err
		}
		return writeLiteral(w, old)
	}
	edits := diffLines(splitLines(old), splitLines(new))
	if len(edits) == 0 {
		return nil // an empty file came or went
	}
	// A name with a space ends in a tab here, so that a reader does not take
	// what follows for a date.
	fmt.Fprintf(w, "--- %s\n+++ %s\n", tabbed(a), tabbed(b))
	writeHunks(w, splitLines(old), splitLines(new), edits)
	return nil
}

func tabbed(name string) string {
	if strings.Contains(name, " ") {
		return name + "\t"
	}
	return name
}

func writeHunks(w *bufio.Writer, old, new [][]byte, edits []edit) {
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].a0-edits[n-1].a1 <= 2*contextLines {
			n++
		}
		first, last := edits[0], edits[n-1]
		before := min(contextLines, first.a0)
		after := min(contextLines, len(old)-last.a1)
		a0, a1, b0, b1 := first.a0-before, last.a1+after, first.b0-before, last.b1+after
		fmt.Fprintf(w, "@@ -%s +%s @@\n", span(a0, a1), span(b0, b1))
		at := a0
		for _, e := range edits[:n] {
			writeLines(w, ' ', old[at:e.a0])
			writeLines(w, '-', old[e.a0:e.a1])
			writeLines(w, '+', new[e.b0:e.b1])
			at = e.a1
		}
		writeLines(w, ' ', old[at:a1])
		edits = edits[n:]
	}
}

// span is a range of lines, counted from 1. An empty one is named by the line
// before it.
func span(from, to int) string {
	switch n := to - from; n {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(from + 1)
	default:
		return fmt.Sprintf("%d,%d", from+1, n)
	}
}

func writeLines(w *bufio.Writer, sign byte, lines [][]byte) {
	for _, l := range lines {
		w.WriteByte(sign)
		w.Write(l)
		if l[len(l)-1] != '\n' {
			w.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// writeLiteral writes a whole content in git's binary form: lines of up to 52
// compressed bytes, each led by their number.
func writeLiteral(w *bufio.Writer, content []byte) error {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(content); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	fmt.Fprintf(w, "literal %d\n", len(content))
	for packed.Len() > 0 {
		line := packed.Next(52)
		if n := len(line); n <= 26 {
			w.WriteByte(byte('A' + n - 1))
		} else {
			w.WriteByte(byte('a' + n - 27))
		}
		for len(line) > 0 {
			var v uint32
			for i := range 4 {
				v <<= 8
				if i < len(line) {
					v |= uint32(line[i])
				}
			}
			var digits [5]byte
			for i := 4; i >= 0; i-- {
				digits[i] = patch.Base85[v%85]
				v /= 85
			}
			w.Write(digits[:])
			line = line[min(4, len(line)):]
		}
		w.WriteByte('\n')
	}
	return w.WriteByte('\n')
}
