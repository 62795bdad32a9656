package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/bestof-dev/bestof/internal/term"
)

// Jobs is what the pages need of the operator's jobs. Its methods may be
// called concurrently.
type Jobs interface {
	// List is all jobs, in the order in which they are shown.
	List(ctx context.Context) ([]Job, error)
	// History is a job and what became of it, the newest first. It is ErrNone
	// when there is no such job.
	History(ctx context.Context, name string) (Job, []JobRun, error)
	// Change does pause, resume or run to a job and says in one line what was
	// done.
	Change(ctx context.Context, name, action string) (done string, err error)
}

// jobActions are what can be done to a job.
var jobActions = map[string]struct{ question, yes string }{
	"pause":  {"Pause the job %s?", "Yes, pause it"},
	"resume": {"Let the job %s go on?", "Yes, let it go on"},
	"run":    {"Run the job %s now?", "Yes, run it"},
}

// A Job is one job as it stands.
type Job struct {
	Name   string
	When   string // what starts it, in words
	State  string // in words
	Paused bool
	Bad    bool      // its state is one that the operator should look at
	Next   time.Time // zero for none
	Last   string    // how it ended last, in words
}

// A JobRun is one time that a job was due.
type JobRun struct {
	At   time.Time
	How  string // it ended, in words
	Good bool
	Bad  bool
	Link string // path of the page of its run or batch, "" without one
	Text string // of the link
}

type jobBody struct {
	Name, When, State, Last   term.Safe
	Link, Good, Next          string
	Ask, PauseWord, PauseText string
	History                   []jobLine
}

type jobLine struct {
	At, Good, Link string
	How, Text      term.Safe
}

func jobPath(name string) string { return "/jobs/" + url.PathEscape(name) }

func (s *Server) jobBody(j Job) jobBody {
	b := jobBody{
		Name: clean(j.Name), When: clean(j.When), State: clean(j.State), Last: clean(j.Last), Next: s.clock(j.Next), Link: jobPath(j.Name), Ask: jobPath(j.Name) + "/ask",
		PauseWord: "pause", PauseText: "Pause it",
	}
	if j.Paused {
		b.PauseWord, b.PauseText = "resume", "Let it go on"
	}
	b.Good = mark(false, j.Bad)
	return b
}

func mark(good, bad bool) string {
	switch {
	case bad:
		return "bad"
	case good:
		return "good"
	}
	return ""
}

// withJobs answers that there are no jobs when there are none.
func (s *Server) withJobs(w http.ResponseWriter, r *http.Request) bool {
	if s.o.Jobs == nil {
		s.fail(w, r, http.StatusNotFound, ErrNone.Error())
	}
	return s.o.Jobs != nil
}

func (s *Server) jobs(w http.ResponseWriter, r *http.Request) {
	if !s.withJobs(w, r) {
		return
	}
	all, err := s.o.Jobs.List(r.Context())
	if err != nil {
		s.fault(w, r, err)
		return
	}
	var body struct{ Rows []jobBody }
	for _, j := range all {
		body.Rows = append(body.Rows, s.jobBody(j))
	}
	s.page(w, r, http.StatusOK, "jobs", "Jobs", body)
}

func (s *Server) job(w http.ResponseWriter, r *http.Request) {
	if !s.withJobs(w, r) {
		return
	}
	j, history, err := s.o.Jobs.History(r.Context(), r.PathValue("job"))
	if err != nil {
		s.fault(w, r, err)
		return
	}
	body := s.jobBody(j)
	for _, h := range history {
		body.History = append(body.History, jobLine{At: s.clock(h.At), How: clean(h.How), Text: clean(h.Text), Link: h.Link, Good: mark(h.Good, h.Bad)})
	}
	s.page(w, r, http.StatusOK, "job", "Job "+j.Name, body)
}

type askBody struct {
	Question                 term.Safe
	Nonce, Answer, Yes, Back string
}

// askJob asks before a job is changed.
func (s *Server) askJob(w http.ResponseWriter, r *http.Request) {
	if !s.withJobs(w, r) {
		return
	}
	what := r.URL.Query().Get("what")
	j, _, err := s.o.Jobs.History(r.Context(), r.PathValue("job"))
	words, known := jobActions[what]
	switch {
	case err != nil:
		s.fault(w, r, err)
		return
	case s.o.ReadOnly:
		s.fail(w, r, http.StatusForbidden, readsOnly)
		return
	case !known:
		s.fail(w, r, http.StatusBadRequest, "A job can be paused, let go on, and run.")
		return
	}
	body := askBody{Question: clean(fmt.Sprintf(words.question, j.Name)), Answer: what, Yes: words.yes, Back: jobPath(j.Name)}
	body.Nonce = s.asked.ask(&question{answers: []string{what}, back: body.Back, backText: "Back to the job", act: func(ctx context.Context, answer string) (string, error) {
		return s.o.Jobs.Change(ctx, j.Name, answer)
	}})
	s.page(w, r, http.StatusOK, "job-ask", body.Question.String(), body)
}
