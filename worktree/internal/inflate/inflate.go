// Package inflate expands zlib streams of which the size is known, in one
// step from memory to memory. compress/zlib reads a stream byte by byte and
// takes twice as long for the small ones of which a git pack is full.
package inflate

import (
	"encoding/binary"
	"errors"
	"hash/adler32"
)

// ErrCorrupt means that a stream is malformed, cut short, or not of the size
// that it was said to have.
var ErrCorrupt = errors.New("malformed zlib stream")

// A Decoder expands streams, one after the other. Its zero value is ready.
type Decoder struct {
	in    []byte
	next  int    // the first byte that is not in buf
	buf   uint64 // bits that were read ahead, lowest first
	n     uint   // how many
	lit   [litSize]uint32
	dist  [distSize]uint32
	pre   [1 << preBits]uint32
	fixed bool // lit and dist are those of a block with the fixed codes
	lens  [320]uint8
	order [320]uint16
}

// Zlib expands the stream (RFC 1950) at the beginning of src, which must give
// exactly len(dst) bytes, and returns how long the stream is. Room in src
// behind the stream is read but does not count.
func (d *Decoder) Zlib(dst, src []byte) (int, error) {
	if len(src) < 2 || src[0]&0x0f != 8 || src[0]>>4 > 7 || src[1]&0x20 != 0 || binary.BigEndian.Uint16(src)%31 != 0 {
		return 0, ErrCorrupt
	}
	d.in, d.next, d.buf, d.n = src, 2, 0, 0
	defer func() { d.in = nil }()
	out := 0
	for last := false; !last; {
		head, ok := d.bits(3)
		if !ok {
			return 0, ErrCorrupt
		}
		last = head&1 != 0
		switch head >> 1 {
		case 0:
			out, ok = d.stored(dst, out)
		case 1:
			if ok = d.plain(); ok {
				out, ok = d.block(dst, out)
			}
		case 2:
			if ok = d.dynamic(); ok {
				out, ok = d.block(dst, out)
			}
		default:
			ok = false
		}
		if !ok {
			return 0, ErrCorrupt
		}
	}
	end := d.next - int(d.n/8)
	if out != len(dst) || len(src)-end < 4 || binary.BigEndian.Uint32(src[end:]) != adler32.Checksum(dst) {
		return 0, ErrCorrupt
	}
	return end + 4, nil
}

// fill reads ahead as much as there is, up to 56 bits or more.
func (d *Decoder) fill() {
	for d.n <= 56 && d.next < len(d.in) {
		d.buf |= uint64(d.in[d.next]) << d.n
		d.next++
		d.n += 8
	}
}

func (d *Decoder) bits(n uint) (uint32, bool) {
	if d.n < n {
		if d.fill(); d.n < n {
			return 0, false
		}
	}
	v := uint32(d.buf & (1<<n - 1))
	d.buf >>= n
	d.n -= n
	return v, true
}

func (d *Decoder) stored(dst []byte, out int) (int, bool) {
	d.next -= int(d.n / 8)
	d.buf, d.n = 0, 0
	if len(d.in)-d.next < 4 {
		return 0, false
	}
	size := int(binary.LittleEndian.Uint16(d.in[d.next:]))
	check := int(binary.LittleEndian.Uint16(d.in[d.next+2:]))
	d.next += 4
	if size != check^0xffff || size > len(d.in)-d.next || size > len(dst)-out {
		return 0, false
	}
	copy(dst[out:], d.in[d.next:d.next+size])
	d.next += size
	return out + size, true
}

// block expands a block whose tables are set.
func (d *Decoder) block(dst []byte, out int) (int, bool) {
	out, done, ok := d.fast(dst, out)
	for ok && !done {
		out, done, ok = d.symbol(dst, out)
	}
	return out, ok
}

