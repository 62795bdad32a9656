// Package view shows runs: live on a terminal, as plain lines, as JSON, as
// tables, as diffs and as one HTML page. Renderers fold events or records and
// hold no truth of their own; they do no I/O but on the writer they are given,
// and every text that reaches it went through term.Clean.
package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/term"
)

// A style is an SGR parameter string, written only when there are colours.
// They are of the basic sixteen, which every theme keeps legible.
type style string

const (
	normal style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	blue   style = "34"
	purple style = "35"
	cyan   style = "36"
	turned style = "7" // reversed: words that differ
)

func (s style) with(t style) style {
	if s == normal {
		return t
	}
	return s + ";" + t
}

// A bit is a piece of a line.
type bit struct {
	text  term.Safe
	style style
}

// A page collects lines for a stream of a certain look.
type page struct {
	look    term.Look
	painter painter
	b       strings.Builder
}

// text is the one way from strings to a page: whatever was formatted is
// cleaned as a whole.
func (p *page) text(format string, args ...any) term.Safe {
	return p.fit(term.Clean(fmt.Sprintf(format, args...), 0))
}

func (p *page) fit(s term.Safe) term.Safe {
	if !p.look.UTF8 {
		return s.ASCII()
	}
	return s
}

func (p *page) glyph(utf8, ascii string) string {
	if p.look.UTF8 {
		return utf8
	}
	return ascii
}

func (p *page) more() string { return p.glyph("…", "...") }

// cut shortens s to width cells; 0 is no limit.
func (p *page) cut(s term.Safe, width int) term.Safe {
	if width <= 0 {
		return s
	}
	return s.Cut(width, p.more())
}

func (p *page) write(bits ...bit) {
	for _, b := range bits {
		if p.look.Color && b.style != normal && b.text.String() != "" {
			p.b.WriteString("\x1b[" + string(b.style) + "m" + b.text.String() + "\x1b[0m")
		} else {
			p.b.WriteString(b.text.String())
		}
	}
}

func (p *page) line(bits ...bit) {
	p.write(bits...)
	p.b.WriteByte('\n')
}

// fill writes bits as one line, cut at the page's width.
func (p *page) fill(bits ...bit) {
	for room, i := p.look.Width, 0; p.look.Width > 0 && i < len(bits); i++ {
		if w := bits[i].text.Width(); w >= room {
			bits[i].text = p.cut(bits[i].text, max(room, 1))
			bits = bits[:i+1]
		} else {
			room -= w
		}
	}
	p.line(bits...)
}

func (p *page) say(s style, format string, args ...any) {
	p.line(bit{p.text(format, args...), s})
}

// para writes text wrapped at words to the page's width, each line after an
// indentation.
func (p *page) para(s style, indent int, format string, args ...any) {
	p.item(bit{p.text("%*s", indent, ""), normal}, s, format, args...)
}

// item is para with something in front of its first line.
func (p *page) item(head bit, s style, format string, args ...any) {
	t, indent := p.text(format, args...), head.text.Width()
	room := p.look.Width - indent
	if p.look.Width <= 0 {
		p.line(head, bit{t, s})
		return
	}
	for {
		var first term.Safe
		first, t = wrap(t, max(room, 8))
		p.line(head, bit{first, s})
		if t.String() == "" {
			return
		}
		head = bit{p.text("%*s", indent, ""), normal}
	}
}

// wrap divides t after the last word that ends within width cells.
func wrap(t term.Safe, width int) (first, rest term.Safe) {
	head, tail := t.Split(width)
	if tail.String() == "" {
		return head, tail
	}
	if !strings.HasPrefix(tail.String(), " ") {
		if i := strings.LastIndexByte(head.String(), ' '); i > 0 {
			h, _ := head.Split(term.Clean(head.String()[:i], 0).Width())
			_, tail = t.Split(h.Width())
			head = h
		} else if head.String() == "" { // a letter wider than the line
			return t.Split(width + 1)
		}
	}
	return term.Clean(strings.TrimRight(head.String(), " "), 0), term.Clean(strings.TrimLeft(tail.String(), " "), 0)
}

func (p *page) flush(w io.Writer) error {
	_, err := io.WriteString(w, p.b.String())
	p.b.Reset()
	return err
}

// A column of a table. The widths of a table are those of its cells; when that
// is more than the page has, columns with a higher Shrink are cut first.
type column struct {
	head   string
	right  bool
	shrink int
	least  int  // cells it keeps when cut; below that it is left out
	paths  bool // cut on the left
}

func (p *page) table(columns []column, rows [][]bit) {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = p.text("%s", c.head).Width()
		for _, r := range rows {
			widths[i] = max(widths[i], r[i].text.Width())
		}
	}
	p.shrink(columns, widths)
	head := make([]bit, len(columns))
	for i, c := range columns {
		head[i] = bit{p.text("%s", c.head), dim}
	}
	for _, r := range append([][]bit{head}, rows...) {
		var out []bit
		for i, b := range r {
			if widths[i] == 0 {
				continue
			}
			t := b.text
			if columns[i].paths {
				t = t.CutLeft(widths[i], p.more())
			} else {
				t = p.cut(t, widths[i])
			}
			pad := bit{p.text("%*s", widths[i]-t.Width(), ""), normal}
			if len(out) > 0 {
				out = append(out, bit{p.text("  "), normal})
			}
			if columns[i].right {
				out = append(out, pad, bit{t, b.style})
			} else {
				out = append(out, bit{t, b.style}, pad)
			}
		}
		for len(out) > 0 && strings.TrimSpace(out[len(out)-1].text.String()) == "" {
			out = out[:len(out)-1]
		}
		p.line(out...)
	}
}

func (p *page) shrink(columns []column, widths []int) {
	if p.look.Width <= 0 {
		return
	}
	total := func() (n int) {
		for _, w := range widths {
			if w > 0 {
				n += w + 2
			}
		}
		return n - 2
	}
	top := 0
	for _, c := range columns {
		top = max(top, c.shrink)
	}
	for level := top; level > 0; level-- {
		for i, c := range columns {
			if over := total() - p.look.Width; over > 0 && c.shrink == level && widths[i] > 0 {
				widths[i] = max(widths[i]-over, min(c.least, widths[i]))
			}
		}
	}
	for level := top; level > 0 && total() > p.look.Width; level-- {
		for i, c := range columns {
			if c.shrink == level && total() > p.look.Width {
				widths[i] = 0
			}
		}
	}
}

// elapsed is a duration as people read one: 0:07, 12:30, 1:02:03.
func elapsed(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

func (p *page) lines(added, deleted int) string {
	return fmt.Sprintf("+%d %s%d", added, p.glyph("−", "-"), deleted)
}

func outcomeStyle(o candidate.Outcome) style {
	switch o {
	case candidate.Met:
		return green
	case candidate.Undecided, candidate.Empty, candidate.Cancelled, candidate.Infrastructure:
		return yellow
	case "":
		return normal
	default:
		return red
	}
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
