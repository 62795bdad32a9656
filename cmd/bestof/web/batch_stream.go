package web

import (
	"fmt"
	"net/http"
	"time"
)

// looksPerBatch is how many looks at a run's events are made in the time
// between two at a batch, which costs more.
const looksPerBatch = 8

// A batchHead is what the top of a batch's page says, cleaned.
type batchHead struct {
	State   string `json:"state"`
	Process string `json:"process"`
	Spend   string `json:"spend"`
}

// batchEvents streams how a batch comes on: at first how it stands, then what
// is different. It ends when nobody runs the batch any more.
func (s *Server) batchEvents(w http.ResponseWriter, r *http.Request) {
	leave, ok := s.seat(w, r)
	if !ok {
		return
	}
	defer leave()
	to, told := pipeTo(w), batchTold{tasks: map[int]batchTask{}}
	tick := time.NewTicker(looksPerBatch * s.o.poll)
	defer tick.Stop()
	quiet := 0 * time.Second
	for {
		b, err := s.o.Archive.Batch(r.Context(), Place(r.PathValue("place")))
		switch {
		case err != nil && !to.begun:
			s.fault(w, r, err)
			return
		case err != nil: // the browser asks again
			s.o.Log(fmt.Errorf("stream of a batch: %w", err))
			return
		}
		news := told.news(batchPart(b, firstTask(r)))
		if b.Process == 0 {
			news = append(news, message{"end", words{"Nobody runs it any more."}})
		}
		if len(news) > 0 || !to.begun || quiet >= aliveTime {
			quiet = 0
			if err := to.send(news, 0); err != nil {
				if r.Context().Err() == nil {
					s.o.Log(fmt.Errorf("stream of batch %s: %w", b.Directory, err))
				}
				return
			}
		}
		if b.Process == 0 {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			quiet += looksPerBatch * s.o.poll
		}
	}
}

// batchTold is what a client knows of a batch.
type batchTold struct {
	head  batchHead
	tasks map[int]batchTask
}

// news is what it does not know yet, and from now on does.
func (t *batchTold) news(b batchBody) (out []message) {
	if head := (batchHead{b.State.String(), b.Process, b.Spend.String()}); head != t.head {
		t.head = head
		out = append(out, message{"batch", head})
	}
	for _, line := range b.Tasks {
		if t.tasks[line.Number] != line {
			t.tasks[line.Number] = line
			out = append(out, message{"task", line})
		}
	}
	return out
}
