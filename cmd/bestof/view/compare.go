package view

import (
	"fmt"
	"io"
	"slices"

	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/compare"
)

// maxMatrix is how many files the terminal's overlap matrix lists; the page of
// CompareHTML lists all.
const maxMatrix = 40

// Compare writes the candidates side by side: the standing, who made the same
// change, the requirements and the files that they touched.
func Compare(w io.Writer, m compare.Model, o Options) error {
	p := &page{look: o.Look}
	p.para(bold, 0, "Run %s: %s, %s changed, %s", m.Run, count(len(m.Candidates), "candidate", "candidates"),
		count(len(m.Files), "file", "files"), count(len(m.Clusters), "different change", "different changes"))
	if m.Winner > 0 {
		p.para(green, 0, "Winner: %s. %s", id(m.Winner), m.Reason)
	} else if m.Reason != "" {
		p.para(yellow, 0, "No winner. %s", m.Reason)
	}
	if len(m.Candidates) == 0 {
		return p.flush(w)
	}
	p.line()
	p.standing(m)
	p.line()
	p.clusters(m)
	p.requirements(m)
	p.overlap(m)
	return p.flush(w)
}

func (p *page) clusters(m compare.Model) {
	p.say(bold, "Same change")
	alone := 0
	for _, c := range m.Clusters {
		if len(c.Candidates) == 1 {
			alone++
			continue
		}
		p.para(normal, 2, "%s: %s", ids(c.Candidates), basisWords(c))
	}
	switch {
	case len(m.Clusters) == 0:
		p.para(dim, 2, "nobody changed anything")
	case alone == len(m.Clusters):
		p.para(dim, 2, "no two made the same")
	case alone > 0:
		p.para(dim, 2, "%s on their own", count(alone, "candidate", "candidates"))
	}
}

// requirements is a matrix: one row for each requirement, one column for each
// candidate that was judged.
func (p *page) requirements(m compare.Model) {
	names := m.RequirementNames()
	if len(names) == 0 {
		return
	}
	p.line()
	p.say(bold, "Requirements")
	mark := map[judge.Decision]bit{
		judge.Met:       {p.text("met"), green},
		judge.Unmet:     {p.text("no"), red},
		judge.Undecided: {p.text("?"), yellow},
	}
	var judged []int
	for j, c := range m.Candidates {
		if len(c.Requirements) > 0 {
			judged = append(judged, j)
		}
	}
	p.matrix("requirement", m, judged, 4, len(names), func(i, j int) bit {
		for _, r := range m.Candidates[j].Requirements {
			if r.Name == names[i] {
				return mark[r.Decision]
			}
		}
		return bit{}
	}, func(i int) string { return names[i] })
}

// overlap is a matrix: one row for each file, one column for each candidate
// that changed something.
func (p *page) overlap(m compare.Model) {
	if len(m.Files) == 0 {
		return
	}
	p.line()
	p.say(bold, "Files")
	n := min(len(m.Files), maxMatrix)
	narrow := p.look.Width > 0 && p.look.Width < 60
	cell := 7
	if narrow {
		cell = 4
	}
	var changed []int
	for j, c := range m.Candidates {
		if c.Cluster >= 0 {
			changed = append(changed, j)
		}
	}
	p.matrix("file", m, changed, cell, n, func(i, j int) bit {
		f := m.Files[i]
		t := f.Touch[j]
		var b bit
		switch {
		case t == nil:
			return bit{p.text("%s", p.glyph("·", ".")), dim}
		case narrow:
			b.text = p.text("x")
		case t.Binary:
			b.text = p.text("binary")
		case t.Added == 0 && t.Deleted == 0:
			b.text = p.text("%s", t.Status)
		default:
			b.text = p.text("%s", p.lines(t.Added, t.Deleted))
		}
		if f.Same && f.By > 1 {
			b.style = cyan
		}
		return b
	}, func(i int) string { return m.Files[i].Path })
	if rest := len(m.Files) - n; rest > 0 {
		p.para(dim, 0, "%s: bestof compare %s --html FILE lists all", count(rest, "more file", "more files"), m.Run)
	}
}

// matrix writes rows with a column for each of the candidates which, by their
// index, in as many blocks as the width asks for.
func (p *page) matrix(head string, m compare.Model, which []int, cell, rows int, at func(i, j int) bit, name func(i int) string) {
	per := max(len(which), 1)
	if p.look.Width > 0 {
		per = min(per, max(1, (p.look.Width-min(p.look.Width/2, 30))/(cell+2)))
	}
	for block := range slices.Chunk(which, per) {
		if block[0] != which[0] {
			p.line()
		}
		columns := []column{{head: head, shrink: 1, least: 8, paths: true}}
		for _, j := range block {
			title := id(m.Candidates[j].Number)
			if m.Candidates[j].Number == m.Winner {
				title += "*"
			}
			columns = append(columns, column{head: title})
		}
		var out [][]bit
		for i := range rows {
			row := []bit{{p.text("%s", name(i)), normal}}
			for _, j := range block {
				row = append(row, at(i, j))
			}
			out = append(out, row)
		}
		p.table(columns, out)
	}
}

func size(n int) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
}
