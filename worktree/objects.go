package worktree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/internal/bytestring"
)

// maxBlob bounds what is held of one object in memory.
const maxBlob = 1 << 30

// Objects reads the trees and blobs of a base and of what was sealed from its
// shadows, or those that Keep wrote. It may be used concurrently.
type Objects struct {
	mu    sync.Mutex
	dirs  []*objectDir
	dirty []dirtyPath // the base's edits over its commit, in the order of paths
}

// An objectDir is a directory laid out as a .git directory with objects in it.
type objectDir struct {
	path  string
	packs []*pack
	loose *filesystem.ObjectStorage
}

// open adds a directory.
func (o *Objects) open(dir string) *filesystem.ObjectStorage {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range o.dirs {
		if d.path == dir {
			return d.loose
		}
	}
	s := filesystem.NewObjectStorage(dotgit.New(osfs.New(dir, osfs.WithBoundOS())), cache.NewObjectLRU(8<<20))
	o.dirs = append(o.dirs, &objectDir{path: dir, loose: s})
	return s
}

// reopen makes what was packed in a directory since it was opened known.
func (o *Objects) reopen(dir string) { o.open(dir) } // a pack is looked for when an object is missed

// packed is the pack that has an object, and where. It looks for new packs
// when none that is known has it.
func (o *Objects) packed(id oid) (*pack, int64, error) {
	for again := range 2 {
		for _, d := range o.dirs {
			if again > 0 {
				if err := d.scan(); err != nil {
					return nil, 0, err
				}
			}
			for _, p := range d.packs {
				if off, ok := p.index.find(id); ok {
					return p, off, nil
				}
			}
		}
	}
	return nil, 0, nil
}

// scan finds packs that came and went.
func (d *objectDir) scan() error {
	names, err := os.ReadDir(filepath.Join(d.path, "objects/pack"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	known := make(map[string]*pack)
	for _, p := range d.packs {
		known[p.path] = p
	}
	d.packs = nil
	for _, n := range names {
		path := filepath.Join(d.path, "objects/pack", n.Name())
		if !strings.HasSuffix(path, ".pack") {
			continue
		}
		p := known[path]
		if p == nil {
			if p, err = openPack(path); errors.Is(err, fs.ErrNotExist) {
				continue
			} else if err != nil {
				return err
			}
		}
		d.packs = append(d.packs, p)
	}
	return nil
}

// read returns at most max bytes of an object, and its whole size.
func (o *Objects) read(id oid, t plumbing.ObjectType, max int64) (data []byte, size int64, err error) {
	fail := func(err error) ([]byte, int64, error) { return nil, 0, fmt.Errorf("read object %s: %w", id, err) }
	var got packedObject
	for {
		o.mu.Lock()
		p, off, err := o.packed(id)
		o.mu.Unlock()
		if err != nil {
			return fail(err)
		}
		if p == nil {
			got, size, err = o.unpacked(id, max)
		} else if got, size, err = p.read(id, off, max); errors.Is(err, fs.ErrNotExist) {
			o.forget(p) // with a run that is gone
			continue
		}
		if err != nil {
			return fail(err)
		}
		break
	}
	if got.kind != t {
		return fail(fmt.Errorf("it is a %s, not a %s", got.kind, t))
	}
	return got.data, size, nil
}

func (o *Objects) forget(p *pack) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range o.dirs {
		d.packs = slices.DeleteFunc(d.packs, func(q *pack) bool { return p == q })
	}
}

// unpacked reads an object that has a file of its own.
func (o *Objects) unpacked(id oid, max int64) (got packedObject, size int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range slices.Backward(o.dirs) {
		obj, err := d.loose.EncodedObject(plumbing.AnyObject, id)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			continue
		}
		if err != nil {
			return got, 0, err
		}
		r, err := obj.Reader()
		if err != nil {
			return got, 0, err
		}
		defer r.Close()
		got.kind = obj.Type()
		got.data, err = io.ReadAll(io.LimitReader(r, max))
		return got, obj.Size(), err
	}
	return got, 0, plumbing.ErrObjectNotFound
}

// blob is the whole content of a blob.
func (o *Objects) blob(id oid) ([]byte, error) {
	data, size, err := o.read(id, plumbing.BlobObject, maxBlob)
	if err == nil && size > maxBlob {
		err = fmt.Errorf("read object %s: %d bytes are too many", id, size)
	}
	return data, err
}

// tree is the content of a tree.
func (o *Objects) tree(id oid) ([]treeItem, error) {
	if id == emptyTree || id.IsZero() {
		return nil, nil
	}
	data, _, err := o.read(id, plumbing.TreeObject, maxBlob)
	if err != nil {
		return nil, err
	}
	items, err := parseTree(data)
	if err != nil {
		return nil, fmt.Errorf("tree %s: %w", id, err)
	}
	return items, nil
}

