package worktree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"

	"github.com/bestof-dev/bestof/internal/wordform"
)

// Diff is the change from one sealed tree to another.
func (o *Objects) Diff(ctx context.Context, base, tree TreeID) (Change, error) {
	a, err := parseOID(string(base))
	if err != nil {
		return Change{}, fmt.Errorf("diff: %w", err)
	}
	b, err := parseOID(string(tree))
	if err != nil {
		return Change{}, fmt.Errorf("diff: %w", err)
	}
	c := Change{Base: base, Tree: tree}
	if err := o.diffTrees(ctx, "", a, b, &c.Files); err != nil {
		return Change{}, fmt.Errorf("diff: %w", err)
	}
	slices.SortFunc(c.Files, func(x, y FileChange) int { return bytes.Compare([]byte(x.Path), []byte(y.Path)) })
	if err := o.count(ctx, &c, nil); err != nil {
		return Change{}, fmt.Errorf("diff: %w", err)
	}
	return c, nil
}

// pairs calls f for the items of two trees, joined by name; one side is zero
// where a name is absent. As git does, a file and a directory of one name are
// two items with that name on either side.
func pairs(as, bs []treeItem, f func(a, b treeItem) error) error {
	for len(as) > 0 || len(bs) > 0 {
		var a, b treeItem
		switch {
		case len(bs) == 0 || (len(as) > 0 && treeKey(as[0]) < treeKey(bs[0])):
			a, as = as[0], as[1:]
		case len(as) == 0 || treeKey(bs[0]) < treeKey(as[0]):
			b, bs = bs[0], bs[1:]
		default:
			a, b, as, bs = as[0], bs[0], as[1:], bs[1:]
		}
		if err := f(a, b); err != nil {
			return err
		}
	}
	return nil
}

func (o *Objects) diffTrees(ctx context.Context, dir string, a, b oid, out *[]FileChange) error {
	if a == b {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	as, err := o.tree(a)
	if err != nil {
		return err
	}
	bs, err := o.tree(b)
	if err != nil {
		return err
	}
	return pairs(as, bs, func(x, y treeItem) error {
		path := dir + x.name
		if x.name == "" {
			path = dir + y.name
		}
		if x.mode == modeDir || y.mode == modeDir {
			return o.diffTrees(ctx, path+"/", x.id, y.id, out)
		}
		if x.mode == y.mode && x.id == y.id {
			return nil
		}
		f := FileChange{Path: path, OldMode: x.mode, NewMode: y.mode}
		if x.mode != ModeNone {
			f.Old = x.id.String()
		}
		if y.mode != ModeNone {
			f.New = y.id.String()
		}
		*out = append(*out, f)
		return nil
	})
}

// sides returns what a file was and is.
func (o *Objects) sides(f FileChange) (old, new []byte, err error) {
	for _, side := range []struct {
		id string
		to *[]byte
	}{{f.Old, &old}, {f.New, &new}} {
		if side.id == "" {
			continue
		}
		id, err := parseOID(side.id)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		if *side.to, err = o.blob(id); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return old, new, nil
}

// count fills in the number of lines and the normalised key. Contents that
// are at hand, by id, need not be read.
func (o *Objects) count(ctx context.Context, c *Change, fresh map[string][]byte) error {
	key := sha256.New()
	for i := range c.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		f := &c.Files[i]
		new, known := fresh[f.New]
		side := *f
		if known {
			side.New = ""
		}
		old, read, err := o.sides(side)
		if err != nil {
			return err
		}
		if !known {
			new = read
		}
		f.Binary = isBinary(old) || isBinary(new)
		if !f.Binary && f.Old != f.New {
			if f.Status() == "type" {
				f.Deleted, f.Added = len(splitLines(old)), len(splitLines(new))
			} else {
				for _, e := range diffLines(splitLines(old), splitLines(new)) {
					f.Deleted += e.a1 - e.a0
					f.Added += e.b1 - e.b0
				}
			}
		}
		c.Added += f.Added
		c.Deleted += f.Deleted
		normalise(key, *f, new)
	}
	c.Normalised = hex.EncodeToString(key.Sum(nil))
	return nil
}

// normalise adds a file to the key under which changes that differ only in
// white space are equal: the words of the new content, not their distances but
// for that from the left in languages where it means something. A file whose
// words are those of before still differs from no change.
func normalise(key hash.Hash, f FileChange, new []byte) {
	fmt.Fprintf(key, "%q %o %o %t\n", f.Path, f.OldMode, f.NewMode, f.Binary)
	if f.Binary || f.NewMode == ModeLink {
		fmt.Fprintf(key, "%s\n", f.New)
		return
	}
	words := sha256.New()
	wordform.Put(f.Path, new, func(part []byte) {
		words.Write(part)
		words.Write([]byte{' '})
	})
	fmt.Fprintf(key, "%x\n", words.Sum(nil))
}

// isBinary is git's rule: a NUL byte near the beginning.
func isBinary(b []byte) bool { return bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 }

// splitLines cuts after each line feed; a last line may lack one.
func splitLines(b []byte) [][]byte {
	var lines [][]byte
	for len(b) > 0 {
		n := bytes.IndexByte(b, '\n') + 1
		if n == 0 {
			n = len(b)
		}
		lines = append(lines, b[:n:n])
		b = b[n:]
	}
	return lines
}
