package worktree

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// stampsOf stamps the files of a tree on the disk and makes one word of the
// stamps of all files and directories. While the word stays the same, no file
// of the tree was written to, replaced, or added beside others: each of that
// changes a ctime, which a program cannot set.
func stampsOf(tree string, entries []entry) (stamps []stamp, word string, err error) {
	const each = 256 // as many are looked at in one go
	top, err := os.Open(tree)
	if err != nil {
		return nil, "", err
	}
	defer top.Close()
	names := append(make([]string, 0, len(entries)+len(entries)/4), ".")
	for _, e := range entries {
		names = append(names, e.path)
	}
	names = append(names, directoriesOf(entries)...)
	all := make([]stamp, len(names))
	err = parallel(workers, (len(names)+each-1)/each, func(n int) error {
		for i := n * each; i < min((n+1)*each, len(names)); i++ {
			var st unix.Stat_t
			if err := unix.Fstatat(int(top.Fd()), names[i], &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return &os.PathError{Op: "lstat", Path: filepath.Join(tree, names[i]), Err: err}
			}
			all[i] = stampOf(&st)
		}
		return nil
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
	return all[1 : 1+len(entries)], hex.EncodeToString(sum[:]), nil
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
