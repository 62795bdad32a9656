package term

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns the same JSON value with every character in it that does not
// print written as \uXXXX, so that a document with others' texts can be shown
// on a terminal. Line ends between values stay.
func JSON(b []byte) []byte {
	at := bytes.IndexFunc(b, hidden)
	if at < 0 {
		return b
	}
	out := append(make([]byte, 0, len(b)+64), b[:at]...)
	for at < len(b) {
		r, size := utf8.DecodeRune(b[at:])
		switch {
		case !hidden(r):
			out = append(out, b[at:at+size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = unit(unit(out, high), low)
		default:
			out = unit(out, r)
		}
		at += size
	}
	return out
}

func hidden(r rune) bool { return r != '\n' && !visible(r) }

func unit(b []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
