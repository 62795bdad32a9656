package worktree

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
)

// renameLimits are what looking for similar files may cost. Beyond any of them
// only files of the same content are paired, and the result says so.
type renameLimits struct {
	pairs int   // of a file that went and one that came, close in size
	steps int   // of comparing
	file  int64 // bytes of one file; a larger one is paired only when it is the same
	all   int64 // bytes of all that are read
}

var defaultLimits = renameLimits{pairs: 1_000_000, steps: 1 << 28, file: 8 << 20, all: 64 << 20}

// Similarity is measured in parts of 60,000, as git does.
const (
	fullScore = 60_000
	minScore  = fullScore / 2
)

// Renames pairs files of a change that went and came: those of the same
// content, then those at least half of which is the same, the most similar
// first. The result is for people and for patches; it cannot be adopted. Of
// its files a renamed one has From and Similarity, and its lines are those
// that differ between the two; Normalised stays that of c. note is one
// sentence when similar files were not looked for, or not all of them.
func (o *Objects) Renames(ctx context.Context, c Change) (renamed Change, note string, err error) {
	return o.renames(ctx, c, defaultLimits)
}

func (o *Objects) renames(ctx context.Context, c Change, limits renameLimits) (renamed Change, note string, err error) {
	p := pairing{ctx: ctx, objects: o, limits: limits, taken: make(map[string]bool)}
	for _, f := range c.Files {
		switch f.Status() {
		case "deleted":
			p.gone = append(p.gone, f)
		case "added":
			p.came = append(p.came, f)
		}
	}
	p.same()
	note, err = p.similar()
	if err != nil {
		return Change{}, "", fmt.Errorf("find renames: %w", err)
	}
	moved := make(map[string]FileChange)
	for _, f := range p.made {
		if err := o.countOne(&f); err != nil {
			return Change{}, "", fmt.Errorf("find renames: %w", err)
		}
		moved[f.Path] = f
	}
	renamed = c
	renamed.Files, renamed.Added, renamed.Deleted = nil, 0, 0
	for _, f := range c.Files {
		if m, ok := moved[f.Path]; ok && f.Status() == "added" {
			f = m
		} else if f.Status() == "deleted" && p.taken["-"+f.Path] {
			continue
		}
		renamed.Files = append(renamed.Files, f)
		renamed.Added += f.Added
		renamed.Deleted += f.Deleted
	}
	return renamed, note, nil
}

// countOne counts the lines of a pair.
func (o *Objects) countOne(f *FileChange) error {
	f.Added, f.Deleted = 0, 0
	if f.Old == f.New {
		return nil
	}
	old, new, err := o.sides(*f)
	if err != nil {
		return err
	}
	if f.Binary = isBinary(old) || isBinary(new); !f.Binary {
		for _, e := range diffLines(splitLines(old), splitLines(new)) {
			f.Deleted += e.a1 - e.a0
			f.Added += e.b1 - e.b0
		}
	}
	return nil
}

// A pairing finds which files that went are those that came.
type pairing struct {
	ctx        context.Context
	objects    *Objects
	limits     renameLimits
	gone, came []FileChange
	taken      map[string]bool // "-" and the path of one that went, "+" and that of one that came
	made       []FileChange
	read       int64
	left       int // out for their size
}

func (p *pairing) pair(gone, came FileChange, score int) {
	p.taken["-"+gone.Path], p.taken["+"+came.Path] = true, true
	f := came
	f.From, f.Similarity = gone.Path, score*100/fullScore
	f.OldMode, f.Old = gone.OldMode, gone.Old
	p.made = append(p.made, f)
}

