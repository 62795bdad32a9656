package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/bestof-dev/bestof/plugin"
)

// Limits of a package.
const (
	MaxFiles = 2000
	MaxFile  = 32 << 20
	MaxBytes = 64 << 20
	maxDepth = 16
	maxPath  = 255
)

// A Refusal says why something of a package cannot be taken.
type Refusal struct {
	Path   string
	Reason string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%q: %s", r.Path, r.Reason) }

// walk reads every file of a package, and refuses by name what a package may
// not hold. Each file's bytes go to the writer that file returns; dir is told
// about every directory but the top.
func walk(root *os.Root, dir func(path string) error, file func(f plugin.File) (io.WriteCloser, error)) (plugin.Tree, error) {
	w := &walker{root: root, dir: dir, file: file}
	if err := w.directory(".", 0); err != nil {
		return plugin.Tree{}, err
	}
	slices.SortFunc(w.tree.Files, func(a, b plugin.File) int { return cmp.Compare(a.Path, b.Path) })
	slices.Sort(w.dirs)
	sum := sha256.New()
	for _, d := range w.dirs {
		fmt.Fprintf(sum, "directory\x00%s\x00", d)
	}
	for _, f := range w.tree.Files {
		fmt.Fprintf(sum, "file\x00%s\x00%v\x00%d\x00%s\x00", f.Path, f.Executable, f.Size, f.Digest)
	}
	w.tree.Digest = hex.EncodeToString(sum.Sum(nil))
	return w.tree, nil
}

type walker struct {
	root *os.Root
	dir  func(string) error
	file func(plugin.File) (io.WriteCloser, error)
	tree plugin.Tree
	dirs []string
}

func (w *walker) directory(name string, depth int) error {
	d, err := w.root.Open(name)
	if err != nil {
		return err
	}
	entries, err := d.ReadDir(MaxFiles + 1)
	if err = errors.Join(unlessEOF(err), d.Close()); err != nil {
		return err
	}
	if len(entries) > MaxFiles {
		return &Refusal{name, fmt.Sprintf("the package has more than %d files", MaxFiles)}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	seen := map[string]string{} // names, by what they are where case does not count
	for _, e := range entries {
		p := path.Join(name, e.Name())
		folded := foldName(e.Name())
		twin := seen[folded]
		seen[folded] = e.Name()
		switch {
		case p == ".git":
			// A package that is developed in a repository of its own: history
			// and hooks are no part of it.
			continue
		case len(p) > maxPath || !utf8.ValidString(p) || strings.ContainsRune(p, 0):
			return &Refusal{p, fmt.Sprintf("the name is longer than %d bytes or not UTF-8", maxPath)}
		case twin != "":
			return &Refusal{p, fmt.Sprintf("its name and that of %q differ by case alone: on some systems they are one file", path.Join(name, twin))}
		case e.IsDir() && depth == maxDepth:
			return &Refusal{p, fmt.Sprintf("directories are nested deeper than %d", maxDepth)}
		case e.IsDir():
			if len(w.dirs) == MaxFiles {
				return &Refusal{p, fmt.Sprintf("the package has more than %d directories", MaxFiles)}
			}
			w.dirs = append(w.dirs, p)
			if err := w.dir(p); err != nil {
				return err
			}
			if err := w.directory(p, depth+1); err != nil {
				return err
			}
		default:
			if err := w.regular(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// foldName is the same for names that are one where case does not count: each
// letter is the least of those that Unicode's simple folding makes equal.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, name)
}

func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (w *walker) regular(p string) error {
	info, err := w.root.Lstat(p)
	if err != nil {
		return err
	}
	if reason := unfit(info); reason != "" {
		return &Refusal{p, reason}
	}
	if len(w.tree.Files) == MaxFiles {
		return &Refusal{p, fmt.Sprintf("the package has more than %d files", MaxFiles)}
	}
	// Whatever was put in its place since then must not block, nor lead away.
	in, err := w.root.OpenFile(p, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	opened, err := in.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(info, opened) || unfit(opened) != "" {
		return &Refusal{p, "it changed while it was read"}
	}
	f := plugin.File{Path: p, Executable: opened.Mode()&0o100 != 0}
	out, err := w.file(f)
	if err != nil {
		return err
	}
	sum := &summed{Writer: out, hash: sha256.New()}
	n, err := io.Copy(sum, io.LimitReader(in, MaxFile+1))
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("read %s: %w", p, err)
	}
	w.tree.Bytes += n
	if n > MaxFile {
		return &Refusal{p, fmt.Sprintf("it is larger than %d bytes", MaxFile)}
	}
	if w.tree.Bytes > MaxBytes {
		return &Refusal{p, fmt.Sprintf("with it the package is larger than %d bytes", MaxBytes)}
	}
	f.Size, f.Digest = n, hex.EncodeToString(sum.hash.Sum(nil))
	w.tree.Files = append(w.tree.Files, f)
	return nil
}

// unfit says why an entry cannot be part of a package.
func unfit(info fs.FileInfo) string {
	mode := info.Mode()
	switch {
	case mode&fs.ModeSymlink != 0:
		return "it is a symbolic link, which a package may not hold"
	case mode&fs.ModeNamedPipe != 0:
		return "it is a named pipe, which a package may not hold"
	case mode&fs.ModeSocket != 0:
		return "it is a socket, which a package may not hold"
	case mode&fs.ModeDevice != 0:
		return "it is a device, which a package may not hold"
	case !mode.IsRegular():
		return "it is not a regular file"
	case mode&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return "it has the setuid or setgid bit, which a package may not hold"
	}
	return ""
}

type summed struct {
	io.Writer
	hash hash.Hash
}

func (s *summed) Write(p []byte) (int, error) {
	s.hash.Write(p)
	return s.Writer.Write(p)
}

// treeOf is what a directory holds.
func treeOf(root *os.Root) (plugin.Tree, error) {
	return walk(root, func(string) error { return nil }, func(plugin.File) (io.WriteCloser, error) { return discard{}, nil })
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }

// copyTree copies a package from one directory into an empty one. Of a mode
// only whether the owner may execute it is kept, and nothing can be written
// afterwards by accident.
func copyTree(from, to *os.Root) (plugin.Tree, error) {
	return walk(from,
		func(p string) error { return to.Mkdir(p, 0o755) },
		func(f plugin.File) (io.WriteCloser, error) {
			mode := os.FileMode(0o444)
			if f.Executable {
				mode = 0o555
			}
			return to.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		})
}

// changes says in one line how a tree differs from the files of a receipt.
func changes(was, is []plugin.File) string {
	var lines []string
	old := map[string]plugin.File{}
	for _, f := range was {
		old[f.Path] = f
	}
	for _, f := range is {
		o, known := old[f.Path]
		switch {
		case !known:
			lines = append(lines, fmt.Sprintf("%q was added", f.Path))
		case o.Digest != f.Digest:
			lines = append(lines, fmt.Sprintf("%q was changed", f.Path))
		case o.Executable != f.Executable:
			lines = append(lines, fmt.Sprintf("%q has another mode", f.Path))
		}
		delete(old, f.Path)
	}
	for _, f := range was {
		if _, gone := old[f.Path]; gone {
			lines = append(lines, fmt.Sprintf("%q was removed", f.Path))
		}
	}
	if len(lines) == 0 {
		lines = []string{"its directories are others"}
	}
	if more := len(lines) - 5; more > 0 {
		lines = append(lines[:5], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, ", ")
}
