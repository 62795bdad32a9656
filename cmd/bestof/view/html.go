package view

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/compare"
)

// What a page holds of code; after that it names the command that shows the
// rest.
const (
	maxPageRows  = 50_000
	maxPageBytes = 8 << 20 // of the text of rows and logs
	maxPageFiles = 5_000   // in all sections
	maxPageList  = 500     // rows of a matrix
)

// HTML is what CompareHTML needs besides a writer.
type HTML struct {
	Model compare.Model
	// Files yields what differs between the trees of two candidates, 0 being
	// the base. It may be nil: then the page has no code.
	Files func(from, to int) (iter.Seq[compare.FileDiff], error)
	// Pairs of candidates to show besides the base with each.
	Pairs [][2]int
	// Logs are shown beside the change of a candidate. It may be nil.
	Logs func(number int) []Log
	// Link is where the code between two candidates is shown, "" where on this
	// page. It may be nil.
	Link func(from, to int) string
	// Unified shows code unified, and not side by side.
	Unified bool
}

// A Log is what an agent or a test printed, or the parts of it that are at
// hand.
type Log struct {
	Name string
	Text string
	Left string // what is not in Text and where it is, "" when nothing
}

// CompareHTML writes one page that needs nothing but itself: no script, no
// request, and a policy that forbids both. Texts of candidates are cleaned like
// for a terminal, and html/template does the quoting.
func CompareHTML(w io.Writer, h HTML) error {
	if err := shell("compare").Execute(w, h.Body()); err != nil {
		return fmt.Errorf("comparison of %s: %w", h.Model.Run, err)
	}
	return nil
}

// Body is the data of the blocks "compare-head" and "compare".
func (h HTML) Body() any {
	return &htmlPage{html: h, rows: maxPageRows, bytes: maxPageBytes, files: maxPageFiles}
}

// Changes is the data of the block "changes": the code between two candidates,
// 0 being the base, with the logs of the second, whatever Link says.
func (h HTML) Changes(from, to int) any {
	h.Link = nil
	v := h.Body().(*htmlPage)
	v.open = true
	s := v.section(from, to)
	s.Open = true
	return s
}

// Blocks are the parts of pages as blocks of templates, to be used inside
// other layouts with the style sheet of Style: "compare-head" and "compare" of
// HTML.Body, "changes" of HTML.Changes, "batch-head" and "batch-compare" of
// BatchView.Body, and "numbers-head" and "numbers" of NumbersBody.
func Blocks() (*template.Template, error) {
	t := template.New("blocks")
	for _, source := range []string{compareSource, compareBatchSource, numbersSource} {
		if _, err := t.Parse(source); err != nil {
			return nil, err
		}
	}
	return t, nil
}

//go:embed page.html
var pageSource string

//go:embed compare.html
var compareSource string

//go:embed compare_batch.html
var compareBatchSource string

//go:embed page.css
var pageStyle string

// shells are whole pages around the blocks NAME-head and NAME.
var shells = sync.OnceValue(func() map[string]*template.Template {
	all := map[string]*template.Template{}
	for name, body := range map[string]string{"compare": "compare", "batch": "batch-compare"} {
		t := template.Must(Blocks())
		template.Must(t.Parse(`{{define "head"}}{{template "` + name + `-head" .}}{{end}}{{define "body"}}{{template "` + body + `" .}}{{end}}`))
		all[name] = template.Must(t.New("page").Parse(strings.Replace(pageSource, "/*style*/", pageStyle, 1)))
	}
	return all
})

func shell(name string) *template.Template { return shells()[name] }

type htmlPage struct {
	html               HTML
	painter            painter
	rows, bytes, files int  // left of maxPageRows, maxPageBytes, maxPageFiles
	open               bool // files are shown, not only named
}

func clean(s string) term.Safe { return term.Clean(s, 0) }

// policy allows the page's own style and nothing else.
func policy() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}

func (v *htmlPage) Policy() string { return policy() }

func (v *htmlPage) Title() term.Safe { return clean("run " + v.html.Model.Run) }

func (v *htmlPage) Run() term.Safe    { return clean(v.html.Model.Run) }
func (v *htmlPage) Reason() term.Safe { return clean(v.html.Model.Reason) }
func (v *htmlPage) Task() []term.Safe {
	var out []term.Safe
	for l := range strings.SplitSeq(strings.TrimSpace(v.html.Model.Task), "\n") {
		out = append(out, clean(l))
	}
	return out
}

func (v *htmlPage) Winner() string {
	if v.html.Model.Winner == 0 {
		return ""
	}
	return id(v.html.Model.Winner)
}

