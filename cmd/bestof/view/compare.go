package view

import (
	"fmt"
	"io"
	"slices"

	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
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
	p.steps(m)
	p.line()
	p.clusters(m)
	p.requirements(m)
	p.tests(m)
	p.shared(m)
	p.regions(m)
	p.overlap(m)
	return p.flush(w)
}

// steps are what the judge ranked by, in its order, as far as something was
// decided by them.
func (p *page) steps(m compare.Model) {
	who := ranked(m)
	if len(who) < 2 {
		return
	}
	p.line()
	p.say(bold, "What decided")
	p.matrix("step", m, who, 4, len(m.Steps), func(i, j int) bit {
		b := bit{text: p.text("%s", stepValue(m.Steps[i], j))}
		if slices.Contains(m.Steps[i].Decided, m.Candidates[j].Number) {
			b.style = yellow
		}
		return b
	}, func(i int) string { return fmt.Sprintf("%d. %s", i+1, stepWords(m.Steps[i])) })
	for _, s := range m.Steps {
		if len(s.Decided) > 0 {
			p.para(dim, 2, "%s put %s below the place above", stepWords(s), ids(s.Decided))
		}
	}
}

// tests is a matrix: one row for each test that somebody did not pass.
func (p *page) tests(m compare.Model) {
	if len(m.Tests.Rows) == 0 {
		return
	}
	p.line()
	p.say(bold, "Tests")
	p.para(dim, 2, "%s", testCounts(m.Tests))
	rows := slices.Clone(m.Tests.Rows)
	rows = slices.DeleteFunc(rows, func(t compare.Test) bool { return !t.Told() })
	n := min(len(rows), maxMatrix)
	if n > 0 {
		all := make([]int, 0, len(m.Candidates))
		for j, c := range m.Candidates {
			if !slices.Contains(m.Tests.Unread, c.Number) {
				all = append(all, j)
			}
		}
		p.matrix("test", m, all, 4, n, func(i, j int) bit { return p.testBit(rows[i].Status[j]) }, func(i int) string {
			if b := rows[i].Base; b != "" {
				return rows[i].Name + " (base: " + string(b) + ")"
			}
			return rows[i].Name
		})
	}
	if rest := len(rows) - n; rest > 0 {
		p.para(dim, 2, "%s that not all passed: %s", count(rest, "more test", "more tests"), compareCommand(m, "--html FILE"))
	}
	for _, note := range testNotes(m.Tests) {
		p.para(dim, 2, "%s", note)
	}
}

func (p *page) testBit(s record.TestStatus) bit {
	switch s {
	case record.TestPassed:
		return bit{p.text("pass"), green}
	case record.TestFailed:
		return bit{p.text("FAIL"), red}
	case record.TestMissing:
		return bit{p.text("none"), red}
	case record.TestSkipped:
		return bit{p.text("skip"), yellow}
	default:
		return bit{}
	}
}

// shared is the matrix of the candidates with each other.
func (p *page) shared(m compare.Model) {
	who := changed(m)
	if len(who) < 2 {
		return
	}
	p.line()
	p.say(bold, "Overlap")
	overlaps := m.Overlaps()
	shown := who[:min(len(who), maxMatrix)]
	p.matrix("with", m, who, 6, len(shown), func(i, j int) bit {
		o := overlaps[who[i]][j]
		b := bit{text: p.text("%d", o.Shared)}
		if m.Looked.Done {
			b.text = p.text("%d/%d", o.Shared, o.SharedRegions)
		}
		if who[i] == j {
			b.style = dim
		}
		return b
	}, func(i int) string { return id(m.Candidates[who[i]].Number) })
	if m.Looked.Done {
		p.para(dim, 2, "files / places of the base that both changed")
	} else {
		p.para(dim, 2, "files that both changed")
	}
	if rest := len(who) - len(shown); rest > 0 {
		p.para(dim, 2, "%s: %s", count(rest, "more candidate", "more candidates"), compareCommand(m, "--html FILE"))
	}
	if words := lookedWords(m.Looked); words != "" {
		p.para(yellow, 2, "%s", words)
	}
}

// regions is a matrix: one row for each place of the base that more than one
// candidate changed.
func (p *page) regions(m compare.Model) {
	n := 0
	for n < len(m.Regions) && m.Regions[n].By > 1 {
		n++
	}
	if n == 0 {
		return
	}
	p.line()
	p.say(bold, "Places")
	shown := min(n, maxMatrix)
	p.matrix("lines", m, changed(m), 4, shown, func(i, j int) bit {
		v := m.Regions[i].Variant[j]
		if v == 0 {
			return bit{p.text("%s", p.glyph("·", ".")), dim}
		}
		b := bit{text: p.text("%s", variantLetter(v))}
		if shared(m.Regions[i].Variant, v) {
			b.style = cyan
		}
		return b
	}, func(i int) string { return m.Regions[i].Path + ":" + regionLines(m.Regions[i]) })
	p.para(dim, 2, "equal letters are equal new text")
	if rest := n - shown; rest > 0 {
		p.para(dim, 2, "%s: %s", count(rest, "more place", "more places"), compareCommand(m, "--html FILE"))
	}
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
		p.para(dim, 0, "%s: %s lists all", count(rest, "more file", "more files"), compareCommand(m, "--html FILE"))
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