// Blob returns at most max bytes of a blob and whether that is less than all.
func (o *Objects) Blob(id string, max int64) (data []byte, truncated bool, err error) {
	h, err := parseOID(id)
	if err != nil {
		return nil, false, err
	}
	data, size, err := o.read(h, plumbing.BlobObject, max)
	return data, size > int64(len(data)), err
}

// put writes an object into a store made by open, unless it has it.
func put(s *filesystem.ObjectStorage, t plumbing.ObjectType, content []byte) (oid, error) {
	id := hashObject(t, content)
	if s.HasEncodedObject(id) == nil {
		return id, nil
	}
	obj := s.NewEncodedObject()
	obj.SetType(t)
	obj.SetSize(int64(len(content)))
	w, err := obj.Writer()
	if err != nil {
		return id, err
	}
	if _, err := w.Write(content); err != nil {
		return id, err
	}
	if err := w.Close(); err != nil {
		return id, err
	}
	got, err := s.SetEncodedObject(obj)
	if err != nil {
		return id, fmt.Errorf("write object %s: %w", id, err)
	}
	if got != id {
		return id, fmt.Errorf("write object %s: its id came out as %s", id, got)
	}
	return id, nil
}

// A dirtyPath is one of the user's uncommitted edits in a base. Adopting onto
// a branch commits them first.
type dirtyPath struct {
	Path bytestring.String `json:"path"`
	Mode Mode              `json:"mode"` // ModeNone when the file is deleted
	ID   string            `json:"id"`
}

// dirtyFile holds the edits, in a directory that Keep wrote.
const dirtyFile = "uncommitted.json"

// OpenObjects opens what Keep wrote.
func OpenObjects(dir string) (*Objects, error) {
	if _, err := os.Stat(filepath.Join(dir, "objects")); err != nil {
		return nil, fmt.Errorf("open kept objects: %w", err)
	}
	o := &Objects{}
	o.open(dir)
	b, err := os.ReadFile(filepath.Join(dir, dirtyFile))
	if err == nil {
		err = json.Unmarshal(b, &o.dirty)
	}
	if err != nil {
		return nil, fmt.Errorf("open kept objects: %w", err)
	}
	return o, nil
}

// Keep writes the objects that showing and adopting c needs into dir, so that
// OpenObjects finds them there when base and run are gone.
func (o *Objects) Keep(ctx context.Context, dir string, c Change) error {
	if err := os.MkdirAll(filepath.Join(dir, "objects"), 0o755); err != nil {
		return fmt.Errorf("keep objects: %w", err)
	}
	to := (&Objects{}).open(dir)
	copyObject := func(id oid, t plumbing.ObjectType) error {
		data, size, err := o.read(id, t, maxBlob)
		if err == nil && size > int64(len(data)) {
			err = fmt.Errorf("object %s: %d bytes are too many", id, size)
		}
		if err == nil {
			_, err = put(to, t, data)
		}
		return err
	}
	for _, f := range c.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, hex := range []string{f.Old, f.New} {
			if hex == "" {
				continue
			}
			id, err := parseOID(hex)
			if err != nil {
				return fmt.Errorf("keep objects: %w", err)
			}
			if err := copyObject(id, plumbing.BlobObject); err != nil {
				return fmt.Errorf("keep objects: %s: %w", f.Path, err)
			}
		}
	}
	base, err := parseOID(string(c.Base))
	if err != nil {
		return fmt.Errorf("keep objects: %w", err)
	}
	tree, err := parseOID(string(c.Tree))
	if err != nil {
		return fmt.Errorf("keep objects: %w", err)
	}
	if err := o.eachTree(base, tree, func(id oid) error { return copyObject(id, plumbing.TreeObject) }); err != nil {
		return fmt.Errorf("keep objects: %w", err)
	}
	for _, d := range o.dirty {
		if d.Mode == ModeNone {
			continue
		}
		id, err := parseOID(d.ID)
		if err == nil {
			err = copyObject(id, plumbing.BlobObject)
		}
		if err != nil {
			return fmt.Errorf("keep objects: %s: %w", d.Path, err)
		}
	}
	b, err := json.Marshal(append([]dirtyPath{}, o.dirty...))
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, dirtyFile), b, 0o644)
	}
	if err != nil {
		return fmt.Errorf("keep objects: %w", err)
	}
	return nil
}

// eachTree calls f for every tree that reading the difference of a and b
// reads.
func (o *Objects) eachTree(a, b oid, f func(oid) error) error {
	if a == b {
		return nil
	}
	as, err := o.tree(a)
	if err != nil {
		return err
	}
	bs, err := o.tree(b)
	if err != nil {
		return err
	}
	for _, id := range []oid{a, b} {
		if id != emptyTree && !id.IsZero() {
			if err := f(id); err != nil {
				return err
			}
		}
	}
	return pairs(as, bs, func(x, y treeItem) error {
		var xd, yd oid
		if x.mode == modeDir {
			xd = x.id
		}
		if y.mode == modeDir {
			yd = y.id
		}
		return o.eachTree(xd, yd, f)
	})
}
