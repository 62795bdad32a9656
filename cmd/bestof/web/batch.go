package web

import (
	"net/http"
	"strconv"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/cmd/bestof/view"
	"github.com/bestof-dev/bestof/internal/term"
)

// maxTasks is how many tasks of a batch one page lists.
const maxTasks = 500

type batchBody struct {
	Directory, State, Spend term.Safe
	Process                 string
	Compare, Numbers        string
	More, Caption           string
	Events                  string // where its stream is, "" when nobody runs it
	Tasks                   []batchTask
}

type batchTask struct {
	Number int       `json:"number"` // its row in the batch, from 1
	ID     term.Safe `json:"-"`
	State  string    `json:"state"` // cleaned, like what follows
	Run    string    `json:"run"`
	Reason string    `json:"reason"`
	Winner string    `json:"winner"`
	Link   string    `json:"link"`
}

// batch is how far a batch has come.
func (s *Server) batch(w http.ResponseWriter, r *http.Request) {
	b, err := s.o.Archive.Batch(r.Context(), Place(r.PathValue("place")))
	if err != nil {
		s.fault(w, r, err)
		return
	}
	s.page(w, r, http.StatusOK, "batch", "Batch "+b.Directory, batchPart(b, firstTask(r)))
}

// firstTask is how many tasks a page leaves out at the beginning.
func firstTask(r *http.Request) int {
	from, _ := strconv.Atoi(r.URL.Query().Get("from"))
	return from
}

// batchPart is what a page shows of a batch.
func batchPart(b Batch, from int) batchBody {
	here := BatchPath(b.Place)
	body := batchBody{
		Directory: clean(b.Directory), State: clean(b.State), Spend: clean(b.Spend), Process: "Nobody runs it.",
		Compare: here + "/compare", Numbers: here + "/numbers", Caption: counted(b.Count, "task", "tasks"),
	}
	if b.Process > 0 {
		body.Process = "Process " + strconv.Itoa(b.Process) + " runs it."
		body.Events = here + "/events?from=" + strconv.Itoa(from)
	}
	at := 0
	for t := range b.Tasks {
		if at++; at <= from {
			continue
		}
		if len(body.Tasks) == maxTasks {
			body.More = here + "?from=" + strconv.Itoa(at-1)
			break
		}
		line := batchTask{
			Number: at, ID: term.Clean(t.ID, 200),
			State: clean(t.State).String(), Run: clean(t.Run).String(), Reason: term.Clean(t.Reason, maxText).String(),
		}
		if t.Winner > 0 {
			line.Winner = candidate.Number(t.Winner).ID()
		}
		if t.Run != "" {
			line.Link = RunPath(b.Place, t.Run)
		}
		body.Tasks = append(body.Tasks, line)
	}
	return body
}

type blockBody struct {
	Back  string
	Block any
}

// batchCompare is the tasks of a batch against their candidates.
func (s *Server) batchCompare(w http.ResponseWriter, r *http.Request) {
	b, err := s.o.Archive.Batch(r.Context(), Place(r.PathValue("place")))
	if err != nil {
		s.fault(w, r, err)
		return
	}
	all, err := b.Compare()
	if err != nil {
		s.fault(w, r, err)
		return
	}
	page := view.BatchView{Batch: all, Command: func(string) string { return "bestof compare --batch DIR" }, Link: func(run string) string { return RunPath(b.Place, run) }}
	s.page(w, r, http.StatusOK, "batch-compared", "Batch "+b.Directory, blockBody{BatchPath(b.Place), page.Body()})
}

// batchNumbers is the report of a batch.
func (s *Server) batchNumbers(w http.ResponseWriter, r *http.Request) {
	b, err := s.o.Archive.Batch(r.Context(), Place(r.PathValue("place")))
	if err != nil {
		s.fault(w, r, err)
		return
	}
	numbers, err := b.Numbers()
	if err != nil {
		s.fault(w, r, err)
		return
	}
	s.page(w, r, http.StatusOK, "batch-numbers", "Numbers of "+b.Directory, blockBody{BatchPath(b.Place), view.NumbersBody(numbers)})
}
