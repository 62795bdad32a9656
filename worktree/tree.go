package worktree

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// An oid is a git object id of the host's own stores, which are SHA-1
// whatever the user's repository uses.
type oid = plumbing.Hash

// An entry is one file of a tree.
type entry struct {
	path string
	mode Mode
	id   oid
	size int64
}

func compareEntries(a, b entry) int { return cmp.Compare(a.path, b.path) }

// hashObject is the id of an object.
func hashObject(t plumbing.ObjectType, content []byte) oid {
	h := sha1.New()
	h.Write(strconv.AppendInt([]byte(t.String()+" "), int64(len(content)), 10))
	h.Write([]byte{0})
	h.Write(content)
	return oid(h.Sum(nil))
}

var emptyTree = hashObject(plumbing.TreeObject, nil)

// parseOID reads the hex form strictly.
func parseOID(s string) (oid, error) {
	var id oid
	if len(s) == 2*len(id) && !strings.ContainsAny(s, "ABCDEF") {
		if _, err := hex.Decode(id[:], []byte(s)); err == nil {
			return id, nil
		}
	}
	return oid{}, fmt.Errorf("%.80q is not an object id", s)
}

// A dirID remembers the tree of a directory, so that what did not change need
// not be built again.
type treeBuilder struct {
	known func(dir string) (oid, bool) // the tree of an unchanged directory; may be nil
	emit  func(dir string, id oid, content []byte) error
}

// build makes the tree of entries, which are sorted by path and all below dir.
func (b *treeBuilder) build(dir string, entries []entry) (oid, error) {
	if b.known != nil {
		if id, ok := b.known(dir); ok {
			return id, nil
		}
	}
	skip := 0
	if dir != "" {
		skip = len(dir) + 1
	}
	var content bytes.Buffer
	for i := 0; i < len(entries); {
		name := entries[i].path[skip:]
		mode, id, next := uint32(entries[i].mode), entries[i].id, i+1
		if slash := strings.IndexByte(name, '/'); slash >= 0 {
			name = name[:slash]
			prefix := entries[i].path[:skip+slash+1]
			// Everything with the prefix is adjacent in the order of paths.
			n, _ := slices.BinarySearchFunc(entries[i:], prefix, func(e entry, p string) int {
				if strings.HasPrefix(e.path, p) {
					return -1
				}
				return cmp.Compare(e.path, p)
			})
			next = i + n
			var err error
			if id, err = b.build(prefix[:len(prefix)-1], entries[i:next]); err != nil {
				return oid{}, err
			}
			mode = 0o40000
		}
		content.WriteString(strconv.FormatUint(uint64(mode), 8))
		content.WriteByte(' ')
		content.WriteString(name)
		content.WriteByte(0)
		content.Write(id[:])
		i = next
	}
	id := hashObject(plumbing.TreeObject, content.Bytes())
	if b.emit != nil {
		if err := b.emit(dir, id, content.Bytes()); err != nil {
			return oid{}, err
		}
	}
	return id, nil
}

// A treeItem is one line of a tree object.
type treeItem struct {
	name string
	mode Mode
	id   oid
}

const modeDir Mode = 0o40000

// parseTree reads a tree object strictly: no name may be empty, repeated, or
// hold a slash.
func parseTree(content []byte) ([]treeItem, error) {
	var items []treeItem
	for len(content) > 0 {
		space := bytes.IndexByte(content, ' ')
		null := bytes.IndexByte(content, 0)
		if space < 0 || null < space || len(content) < null+1+len(oid{}) {
			return nil, fmt.Errorf("malformed tree object")
		}
		mode, err := strconv.ParseUint(string(content[:space]), 8, 32)
		if err != nil {
			return nil, fmt.Errorf("malformed tree object: mode %.20q", content[:space])
		}
		item := treeItem{name: string(content[space+1 : null]), mode: Mode(mode), id: oid(content[null+1 : null+1+len(oid{})])}
		if item.name == "" || item.name == "." || item.name == ".." || strings.Contains(item.name, "/") {
			return nil, fmt.Errorf("malformed tree object: name %.80q", item.name)
		}
		if n := len(items); n > 0 && treeKey(items[n-1]) >= treeKey(item) {
			return nil, fmt.Errorf("malformed tree object: %.80q is out of order", item.name)
		}
		items = append(items, item)
		content = content[null+1+len(oid{}):]
	}
	return items, nil
}

// treeKey is what the items of a tree are ordered by.
func treeKey(i treeItem) string {
	if i.mode == modeDir {
		return i.name + "/"
	}
	return i.name
}
