package worktree

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
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
	off  uint64
	seen map[oid]bool
	at   []packed
}

// A packed object is where a pack has it.
type packed struct {
	id  oid
	off uint64
	crc uint32
}

const packHeader = 12

// newPack begins a pack in dir.
func newPack(dir string) (*packWriter, error) {
	f, err := os.CreateTemp(dir, "tmp_pack_")
	if err != nil {
		return nil, err
	}
	p := &packWriter{f: f, w: bufio.NewWriterSize(f, 1<<18), off: packHeader, seen: make(map[oid]bool)}
	_, err = p.w.Write(make([]byte, packHeader))
	return p, err
}

var deflaters = sync.Pool{New: func() any {
	w, _ := zlib.NewWriterLevel(io.Discard, zlib.BestSpeed)
	return w
}}

// add appends an object unless the pack has it. It may be called
// concurrently; the compression is done outside of the lock.
func (p *packWriter) add(t plumbing.ObjectType, id oid, content []byte) error {
	p.mu.Lock()
	seen := p.seen[id]
	p.seen[id] = true
	p.mu.Unlock()
	if seen {
		return nil
	}
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
	p.at = append(p.at, packed{id, p.off, crc32.ChecksumIEEE(buf.Bytes())})
	p.off += uint64(buf.Len())
	_, err := p.w.Write(buf.Bytes())
	return err
}

// abandon gives up a pack that is not finished.
func (p *packWriter) abandon() {
	p.f.Close()
	os.Remove(p.f.Name())
}

// close finishes the pack and writes its index beside it. An empty one leaves
// nothing.
func (p *packWriter) close() (err error) {
	if len(p.seen) == 0 {
		p.abandon()
		return nil
	}
	defer func() {
		if cerr := p.f.Close(); err == nil {
			err = cerr
		}
	}()
	if err := p.w.Flush(); err != nil {
		return err
	}
	n := uint32(len(p.seen))
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), n)
	if _, err := p.f.WriteAt(head, 0); err != nil {
		return err
	}
	if _, err := p.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	h := sha1.New()
	if _, err := io.Copy(h, p.f); err != nil {
		return err
	}
	sum := h.Sum(nil)
	if _, err := p.f.Write(sum); err != nil {
		return err
	}
	var idx idxfile.Writer
	if err := idx.OnHeader(n); err != nil {
		return err
	}
	for _, o := range p.at {
		idx.Add(o.id, o.off, o.crc)
	}
	if err := idx.OnFooter(oid(sum)); err != nil {
		return err
	}
	index, err := idx.Index()
	if err != nil {
		return err
	}
	name := filepath.Join(filepath.Dir(p.f.Name()), "pack-"+hex.EncodeToString(sum))
	f, err := os.OpenFile(name+".idx", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o444)
	if errors.Is(err, fs.ErrExist) {
		return os.Remove(p.f.Name()) // the same objects were packed before
	}
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
