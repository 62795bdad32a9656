package worktree

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/internal/atomicfile"
)

// identify fills in the ids of a source's files. Those of a work tree are
// read, unless an earlier call saw the very same inode, ctime and size.
func (s *Store) identify(src *source, r *Repository) error {
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
	if src.snapshot {
		known = readIdentified(file)
	}
	read := 0
	for _, files := range [][]sourceFile{src.files, src.extra} {
		misses := make([]int, 0, len(files))
		for i := range files {
			f := &files[i]
			if k, ok := known[f.path]; ok && k.stamp.same(f.stamp) {
				f.id = k.id
			} else {
				misses = append(misses, i)
			}
		}
		read += len(misses)
		if err := parallel(workers, len(misses), func(i int) error {
			f := &files[misses[i]]
			data, err := src.read(*f)
			if err != nil {
				return fmt.Errorf("%s: %w", f.path, err)
			}
			f.id = hashObject(plumbing.BlobObject, data)
			return nil
		}); err != nil {
			return err
		}
	}
	if read == 0 || !src.snapshot {
		return nil
	}
	return writeIdentified(file, append(src.files[:len(src.files):len(src.files)], src.extra...))
}

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

func writeIdentified(file string, files []sourceFile) error {
	b := []byte(identifiedMagic)
	limit := time.Now().Unix() - 2 // a file this young may change again within one ctime
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
