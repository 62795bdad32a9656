package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// Limits of a build context.
const (
	MaxContextBytes = 512 << 20
	MaxContextFiles = 50_000
	maxContextDepth = 64
	maxIgnoreFile   = 64 << 10
)

// ignoreName is the file that says what of a context is left out.
const ignoreName = ".dockerignore"

// always is never sent: it changes with every commit, or holds secrets.
var always = []string{".git", ".bestof"}

// A Context is a build context that was read, and is sent as it was read.
type Context struct {
	Tag   string // "bestof/built:…": made of all bytes and settings that the build gets
	Files int
	Bytes int64
	file  *os.File // a tar
}

// Close forgets the context.
func (c *Context) Close() error { return c.file.Close() }

// ReadContext packs the context of a build below root into a file of no name in
// the directory tmp. Owners and times are left out, so that the same files
// have the same tag everywhere. Links are sent as links and never followed;
// what is no file, directory or link is refused by its name.
func ReadContext(ctx context.Context, root *os.Root, b Build, tmp string) (*Context, error) {
	dir, err := root.OpenRoot(b.Dir)
	if err != nil {
		return nil, fmt.Errorf("read the build context %s: %w", b.Dir, err)
	}
	defer dir.Close()
	patterns, err := ignorePatterns(dir)
	if err != nil {
		return nil, err
	}
	ignore, err := newIgnore(patterns, b.Dockerfile)
	if err != nil {
		return nil, err
	}
	if fi, err := dir.Lstat(b.Dockerfile); err != nil {
		return nil, fmt.Errorf("read the Dockerfile: %w", err)
	} else if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no Dockerfile: it is not a regular file", b.Dockerfile)
	}
	f, err := os.CreateTemp(tmp, "context-")
	if err != nil {
		return nil, fmt.Errorf("pack the build context: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	p := packer{root: dir, ignore: ignore, sum: sha256.New(), c: &Context{file: f}}
	p.tar = tar.NewWriter(io.MultiWriter(f, p.sum))
	if err := errors.Join(p.dir(ctx, ".", 0), p.tar.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("pack the build context %s: %w", b.Dir, err), f.Close())
	}
	p.c.Tag = tagOf(p.sum, b)
	return p.c, nil
}

// tagOf names what the files and the settings of a build are.
func tagOf(sum hash.Hash, b Build) string {
	fmt.Fprintf(sum, "bestof build 1\x00%s\x00%s\x00", b.Dockerfile, b.Target)
	for _, name := range slices.Sorted(maps.Keys(b.Args)) {
		fmt.Fprintf(sum, "%s=%s\x00", name, b.Args[name])
	}
	return "bestof/built:" + hex.EncodeToString(sum.Sum(nil)[:20])
}

func ignorePatterns(dir *os.Root) ([]string, error) {
	fi, err := dir.Lstat(ignoreName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (!fi.Mode().IsRegular() || fi.Size() > maxIgnoreFile) {
		err = fmt.Errorf("it is not a regular file of at most %d bytes", maxIgnoreFile)
	}
	var b []byte
	if err == nil {
		b, err = readFile(dir, ignoreName, maxIgnoreFile)
	}
	var patterns []string
	if err == nil {
		patterns, err = ignorefile.ReadAll(bytes.NewReader(b))
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ignoreName, err)
	}
	return patterns, nil
}

func readFile(dir *os.Root, name string, limit int64) ([]byte, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// An ignore decides what of a context is left out.
type ignore struct {
	matcher *patternmatcher.PatternMatcher
	keep    string // the Dockerfile
}

func newIgnore(patterns []string, dockerfile string) (ignore, error) {
	m, err := patternmatcher.New(patterns)
	if err != nil {
		return ignore{}, fmt.Errorf("read %s: %w", ignoreName, err)
	}
	return ignore{m, dockerfile}, nil
}

// skips reports whether a path is left out, and whether all below it is too.
func (i ignore) skips(p string, dir bool) (skip, whole bool, err error) {
	if slices.Contains(always, p) {
		return true, true, nil
	}
	if p == i.keep || p == ignoreName || dir && strings.HasPrefix(i.keep, p+"/") {
		return false, false, nil // the engine needs both
	}
	skip, err = i.matcher.MatchesOrParentMatches(p)
	return skip, skip && !i.matcher.Exclusions(), err
}

// A packer writes a directory as a tar.
type packer struct {
	root   *os.Root
	ignore ignore
	tar    *tar.Writer
	sum    hash.Hash
	c      *Context
}

func (p *packer) dir(ctx context.Context, at string, depth int) error {
	if depth > maxContextDepth {
		return fmt.Errorf("%s: more than %d directories lie in each other", at, maxContextDepth)
	}
	d, err := p.root.Open(at)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(MaxContextFiles + 1)
	if err = errors.Join(notEOF(err), d.Close()); err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := p.entry(ctx, path.Join(at, name), depth); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) entry(ctx context.Context, at string, depth int) error {
	fi, err := p.root.Lstat(at)
	if err != nil {
		return err
	}
	skip, whole, err := p.ignore.skips(at, fi.IsDir())
	if err != nil || whole {
		return err
	}
	if !skip {
		if p.c.Files++; p.c.Files > MaxContextFiles {
			return fmt.Errorf("it has more than %d files: leave some out in %s", MaxContextFiles, ignoreName)
		}
		if err := p.write(at, fi); err != nil {
			return err
		}
	}
	if fi.IsDir() {
		return p.dir(ctx, at, depth+1)
	}
	return nil
}

func (p *packer) write(at string, fi fs.FileInfo) error {
	h := &tar.Header{Name: at, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	if fi.Mode()&0o111 != 0 {
		h.Mode = 0o755
	}
	switch fi.Mode().Type() {
	case fs.ModeDir:
		h.Typeflag, h.Name = tar.TypeDir, at+"/"
		return p.tar.WriteHeader(h)
	case fs.ModeSymlink:
		to, err := p.root.Readlink(at)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, to, 0o777
		return p.tar.WriteHeader(h)
	case 0:
		return p.copy(at, fi, h)
	}
	return fmt.Errorf("%s is a device, a socket or a pipe: leave it out in %s", at, ignoreName)
}

// copy writes one file, which must stay what it is meanwhile.
func (p *packer) copy(at string, fi fs.FileInfo, h *tar.Header) error {
	if p.c.Bytes += fi.Size(); p.c.Bytes > MaxContextBytes {
		return fmt.Errorf("it has more than %d MB: leave some out in %s", MaxContextBytes>>20, ignoreName)
	}
	f, err := p.root.Open(at)
	if err != nil {
		return err
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(fi, now) {
		return fmt.Errorf("%s was replaced while it was read", at)
	}
	h.Typeflag, h.Size = tar.TypeReg, fi.Size()
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	if n, err := io.Copy(p.tar, io.LimitReader(f, fi.Size())); err != nil || n != fi.Size() {
		return errors.Join(fmt.Errorf("%s changed while it was read", at), err)
	}
	return nil
}
