package worktree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Fingerprint is the state of a user's repository: what must be the same
// before and after a run that adopts nothing.
type Fingerprint struct {
	state map[string]string
}

// Fingerprint takes the state of HEAD, refs, stash, index, configuration,
// hooks and the files of the work tree that git does not ignore. Files are
// known by inode, ctime and size, so it is cheap; .bestof is left out.
func (r *Repository) Fingerprint(ctx context.Context) (Fingerprint, error) {
	f := Fingerprint{state: make(map[string]string)}
	refs, err := r.git.Run(ctx, "for-each-ref", "--format=%(refname) %(objectname) %(symref)")
	if err != nil {
		return f, fmt.Errorf("fingerprint: %w", err)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(refs), "\n"), "\n") {
		if name, value, ok := strings.Cut(line, " "); ok {
			f.state[name] = value
		}
	}
	if err := f.broken(filepath.Join(r.commonDir, "refs")); err != nil {
		return f, fmt.Errorf("fingerprint: %w", err)
	}
	for name, path := range map[string]string{
		"HEAD":               filepath.Join(r.gitDir, "HEAD"),
		"config.worktree":    filepath.Join(r.gitDir, "config.worktree"),
		"config":             filepath.Join(r.commonDir, "config"),
		"stash":              filepath.Join(r.commonDir, "logs/refs/stash"),
		"info/exclude":       filepath.Join(r.commonDir, "info/exclude"),
		"info/attributes":    filepath.Join(r.commonDir, "info/attributes"),
		"objects/alternates": filepath.Join(r.commonDir, "objects/info/alternates"),
		"shallow":            filepath.Join(r.commonDir, "shallow"),
		".git":               filepath.Join(r.root, ".git"),
	} {
		if target, err := os.Readlink(path); err == nil && isDirBehind(path) {
			f.state[name] = "-> " + target // a .git may be a link to a directory
			continue
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || isDir(path) {
			continue
		}
		if err != nil {
			return f, fmt.Errorf("fingerprint: %w", err)
		}
		sum := sha256.Sum256(b)
		f.state[name] = hex.EncodeToString(sum[:])
	}
	if err := f.hooks(filepath.Join(r.commonDir, "hooks")); err != nil {
		return f, fmt.Errorf("fingerprint: %w", err)
	}
	if r.bare {
		return f, nil
	}
	// The entries, not the bytes: git refreshes the index by itself.
	index, err := r.git.Run(ctx, "ls-files", "-z", "-v", "--stage")
	if err != nil {
		return f, fmt.Errorf("fingerprint: %w", err)
	}
	sum := sha256.Sum256(index)
	f.state["index"] = hex.EncodeToString(sum[:])
	paths, err := r.git.Run(ctx, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return f, fmt.Errorf("fingerprint: %w", err)
	}
	top, err := os.Open(r.root)
	if err != nil {
		return f, fmt.Errorf("fingerprint: %w", err)
	}
	defer top.Close()
	for path := range bytes.SplitSeq(bytes.TrimSuffix(paths, []byte{0}), []byte{0}) {
		name := string(path)
		if name == "" || isOurs(name) {
			continue
		}
		f.state["work tree: "+name] = fileStateAt(int(top.Fd()), name)
	}
	return f, nil
}

// broken adds the files that git does not list as refs, because they hold none.
func (f Fingerprint) broken(refs string) error {
	return filepath.WalkDir(refs, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // git removes refs and empty directories at any time
		}
		if err != nil || d.IsDir() {
			return err
		}
		name := "refs" + filepath.ToSlash(strings.TrimPrefix(path, refs))
		if _, ok := f.state[name]; !ok {
			f.state[name] = fileState(path)
		}
		return nil
	})
}

func (f Fingerprint) hooks(dir string) error {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range names {
		f.state["hooks/"+n.Name()] = fileState(filepath.Join(dir, n.Name()))
	}
	return nil
}

// fileState identifies a file without reading it.
func fileState(path string) string { return fileStateAt(unix.AT_FDCWD, path) }

// fileStateAt is fileState of a path below an open directory, which the kernel
// finds sooner.
func fileStateAt(dir int, path string) string {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, path, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return "absent"
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		// A directory, such as that of a submodule: its entries are its own.
		return "directory " + strconv.FormatUint(st.Ino, 10)
	}
	b := strconv.AppendUint(make([]byte, 0, 64), uint64(st.Mode), 8)
	for _, v := range []int64{int64(st.Ino), int64(st.Ctim.Sec), int64(st.Ctim.Nsec), st.Size} {
		b = strconv.AppendInt(append(b, ' '), v, 10)
	}
	return string(b)
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

func isDirBehind(link string) bool {
	info, err := os.Stat(link)
	return err == nil && info.IsDir()
}

// Diff lists what differs, one line each, sorted: "index",
// "refs/heads/main", "work tree: src/x.go".
func (f Fingerprint) Diff(g Fingerprint) []string {
	var out []string
	for name, state := range f.state {
		if g.state[name] != state {
			out = append(out, name)
		}
	}
	for name := range g.state {
		if _, ok := f.state[name]; !ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// isOurs reports whether a path belongs to bestof's own directory, which is
// never part of a base or a change.
func isOurs(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return strings.EqualFold(first, ".bestof")
}
