package mutate

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A tree remembers how the shadow was, so that what the tests leave behind is
// not taken for part of the candidate's change.
type tree struct {
	root    string
	entries map[string]entry // by slash path
}

type entry struct {
	mode     fs.FileMode
	size     int64
	modified time.Time
	content  []byte
	kept     bool // content is the file's
}

const (
	keepFile = 1 << 20  // the largest file that can be put back
	keepTree = 96 << 20 // all of them
)

// remember reads the tree below root. A `.git` is never part of a change and is
// left alone.
func remember(root string) (*tree, error) {
	t := &tree{root: root, entries: map[string]entry{}}
	total := int64(0)
	err := t.walk(func(name string, info fs.FileInfo) error {
		e := entry{mode: info.Mode(), size: info.Size(), modified: info.ModTime()}
		if e.mode.IsRegular() && e.size <= keepFile && total+e.size <= keepTree {
			b, err := os.ReadFile(t.abs(name))
			if err != nil && !errors.Is(err, fs.ErrPermission) {
				return err
			}
			e.content, e.kept = b, err == nil
			total += e.size
		}
		t.entries[name] = e
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	return t, nil
}

func (t *tree) abs(name string) string { return filepath.Join(t.root, filepath.FromSlash(name)) }

func (t *tree) walk(visit func(name string, info fs.FileInfo) error) error {
	return filepath.WalkDir(t.root, func(p string, d fs.DirEntry, err error) error {
		if p == t.root {
			return err
		}
		if d != nil && d.Name() == ".git" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(t.root, p)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(rel), info)
	})
}

// restore removes what is new and puts back what changed, except the paths in
// but. It returns the paths that it could not put back.
func (t *tree) restore(but ...string) (lost []string, err error) {
	seen := map[string]bool{}
	var added []string
	err = t.walk(func(name string, info fs.FileInfo) error {
		was, ok := t.entries[name]
		if !ok || was.mode.Type() != info.Mode().Type() {
			added = append(added, name)
			if info.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		seen[name] = true
		if slices.Contains(but, name) {
			return nil
		}
		if was.mode.IsRegular() && (info.Size() != was.size || !info.ModTime().Equal(was.modified)) {
			if !t.rewrite(name, was) {
				lost = append(lost, name)
			}
		}
		if info.Mode() != was.mode && was.mode.Type()&fs.ModeSymlink == 0 {
			return os.Chmod(t.abs(name), was.mode.Perm())
		}
		return nil
	})
	if err != nil {
		return lost, fmt.Errorf("restore the tree: %w", err)
	}
	for _, name := range added {
		if err := os.RemoveAll(t.abs(name)); err != nil {
			return lost, fmt.Errorf("restore the tree: %w", err)
		}
	}
	var missing []string
	for name := range t.entries {
		if !seen[name] {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing) // a directory before what is in it
	for _, name := range missing {
		was := t.entries[name]
		if was.mode.IsDir() {
			if os.Mkdir(t.abs(name), was.mode.Perm()) != nil {
				lost = append(lost, name)
			}
		} else if !t.rewrite(name, was) {
			lost = append(lost, name)
		}
	}
	return lost, nil
}

// rewrite puts a file's content and time back and reports whether it could.
func (t *tree) rewrite(name string, was entry) bool {
	if !was.kept {
		return false
	}
	now, err := os.ReadFile(t.abs(name))
	if err != nil || !bytes.Equal(now, was.content) {
		if os.WriteFile(t.abs(name), was.content, was.mode.Perm()) != nil {
			return false
		}
	}
	return os.Chtimes(t.abs(name), time.Time{}, was.modified) == nil
}

// sources are the files that may be read for edits and tests, in order.
func (t *tree) sources() []string {
	var names []string
	for name, e := range t.entries {
		if !e.kept || e.size > 256<<10 || languageOf(name) == nil || bytes.IndexByte(e.content, 0) >= 0 {
			continue
		}
		if slices.ContainsFunc(strings.Split(path.Dir(name), "/"), isVendored) {
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func isVendored(dir string) bool {
	switch dir {
	case "node_modules", "vendor", "third_party", "venv", "site-packages", "dist", "build", "target", "__pycache__":
		return true
	}
	return len(dir) > 1 && dir[0] == '.'
}

// matchGlob matches a slash path against a glob in the manner of an ignore
// file: without a slash at any depth, ** for any number of directories, and a
// directory covers what is in it.
func matchGlob(pattern, name string) bool {
	pattern = strings.TrimSuffix(pattern, "/")
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	ps, ns := strings.Split(strings.TrimPrefix(pattern, "/"), "/"), strings.Split(name, "/")
	return matchParts(ps, ns)
}

func matchParts(ps, ns []string) bool {
	if len(ps) == 0 {
		return true
	}
	if ps[0] == "**" {
		for i := 0; i <= len(ns); i++ {
			if matchParts(ps[1:], ns[i:]) {
				return len(ps) > 1 || len(ns) > 0
			}
		}
		return false
	}
	if len(ns) == 0 {
		return false
	}
	ok, _ := path.Match(ps[0], ns[0])
	return ok && matchParts(ps[1:], ns[1:])
}