func (v *htmlPage) Counts() string {
	m := v.html.Model
	return fmt.Sprintf("%s, %s, %s", count(len(m.Candidates), "candidate", "candidates"),
		count(len(m.Clusters), "different change", "different changes"), count(len(m.Files), "file touched", "files touched"))
}

func (v *htmlPage) Tie() string {
	if len(v.html.Model.Tie) < 2 {
		return ""
	}
	return ids(v.html.Model.Tie)
}

type htmlCandidate struct {
	ID, Place      string
	Winner         bool
	Agent, Outcome term.Safe
	Good           string // class of the outcome
	Files          int
	Lines          string
	Why            term.Safe
	Requirements   []htmlRequirement
}

type htmlRequirement struct {
	Name, Statement, Decision term.Safe
	Good                      string
	Words                     []term.Safe
}

func (v *htmlPage) Candidates() []htmlCandidate {
	p := &page{look: term.Look{UTF8: true}}
	var out []htmlCandidate
	for _, c := range v.html.Model.Candidates {
		k := htmlCandidate{
			ID: id(c.Number), Winner: c.Number == v.html.Model.Winner, Agent: clean(c.Agent), Outcome: clean(string(c.Outcome)),
			Good: class(outcomeStyle(c.Outcome)), Files: c.Files, Why: clean(why(c, v.html.Model)),
		}
		if c.Place > 0 {
			k.Place = fmt.Sprint(c.Place)
		}
		if c.Ties {
			k.Place = "=" + k.Place
		}
		if c.Files > 0 {
			k.Lines = p.lines(c.Added, c.Deleted)
		}
		for _, r := range c.Requirements {
			hr := htmlRequirement{Name: clean(r.Name), Statement: clean(r.Statement), Decision: clean(string(r.Decision)), Good: class(decisionStyle(r.Decision))}
			for _, w := range r.Words {
				hr.Words = append(hr.Words, clean(w))
			}
			k.Requirements = append(k.Requirements, hr)
		}
		out = append(out, k)
	}
	return out
}

func decisionStyle(d judge.Decision) style {
	switch d {
	case judge.Met:
		return green
	case judge.Unmet:
		return red
	default:
		return yellow
	}
}

func class(s style) string {
	return map[style]string{green: "good", red: "bad", yellow: "odd"}[s]
}

// Clusters says who made the same change, one sentence for each group.
func (v *htmlPage) Clusters() []string {
	var out []string
	for _, c := range v.html.Model.Clusters {
		if len(c.Candidates) > 1 {
			out = append(out, ids(c.Candidates)+": "+basisWords(c))
		}
	}
	return out
}

type htmlFile struct {
	Path  term.Safe
	Cells []htmlCell
}

type htmlCell struct {
	Text term.Safe
	Same bool
}

// Overlap is the matrix of files and candidates, one row at a time.
func (v *htmlPage) Overlap() iter.Seq[htmlFile] {
	p := &page{look: term.Look{UTF8: true}}
	return func(yield func(htmlFile) bool) {
		for i, f := range v.html.Model.Files {
			if i == maxPageList {
				return
			}
			row := htmlFile{Path: clean(f.Path), Cells: make([]htmlCell, len(f.Touch))}
			for i, t := range f.Touch {
				switch {
				case t == nil:
					continue
				case t.Binary:
					row.Cells[i].Text = clean("binary")
				case t.Added == 0 && t.Deleted == 0:
					row.Cells[i].Text = clean(t.Status)
				default:
					row.Cells[i].Text = clean(p.lines(t.Added, t.Deleted))
				}
				row.Cells[i].Same = f.Same && f.By > 1
			}
			if !yield(row) {
				return
			}
		}
	}
}

func (v *htmlPage) FileCount() int { return len(v.html.Model.Files) }

// FilesLeft says how many rows the matrix of files lacks.
func (v *htmlPage) FilesLeft() string {
	if n := v.FileCount() - maxPageList; n > 0 {
		return count(n, "file is", "files are") + " not listed here: " + compareCommand(v.html.Model, "--json")
	}
	return ""
}

type htmlSection struct {
	Title, Also, Link string
	Open              bool
	Fault             term.Safe
	Files             iter.Seq[htmlDiff]
	Logs              iter.Seq[htmlLog]
}

// Sections are the diffs: base to each different tree once, then the pairs
// asked for.
func (v *htmlPage) Sections() []htmlSection {
	if v.html.Files == nil && v.html.Link == nil {
		return nil
	}
	var out []htmlSection
	for _, c := range v.html.Model.Candidates {
		if c.Cluster < 0 {
			continue
		}
		for _, same := range v.html.Model.Clusters[c.Cluster].Exact {
			if same[0] != c.Number {
				continue
			}
			s := v.section(0, c.Number)
			if len(same) > 1 {
				s.Also = "the same as " + ids(same[1:])
			}
			s.Open = c.Number == v.html.Model.Winner
			out = append(out, s)
		}
	}
	pairs := v.html.Pairs
	if p := contest(v.html.Model); p != [2]int{} && !slices.Contains(pairs, p) {
		pairs = append([][2]int{p}, pairs...)
	}
	for _, p := range pairs {
		out = append(out, v.section(p[0], p[1]))
	}
	return out
}

