package worktree

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A Fingerprint is the state of a user's repository: what must be the same
// before and after a run that adopts nothing.
type Fingerprint struct {
	state map[string]string // of all but the work tree, by name
	index []byte            // its entries, as git lists them; nil where there is none
	files *fileList         // of the work tree
	found []fileState       // by file
}

// A fileState identifies a file without reading it. The zero value is one that
// is absent, and of a directory, such as that of a submodule, only the inode
// counts: its entries are its own.
type fileState struct {
	inode     uint64
	sec, nsec int64 // of its ctime
	size      int64
	mode      uint32
}

// A fileList is names of files as git prints them, each ended by a NUL byte.
type fileList struct {
	text  []byte
	names []string // without bestof's own, sorted, each once
}

func newFileList(text []byte) *fileList {
	l := &fileList{text: text, names: make([]string, 0, bytes.Count(text, []byte{0}))}
	for name := range strings.SplitSeq(string(text), "\x00") {
		if name != "" && !isOurs(name) {
			l.names = append(l.names, name)
		}
	}
	slices.Sort(l.names)
	l.names = slices.Compact(l.names)
	return l
}

// settings adds the files that say how git works on the repository.
func (f Fingerprint) settings(r *Repository) error {
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
			return err
		}
		sum := sha256.Sum256(b)
		f.state[name] = hex.EncodeToString(sum[:])
	}
	return nil
}

// find looks at each file of a list in the work tree at root.
func (l *fileList) find(root string) ([]fileState, error) {
	top, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	found := make([]fileState, len(l.names))
	statEach(int(top.Fd()), l.names, func(i int, st *unix.Stat_t, err error) error {
		found[i] = stateFrom(st, err)
		return nil
	})
	return found, nil
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
		f.state["hooks/"+n.Name()] = stateOf(filepath.Join(dir, n.Name()))
	}
	return nil
}

// stateFrom is the state of what was looked at.
func stateFrom(st *unix.Stat_t, err error) fileState {
	if err != nil {
		return fileState{}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fileState{inode: st.Ino, mode: unix.S_IFDIR}
	}
	return fileState{inode: st.Ino, sec: int64(st.Ctim.Sec), nsec: int64(st.Ctim.Nsec), size: st.Size, mode: st.Mode}
}

// stateOf is the state of a file as a word.
func stateOf(path string) string {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return fmt.Sprint(stateFrom(&st, err))
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
	if !bytes.Equal(f.index, g.index) {
		out = append(out, "index")
	}
	f.eachOther(g, func(name string) { out = append(out, "work tree: "+name) })
	slices.Sort(out)
	return out
}

// eachOther calls yield with the files of the work tree that differ, or that
// only one of two listings has.
func (f Fingerprint) eachOther(g Fingerprint, yield func(name string)) {
	a, b := f.names(), g.names()
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case j == len(b) || i < len(a) && a[i] < b[j]:
			yield(a[i])
			i++
		case i == len(a) || b[j] < a[i]:
			yield(b[j])
			j++
		default:
			if f.found[i] != g.found[j] {
				yield(a[i])
			}
			i, j = i+1, j+1
		}
	}
}

func (f Fingerprint) names() []string {
	if f.files == nil {
		return nil
	}
	return f.files.names
}

// isOurs reports whether a path belongs to bestof's own directory, which is
// never part of a base or a change.
func isOurs(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return strings.EqualFold(first, ".bestof")
}
