package worktree

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// A packIndex says where a pack has its objects, as a .idx file of version 2
// does (gitformat-pack(5)).
type packIndex struct {
	fan   []byte // 256 × 4 bytes: how many ids begin with at most that byte
	ids   []byte // 20 bytes each, sorted
	near  []byte // 4 bytes each: an offset, or with the highest bit set where far has it
	far   []byte // 8 bytes each
	count int
}

var errPackIndex = errors.New("malformed pack index")

func parsePackIndex(b []byte) (packIndex, error) {
	const head, fan, id, trailer = 8, 4 * 256, len(oid{}), 2 * len(oid{})
	if len(b) < head+fan+trailer || string(b[:head]) != "\xfftOc\x00\x00\x00\x02" {
		return packIndex{}, errPackIndex
	}
	x := packIndex{fan: b[head : head+fan]}
	last := uint32(0)
	for i := 0; i < fan; i += 4 {
		n := binary.BigEndian.Uint32(x.fan[i:])
		if n < last {
			return packIndex{}, errPackIndex
		}
		last = n
	}
	b = b[head+fan : len(b)-trailer]
	if int64(len(b)) < int64(last)*(int64(id)+8) {
		return packIndex{}, errPackIndex
	}
	x.count = int(last)
	x.ids, b = b[:x.count*id], b[x.count*(id+4):] // the checksums between are not needed
	x.near, x.far = b[:x.count*4], b[x.count*4:]
	return x, nil
}

func (x packIndex) id(i int) []byte { return x.ids[i*len(oid{}) : (i+1)*len(oid{})] }

func (x packIndex) offset(i int) (int64, bool) {
	off := binary.BigEndian.Uint32(x.near[4*i:])
	if off < 1<<31 {
		return int64(off), true
	}
	at := int(off&(1<<31-1)) * 8
	if at+8 > len(x.far) {
		return 0, false
	}
	far := binary.BigEndian.Uint64(x.far[at:])
	return int64(far), far < 1<<62
}

// find is where the pack has an object.
func (x packIndex) find(id oid) (int64, bool) {
	from, to := 0, int(binary.BigEndian.Uint32(x.fan[4*int(id[0]):]))
	if id[0] > 0 {
		from = int(binary.BigEndian.Uint32(x.fan[4*int(id[0]-1):]))
	}
	for from < to {
		middle := int(uint(from+to) >> 1)
		switch bytes.Compare(x.id(middle), id[:]) {
		case 0:
			return x.offset(middle)
		case -1:
			from = middle + 1
		default:
			to = middle
		}
	}
	return 0, false
}

// A pack is one that is read from. It keeps its index in memory and no file
// open, so that it may be forgotten.
type pack struct {
	path  string
	index packIndex
}

