package view

import (
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/compare"
)

// DiffOptions is how a diff is shown.
type DiffOptions struct {
	Look       term.Look
	SideBySide bool
	Old, New   string // what is compared: "base", "c2"
}

// Diff writes files one after another as they come, unified or side by side.
// It is for people: nothing is cut off at the right, long lines go on below,
// and characters that would hide code are escapes. Patches for programs are in
// the record.
func Diff(w io.Writer, files iter.Seq[compare.FileDiff], o DiffOptions) error {
	p := &page{look: o.Look}
	if p.look.Width <= 0 && o.SideBySide {
		p.look.Width = 160
	}
	n, added, deleted := 0, 0, 0
	for f := range files {
		if n > 0 {
			p.line()
		}
		n, added, deleted = n+1, added+f.Added, deleted+f.Deleted
		p.file(f, o.SideBySide)
		if err := p.flush(w); err != nil {
			return err
		}
	}
	if n == 0 {
		p.say(normal, "%s and %s are the same.", o.Old, o.New)
	} else {
		p.line()
		p.say(bold, "%s %s %s: %s, %s", o.Old, p.glyph("→", "->"), o.New, count(n, "file", "files"), p.lines(added, deleted))
	}
	return p.flush(w)
}

// facts are a file's changes other than of lines.
func facts(f compare.FileDiff) []string {
	out := []string{f.Status()}
	if f.Old.Mode != f.New.Mode && f.Old.Mode != "" && f.New.Mode != "" {
		out = append(out, modeWord(f.Old.Mode)+" to "+modeWord(f.New.Mode))
	} else if m := modeWord(f.Old.Mode + f.New.Mode); (f.Old.Mode == "" || f.New.Mode == "") && m != "file" {
		out = append(out, m)
	}
	if f.Status() == "renamed" {
		out = append(out, "was "+f.Old.Path)
	}
	if f.Omitted != "" {
		out = append(out, f.Omitted, fmt.Sprintf("%s to %s", size(f.OldSize), size(f.NewSize)))
	}
	return out
}

func modeWord(mode string) string {
	switch mode {
	case "100644":
		return "file"
	case "100755":
		return "executable"
	case "120000":
		return "link"
	default:
		return mode
	}
}

func (p *page) file(f compare.FileDiff, sideBySide bool) {
	p.para(bold, 0, "%s", f.Path())
	what := ""
	for i, s := range facts(f) {
		if i > 0 {
			what += ", "
		}
		what += s
	}
	if len(f.Hunks) > 0 {
		what += " " + p.lines(f.Added, f.Deleted)
	}
	p.para(dim, 0, "%s", what)
	var old, new colouring
	if p.look.Color {
		old, new = p.painter.colour(f.Old.Path, f.OldText), p.painter.colour(f.New.Path, f.NewText)
	}
	digits := 1
	for _, h := range f.Hunks {
		digits = max(digits, len(strconv.Itoa(h.OldStart+h.OldLines)), len(strconv.Itoa(h.NewStart+h.NewLines)))
	}
	if p.look.Width > 0 && p.look.Width < 60 {
		digits = 0 // no room for numbers
	}
	for _, h := range f.Hunks {
		p.say(cyan, "@@ -%d,%d +%d,%d @@", h.OldStart, h.OldLines, h.NewStart, h.NewLines)
		if sideBySide {
			for _, r := range h.Rows {
				p.sides(r, old, new, digits)
			}
			continue
		}
		for _, r := range unified(h.Rows) {
			p.unifiedRow(r, old, new, digits)
		}
	}
}

// unified puts the old lines of each run of changes before the new ones.
func unified(rows []compare.Row) []compare.Row {
	var out, later []compare.Row
	for _, r := range rows {
		switch r.Kind {
		case compare.Equal:
			out, later = append(append(out, later...), r), nil
		case compare.Change:
			markCR(&r)
			out = append(out, compare.Row{Kind: compare.Delete, Old: r.Old})
			later = append(later, compare.Row{Kind: compare.Insert, New: r.New})
		case compare.Delete:
			out = append(out, r)
		case compare.Insert:
			later = append(later, r)
		}
	}
	return append(out, later...)
}

