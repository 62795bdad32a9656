package compare

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"

	"github.com/bestof-dev/bestof/orchestrator/record"
)

// Limits beyond which the lines of a file are not compared.
const (
	MaxBytes = 1 << 20
	MaxLines = 20_000
)

// Git's spelling of the mode of a symbolic link; the content of its blob is
// the target.
const linkMode = "120000"

// Blobs reads one blob by its id. It is asked for each blob at most once per
// Diff; a blob longer than MaxBytes may be cut to MaxBytes+1 bytes.
type Blobs func(id string) ([]byte, error)

// A Side is one file of a pair.
type Side struct {
	Path string
	Mode string // git's octal mode, "" where the file is absent
	Blob string // id, "" where the file is absent
}

// A Pair is a file of two trees that differs between them.
type Pair struct {
	Old, New Side
	Binary   bool // the record says so
}

// Status is added, deleted, modified, mode, type or renamed.
func (p Pair) Status() string {
	switch {
	case p.Old.Mode == "":
		return "added"
	case p.New.Mode == "":
		return "deleted"
	case p.Old.Path != p.New.Path:
		return "renamed"
	case (p.Old.Mode == linkMode) != (p.New.Mode == linkMode):
		return "type"
	case p.Old.Blob == p.New.Blob:
		return "mode"
	default:
		return "modified"
	}
}

// Path is the name the file is listed under: the newer one.
func (p Pair) Path() string {
	if p.New.Mode == "" {
		return p.Old.Path
	}
	return p.New.Path
}

// Pairs lists the files that differ between the trees of two candidates, sorted
// by path; 0 stands for the base. A file that moved without a change of its
// content is one pair.
func Pairs(doc record.Document, from, to int) ([]Pair, error) {
	a, err := changed(doc, from)
	if err != nil {
		return nil, err
	}
	b, err := changed(doc, to)
	if err != nil {
		return nil, err
	}
	var out []Pair
	add := func(path string, old, new Side, binary bool) {
		if old.Mode != new.Mode || old.Blob != new.Blob {
			old.Path, new.Path = path, path
			out = append(out, Pair{Old: old, New: new, Binary: binary})
		}
	}
	for path, fa := range a {
		// Where the other tree did not touch the file, it has the base's.
		other, binary := oldSide(fa), fa.Binary
		if fb, ok := b[path]; ok {
			other, binary = newSide(fb), fa.Binary || fb.Binary
		}
		add(path, newSide(fa), other, binary)
	}
	for path, fb := range b {
		if _, ok := a[path]; !ok {
			add(path, oldSide(fb), newSide(fb), fb.Binary)
		}
	}
	out = joinMoves(out)
	slices.SortFunc(out, func(x, y Pair) int { return cmp.Compare(x.Path(), y.Path()) })
	return out, nil
}

func changed(doc record.Document, number int) (map[string]record.FileChange, error) {
	out := map[string]record.FileChange{}
	if number == 0 {
		return out, nil
	}
	i := slices.IndexFunc(doc.Candidates, func(c record.Candidate) bool { return c.Number == number })
	if i < 0 {
		return nil, fmt.Errorf("run %s has no candidate %d", doc.Run, number)
	}
	if c := doc.Candidates[i].Change; c != nil {
		for _, f := range c.Files {
			out[string(f.Path)] = f
		}
	}
	return out, nil
}

func oldSide(f record.FileChange) Side { return sideOf(f.OldMode, f.Old) }
func newSide(f record.FileChange) Side { return sideOf(f.NewMode, f.New) }

// sideOf also takes git's own spelling of an absent file, a mode of zeros.
func sideOf(mode, blob string) Side {
	if strings.Trim(mode, "0") == "" {
		return Side{}
	}
	return Side{Mode: mode, Blob: blob}
}

// joinMoves makes one pair of a deletion and an addition of the same content,
// where there is exactly one of each.
func joinMoves(ps []Pair) []Pair {
	type sides struct{ gone, came []int }
	by := map[string]*sides{}
	for i, p := range ps {
		blob := cmp.Or(p.Old.Blob, p.New.Blob)
		if by[blob] == nil {
			by[blob] = &sides{}
		}
		switch p.Status() {
		case "deleted":
			by[blob].gone = append(by[blob].gone, i)
		case "added":
			by[blob].came = append(by[blob].came, i)
		}
	}
	drop := map[int]bool{}
	for blob, s := range by {
		if blob != "" && len(s.gone) == 1 && len(s.came) == 1 {
			ps[s.came[0]].Old = ps[s.gone[0]].Old
			drop[s.gone[0]] = true
		}
	}
	var out []Pair
	for i, p := range ps {
		if !drop[i] {
			out = append(out, p)
		}
	}
	return out
}

// A FileDiff is a pair with its lines compared.
type FileDiff struct {
	Pair
	Added, Deleted   int    // lines
	OldText, NewText string // for highlighting; "" when there are no hunks
	Hunks            []Hunk
	Omitted          string // why there are no hunks although the content differs: "binary", "too large: …", "unreadable: …"
	OldSize, NewSize int    // bytes; of a cut blob what was read
}

// A Hunk is neighbouring changes with the lines around them. Starts count from
// 1, and are 0 where the side has no line at all, as in git.
type Hunk struct {
	OldStart, OldLines int
	NewStart, NewLines int
	Rows               []Row
}

// A RowKind says which sides of a row are filled.
type RowKind uint8

// The kinds of a row.
const (
	Equal  RowKind = iota // both, the same
	Change                // both, different
	Delete                // only Old
	Insert                // only New
)

// A Row is one row side by side. For a unified view, all the old lines of a run
// of rows that are not Equal precede the new ones.
type Row struct {
	Kind     RowKind
	Old, New Line
}

