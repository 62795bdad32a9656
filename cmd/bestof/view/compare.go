package view

import (
	"fmt"
	"io"

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
	p.say(bold, "Run %s: %s, %s changed, %s", m.Run, count(len(m.Candidates), "candidate", "candidates"),
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
		switch {
		case len(c.Candidates) == 1:
			alone++
		case len(c.Exact) == 1:
			p.para(normal, 2, "%s: byte for byte", ids(c.Candidates))
		default:
			p.para(normal, 2, "%s: but for white space", ids(c.Candidates))
		}
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
// candidate.
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
	p.matrix("requirement", m, len(names), 6, func(i int) (string, []bit) {
		row := make([]bit, len(m.Candidates))
		for j, c := range m.Candidates {
			for _, r := range c.Requirements {
				if r.Name == names[i] {
					row[j] = mark[r.Decision]
				}
			}
		}
		return names[i], row
	})
}

func (p *page) overlap(m compare.Model) {
	if len(m.Files) == 0 {
		return
	}
	p.line()
	p.say(bold, "Files")
	n := min(len(m.Files), maxMatrix)
	p.matrix("file", m, n, 9, func(i int) (string, []bit) {
		f := m.Files[i]
		row := make([]bit, len(m.Candidates))
		for j, t := range f.Touch {
			switch {
			case t == nil:
				row[j] = bit{p.text("%s", p.glyph("·", ".")), dim}
			case t.Binary:
				row[j] = bit{p.text("binary"), normal}
			case t.Added == 0 && t.Deleted == 0:
				row[j] = bit{p.text("%s", t.Status), normal}
			default:
				row[j] = bit{p.text("%s", p.lines(t.Added, t.Deleted)), normal}
			}
			if t != nil && f.Same && f.By > 1 {
				row[j].style = cyan
			}
		}
		return f.Path, row
	})
	if rest := len(m.Files) - n; rest > 0 {
		p.say(dim, "%s: bestof compare %s --html FILE lists all", count(rest, "more file", "more files"), m.Run)
	}
}

// matrix writes rows with a column for each candidate, in as many blocks as the
// width asks for.
func (p *page) matrix(head string, m compare.Model, rows, cell int, row func(int) (string, []bit)) {
	per := len(m.Candidates)
	if p.look.Width > 0 {
		per = min(per, max(1, (p.look.Width-min(p.look.Width/2, 30))/(cell+2)))
	}
	for from := 0; from < len(m.Candidates); from += per {
		to := min(from+per, len(m.Candidates))
		columns := []column{{head: head, shrink: 1, least: 8, paths: true}}
		for _, c := range m.Candidates[from:to] {
			name := id(c.Number)
			if c.Number == m.Winner {
				name += "*"
			}
			columns = append(columns, column{head: name})
		}
		var out [][]bit
		for i := range rows {
			name, cells := row(i)
			out = append(out, append([]bit{{p.text("%s", name), normal}}, cells[from:to]...))
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