// contest is the candidate of the first place and the next one with another
// tree, none where there are not both.
func contest(m compare.Model) [2]int {
	who := ranked(m)
	for _, i := range who {
		if i == who[0] {
			continue
		}
		if c := m.Candidates[i]; c.Cluster >= 0 && !m.Candidates[i].Ties {
			return [2]int{m.Candidates[who[0]].Number, c.Number}
		}
	}
	return [2]int{}
}

func name(n int) string {
	if n == 0 {
		return "base"
	}
	return id(n)
}

func (v *htmlPage) section(from, to int) htmlSection {
	s := htmlSection{Title: name(from) + " → " + name(to)}
	if v.html.Link != nil {
		if s.Link = v.html.Link(from, to); s.Link != "" {
			return s
		}
	}
	if v.html.Files == nil {
		s.Files = func(func(htmlDiff) bool) {}
		return s
	}
	files, err := v.html.Files(from, to)
	if err != nil {
		s.Fault = clean(err.Error())
		return s
	}
	s.Files = func(yield func(htmlDiff) bool) {
		for f := range files {
			if v.full() {
				yield(htmlDiff{Left: clean("The page is full. For the rest: " + diffCommand(v.html.Model, from, to))})
				return
			}
			v.files--
			if !yield(v.diff(f, diffCommand(v.html.Model, from, to))) {
				return
			}
		}
	}
	if v.html.Logs != nil {
		s.Logs = v.logs(to)
	}
	return s
}

func (v *htmlPage) full() bool { return v.rows <= 0 || v.bytes <= 0 || v.files <= 0 }

type htmlDiff struct {
	Open, Unified bool
	Path          term.Safe
	Facts         []term.Safe
	Lines         string
	Left          term.Safe
	Hunks         []htmlHunk
}

type htmlHunk struct {
	Head term.Safe
	Rows []htmlRow
}

// A row is side by side, or one line with the number of each side.
type htmlRow struct {
	Old, New htmlLine
	One      bool
}

type htmlLine struct {
	Number string
	Class  string // "del" or "ins" where the line differs
	Pieces []htmlPiece
}

type htmlPiece struct {
	Text  term.Safe
	Class string
}

// diff is one file; command shows what the page has no room for.
func (v *htmlPage) diff(f compare.FileDiff, command string) htmlDiff {
	d := htmlDiff{Path: clean(f.Path()), Open: v.open, Unified: v.html.Unified}
	for _, s := range facts(f) {
		d.Facts = append(d.Facts, clean(s))
	}
	if len(f.Hunks) == 0 {
		return d
	}
	d.Lines = (&page{look: term.Look{UTF8: true}}).lines(f.Added, f.Deleted)
	old, new := v.painter.colour(f.Old.Path, f.OldText), v.painter.colour(f.New.Path, f.NewText)
	for _, h := range f.Hunks {
		out := htmlHunk{Head: clean(fmt.Sprintf("@@ -%d,%d +%d,%d @@", h.OldStart, h.OldLines, h.NewStart, h.NewLines))}
		rows := h.Rows
		if v.html.Unified {
			rows = unified(rows)
		}
		for _, r := range rows {
			if v.full() {
				out.Head = clean(out.Head.String() + " The page is full. For the rest: " + command)
				break
			}
			v.rows--
			v.bytes -= len(r.Old.Text) + len(r.New.Text)
			markCR(&r)
			row := htmlRow{Old: htmlSide(r.Old, old), New: htmlSide(r.New, new)}
			if r.Kind != compare.Equal {
				row.Old.Class, row.New.Class = "del", "ins"
			}
			if row.One = v.html.Unified; row.One && r.Kind == compare.Delete {
				row.New.Class, row.New.Pieces = row.Old.Class, row.Old.Pieces
			}
			out.Rows = append(out.Rows, row)
		}
		d.Hunks = append(d.Hunks, out)
		if v.full() {
			break
		}
	}
	return d
}

func htmlSide(l compare.Line, c colouring) htmlLine {
	if l.Number == 0 {
		return htmlLine{}
	}
	out := htmlLine{Number: number(l.Number)}
	for _, p := range pieces(l, c.line(l.Number)) {
		class := string(p.token)
		if p.changed {
			class = strings.TrimSpace(class + " w")
		}
		out.Pieces = append(out.Pieces, htmlPiece{p.text, class})
	}
	return out
}