// same pairs files of one content, first those that also kept their last
// name. A link in whose place a directory comes has no pair: git apply sees
// that a link goes only where the patch states its mode, which a rename does
// not.
func (p *pairing) same() {
	dirs := make(map[string]bool)
	for _, c := range p.came {
		for d := path.Dir(c.Path); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	by := make(map[string][]FileChange)
	for _, g := range p.gone {
		if g.OldMode != ModeLink || !dirs[g.Path] {
			by[g.Old] = append(by[g.Old], g)
		}
	}
	for _, named := range []bool{true, false} {
		for _, c := range p.came {
			if p.taken["+"+c.Path] {
				continue
			}
			for _, g := range by[c.New] {
				links := g.OldMode == ModeLink || c.NewMode == ModeLink
				if p.taken["-"+g.Path] || links && g.OldMode != c.NewMode || named && path.Base(g.Path) != path.Base(c.Path) {
					continue
				}
				p.pair(g, c, fullScore)
				break
			}
		}
	}
}

// A measured file is one with the sizes of its pieces.
type measured struct {
	FileChange
	size  int64
	spans []span64
}

// similar pairs what is left by content.
func (p *pairing) similar() (note string, err error) {
	gone, err := p.measure(p.gone, "-")
	if err != nil {
		return "", err
	}
	came, err := p.measure(p.came, "+")
	if err != nil {
		return "", err
	}
	const exactOnly = "only renames of unchanged files were looked for: "
	if p.read > p.limits.all {
		return exactOnly + fmt.Sprintf("the files that went and came have more than %s", mebibytes(p.limits.all)), nil
	}
	slices.SortFunc(gone, func(a, b measured) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.Path, b.Path)) })
	pairs, steps := 0, 0
	for _, c := range came {
		for _, g := range closeIn(gone, c.size) {
			pairs++
			steps += len(g.spans) + len(c.spans)
		}
		if pairs > p.limits.pairs || steps > p.limits.steps {
			return exactOnly + fmt.Sprintf("%d files that went and %d that came would take too long to compare", len(gone), len(came)), nil
		}
	}
	if err := p.best(gone, came); err != nil {
		return "", err
	}
	if p.left > 0 {
		note = fmt.Sprintf("%d files larger than %s count as renamed only when they are unchanged", p.left, mebibytes(p.limits.file))
	}
	return note, nil
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// best pairs the most similar first; among equals, one that kept its last
// name.
func (p *pairing) best(gone, came []measured) error {
	type match struct {
		gone, came FileChange
		score      int
		named      bool
	}
	var found []match
	for _, c := range came {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		for _, g := range closeIn(gone, c.size) {
			if score := similarity(g, c); score >= minScore {
				found = append(found, match{g.FileChange, c.FileChange, score, path.Base(g.Path) == path.Base(c.Path)})
			}
		}
	}
	slices.SortFunc(found, func(a, b match) int {
		named := 0
		if a.named != b.named {
			named = 1
			if a.named {
				named = -1
			}
		}
		return cmp.Or(cmp.Compare(b.score, a.score), named, cmp.Compare(a.came.Path, b.came.Path), cmp.Compare(a.gone.Path, b.gone.Path))
	})
	for _, m := range found {
		if !p.taken["-"+m.gone.Path] && !p.taken["+"+m.came.Path] {
			p.pair(m.gone, m.came, m.score)
		}
	}
	return nil
}

// measure reads the regular files that have no pair yet, until there is too
// much to read. Empty ones are like nothing.
func (p *pairing) measure(files []FileChange, side string) ([]measured, error) {
	var out []measured
	for _, f := range files {
		mode, hex := max(f.OldMode, f.NewMode), cmp.Or(f.Old, f.New)
		if p.taken[side+f.Path] || mode == ModeLink || p.read > p.limits.all {
			continue
		}
		if err := p.ctx.Err(); err != nil {
			return nil, err
		}
		id, err := parseOID(hex)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", quote(f.Path), err)
		}
		data, size, err := p.objects.read(id, plumbing.BlobObject, p.limits.file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", quote(f.Path), err)
		}
		switch {
		case size > p.limits.file:
			p.left++
		case size > 0:
			p.read += size
			out = append(out, measured{f, size, spansOf(data)})
		}
	}
	return out, nil
}

// closeIn are those of sorted that are neither less than half as large as
// size nor more than twice as large.
func closeIn(sorted []measured, size int64) []measured {
	by := func(m measured, size int64) int { return cmp.Compare(m.size, size) }
	from, _ := slices.BinarySearchFunc(sorted, (size+1)/2, by)
	to, _ := slices.BinarySearchFunc(sorted, 2*size+1, by)
	return sorted[from:to]
}

// A span64 is how many bytes of a file are in pieces of one content.
type span64 struct {
	hash  uint64
	bytes int64
}

// spansOf cuts a file as git does to measure similarity: after each line feed
// and after 64 bytes. In text a carriage return before a line feed is not
// there.
func spansOf(data []byte) []span64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	text := !isBinary(data)
	var all []span64
	hash, n := uint64(offset), int64(0)
	for i, c := range data {
		if text && c == '\r' && bytes.HasPrefix(data[i+1:], []byte("\n")) {
			continue
		}
		hash = (hash ^ uint64(c)) * prime
		if n++; n < 64 && c != '\n' {
			continue
		}
		all = append(all, span64{hash, n})
		hash, n = offset, 0
	}
	if n > 0 {
		all = append(all, span64{hash, n})
	}
	slices.SortFunc(all, func(a, b span64) int { return cmp.Compare(a.hash, b.hash) })
	merged := all[:0]
	for _, s := range all {
		if last := len(merged) - 1; last >= 0 && merged[last].hash == s.hash {
			merged[last].bytes += s.bytes
		} else {
			merged = append(merged, s)
		}
	}
	return slices.Clone(merged) // of a repetitive file little is left
}

// similarity is how much of the larger file the other one has, in parts of
// fullScore.
func similarity(a, b measured) int {
	var both int64
	x, y := a.spans, b.spans
	for len(x) > 0 && len(y) > 0 {
		switch {
		case x[0].hash < y[0].hash:
			x = x[1:]
		case y[0].hash < x[0].hash:
			y = y[1:]
		default:
			both += min(x[0].bytes, y[0].bytes)
			x, y = x[1:], y[1:]
		}
	}
	return int(both * fullScore / max(a.size, b.size))
}
