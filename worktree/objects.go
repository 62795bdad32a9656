package worktree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	mu     sync.Mutex
	stores []*filesystem.ObjectStorage
	dirs   []string
	dirty  []dirtyPath // the base's edits over its commit, in the order of paths
}

// open adds a directory laid out as a .git directory with objects in it.
func (o *Objects) open(dir string) *filesystem.ObjectStorage {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, d := range o.dirs {
		if d == dir {
			return o.stores[i]
		}
	}
	s := filesystem.NewObjectStorage(dotgit.New(osfs.New(dir, osfs.WithBoundOS())), cache.NewObjectLRU(8<<20))
	o.stores = append(o.stores, s)
	o.dirs = append(o.dirs, dir)
	return s
}

// reopen makes what was packed in a directory since it was opened known.
func (o *Objects) reopen(dir string) {
	s := o.open(dir)
	o.mu.Lock()
	defer o.mu.Unlock()
	s.Reindex()
}

func (o *Objects) find(id oid) (plumbing.EncodedObject, error) {
	for i := len(o.stores) - 1; i >= 0; i-- {
		obj, err := o.stores[i].EncodedObject(plumbing.AnyObject, id)
		if err == nil {
			return obj, nil
		}
		if !errors.Is(err, plumbing.ErrObjectNotFound) {
			return nil, fmt.Errorf("read object %s: %w", id, err)
		}
	}
	return nil, fmt.Errorf("read object %s: %w", id, plumbing.ErrObjectNotFound)
}

// read returns at most max bytes of an object, and its whole size.
func (o *Objects) read(id oid, t plumbing.ObjectType, max int64) (data []byte, size int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	obj, err := o.find(id)
	if err != nil {
		return nil, 0, err
	}
	if obj.Type() != t {
		return nil, 0, fmt.Errorf("read object %s: it is a %s, not a %s", id, obj.Type(), t)
	}
	r, err := obj.Reader()
	if err != nil {
		return nil, 0, fmt.Errorf("read object %s: %w", id, err)
	}
	defer r.Close()
	if data, err = io.ReadAll(io.LimitReader(r, max)); err != nil {
		return nil, 0, fmt.Errorf("read object %s: %w", id, err)
	}
	return data, obj.Size(), nil
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
