package worktree

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stampsOf stamps the files of a tree on the disk and makes one word of the
// stamps of all files and directories. While the word stays the same, no file
// of the tree was written to, replaced, or added beside others: each of that
// changes a ctime, which a program cannot set.
func stampsOf(tree string, entries []entry) (stamps []stamp, word string, err error) {
	all, word, err := stampAll(tree, stampedOf(entries))
	if err != nil {
		return nil, "", err
	}
	return all[1 : 1+len(entries)], word, nil
}

// stampedOf are the names that are looked at: the top, the files and the
// directories.
func stampedOf(entries []entry) []string {
	names := append(make([]string, 0, len(entries)+len(entries)/4), ".")
	for _, e := range entries {
		names = append(names, e.path)
	}
	return append(names, directoriesOf(entries)...)
}

func stampAll(tree string, names []string) ([]stamp, string, error) {
	const each = 256 // as many are looked at in one go
	top, err := os.Open(tree)
	if err != nil {
		return nil, "", err
	}
	defer top.Close()
	all := make([]stamp, len(names))
	err = parallel(workers, (len(names)+each-1)/each, func(n int) error {
		part := names[n*each : min((n+1)*each, len(names))]
		return statEach(int(top.Fd()), part, func(i int, st *unix.Stat_t, err error) error {
			if err != nil {
				return &os.PathError{Op: "lstat", Path: filepath.Join(tree, part[i]), Err: err}
			}
			all[n*each+i] = stampOf(st)
			return nil
		})
	})
	if err != nil {
		return nil, "", err
	}
	b := make([]byte, 0, 24*len(all))
	for _, s := range all {
		b = binary.LittleEndian.AppendUint64(b, s.ino)
		b = binary.LittleEndian.AppendUint64(b, uint64(s.ctime.Sec))
		b = binary.LittleEndian.AppendUint64(b, uint64(s.ctime.Nsec))
	}
	sum := sha256.Sum256(b)
	return all, hex.EncodeToString(sum[:]), nil
}

// statEach looks at what names below an open directory name, following no link
// at their ends, until f says that it is enough; st is another file's after f.
// Those of one directory, when they come one after the other, are found from
// there, which the kernel does sooner.
func statEach(top int, names []string, f func(i int, st *unix.Stat_t, err error) error) error {
	var st unix.Stat_t
	var text []byte
	dir, at := "", -1
	leave := func() {
		if at >= 0 {
			_ = unix.Close(at)
		}
	}
	defer func() { leave() }()
	for i, name := range names {
		d, base := path.Split(name)
		if d != dir && base != "" {
			leave()
			dir, at = d, -1
			if fd, err := unix.Openat(top, d, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); d != "" && err == nil {
				at = fd
			}
		}
		from, rest := at, base
		if base == "" || at < 0 { // "nested/", what is at the top, or in no directory that is there
			from, rest = top, name
		}
		text = append(append(text[:0], rest...), 0)
		if err := f(i, &st, lstatAt(from, text, &st)); err != nil {
			return err
		}
	}
	return nil
}

// lstatAt is fstatat(2) of a name that a NUL byte ends, of a link itself. It spares
// a copy of each of thousands of names.
func lstatAt(dir int, name []byte, st *unix.Stat_t) error {
	_, _, errno := unix.Syscall6(unix.SYS_NEWFSTATAT, uintptr(dir), uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(st)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// directoriesOf are the directories of a tree but its top, in the order of their
// first files.
func directoriesOf(entries []entry) []string {
	var dirs []string
	known := make(map[string]bool)
	last := ""
	for _, e := range entries {
		dir, _ := filepath.Split(e.path)
		if dir == last {
			continue
		}
		last = dir
		for d := strings.TrimSuffix(dir, "/"); d != "" && !known[d]; {
			known[d] = true
			dirs = append(dirs, d)
			d = d[:max(0, strings.LastIndexByte(d, '/'))]
		}
	}
	return dirs
}
