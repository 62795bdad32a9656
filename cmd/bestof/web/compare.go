package web

import (
	"iter"
	"net/http"
	"slices"
	"strconv"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/cmd/bestof/view"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// maxFiles is how many files of a difference one page lists.
const maxFiles = 500

// maxPairs is how many comparisons with the winner are offered by name; a form
// has all.
const maxPairs = 10

// contextLines surround a change.
const contextLines = 3

type comparedBody struct {
	Run, Place, Adopted, NoAdoption, Fault term.Safe
	Started, Any                           string
	Foreign                                bool
	Rows                                   []comparedRow
	Changed                                []int
	Compare                                any // of the block "compare"
}

// ID is the name of a side.
func (comparedBody) ID(n int) string { return sideName(n) }

type comparedRow struct {
	row
	Winner           bool
	Diff, Log, Adopt string
}

// compared is a run that has ended.
func (s *Server) compared(w http.ResponseWriter, r *http.Request, run Run) {
	doc := run.Doc
	here := RunPath(run.Place, doc.Run)
	body := comparedBody{Run: clean(doc.Run), Place: clean(run.Title), Started: s.clock(doc.Started), Any: here + "/diff", Foreign: run.Foreign}
	no := s.cannotAdopt(run)
	if no != readsOnly {
		body.NoAdoption = clean(no)
	}
	if d := doc.Adopted; d != nil {
		body.Adopted = clean(candidate.Number(d.Candidate).ID() + " was adopted at " + s.clock(d.At) + ".")
	}
	for _, c := range doc.Candidates {
		line := comparedRow{row: rowOf(c), Winner: doc.Winner != nil && *doc.Winner == c.Number, Log: here + "/log/" + strconv.Itoa(c.Number)}
		if c.Change != nil {
			line.Diff = diffPath(here, 0, c.Number)
			body.Changed = append(body.Changed, c.Number)
			if no == "" {
				line.Adopt = here + "/adopt/" + strconv.Itoa(c.Number)
			}
		}
		body.Rows = append(body.Rows, line)
	}
	model := compare.Build(doc)
	if read, err := run.Blobs(); err != nil {
		body.Fault = clean("What the record kept of the files cannot be read: " + err.Error())
	} else {
		compare.Look(&model, doc, read)
	}
	page := view.HTML{Model: model, Link: func(from, to int) string { return diffPath(here, from, to) }}
	for _, n := range body.Changed {
		if w := model.Winner; w != 0 && w != n && len(page.Pairs) < maxPairs {
			page.Pairs = append(page.Pairs, [2]int{w, n})
		}
	}
	body.Compare = page.Body()
	s.page(w, r, http.StatusOK, "compared", "Run "+doc.Run, body)
}

func diffPath(here string, from, to int) string {
	return here + "/diff/" + strconv.Itoa(from) + "/" + strconv.Itoa(to)
}

func sideName(n int) string {
	if n == 0 {
		return "base"
	}
	return candidate.Number(n).ID()
}

// sides are the two trees that a path names, 0 being the base.
func (s *Server) sides(w http.ResponseWriter, r *http.Request, run Run) (from, to int, ok bool) {
	known := func(name string) (int, bool) {
		n, err := strconv.Atoi(r.PathValue(name))
		return n, err == nil && (n == 0 || slices.ContainsFunc(run.Doc.Candidates, func(c record.Candidate) bool { return c.Number == n && c.Change != nil }))
	}
	from, first := known("from")
	to, second := known("to")
	if !first || !second || from == to {
		s.fail(w, r, http.StatusNotFound, "The run has no such change.")
		return 0, 0, false
	}
	return from, to, true
}

// pairs are the files that differ between the two trees that a path names.
func (s *Server) pairs(w http.ResponseWriter, r *http.Request) (run Run, from, to int, all []compare.Pair, ok bool) {
	if run, ok = s.run(w, r); !ok {
		return
	}
	if from, to, ok = s.sides(w, r, run); !ok {
		return
	}
	all, err := compare.Pairs(run.Doc, from, to)
	if err != nil {
		s.fault(w, r, err)
		return run, 0, 0, nil, false
	}
	return run, from, to, all, true
}

type diffBody struct {
	Run, Title term.Safe
	Back       string
	Count      string
	Files      []diffLine
	More       string
}

type diffLine struct {
	Path, Status term.Safe
	Link         string
}

// diff lists the files that differ between two trees. What differs in one is
// on a page of its own: a change can have thousands of files.
func (s *Server) diff(w http.ResponseWriter, r *http.Request) {
	run, from, to, all, ok := s.pairs(w, r)
	if !ok {
		return
	}
	first, _ := strconv.Atoi(r.URL.Query().Get("from"))
	first = min(max(first, 0), len(all))
	here := RunPath(run.Place, run.Doc.Run)
	body := diffBody{Run: clean(run.Doc.Run), Title: clean(sideName(from) + " → " + sideName(to)), Back: here, Count: counted(len(all), "file", "files")}
	for i, p := range all[first:] {
		if i == maxFiles {
			body.More = diffPath(here, from, to) + "?from=" + strconv.Itoa(first+i)
			break
		}
		body.Files = append(body.Files, diffLine{Path: clean(p.Path()), Status: clean(p.Status()), Link: diffPath(here, from, to) + "/" + strconv.Itoa(first+i)})
	}
	s.page(w, r, http.StatusOK, "diff", "Run "+run.Doc.Run+": "+sideName(from)+" → "+sideName(to), body)
}

// anyDiff leads from a form to the difference of two sides.
func (s *Server) anyDiff(w http.ResponseWriter, r *http.Request) {
	run, ok := s.run(w, r)
	if !ok {
		return
	}
	r.SetPathValue("from", r.URL.Query().Get("from"))
	r.SetPathValue("to", r.URL.Query().Get("to"))
	if from, to, ok := s.sides(w, r, run); ok {
		http.Redirect(w, r, diffPath(RunPath(run.Place, run.Doc.Run), from, to), http.StatusSeeOther)
	}
}

type fileBody struct {
	Run                  term.Safe
	Title                string
	Back, List, Up, Down string
	Changes              any // of the block "changes"
}

// maxLogBeside bounds what is shown of a log beside a change, in bytes.
const maxLogBeside = 32 << 10

// diffFile is what differs in one file, with the end of the agent's log beside
// it.
func (s *Server) diffFile(w http.ResponseWriter, r *http.Request) {
	run, from, to, all, ok := s.pairs(w, r)
	if !ok {
		return
	}
	n, err := strconv.Atoi(r.PathValue("file"))
	if err != nil || n < 0 || n >= len(all) {
		s.fail(w, r, http.StatusNotFound, "The change has no such file.")
		return
	}
	read, err := run.Blobs()
	if err != nil {
		s.fault(w, r, err)
		return
	}
	here := RunPath(run.Place, run.Doc.Run)
	list := diffPath(here, from, to)
	body := fileBody{Run: clean(run.Doc.Run), Title: sideName(from) + " → " + sideName(to), Back: here, List: list}
	if n > 0 {
		body.Up = list + "/" + strconv.Itoa(n-1)
	}
	if n+1 < len(all) {
		body.Down = list + "/" + strconv.Itoa(n+1)
	}
	page := view.HTML{
		Model: compare.Model{Run: run.Doc.Run},
		Files: func(int, int) (iter.Seq[compare.FileDiff], error) {
			return compare.Diffs(all[n:n+1], read, contextLines), nil
		},
		Logs: func(number int) []view.Log { return beside(run, number) },
	}
	body.Changes = page.Changes(from, to)
	s.page(w, r, http.StatusOK, "diff-file", "Run "+run.Doc.Run+": "+body.Title+", "+all[n].Path(), body)
}

// beside is the log that is shown with a change.
func beside(run Run, number int) []view.Log {
	if number == 0 {
		return nil
	}
	text, cut, err := run.Log(number, maxLogBeside)
	if err != nil {
		return nil
	}
	log := view.Log{Name: "agent.log", Text: string(text)}
	if cut {
		log.Left = "Only the end is shown: the page of the run leads to the whole log."
	}
	return []view.Log{log}
}