func openPack(path string) (*pack, error) {
	b, err := os.ReadFile(strings.TrimSuffix(path, ".pack") + ".idx")
	if err != nil {
		return nil, err
	}
	index, err := parsePackIndex(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &pack{path: path, index: index}, nil
}

// maxDeltas is git's own bound on how many differences lie between an object
// and a whole one.
const maxDeltas = 4096

// maxInflated is from which size an object is expanded as it is read, so that
// not all of it, deflated, is in memory too.
const maxInflated = 4 << 20

// maxDeflated is how many bytes can come out of one of a zlib stream: a match
// of 258 in two bits.
const maxDeflated = 258 * 8 / 2

var errPack = errors.New("malformed pack")

// A packReader reads objects from one pack.
type packReader struct {
	index   packIndex
	in      io.ReaderAt
	end     int64         // where the objects end
	inflate io.ReadCloser // a zlib.Resetter that is used again and again
	buf     []byte
	window  []byte // bytes that were read ahead, from at on
	at      int64
	bases   map[int64]packedObject // what differences were taken from; may be nil
	held    int                    // bytes in bases
}

// A packedObject is one object of a pack, whole.
type packedObject struct {
	kind plumbing.ObjectType
	data []byte
}

func newPackReader(index packIndex, in io.ReaderAt, size int64) *packReader {
	return &packReader{index: index, in: in, end: size - int64(len(oid{}))}
}

// A packHead is what a pack says of an object in front of it.
type packHead struct {
	kind plumbing.ObjectType
	size int64 // of the object, or of the difference
	base int64 // where the object is that it is a difference to
	data int64 // where the stream begins
}

// ahead returns n bytes of the pack, or as many as there are.
func (p *packReader) ahead(off, n int64) ([]byte, error) {
	if off < packHeader || off >= p.end {
		return nil, errPack
	}
	n = min(n, p.end-off)
	if off >= p.at && off+n <= p.at+int64(len(p.window)) {
		return p.window[off-p.at:][:n], nil
	}
	p.buf = slices.Grow(p.buf[:0], int(n))[:n]
	if _, err := p.in.ReadAt(p.buf, off); err != nil {
		return nil, err
	}
	return p.buf, nil
}

// load reads the part of the pack ahead in which the next objects are.
func (p *packReader) load(from, to int64) error {
	p.window = p.window[:0]
	b, err := p.ahead(from, to-from)
	if err == nil {
		p.window, p.buf, p.at = b, p.window, from
	}
	return err
}

func (p *packReader) head(off int64) (packHead, error) {
	b, err := p.ahead(off, 32)
	if err != nil {
		return packHead{}, err
	}
	h, n, err := parsePackHead(b, off, p.index)
	h.data = off + int64(n)
	if err == nil && h.size/maxDeflated > p.end-h.data {
		err = errPack
	}
	return h, err
}

// parsePackHead reads the head of the object at off and returns how long it is.
func parsePackHead(b []byte, off int64, index packIndex) (h packHead, n int, err error) {
	var c byte
	next := func() byte {
		if n == len(b) {
			err = errPack
			return 0
		}
		n++
		return b[n-1]
	}
	c = next()
	h.kind, h.size = plumbing.ObjectType(c>>4&7), int64(c&0xf)
	for shift := 4; c&0x80 != 0 && err == nil; shift += 7 {
		if c = next(); shift > 40 {
			return h, n, errPack
		}
		h.size |= int64(c&0x7f) << shift
	}
	switch h.kind {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
	case plumbing.OFSDeltaObject:
		c = next()
		back := int64(c & 0x7f)
		for c&0x80 != 0 && err == nil {
			if c = next(); back > 1<<50 {
				return h, n, errPack
			}
			back = (back+1)<<7 | int64(c&0x7f)
		}
		if h.base = off - back; h.base >= off {
			err = errPack
		}
	case plumbing.REFDeltaObject:
		if len(b)-n < len(oid{}) {
			return h, n, errPack
		}
		var ok bool
		if h.base, ok = index.find(oid(b[n : n+len(oid{})])); !ok {
			err = errPack
		}
		n += len(oid{})
	default:
		err = errPack
	}
	if h.size > maxBlob {
		err = errPack
	}
	return h, n, err
}

func (h packHead) delta() bool {
	return h.kind == plumbing.OFSDeltaObject || h.kind == plumbing.REFDeltaObject
}

// expand inflates the stream of an object into dst, which has its size or, for
// an object that is too big, room for its beginning.
func (p *packReader) expand(h packHead, dst []byte) error {
	if h.size <= maxInflated {
		// What deflates badly is stored, in blocks with a few bytes more.
		b, err := p.ahead(h.data, h.size+h.size/256+64)
		if err != nil {
			return err
		}
		if p.stream(h, dst, bytes.NewReader(b)) == nil {
			return nil
		} // it may be longer yet
	}
	return p.stream(h, dst, bufio.NewReader(io.NewSectionReader(p.in, h.data, p.end-h.data)))
}

// stream fills dst from a zlib stream, all of the object when it fits.
func (p *packReader) stream(h packHead, dst []byte, in io.Reader) (err error) {
	if p.inflate == nil {
		p.inflate, err = zlib.NewReader(in)
	} else {
		err = p.inflate.(zlib.Resetter).Reset(in, nil)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errPack, err)
	}
	if _, err = io.ReadFull(p.inflate, dst); err != nil {
		return fmt.Errorf("%w: %w", errPack, err)
	}
	if int64(len(dst)) < h.size {
		return nil
	}
	var more [1]byte
	if n, err := p.inflate.Read(more[:]); n > 0 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: an object is longer than it says", errPack)
	}
	return nil
}

