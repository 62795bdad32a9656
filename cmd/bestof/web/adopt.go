package web

import (
	"context"
	"fmt"
	"net/http"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/term"
)

type adoptBody struct {
	ID, Back, Nonce, Count, Lines string
	Run, Into, Branch             term.Safe
	Files                         []adoptFile
	Left                          string
	Refusal, BranchRefusal        term.Safe
}

type adoptFile struct {
	Path          term.Safe
	Status, Lines string
}

// maxListed is how many files of a proposal are listed; the others are counted.
const maxListed = 2000

// propose shows what adopting would write and what trying it says.
func (s *Server) propose(w http.ResponseWriter, r *http.Request) {
	run, ok := s.run(w, r)
	if !ok {
		return
	}
	n, ok := s.numbered(w, r, run, "candidate")
	if !ok {
		return
	}
	if no := s.cannotAdopt(run); no != "" {
		s.fail(w, r, http.StatusForbidden, no)
		return
	}
	p, err := s.o.Adopter.Propose(r.Context(), run.Place, run.Doc.Run, n)
	if err != nil {
		s.fail(w, r, http.StatusConflict, err.Error())
		return
	}
	body := adoptBody{
		ID: candidate.Number(n).ID(), Back: RunPath(run.Place, run.Doc.Run), Run: clean(run.Doc.Run), Into: clean(p.Into), Branch: clean(p.Branch),
		Lines: lines(p.Added, p.Deleted), Refusal: clean(p.Refusal), BranchRefusal: clean(p.BranchRefusal), Count: counted(len(p.Files), "file", "files"),
	}
	for i, f := range p.Files {
		if i == maxListed {
			body.Left = fmt.Sprintf("and %d more", len(p.Files)-i)
			break
		}
		line := adoptFile{Path: clean(string(f.Path)), Status: short(f.Status), Lines: lines(f.Added, f.Deleted)}
		if f.Binary {
			line.Lines = "binary"
		}
		body.Files = append(body.Files, line)
	}
	body.Nonce = s.askToAdopt(p)
	s.page(w, r, http.StatusOK, "adopt", "Adopt "+body.ID, body)
}

// askToAdopt remembers a proposal with what may be done about it; "" when that
// is nothing.
func (s *Server) askToAdopt(p Proposal) (nonce string) {
	q := &question{back: RunPath(p.Place, p.Run), backText: "Back to run " + p.Run}
	if p.Refusal == "" {
		q.answers = append(q.answers, "apply")
	}
	if p.BranchRefusal == "" {
		q.answers = append(q.answers, "branch")
	}
	if len(q.answers) == 0 {
		return ""
	}
	q.act = func(ctx context.Context, answer string) (string, error) {
		return s.o.Adopter.Adopt(ctx, p, answer == "branch")
	}
	return s.asked.ask(q)
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// cannotAdopt is why nothing of a run is adopted here, or "".
func (s *Server) cannotAdopt(run Run) string {
	switch {
	case s.o.ReadOnly || s.o.Adopter == nil:
		return readsOnly
	case run.Foreign:
		return "The record of this run was not made here, it came with the repository: look at it, but start a run of your own."
	case run.Batch:
		return "The runs of a batch are not adopted: bestof batch export has their patches."
	}
	return ""
}