// A Line is one line of one side.
type Line struct {
	Number int    // from 1; 0 is no line
	Text   string // without its end
	Marks  []Span // what differs from the line beside it
	NoEOL  bool   // the file ends here without a newline
	CR     bool   // the line ended in CR LF; Text holds neither
}

// A Span is a range of bytes of a line.
type Span struct{ Start, End int }

// Diff compares the lines of a pair, with context lines around each change.
func Diff(p Pair, read Blobs, context int) FileDiff {
	d := FileDiff{Pair: p}
	old, err := side(p.Old, read)
	if err == nil && p.Old.Blob == p.New.Blob {
		d.OldSize, d.NewSize = len(old), len(old)
		return d // mode or name only
	}
	var new []byte
	if err == nil {
		new, err = side(p.New, read)
	}
	d.OldSize, d.NewSize = len(old), len(new)
	switch {
	case err != nil:
		d.Omitted = "unreadable: " + err.Error()
		return d
	case p.Binary || bytes.IndexByte(old, 0) >= 0 || bytes.IndexByte(new, 0) >= 0:
		d.Omitted = "binary"
		return d
	case len(old) > MaxBytes || len(new) > MaxBytes:
		d.Omitted = fmt.Sprintf("too large: more than %d bytes", MaxBytes)
		return d
	case bytes.Count(old, []byte("\n")) > MaxLines || bytes.Count(new, []byte("\n")) > MaxLines:
		d.Omitted = fmt.Sprintf("too large: more than %d lines", MaxLines)
		return d
	}
	d.OldText, d.NewText = string(old), string(new)
	a, b := splitLines(d.OldText), splitLines(d.NewText)
	edits := lineEdits(a, b)
	for _, e := range edits {
		d.Deleted += e.End - e.Start
		d.Added += e.ReplEnd - e.ReplStart
	}
	d.Hunks = hunks(a, b, edits, context)
	return d
}

// Diffs compares one pair after another, as they are asked for.
func Diffs(ps []Pair, read Blobs, context int) iter.Seq[FileDiff] {
	return func(yield func(FileDiff) bool) {
		for _, p := range ps {
			if !yield(Diff(p, read, context)) {
				return
			}
		}
	}
}

func side(s Side, read Blobs) ([]byte, error) {
	if s.Mode == "" || s.Blob == "" {
		return nil, nil
	}
	return read(s.Blob)
}

// splitLines keeps the ends of the lines, so that a missing one is a
// difference.
func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	lines := strings.SplitAfter(s, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// lineEdits is lcs.DiffLines without its limit: that gives up after some fifty
// differences and calls all the rest one replacement, so what it calls a
// replacement is compared again for as long as this gets smaller.
func lineEdits(a, b []string) []lcs.Diff {
	var out []lcs.Diff
	for todo := []lcs.Diff{{End: len(a), ReplEnd: len(b)}}; len(todo) > 0; {
		t := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		var parts []lcs.Diff
		for _, d := range lcs.DiffLines(a[t.Start:t.End], b[t.ReplStart:t.ReplEnd]) {
			parts = append(parts, lcs.Diff{
				Start: t.Start + d.Start, End: t.Start + d.End,
				ReplStart: t.ReplStart + d.ReplStart, ReplEnd: t.ReplStart + d.ReplEnd,
			})
		}
		if len(parts) == 1 && parts[0] == t {
			out = append(out, t)
			continue
		}
		slices.Reverse(parts) // the stack hands them out in order
		todo = append(todo, parts...)
	}
	return out
}

func hunks(a, b []string, edits []lcs.Diff, context int) []Hunk {
	var out []Hunk
	for i := 0; i < len(edits); {
		j := i + 1
		for j < len(edits) && edits[j].Start-edits[j-1].End <= 2*context {
			j++
		}
		first, last := edits[i], edits[j-1]
		before := min(context, first.Start)
		after := min(context, len(a)-last.End)
		h := Hunk{
			OldLines: last.End + after - first.Start + before,
			NewLines: last.ReplEnd + after - first.ReplStart + before,
			OldStart: first.Start - before, NewStart: first.ReplStart - before,
		}
		x, y := h.OldStart, h.NewStart
		equal := func(until int) {
			for ; x < until; x, y = x+1, y+1 {
				h.Rows = append(h.Rows, Row{Equal, line(a, x), line(b, y)})
			}
		}
		for _, e := range edits[i:j] {
			equal(e.Start)
			h.Rows = append(h.Rows, replace(a, b, e)...)
			x, y = e.End, e.ReplEnd
		}
		equal(last.End + after)
		if h.OldLines > 0 {
			h.OldStart++
		}
		if h.NewLines > 0 {
			h.NewStart++
		}
		out = append(out, h)
		i = j
	}
	return out
}

func replace(a, b []string, e lcs.Diff) []Row {
	var out []Row
	x, y := e.Start, e.ReplStart
	for ; x < e.End && y < e.ReplEnd; x, y = x+1, y+1 {
		r := Row{Change, line(a, x), line(b, y)}
		r.Old.Marks, r.New.Marks = words(r.Old.Text, r.New.Text)
		out = append(out, r)
	}
	for ; x < e.End; x++ {
		out = append(out, Row{Kind: Delete, Old: line(a, x)})
	}
	for ; y < e.ReplEnd; y++ {
		out = append(out, Row{Kind: Insert, New: line(b, y)})
	}
	return out
}

func line(lines []string, i int) Line {
	text, ended := strings.CutSuffix(lines[i], "\n")
	text, cr := strings.CutSuffix(text, "\r")
	if !ended && cr {
		text, cr = text+"\r", false
	}
	return Line{Number: i + 1, Text: text, NoEOL: !ended, CR: cr}
}