// symbol expands one literal or match near an end of the input or output.
func (d *Decoder) symbol(dst []byte, out int) (_ int, done, ok bool) {
	d.fill()
	e := d.lit[d.buf&(1<<litBits-1)]
	if e&deeper != 0 {
		e = d.lit[(uint64(e>>16)+d.buf>>litBits&(1<<(e>>8&0xf)-1))&(litSize-1)]
	}
	length, ok := d.take(e)
	switch {
	case !ok || e&invalid != 0:
		return out, false, false
	case e&literal != 0:
		if out == len(dst) {
			return out, false, false
		}
		dst[out] = byte(length)
		return out + 1, false, true
	case e&end != 0:
		return out, true, true
	}
	e = d.dist[d.buf&(1<<distBits-1)]
	if e&deeper != 0 {
		e = d.dist[(uint64(e>>16)+d.buf>>distBits&(1<<(e>>8&0xf)-1))&(distSize-1)]
	}
	back, ok := d.take(e)
	if !ok || e&invalid != 0 || int(back) > out || int(length) > len(dst)-out {
		return out, false, false
	}
	for range length {
		dst[out] = dst[out-int(back)]
		out++
	}
	return out, false, true
}

// take consumes an entry's code and extra bits and returns its value.
func (d *Decoder) take(e uint32) (uint32, bool) {
	n := uint(e & 0x3f)
	if n > d.n {
		return 0, false
	}
	v := e>>16 + uint32(d.buf&(1<<n-1)>>(e>>8&0xf))
	d.buf >>= n
	d.n -= n
	return v, true
}

// fast is symbol as long as neither end is near: what it reads and writes
// ahead stays within the slices.
func (d *Decoder) fast(dst []byte, out int) (_ int, done, ok bool) {
	in, next, buf, n := d.in, d.next, d.buf, d.n
	lit, dist := &d.lit, &d.dist
	defer func() { d.next, d.buf, d.n = next, buf, n }()
	for next+8 <= len(in) && out+maxMatch+8 <= len(dst) {
		buf |= binary.LittleEndian.Uint64(in[next:]) << (n & 63)
		next += int((63 - n) >> 3)
		n |= 56
		e := lit[buf&(1<<litBits-1)]
		// At least 56 bits are there, which is enough for two literals and a match of the commoner kind.
		if e&literal != 0 {
			buf >>= e & 0x3f
			n -= uint(e & 0x3f)
			dst[out] = byte(e >> 16)
			out++
			if e = lit[buf&(1<<litBits-1)]; e&literal != 0 {
				buf >>= e & 0x3f
				n -= uint(e & 0x3f)
				dst[out] = byte(e >> 16)
				out++
				continue
			}
			if n < 48 {
				continue
			}
		}
		if e&(deeper|end|invalid) != 0 {
			if e&deeper != 0 {
				e = lit[(uint64(e>>16)+buf>>litBits&(1<<(e>>8&0xf)-1))&(litSize-1)]
			}
			switch {
			case e&invalid != 0:
				return out, false, false
			case e&literal != 0:
				buf >>= e & 0x3f
				n -= uint(e & 0x3f)
				dst[out] = byte(e >> 16)
				out++
				continue
			case e&end != 0:
				buf >>= e & 0x3f
				n -= uint(e & 0x3f)
				return out, true, true
			}
		}
		length := int(e>>16) + int(buf&(1<<(e&0x3f)-1)>>(e>>8&0xf))
		buf >>= e & 0x3f
		n -= uint(e & 0x3f)
		e = dist[buf&(1<<distBits-1)]
		if e&deeper != 0 {
			e = dist[(uint64(e>>16)+buf>>distBits&(1<<(e>>8&0xf)-1))&(distSize-1)]
		}
		back := int(e>>16) + int(buf&(1<<(e&0x3f)-1)>>(e>>8&0xf))
		buf >>= e & 0x3f
		n -= uint(e & 0x3f)
		from := out - back
		if from < 0 || e&invalid != 0 {
			return out, false, false
		}
		to := out + length
		if back >= 8 {
			for ; out < to; out, from = out+8, from+8 {
				binary.LittleEndian.PutUint64(dst[out:], binary.LittleEndian.Uint64(dst[from:]))
			}
			out = to
			continue
		}
		for ; out < to; out, from = out+1, from+1 {
			dst[out] = dst[from]
		}
	}
	return out, false, true
}
