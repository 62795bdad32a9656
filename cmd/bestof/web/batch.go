package web

import (
	"net/http"
	"strconv"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/term"
)

// maxTasks is how many tasks of a batch one page lists.
const maxTasks = 500

type batchBody struct {
	Directory, State, Spend term.Safe
	Process                 string
	Numbers, More, Caption  string
	Tasks                   []batchTask
}

type batchTask struct {
	ID, State, Run, Reason term.Safe
	Winner, Link           string
}

// batch is how far a batch has come.
func (s *Server) batch(w http.ResponseWriter, r *http.Request) {
	b, err := s.o.Archive.Batch(r.Context(), Place(r.PathValue("place")))
	if err != nil {
		s.fault(w, r, err)
		return
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("from"))
	here := BatchPath(b.Place)
	body := batchBody{
		Directory: clean(b.Directory), State: clean(b.State), Spend: clean(b.Spend), Process: "Nobody runs it.",
		Numbers: here + "/numbers", Caption: counted(b.Count, "task", "tasks"),
	}
	if b.Process > 0 {
		body.Process = "Process " + strconv.Itoa(b.Process) + " runs it."
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
		line := batchTask{ID: term.Clean(t.ID, 200), State: clean(t.State), Run: clean(t.Run), Reason: term.Clean(t.Reason, maxText)}
		if t.Winner > 0 {
			line.Winner = candidate.Number(t.Winner).ID()
		}
		if t.Run != "" {
			line.Link = RunPath(b.Place, t.Run)
		}
		body.Tasks = append(body.Tasks, line)
	}
	s.page(w, r, http.StatusOK, "batch", "Batch "+b.Directory, body)
}
