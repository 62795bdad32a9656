package patch

import "strings"

// Base85 is the alphabet in which git writes bytes: five digits for four.
const Base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// binary reads the data of a binary file: forward and maybe back.
func (r *reader) binary(b *Binary) error {
	if err := r.data(&b.Forward); err != nil {
		return err
	}
	if b.Forward.Kind == "" {
		return r.fail("there is no data")
	}
	return r.data(&b.Reverse)
}

// data reads one direction, if it is there: a line with its size, lines of
// digits and an empty line.
func (r *reader) data(d *Data) error {
	for _, kind := range []string{"literal", "delta"} {
		size, ok, err := r.after(kind + " ")
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		d.Kind = kind
		if d.Size, err = number(size); err != nil {
			return r.fail("%w", err)
		}
		for {
			line, err := r.next()
			if err != nil {
				return err
			}
			if line == "" {
				break
			}
			n := encoded(line)
			if n == 0 {
				return r.fail("%.80q is no line of data", line)
			}
			d.Packed += n
		}
		if d.Packed == 0 {
			return r.fail("there is no data")
		}
		return nil
	}
	return nil
}

var isDigit = func() (is [256]bool) {
	for i := range len(Base85) {
		is[Base85[i]] = true
	}
	return is
}()

// encoded is how many bytes a line of data holds, 0 when it is none: first
// their number as a letter, then their digits.
func encoded(line string) int {
	n := 0
	switch c := line[0]; {
	case 'A' <= c && c <= 'Z':
		n = int(c-'A') + 1
	case 'a' <= c && c <= 'z':
		n = int(c-'a') + 27
	default:
		return 0
	}
	digits := line[1:]
	if len(digits) != (n+3)/4*5 || strings.ContainsFunc(digits, func(c rune) bool { return c > 0x7f || !isDigit[c] }) {
		return 0
	}
	for ; digits != ""; digits = digits[5:] {
		v := uint64(0)
		for i := range 5 {
			v = v*85 + uint64(strings.IndexByte(Base85, digits[i]))
		}
		if v > 1<<32-1 {
			return 0
		}
	}
	return n
}
