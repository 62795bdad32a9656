package web

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/cmd/bestof/view"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

//go:embed page
var sources embed.FS

var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.Must(view.Blocks()).ParseFS(sources, "page/*.html"))
})

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

type sessionKey struct{}

func withSession(ctx context.Context, s session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// routes are all paths. What changes something is a POST.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /enter":    func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, s.o.Start, http.StatusSeeOther) },
		"GET /{$}":      s.list,
		"GET /view.css": static("text/css; charset=utf-8", view.Style()+asset("page/view.css")),
		"GET /view.js":  static("text/javascript; charset=utf-8", asset("page/view.js")),
		"GET /icon.svg": static("image/svg+xml", asset("page/icon.svg")),

		"GET /places/{place}":                             s.shelf,
		"GET /runs/{place}/{run}":                         s.show,
		"GET /runs/{place}/{run}/events":                  s.events,
		"GET /runs/{place}/{run}/log/{candidate}":         s.log,
		"GET /runs/{place}/{run}/diff/{from}/{to}":        s.diff,
		"GET /runs/{place}/{run}/diff":                    s.anyDiff,
		"GET /runs/{place}/{run}/diff/{from}/{to}/{file}": s.diffFile,
		"GET /runs/{place}/{run}/adopt/{candidate}":       s.propose,
		"GET /batches/{place}":                            s.batch,
		"GET /batches/{place}/events":                     s.batchEvents,
		"GET /batches/{place}/compare":                    s.batchCompare,
		"GET /batches/{place}/numbers":                    s.batchNumbers,
		"POST /confirm":                                   s.confirm,
		"GET /done/{question}":                            s.done,
		"GET /jobs":                                       s.jobs,
		"GET /jobs/{job}":                                 s.job,
		"GET /jobs/{job}/ask":                             s.askJob,
	} {
		mux.HandleFunc(pattern, h)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" {
			s.fail(w, r, http.StatusNotFound, "There is no such page.")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func asset(name string) string {
	b, err := sources.ReadFile(name)
	if err != nil {
		panic(err) // it is in the binary
	}
	return string(b)
}

func static(kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, text) // a client that went away has nobody to tell
	}
}

// A frame is what stands around every page.
type frame struct {
	Title    string
	Here     string
	CSRF     string
	ReadOnly bool
	HasJobs  bool
	Body     any
}

func (s *Server) frame(r *http.Request, title string, body any) frame {
	known, _ := r.Context().Value(sessionKey{}).(session)
	return frame{Title: clean(title).String(), Here: r.URL.Path, CSRF: known.csrf, ReadOnly: s.o.ReadOnly, HasJobs: s.o.Jobs != nil, Body: body}
}

// page writes one page, or none of it: half a page would look like a whole one.
func (s *Server) page(w http.ResponseWriter, r *http.Request, status int, name, title string, body any) {
	var b bytes.Buffer
	if err := pages().ExecuteTemplate(&b, name, s.frame(r, title, body)); err != nil {
		s.o.Log(fmt.Errorf("page %s: %w", name, err))
		http.Error(w, "this page could not be made; the terminal says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // a client that went away has nobody to tell
}

type messageBody struct {
	Lines          []term.Safe
	Link, LinkText string
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, status int, text string) {
	s.page(w, r, status, "message", http.StatusText(status), messageBody{Lines: []term.Safe{clean(text)}, Link: "/", LinkText: "To the list of runs"})
}

// refuse answers what the guard does not let through.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, no refusal) {
	body := messageBody{Lines: []term.Safe{clean(no.words)}}
	if no.goOn {
		body.Lines = append(body.Lines, clean("If this browser was let in before, go on."))
		body.Link, body.LinkText = "/", "Go on"
	}
	s.page(w, r, no.status, "message", http.StatusText(no.status), body)
}

// fault answers an error of the archive.
func (s *Server) fault(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return
	}
	if errors.Is(err, ErrNone) {
		s.fail(w, r, http.StatusNotFound, err.Error())
		return
	}
	s.o.Log(err)
	s.fail(w, r, http.StatusInternalServerError, err.Error())
}

func clean(s string) term.Safe { return term.Clean(s, 0) }

func cleanAll(lines []string) []term.Safe {
	var out []term.Safe
	for _, l := range lines {
		out = append(out, clean(l))
	}
	return out
}

// run finds the run that a path names, or answers that there is none.
func (s *Server) run(w http.ResponseWriter, r *http.Request) (Run, bool) {
	id := r.PathValue("run")
	if !record.ValidID(id) {
		s.fail(w, r, http.StatusNotFound, ErrNone.Error())
		return Run{}, false
	}
	run, err := s.o.Archive.Run(r.Context(), Place(r.PathValue("place")), id)
	if err != nil {
		s.fault(w, r, err)
		return Run{}, false
	}
	return run, true
}

// numbered finds the candidate of a run that a path names.
func (s *Server) numbered(w http.ResponseWriter, r *http.Request, run Run, name string) (int, bool) {
	n, err := strconv.Atoi(r.PathValue(name))
	for _, c := range run.Doc.Candidates {
		if err == nil && c.Number == n {
			return n, true
		}
	}
	s.fail(w, r, http.StatusNotFound, "The run has no such candidate.")
	return 0, false
}

// RunPath is the path of a run's page.
func RunPath(place Place, run string) string {
	return "/runs/" + url.PathEscape(string(place)) + "/" + url.PathEscape(run)
}

// BatchPath is the path of a batch's page.
func BatchPath(place Place) string { return "/batches/" + url.PathEscape(string(place)) }

func (s *Server) clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(s.o.Location).Format("2006-01-02 15:04")
}

type listBody struct {
	Notices []term.Safe
	Shelves []shelfBody
	Batches []batchLine
}

