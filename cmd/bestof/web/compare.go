package web

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// maxFiles is how many files of a difference one page lists.
const maxFiles = 500

// context is how many lines surround a change.
const contextLines = 3

type comparedBody struct {
	Run, Place, Standing term.Safe
	Good, Started        string
	Foreign              bool
	NoAdoption           term.Safe
	Rows                 []comparedRow
	Adopted              term.Safe
}

type comparedRow struct {
	row
	Winner           bool
	Diff, Log, Adopt string
}

// compared is a run that has ended.
func (s *Server) compared(w http.ResponseWriter, r *http.Request, run Run) {
	doc := run.Doc
	here := RunPath(run.Place, doc.Run)
	body := comparedBody{Run: clean(doc.Run), Place: clean(run.Title), Started: s.clock(doc.Started), Foreign: run.Foreign}
	no := s.cannotAdopt(run)
	if no != readsOnly {
		body.NoAdoption = clean(no)
	}
	if d := doc.Adopted; d != nil {
		body.Adopted = clean(candidate.Number(d.Candidate).ID() + " was adopted at " + s.clock(d.At))
	}
	for _, c := range doc.Candidates {
		line := comparedRow{row: rowOf(c), Winner: doc.Winner != nil && *doc.Winner == c.Number, Log: here + "/log/" + strconv.Itoa(c.Number)}
		if c.Change != nil {
			line.Diff = diffPath(here, 0, c.Number)
			if no == "" {
				line.Adopt = here + "/adopt/" + strconv.Itoa(c.Number)
			}
		}
		body.Rows = append(body.Rows, line)
	}
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