// markCR makes a change of line ends visible, which is nothing but that.
func markCR(r *compare.Row) {
	if r.Kind == compare.Change && r.Old.CR != r.New.CR {
		for _, l := range []*compare.Line{&r.Old, &r.New} {
			if l.CR {
				l.Text += "\r"
			}
		}
	}
}

func (p *page) unifiedRow(r compare.Row, old, new colouring, digits int) {
	sign, st, l, c := " ", normal, r.New, new
	switch r.Kind {
	case compare.Delete:
		sign, st, l, c = "-", red, r.Old, old
	case compare.Insert:
		sign, st = "+", green
	}
	gutter := bit{p.text("%s", sign), st}
	var numbers bit
	if digits > 0 {
		numbers = bit{p.text("%*s %*s ", digits, number(r.Old.Number), digits, number(r.New.Number)), dim}
	}
	room := 0
	if p.look.Width > 0 {
		room = max(p.look.Width-numbers.text.Width()-1, 4)
	}
	for i, part := range fold(p.code(l, c, st), room) {
		if i > 0 {
			numbers.text = p.text("%*s", numbers.text.Width(), "")
			gutter = bit{p.text(" "), st}
		}
		p.line(append([]bit{numbers, gutter}, part...)...)
	}
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// sides writes a row as two halves; what does not fit into a half goes on below.
func (p *page) sides(r compare.Row, old, new colouring, digits int) {
	markCR(&r)
	half := max((p.look.Width-1)/2, 8)
	left := p.half(r.Old, old, r.Kind != compare.Equal, "-", red, digits, half)
	right := p.half(r.New, new, r.Kind != compare.Equal, "+", green, digits, half)
	for i := range max(len(left), len(right)) {
		var l, rt []bit
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			rt = right[i]
		}
		used := 0
		for _, b := range l {
			used += b.text.Width()
		}
		l = append(l, bit{p.text("%*s", max(half-used, 0), ""), normal}, bit{p.text("%s", p.glyph("│", "|")), dim})
		p.line(append(l, rt...)...)
	}
}

func (p *page) half(l compare.Line, c colouring, changed bool, sign string, st style, digits, width int) [][]bit {
	if l.Number == 0 {
		return nil
	}
	if !changed {
		sign, st = " ", normal
	}
	gutter := []bit{{p.text("%s", sign), st}}
	if digits > 0 {
		gutter = []bit{{p.text("%*d ", digits, l.Number), dim}, gutter[0]}
	}
	used := digits + 1
	if digits > 0 {
		used++
	}
	parts := fold(p.code(l, c, st), max(width-used, 2))
	for i, part := range parts {
		if i > 0 {
			gutter = []bit{{p.text("%*s", used, ""), normal}}
		}
		parts[i] = append(gutter[:len(gutter):len(gutter)], part...)
	}
	return parts
}

// code is a line in its colours: those of its tokens, and st, the colour of the
// row, for what is no token.
func (p *page) code(l compare.Line, c colouring, st style) []bit {
	var out []bit
	for _, piece := range pieces(l, c.line(l.Number)) {
		s, ok := tokenStyles[piece.token]
		if !ok {
			s = st
		}
		if piece.changed {
			s = s.with(turned)
		}
		out = append(out, bit{p.fit(piece.text), s})
	}
	return out
}

// fold breaks bits into lines of at most width cells; 0 is no limit.
func fold(bits []bit, width int) [][]bit {
	if width <= 0 {
		return [][]bit{bits}
	}
	out := [][]bit{nil}
	room := width
	for _, b := range bits {
		for b.text.String() != "" {
			head, tail := b.text.Split(room)
			if head.String() == "" && room < width {
				out, room = append(out, nil), width
				continue
			}
			if head.String() == "" { // a letter wider than the line
				head, tail = tail, head
			}
			out[len(out)-1] = append(out[len(out)-1], bit{head, b.style})
			room -= head.Width()
			b.text = tail
		}
	}
	return out
}