// object reads the whole object at off. Where the pack has it whole too, its
// bytes are in room, if that suffices.
func (p *packReader) object(off int64, room []byte) (packedObject, error) {
	var deltas [][]byte
	var o packedObject
	at := off
	for {
		if known, ok := p.bases[at]; ok {
			o = known
			break
		}
		h, err := p.head(at)
		if err != nil {
			return o, err
		}
		dst := room
		if h.delta() || len(deltas) > 0 || int64(cap(room)) < h.size {
			dst = make([]byte, h.size)
		}
		dst = dst[:h.size]
		if err := p.expand(h, dst); err != nil {
			return o, err
		}
		if !h.delta() {
			o = packedObject{h.kind, dst}
			break
		}
		if deltas = append(deltas, dst); len(deltas) > maxDeltas {
			return o, errPack
		}
		at = h.base
	}
	if len(deltas) > 0 {
		p.keep(at, o)
	}
	for _, d := range slices.Backward(deltas) {
		if _, size, err := deltaSizes(d); err != nil || size > maxBlob {
			return o, errPack
		}
		data, err := packfile.PatchDelta(o.data, d)
		if err != nil {
			return o, fmt.Errorf("%w: %w", errPack, err)
		}
		o.data = data
	}
	return o, nil
}

// keep remembers what a difference was taken from: its neighbours are mostly
// differences to the same.
func (p *packReader) keep(off int64, o packedObject) {
	if p.bases == nil || len(o.data) > maxKept {
		return
	}
	if p.held += len(o.data); p.held > maxKept {
		clear(p.bases)
		p.held = len(o.data)
	}
	p.bases[off] = o
}

const maxKept = 16 << 20

// deltaSizes are the sizes of what a difference is taken from and of what it
// makes.
func deltaSizes(d []byte) (from, to uint64, err error) {
	from, n := binary.Uvarint(d)
	if n > 0 {
		var m int
		if to, m = binary.Uvarint(d[n:]); m > 0 {
			return from, to, nil
		}
	}
	return 0, 0, errPack
}

// read returns at most max bytes of an object of the pack, and its whole
// size. What it reads whole it proves to be the object of that id.
func (p *packReader) read(id oid, off, max int64) (o packedObject, size int64, err error) {
	h, err := p.head(off)
	if err != nil {
		return o, 0, err
	}
	if !h.delta() && h.size > max {
		o = packedObject{h.kind, make([]byte, max)}
		return o, h.size, p.expand(h, o.data)
	}
	if o, err = p.object(off, nil); err != nil {
		return o, 0, err
	}
	if hashObject(o.kind, o.data) != id {
		return o, 0, fmt.Errorf("%w: it is another object", errPack)
	}
	size = int64(len(o.data))
	o.data = o.data[:min(size, max)]
	return o, size, nil
}

// reader opens the pack to read from it.
func (p *pack) reader() (*packReader, io.Closer, error) {
	f, err := os.Open(p.path)
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return newPackReader(p.index, f, st.Size()), f, nil
}

// read opens the pack for one object.
func (p *pack) read(id oid, off, max int64) (o packedObject, size int64, err error) {
	r, f, err := p.reader()
	if err != nil {
		return o, 0, err
	}
	defer f.Close()
	if o, size, err = r.read(id, off, max); err != nil {
		err = fmt.Errorf("%s: %w", p.path, err)
	}
	return o, size, err
}
