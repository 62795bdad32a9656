package worktree

import (
	"bufio"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/adler32"
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
	head [32]byte // of an object, while it is written
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

// add appends an object unless the pack has it. It may be called
// concurrently. The object is stored as it is: to deflate a tree costs more
// than to check it out.
func (p *packWriter) add(t plumbing.ObjectType, id oid, content []byte) error {
	sum := adler32.Checksum(content)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen[id] {
		return nil
	}
	p.seen[id] = true
	at := packed{id: id, off: p.off}
	write := func(b []byte) error {
		at.crc = crc32.Update(at.crc, crc32.IEEETable, b)
		p.off += uint64(len(b))
		_, err := p.w.Write(b)
		return err
	}
	size := uint64(len(content))
	head := p.head[:0]
	c := byte(t)<<4 | byte(size&0xf)
	for size >>= 4; size > 0; size >>= 7 {
		head = append(head, c|0x80)
		c = byte(size & 0x7f)
	}
	head = append(head, c, 0x78, 0x01) // the last two begin a zlib stream
	for last := false; !last; {
		block := content[:min(len(content), 0xffff)]
		content = content[len(block):]
		last = len(content) == 0
		final := byte(0)
		if last {
			final = 1
		}
		n := uint16(len(block))
		head = append(head, final, byte(n), byte(n>>8), ^byte(n), ^byte(n>>8))
		if err := write(head); err != nil {
			return err
		}
		if err := write(block); err != nil {
			return err
		}
		head = head[:0]
	}
	err := write(binary.BigEndian.AppendUint32(head, sum))
	p.at = append(p.at, at)
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
