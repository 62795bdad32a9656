package worktree

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
)

// A packWriter writes a pack of whole objects: one sequential file is several
// times cheaper than as many loose ones.
type packWriter struct {
	f    *os.File
	mu   sync.Mutex
	w    *bufio.Writer
	sum  hash.Hash
	off  uint64
	idx  idxfile.Writer
	want uint32
	got  uint32
}

// newPack begins a pack of exactly n objects in dir.
func newPack(dir string, n int) (*packWriter, error) {
	f, err := os.CreateTemp(dir, "tmp_pack_")
	if err != nil {
		return nil, err
	}
	p := &packWriter{f: f, sum: sha1.New(), want: uint32(n)}
	p.w = bufio.NewWriterSize(io.MultiWriter(f, p.sum), 1<<18)
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), p.want)
	p.w.Write(head)
	p.off = uint64(len(head))
	if err := p.idx.OnHeader(p.want); err != nil {
		return nil, err
	}
	return p, nil
}

var deflaters = sync.Pool{New: func() any {
	w, _ := zlib.NewWriterLevel(io.Discard, zlib.BestSpeed)
	return w
}}

// add appends an object. It may be called concurrently; the compression is
// done outside of the lock.
func (p *packWriter) add(t plumbing.ObjectType, id oid, content []byte) error {
	var buf bytes.Buffer
	size := uint64(len(content))
	c := byte(t)<<4 | byte(size&0xf)
	for size >>= 4; size > 0; size >>= 7 {
		buf.WriteByte(c | 0x80)
		c = byte(size & 0x7f)
	}
	buf.WriteByte(c)
	z := deflaters.Get().(*zlib.Writer)
	defer deflaters.Put(z)
	z.Reset(&buf)
	if _, err := z.Write(content); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idx.Add(id, p.off, crc32.ChecksumIEEE(buf.Bytes()))
	p.off += uint64(buf.Len())
	p.got++
	_, err := p.w.Write(buf.Bytes())
	return err
}

// close finishes the pack and writes its index beside it.
func (p *packWriter) close() (err error) {
	defer func() {
		if cerr := p.f.Close(); err == nil {
			err = cerr
		}
	}()
	if p.got != p.want {
		return fmt.Errorf("pack: %d objects of %d", p.got, p.want)
	}
	if err := p.w.Flush(); err != nil {
		return err
	}
	sum := p.sum.Sum(nil)
	if _, err := p.f.Write(sum); err != nil {
		return err
	}
	if err := p.idx.OnFooter(oid(sum)); err != nil {
		return err
	}
	index, err := p.idx.Index()
	if err != nil {
		return err
	}
	name := filepath.Join(filepath.Dir(p.f.Name()), "pack-"+hex.EncodeToString(sum))
	f, err := os.OpenFile(name+".idx", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o444)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	_, err = idxfile.NewEncoder(w).Encode(index)
	if ferr := w.Flush(); err == nil {
		err = ferr
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := p.f.Chmod(0o444); err != nil {
		return err
	}
	return os.Rename(p.f.Name(), name+".pack")
}
