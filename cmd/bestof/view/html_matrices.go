package view

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

type htmlStep struct {
	Words   term.Safe
	Values  []string
	Decided string
}

// ranked are the indices of the candidates that have a place.
func ranked(m compare.Model) []int {
	var out []int
	for i, c := range m.Candidates {
		if c.Place > 0 {
			out = append(out, i)
		}
	}
	return out
}

// Ranked are the columns of Steps.
func (v *htmlPage) Ranked() []string {
	var out []string
	for _, i := range ranked(v.html.Model) {
		out = append(out, id(v.html.Model.Candidates[i].Number))
	}
	return out
}

// Steps are what the judge ranked by, in its order.
func (v *htmlPage) Steps() []htmlStep {
	m := v.html.Model
	var out []htmlStep
	for i, s := range m.Steps {
		step := htmlStep{Words: clean(fmt.Sprintf("%d. %s", i+1, stepWords(s))), Decided: ids(s.Decided)}
		for _, k := range ranked(m) {
			step.Values = append(step.Values, stepValue(s, k))
		}
		out = append(out, step)
	}
	return out
}

type htmlCells[T any] struct {
	Count string
	Open  bool
	Rows  []T
	Left  string
	Notes []term.Safe
}

type htmlTest struct {
	Name  term.Safe
	Cells []htmlMark
}

type htmlMark struct{ Text, Good string }

func testMark(s record.TestStatus) htmlMark {
	switch s {
	case record.TestPassed:
		return htmlMark{"passed", class(green)}
	case record.TestFailed:
		return htmlMark{"failed", class(red)}
	case record.TestMissing:
		return htmlMark{"missing", class(red)}
	case record.TestSkipped:
		return htmlMark{"skipped", class(yellow)}
	default:
		return htmlMark{}
	}
}

// Tests is the matrix of tests and candidates; nil where no test is recorded
// one by one.
func (v *htmlPage) Tests() *htmlCells[htmlTest] {
	m := v.html.Model
	if len(m.Tests.Rows) == 0 {
		return nil
	}
	out := &htmlCells[htmlTest]{Count: testCounts(m.Tests), Open: len(m.Tests.Rows) <= 50}
	for _, t := range m.Tests.Rows[:min(len(m.Tests.Rows), maxPageList)] {
		row := htmlTest{Name: clean(t.Name), Cells: []htmlMark{testMark(t.Base)}}
		for _, s := range t.Status {
			row.Cells = append(row.Cells, testMark(s))
		}
		out.Rows = append(out.Rows, row)
	}
	for _, n := range testNotes(m.Tests) {
		out.Notes = append(out.Notes, clean(n))
	}
	if n := len(m.Tests.Rows) - maxPageList; n > 0 {
		out.Notes = append(out.Notes, clean(count(n, "test is", "tests are")+" not listed here: "+compareCommand(m, "--json")))
	}
	return out
}

type htmlShared struct {
	ID    string
	Cells []string
}

// changed are the indices of the candidates that changed something.
func changed(m compare.Model) []int {
	var out []int
	for i, c := range m.Candidates {
		if c.Cluster >= 0 {
			out = append(out, i)
		}
	}
	return out
}

// Shared is the matrix of the candidates with each other.
func (v *htmlPage) Shared() []htmlShared {
	m := v.html.Model
	who := changed(m)
	if len(who) < 2 {
		return nil
	}
	overlaps := m.Overlaps()
	var out []htmlShared
	for _, i := range who {
		row := htmlShared{ID: id(m.Candidates[i].Number)}
		for _, j := range who {
			row.Cells = append(row.Cells, overlapWords(overlaps[i][j], m.Looked.Done))
		}
		out = append(out, row)
	}
	return out
}

type htmlRegion struct {
	Path  term.Safe
	Lines string
	Cells []htmlCell
}

// Regions is the matrix of the changed places and the candidates.
func (v *htmlPage) Regions() *htmlCells[htmlRegion] {
	m := v.html.Model
	if len(m.Regions) == 0 {
		return nil
	}
	out := &htmlCells[htmlRegion]{Count: regionCounts(m), Open: len(m.Regions) <= 50}
	for _, r := range m.Regions[:min(len(m.Regions), maxPageList)] {
		row := htmlRegion{Path: clean(r.Path), Lines: regionLines(r), Cells: make([]htmlCell, len(r.Variant))}
		for i, n := range r.Variant {
			row.Cells[i] = htmlCell{Text: clean(variantLetter(n)), Same: n > 0 && shared(r.Variant, n)}
		}
		out.Rows = append(out.Rows, row)
	}
	if n := m.Looked.Regions - len(out.Rows); n > 0 {
		out.Left = fmt.Sprintf("%s not listed here; those that most candidates changed come first. %s lists up to %d", count(n, "place is", "places are"), compareCommand(m, "--json"), compare.MaxRegions)
	}
	return out
}

// Looked says what of the contents was not looked into.
func (v *htmlPage) Looked() term.Safe { return clean(lookedWords(v.html.Model.Looked)) }

func shared(variants []int, n int) bool {
	i := slices.Index(variants, n)
	return slices.Contains(variants[i+1:], n)
}

type htmlLog struct {
	Name  term.Safe
	Size  string
	Lines []term.Safe
	Left  term.Safe
}

// logs are what a candidate's agent and tests printed, without the colours and
// movements that they wrote for a terminal.
func (v *htmlPage) logs(number int) iter.Seq[htmlLog] {
	return func(yield func(htmlLog) bool) {
		for _, l := range v.html.Logs(number) {
			out := htmlLog{Name: clean(l.Name), Size: size(len(l.Text)), Left: clean(l.Left)}
			if v.bytes -= len(l.Text); v.bytes <= 0 {
				v.bytes = 0
				out.Left = clean("The page is full. " + l.Left)
			} else {
				for line := range strings.SplitSeq(strings.TrimRight(ansi.Strip(l.Text), "\n"), "\n") {
					safe, _ := untab(strings.TrimSuffix(line, "\r"), 0)
					out.Lines = append(out.Lines, safe)
				}
			}
			if !yield(out) {
				return
			}
		}
	}
}
