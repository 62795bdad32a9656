// Package term is the only way to a terminal: it cleans text that others
// wrote, and says what a stream can show.
package term

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Safe is text that cannot move a cursor, hide itself or reorder what stands
// around it: it holds no control, bidirectional, zero-width or otherwise
// invisible character and no invalid UTF-8. Only Clean makes one, so a
// function that takes a Safe cannot be handed raw text. The zero value is the
// empty text.
type Safe struct{ s string }

// maxMarks is how many combining marks one letter may carry; no script needs
// more, and a tower of them covers the lines above.
const maxMarks = 4

// Clean returns s with everything that does not print written as an escape:
// \u{1b} for a character, \x{9b} for a byte that is not UTF-8, so different
// texts stay different. When max is positive the result is at most max cells
// wide, with … for what was cut.
func Clean(s string, max int) Safe {
	if max > 0 && len(s) > 64*max {
		// More than any max cells can need, unless it is all marks: those
		// are escaped beyond maxMarks.
		s = s[:64*max]
	}
	safe := Safe{s}
	if !plain(s) {
		safe.s = escape(s)
	}
	if max > 0 {
		safe = safe.Cut(max, "…")
	}
	return safe
}

// plain reports whether s is printable ASCII, as nearly all text is.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

func escape(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 16)
	marks := maxMarks // a mark without a letter before it would sit on ours
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x{%02x}`, s[i])
			marks = 0
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc) && visible(r):
			if marks++; marks > maxMarks {
				fmt.Fprintf(&b, `\u{%x}`, r)
			} else {
				b.WriteRune(r)
			}
		case visible(r):
			b.WriteRune(r)
			marks = 0
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
			marks = 0
		}
		i += size
	}
	return b.String()
}

// visible reports whether r shows something of its own. unicode.IsPrint
// refuses controls, bidi and zero-width format characters, private use and
// every space but U+0020; what it lets through although nothing is seen is
// listed here.
func visible(r rune) bool {
	switch {
	case !unicode.IsPrint(r),
		r == 0x034f,              // combining grapheme joiner
		r == 0x115f, r == 0x1160, // Hangul fillers
		r == 0x3164, r == 0xffa0, // Hangul fillers
		r == 0x17b4, r == 0x17b5, // Khmer inherent vowels
		r == 0x2800,                  // Braille blank
		r >= 0x180b && r <= 0x180f,   // Mongolian variation selectors
		r >= 0xfe00 && r <= 0xfe0f,   // variation selectors
		r >= 0xe0000 && r <= 0xe0fff, // tags and more variation selectors
		r >= 0x1f3fb && r <= 0x1f3ff, // skin tones: terminals disagree on their width
		r >= 0x1f1e6 && r <= 0x1f1ff: // regional indicators: likewise
		return false
	}
	return true
}

// String returns the text.
func (s Safe) String() string { return s.s }

// Width is the number of cells that s takes on a terminal.
func (s Safe) Width() int {
	if plain(s.s) {
		return len(s.s)
	}
	return ansi.StringWidth(s.s)
}

// Cut returns s if it is at most max cells wide, and otherwise as much of its
// beginning as fits together with mark.
func (s Safe) Cut(max int, mark string) Safe {
	if s.Width() <= max {
		return s
	}
	m := Clean(mark, 0)
	if m.Width() > max {
		m = Safe{}
	}
	head, _ := s.Split(max - m.Width())
	return Safe{head.s + m.s}
}

// CutLeft is Cut for texts whose end says more than their beginning, such as
// paths.
func (s Safe) CutLeft(max int, mark string) Safe {
	w := s.Width()
	if w <= max {
		return s
	}
	m := Clean(mark, 0)
	if m.Width() > max {
		m = Safe{}
	}
	_, tail := s.splitAtLeast(w - max + m.Width())
	return Safe{m.s + tail.s}
}

// Split divides s after at most width cells, never inside a letter and its
// marks.
func (s Safe) Split(width int) (head, tail Safe) {
	n := s.index(width, false)
	return Safe{s.s[:n]}, Safe{s.s[n:]}
}

func (s Safe) splitAtLeast(width int) (head, tail Safe) {
	n := s.index(width, true)
	return Safe{s.s[:n]}, Safe{s.s[n:]}
}

// index is the byte offset after width cells; a letter that straddles the
// border belongs to the head when over is set.
func (s Safe) index(width int, over bool) int {
	if plain(s.s) {
		return min(max(width, 0), len(s.s))
	}
	i, cells := 0, 0
	for i < len(s.s) {
		cluster, w := ansi.FirstGraphemeCluster(s.s[i:], ansi.GraphemeWidth)
		if cells+w > width && !(over && cells < width) {
			break
		}
		i, cells = i+len(cluster), cells+w
	}
	return i
}

// Pad returns s followed by spaces up to width cells.
func (s Safe) Pad(width int) Safe {
	if n := width - s.Width(); n > 0 {
		return Safe{s.s + strings.Repeat(" ", n)}
	}
	return s
}

// PadLeft returns s after as many spaces as make it width cells wide.
func (s Safe) PadLeft(width int) Safe {
	if n := width - s.Width(); n > 0 {
		return Safe{strings.Repeat(" ", n) + s.s}
	}
	return s
}

// ASCII returns s with every character beyond ASCII written as an escape, for
// terminals that do not speak UTF-8.
func (s Safe) ASCII() Safe {
	if plain(s.s) {
		return s
	}
	var b strings.Builder
	for _, r := range s.s {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return Safe{b.String()}
}
