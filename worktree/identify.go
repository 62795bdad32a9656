package worktree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/internal/atomicfile"
)

// identify fills in the ids of a source's files. Those of a work tree are
// read, unless an earlier call saw the very same inode, ctime and size.
func (s *Store) identify(ctx context.Context, src *source, r *Repository, anew bool) error {
	if !src.snapshot && !r.sha256 {
		for i := range src.files {
			id, err := parseOID(src.files[i].object)
			if err != nil {
				return err
			}
			src.files[i].id = id
		}
		return nil
	}
	sum := sha256.Sum256([]byte(r.root))
	file := s.path("known-" + hex.EncodeToString(sum[:12]))
	var known map[string]identified
	if src.snapshot && !anew {
		known = readIdentified(file)
	}
	read := 0
	var held atomic.Int64
	for _, files := range [][]sourceFile{src.files, src.extra} {
		var misses []sourceFile
		var at []int
		for i := range files {
			f := &files[i]
			if k, ok := known[f.path]; ok && k.stamp.same(f.stamp) {
				f.id = k.id
			} else {
				misses, at = append(misses, *f), append(at, i)
			}
		}
		read += len(misses)
		if err := src.each(ctx, misses, func(of []int, data [][]byte) error {
			for n, b := range data {
				f := &files[at[of[n]]]
				f.id = hashObject(plumbing.BlobObject, b)
				if src.snapshot && held.Add(int64(len(b))) < maxHeld {
					f.data = b // the base is probably new, and is made of it
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if read == 0 || !src.snapshot {
		return nil
	}
	return writeIdentified(file, append(src.files[:len(src.files):len(src.files)], src.extra...), src.begun-settled)
}

// maxHeld bounds what is kept of a snapshot in memory between reading it for
// its ids and writing it out.
const maxHeld = 128 << 20

type identified struct {
	stamp stamp
	id    oid
}

// The cache is a sequence of records: inode, ctime, size, id, the length of
// the path, the path.
const identifiedMagic = "bestof.known/1\n"

// readIdentified reads what writeIdentified wrote; what it cannot read is not
// known.
func readIdentified(file string) map[string]identified {
	b, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(b, []byte(identifiedMagic)) {
		return nil
	}
	b = b[len(identifiedMagic):]
	known := make(map[string]identified)
	for len(b) >= identifiedSize {
		u := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
		k := identified{stamp: stamp{ino: u(0), size: int64(u(3))}}
		k.stamp.ctime = unix.Timespec{Sec: int64(u(1)), Nsec: int64(u(2))}
		copy(k.id[:], b[32:])
		n := int(binary.BigEndian.Uint32(b[52:]))
		if b = b[identifiedSize:]; n > len(b) {
			return nil
		}
		known[string(b[:n])] = k
		b = b[n:]
	}
	return known
}

const identifiedSize = 4*8 + len(oid{}) + 4

// writeIdentified leaves out the files that may have changed since they were
// read without a new ctime.
func writeIdentified(file string, files []sourceFile, limit int64) error {
	b := []byte(identifiedMagic)
	for _, f := range files {
		if f.stamp.ctime.Sec >= limit {
			continue
		}
		for _, v := range []uint64{f.stamp.ino, uint64(f.stamp.ctime.Sec), uint64(f.stamp.ctime.Nsec), uint64(f.stamp.size)} {
			b = binary.BigEndian.AppendUint64(b, v)
		}
		b = append(b, f.id[:]...)
		b = binary.BigEndian.AppendUint32(b, uint32(len(f.path)))
		b = append(b, f.path...)
	}
	return atomicfile.Write(file, b, 0o600)
}
