package worktree

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A stamp is what git's index, and a seal, know of a file without reading it.
type stamp struct {
	dev, ino     uint64
	ctime, mtime unix.Timespec
	uid, gid     uint32
	size         int64
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{uint64(st.Dev), st.Ino, st.Ctim, st.Mtim, st.Uid, st.Gid, st.Size}
}

// same reports whether a file is provably the one the stamp was taken of,
// unchanged: a program can set mtime and size, but not ctime.
func (s stamp) same(t stamp) bool {
	return s.ino == t.ino && s.ctime == t.ctime && s.size == t.size
}

// encodeIndex writes a git index, version 2, for sorted entries and their
// stamps, with the cache of trees that makes the first status cheap.
func encodeIndex(entries []entry, stamps []stamp, trees map[string]oid) []byte {
	b := make([]byte, 0, len(entries)*120)
	b = append(b, "DIRC\x00\x00\x00\x02"...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries)))
	for i, e := range entries {
		s := stamps[i]
		start := len(b)
		for _, v := range []uint32{
			uint32(s.ctime.Sec), uint32(s.ctime.Nsec), uint32(s.mtime.Sec), uint32(s.mtime.Nsec),
			uint32(s.dev), uint32(s.ino), uint32(e.mode), s.uid, s.gid, uint32(s.size),
		} {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		b = append(b, e.id[:]...)
		b = binary.BigEndian.AppendUint16(b, uint16(min(len(e.path), 0xfff)))
		b = append(b, e.path...)
		pad := 8 - (len(b)-start)%8
		b = append(b, make([]byte, pad)...)
	}
	var cache bytes.Buffer
	writeCacheTree(&cache, "", "", entries, trees)
	b = append(b, "TREE"...)
	b = binary.BigEndian.AppendUint32(b, uint32(cache.Len()))
	b = append(b, cache.Bytes()...)
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}

// writeCacheTree writes the TREE extension's record of dir, then those of its
// directories.
func writeCacheTree(w *bytes.Buffer, dir, name string, entries []entry, trees map[string]oid) {
	skip := 0
	if dir != "" {
		skip = len(dir) + 1
	}
	type sub struct{ from, to int }
	var subs []sub
	for i := 0; i < len(entries); {
		slash := strings.IndexByte(entries[i].path[skip:], '/')
		if slash < 0 {
			i++
			continue
		}
		prefix := entries[i].path[:skip+slash+1]
		j := i + 1
		for j < len(entries) && strings.HasPrefix(entries[j].path, prefix) {
			j++
		}
		subs = append(subs, sub{i, j})
		i = j
	}
	w.WriteString(name)
	w.WriteByte(0)
	w.WriteString(strconv.Itoa(len(entries)) + " " + strconv.Itoa(len(subs)) + "\n")
	id := trees[dir]
	w.Write(id[:])
	for _, s := range subs {
		rest := entries[s.from].path[skip:]
		child := rest[:strings.IndexByte(rest, '/')]
		full := entries[s.from].path[:skip+len(child)]
		writeCacheTree(w, full, child, entries[s.from:s.to], trees)
	}
}

// lstat is the stamp and mode of a path, which is not followed.
func lstat(path string) (stamp, uint32, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return stamp{}, 0, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return stampOf(&st), st.Mode, nil
}

// parallel calls f for 0 to n-1 from a few goroutines and returns the first
// error. It stops early after one.
func parallel(workers, n int, f func(i int) error) error {
	var (
		mu    sync.Mutex
		next  int
		first error
		wg    sync.WaitGroup
	)
	for range max(1, min(workers, n)) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := first != nil || i >= n
				mu.Unlock()
				if stop {
					return
				}
				if err := f(i); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return first
}
