package worktree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// What Left reads at most.
const (
	maxLeftNames = 100_000 // in one directory
	maxLeftFiles = 10_000
)

// CheckLeft says why a pattern is none for Forget and Left: each of its parts,
// between slashes, is one as of path.Match, and it leads into the tree.
func CheckLeft(pattern string) error {
	if pattern == "" || pattern == "." || path.Clean(pattern) != pattern || !filepath.IsLocal(pattern) || isOurs(pattern) || refusedName(pattern) != "" {
		return fmt.Errorf("%s: it is no path of a file below the directory of the test", quote(pattern))
	}
	for part := range strings.SplitSeq(pattern, "/") {
		if _, err := path.Match(part, ""); err != nil || strings.Contains(part, "**") {
			return fmt.Errorf("%s: %s is no pattern of a name: * stands for any, within one name", quote(pattern), quote(part))
		}
	}
	return nil
}

// Forget removes from a shadow, in which nothing runs, whatever a pattern of
// CheckLeft means. Links are not followed.
func (sh *Shadow) Forget(pattern string) error {
	if err := CheckLeft(pattern); err != nil {
		return err
	}
	root, err := sh.writable()
	if err != nil {
		return err
	}
	defer root.Close()
	tops := []string{sh.HostRoot()}
	if sh.kind == ShadowEngine {
		tops = []string{sh.entry.Upper, sh.entry.Lower}
	}
	for _, top := range tops {
		names, err := matching(top, pattern)
		if err != nil {
			return fmt.Errorf("remove what is at %s: %w", quote(pattern), err)
		}
		for _, name := range names {
			if err := root.RemoveAll(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove what is at %s: %w", quote(pattern), err)
			}
		}
	}
	return nil
}

// Left reads the regular files that a pattern means, in the order of their
// names, after whatever ran in the shadow ended. Together they may have max
// bytes. In the shadow's layers only what was written there is seen. Links are
// not followed.
func (sh *Shadow) Left(pattern string, max int64) ([][]byte, error) {
	if err := CheckLeft(pattern); err != nil {
		return nil, err
	}
	top := sh.HostRoot()
	if sh.kind == ShadowEngine {
		top = sh.entry.Upper
	}
	names, err := matching(top, pattern)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var all [][]byte
	for _, name := range names {
		data, err := readLeft(root, name, max)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", quote(name), err)
		}
		if data != nil {
			all = append(all, data)
			max -= int64(len(data))
		}
	}
	return all, nil
}

// readLeft reads a regular file; it is nil when it is none.
func readLeft(root *os.Root, name string, max int64) ([]byte, error) {
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(data)) > max {
		err = errors.New("there is more than may be read")
	}
	return slices.Grow(data, 1), err // not nil
}

// matching are the paths below a directory that a pattern means, sorted. What
// is not there means nothing.
func matching(top, pattern string) ([]string, error) {
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	found := []string{"."}
	for part := range strings.SplitSeq(pattern, "/") {
		var next []string
		for _, dir := range found {
			if info, err := root.Lstat(dir); err != nil || !info.IsDir() {
				continue
			}
			names, err := namesIn(root, dir, part)
			if err != nil {
				return nil, err
			}
			if next = append(next, names...); len(next) > maxLeftFiles {
				return nil, fmt.Errorf("more than %d files", maxLeftFiles)
			}
		}
		found = next
	}
	slices.Sort(found)
	return found, nil
}

// namesIn are the paths of those names in a directory that match.
func namesIn(root *os.Root, dir, part string) ([]string, error) {
	if !strings.ContainsAny(part, `*?[\`) {
		name := path.Join(dir, part)
		if _, err := root.Lstat(name); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			}
			return nil, err
		}
		return []string{name}, nil
	}
	f, err := root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxLeftNames + 1)
	switch {
	case errors.Is(err, io.EOF):
		err = nil
	case len(names) > maxLeftNames:
		err = fmt.Errorf("%s has more than %d names", quote(dir), maxLeftNames)
	}
	var out []string
	for _, name := range names {
		if ok, _ := path.Match(part, name); ok { // CheckLeft read it
			out = append(out, path.Join(dir, name))
		}
	}
	return out, err
}

// MatchLeft reports whether a pattern of CheckLeft means a path, or one above
// it.
func MatchLeft(pattern, name string) bool {
	depth := strings.Count(pattern, "/") + 1
	parts := strings.SplitN(name, "/", depth+1)
	ok, _ := path.Match(pattern, strings.Join(parts[:min(len(parts), depth)], "/"))
	return ok
}