type shelfBody struct {
	Title   term.Safe
	Caption string
	Notices []term.Safe
	Rows    []runLine
	Older   string
}

type runLine struct {
	Run, Result, Task term.Safe
	Link              string
	Started, Good     string
	Candidates        int
	Foreign           bool
}

type batchLine struct {
	Directory, State term.Safe
	Link             string
	Bad              bool
}

func (s *Server) shelfBody(shelf Shelf) shelfBody {
	b := shelfBody{Title: clean(shelf.Title), Caption: "Runs, the newest first", Notices: cleanAll(shelf.Notices)}
	for _, l := range shelf.Runs {
		result, good := l.Result()
		task, _, _ := strings.Cut(strings.TrimSpace(l.Task), "\n")
		if l.Fault != "" {
			task = l.Fault
		}
		line := runLine{
			Run: clean(l.Run), Result: clean(result), Task: term.Clean(task, 200), Started: s.clock(l.Started), Good: good, Candidates: l.Candidates, Foreign: l.Foreign,
		}
		if l.Fault == "" {
			line.Link = RunPath(shelf.Place, l.Run)
		}
		b.Rows = append(b.Rows, line)
	}
	if shelf.Older != "" {
		b.Older = "/places/" + url.PathEscape(string(shelf.Place)) + "?before=" + url.QueryEscape(shelf.Older)
	}
	return b
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	all, err := s.o.Archive.List(r.Context())
	if err != nil {
		s.fault(w, r, err)
		return
	}
	body := listBody{Notices: cleanAll(all.Notices)}
	for _, shelf := range all.Shelves {
		body.Shelves = append(body.Shelves, s.shelfBody(shelf))
	}
	for _, b := range all.Batches {
		line := batchLine{Directory: clean(b.Directory), State: clean(b.State), Link: BatchPath(b.Place), Bad: b.Fault != ""}
		if b.Fault != "" {
			line.State = clean(b.Fault)
		}
		body.Batches = append(body.Batches, line)
	}
	s.page(w, r, http.StatusOK, "list", "Runs", body)
}

func (s *Server) shelf(w http.ResponseWriter, r *http.Request) {
	before := r.URL.Query().Get("before")
	if before != "" && !record.ValidID(before) {
		s.fail(w, r, http.StatusNotFound, ErrNone.Error())
		return
	}
	shelf, err := s.o.Archive.Shelf(r.Context(), Place(r.PathValue("place")), before)
	if err != nil {
		s.fault(w, r, err)
		return
	}
	s.page(w, r, http.StatusOK, "list", "Older runs", listBody{Shelves: []shelfBody{s.shelfBody(shelf)}})
}

type liveBody struct {
	Run, Place term.Safe
	Word       string
	Started    string
	Task       []term.Safe
	Events     string
	Here       string
	Step       string
	Rows       []row
}

// maxTaskLines is how much of a task's text the live page shows.
const maxTaskLines = 20

// show is a run: live while it works, compared when it has ended.
func (s *Server) show(w http.ResponseWriter, r *http.Request) {
	run, ok := s.run(w, r)
	if !ok {
		return
	}
	if run.Doc.Phase != record.Running {
		s.compared(w, r, run)
		return
	}
	here := RunPath(run.Place, run.Doc.Run)
	body := liveBody{
		Run: clean(run.Doc.Run), Place: clean(run.Title), Word: "works", Started: s.clock(run.Doc.Started), Events: here + "/events", Here: here,
	}
	for l := range strings.SplitSeq(strings.TrimSpace(run.Doc.Task), "\n") {
		if len(body.Task) == maxTaskLines {
			body.Task = append(body.Task, clean("…"))
			break
		}
		body.Task = append(body.Task, term.Clean(l, 1000))
	}
	for _, c := range run.Doc.Candidates {
		body.Rows = append(body.Rows, rowOf(c))
	}
	s.page(w, r, http.StatusOK, "live", "Run "+run.Doc.Run, body)
}

// rowOf is a candidate as the record has it.
func rowOf(c record.Candidate) row {
	out := row{Number: c.Number, ID: candidate.Number(c.Number).ID(), Agent: short(c.Agent), State: short(string(c.State)), Said: short(c.Detail)}
	if c.State == candidate.Done {
		out.State, out.Good = short(string(c.Outcome)), view.OutcomeClass(c.Outcome)
	}
	if c.Rounds > 0 {
		out.Round = strconv.Itoa(c.Rounds)
	}
	if c.Change != nil {
		out.Files, out.Lines = strconv.Itoa(len(c.Change.Files)), lines(c.Change.Added, c.Change.Deleted)
	}
	return out
}

// maxLog bounds what is shown of an agent's log, in bytes.
const maxLog = 1 << 20

type logBody struct {
	ID, Back string
	Run      term.Safe
	Cut      bool
	Lines    []term.Safe
}

func (s *Server) log(w http.ResponseWriter, r *http.Request) {
	run, ok := s.run(w, r)
	if !ok {
		return
	}
	n, ok := s.numbered(w, r, run, "candidate")
	if !ok {
		return
	}
	text, cut, err := run.Log(n, maxLog)
	if err != nil {
		s.fail(w, r, http.StatusNotFound, "There is no log of this candidate.")
		return
	}
	body := logBody{ID: candidate.Number(n).ID(), Back: RunPath(run.Place, run.Doc.Run), Run: clean(run.Doc.Run), Cut: cut}
	for l := range strings.SplitSeq(strings.TrimRight(string(text), "\n"), "\n") {
		body.Lines = append(body.Lines, clean(l))
	}
	s.page(w, r, http.StatusOK, "logs", "Log of "+body.ID, body)
}
