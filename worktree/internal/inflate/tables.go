package inflate

import "math/bits"

// A table turns the next bits of a stream into a symbol. Its entries are
//
//	bits 0–5    how many bits the code and the extra bits behind it have
//	bits 8–11   how many the code has; of a link, how many index what it leads to
//	bits 12–15  the kind; none of them set is a length or a distance
//	bits 16–31  the literal, the base of a length or distance, or where a link leads
//
// Codes longer than a table's first part is indexed with are in further parts
// that its links lead to. How large all parts can be together is what zlib's
// examples/enough.c counts: 1,334 and 402.
const (
	litBits, litSize   = 10, 2048
	distBits, distSize = 8, 512
	preBits            = 7
	maxBits            = 15
	maxMatch           = 258

	literal = 1 << 12
	end     = 1 << 13
	deeper  = 1 << 14
	invalid = 1 << 15
)

var litEntry, distEntry, preEntry = func() (l [288]uint32, d [32]uint32, p [19]uint32) {
	for i := range 256 {
		l[i] = uint32(i)<<16 | literal
	}
	l[256] = end
	base := uint32(3)
	for i := range uint32(28) {
		extra := uint32(0)
		if i >= 8 {
			extra = i/4 - 1
		}
		l[257+i] = base<<16 | extra
		base += 1 << extra
	}
	l[285] = maxMatch << 16
	l[286], l[287] = invalid, invalid
	base = 1
	for i := range uint32(30) {
		extra := uint32(0)
		if i >= 4 {
			extra = i/2 - 1
		}
		d[i] = base<<16 | extra
		base += 1 << extra
	}
	d[30], d[31] = invalid, invalid
	for i := range p {
		p[i] = uint32(i) << 16
	}
	return l, d, p
}()

// plain sets the tables for the codes that need not be sent.
func (d *Decoder) plain() bool {
	if d.fixed {
		return true
	}
	lens := d.lens[:288]
	for i := range lens {
		switch {
		case i < 144, i >= 280:
			lens[i] = 8
		case i < 256:
			lens[i] = 9
		default:
			lens[i] = 7
		}
	}
	ok := d.build(d.lit[:], litBits, lens, litEntry[:])
	lens = d.lens[:32]
	for i := range lens {
		lens[i] = 5
	}
	d.fixed = ok && d.build(d.dist[:], distBits, lens, distEntry[:])
	return d.fixed
}

// preOrder is the order in which the lengths of the first code are sent.
var preOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// dynamic reads the codes of a block.
func (d *Decoder) dynamic() bool {
	d.fixed = false
	counts, ok := d.bits(14)
	if !ok {
		return false
	}
	nlit, ndist, npre := 257+int(counts&31), 1+int(counts>>5&31), 4+int(counts>>10)
	if nlit > 286 || ndist > 30 {
		return false
	}
	var pre [19]uint8
	for _, at := range preOrder[:npre] {
		v, ok := d.bits(3)
		if !ok {
			return false
		}
		pre[at] = uint8(v)
	}
	if !d.build(d.pre[:], preBits, pre[:], preEntry[:]) || !d.lengths(nlit+ndist) {
		return false
	}
	// Without an end the block could not be left.
	return d.lens[256] != 0 &&
		d.build(d.lit[:], litBits, d.lens[:nlit], litEntry[:]) &&
		d.build(d.dist[:], distBits, d.lens[nlit:nlit+ndist], distEntry[:])
}

// lengths reads the lengths of n codes.
func (d *Decoder) lengths(n int) bool {
	for i := 0; i < n; {
		d.fill()
		e := d.pre[d.buf&(1<<preBits-1)]
		sym, ok := d.take(e)
		if !ok || e&invalid != 0 {
			return false
		}
		if sym < 16 {
			d.lens[i] = uint8(sym)
			i++
			continue
		}
		var value uint8
		var extra uint
		var least uint32
		switch sym {
		case 16:
			if i == 0 {
				return false
			}
			value, extra, least = d.lens[i-1], 2, 3
		case 17:
			extra, least = 3, 3
		default:
			extra, least = 7, 11
		}
		more, ok := d.bits(extra)
		times := int(least + more)
		if !ok || times > n-i {
			return false
		}
		for range times {
			d.lens[i] = value
			i++
		}
	}
	return true
}

// build makes a table whose first part is indexed with first bits, for codes
// of the given lengths. As in zlib, a set of codes must be complete, or be
// one code of one bit, or none.
func (d *Decoder) build(t []uint32, first uint, lens []uint8, entry []uint32) bool {
	var count, at [maxBits + 2]uint16
	for _, n := range lens {
		count[n]++
	}
	used := len(lens) - int(count[0])
	left, longest := 1, 0
	for n := 1; n <= maxBits; n++ {
		at[n+1] = at[n] + count[n]
		if left = left<<1 - int(count[n]); left < 0 {
			return false
		}
		if count[n] > 0 {
			longest = n
		}
	}
	for sym, n := range lens {
		if n > 0 {
			d.order[at[n]] = uint16(sym)
			at[n]++
		}
	}
	if left > 0 {
		if longest > 1 {
			return false
		}
		for i := range t[:1<<first] {
			t[i] = invalid
			if used == 1 && i&1 == 0 {
				t[i] = withCode(entry[d.order[0]], 1)
			}
		}
		return true
	}
	count[0] = 0
	d.place(t, first, &count, entry)
	return true
}

// withCode adds a code's length to what an entry says of its symbol.
func withCode(e uint32, n uint) uint32 { return e + uint32(n) | uint32(n)<<8 }

// place fills a table with a complete set of codes, count[n] of n bits, whose
// symbols are in d.order. A stream has a code's first bit lowest, so codes
// are counted up from their highest bit.
func (d *Decoder) place(t []uint32, first uint, count *[maxBits + 2]uint16, entry []uint32) {
	symbols := d.order[:]
	code := uint(0)
	n := uint(1)
	for ; n <= first; n++ {
		// What is known for n-1 bits holds for either next bit.
		copy(t[1<<(n-1):1<<n], t[:1<<(n-1)])
		for range count[n] {
			t[code] = withCode(entry[symbols[0]], n)
			symbols = symbols[1:]
			if code == 1<<n-1 {
				for ; n < first; n++ {
					copy(t[1<<n:1<<(n+1)], t[:1<<n])
				}
				return
			}
			code = after(code, n)
		}
	}
	prefix, start, size := ^uint(0), uint(0), uint(1)<<first
	var width uint
	for ; ; n++ {
		for left := uint(count[n]); left > 0; left-- {
			if p := code & (1<<first - 1); p != prefix {
				prefix, start, width = p, size, n-first
				for room := left; room < 1<<width; {
					width++
					room = room<<1 + uint(count[first+width])
				}
				size += 1 << width
				t[p] = uint32(start)<<16 | uint32(width)<<8 | deeper
			}
			// All of the code's bits are consumed at once.
			e := withCode(entry[symbols[0]], n)
			symbols = symbols[1:]
			for i := code >> first; i < 1<<width; i += 1 << (n - first) {
				t[start+i] = e
			}
			if code == 1<<n-1 {
				return
			}
			code = after(code, n)
		}
	}
}

// after is the code of n bits that follows.
func after(code, n uint) uint {
	bit := uint(1) << (bits.Len(code^(1<<n-1)) - 1)
	return code&(bit-1) | bit
}
