package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"time"
)

// What a stream says of a run whose process is gone.
const (
	killedWords = "The run was interrupted: its process is gone. Nothing was chosen; run it again."
	endedWords  = "The run has ended."
)

// aliveTime is how often a silent stream says that it is there.
const aliveTime = 15 * time.Second

// events streams what happens in a run: first what happened since the event of
// Last-Event-ID, put together, then each change as it comes. However much is
// written, a client is told only how things are when it has taken what it was
// told before, so that a slow one makes nothing pile up.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	run, ok := s.run(w, r)
	if !ok {
		return
	}
	leave, ok := s.seat(w, r)
	if !ok {
		return
	}
	defer leave()
	f, err := s.firstEvents(r, run)
	if err != nil {
		s.fail(w, r, http.StatusNotFound, "The run has no events.")
		return
	}
	defer f.Close()
	cut, t, err := fromEnd(f, maxHistory)
	if err != nil {
		s.fault(w, r, err)
		return
	}
	seen, _ := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
	st := &stream{pipe: pipeTo(w), p: newProgress(), t: t, life: run.Life, poll: s.o.poll, seen: seen}
	if cut {
		st.p.notice, st.p.freshN = "The file of events is large: its beginning was left out.", true
	}
	if err := st.follow(r); err != nil && r.Context().Err() == nil {
		s.o.Log(fmt.Errorf("stream of run %s: %w", run.Doc.Run, err))
	}
}

// seat is a place among the streams, of which there are so many.
func (s *Server) seat(w http.ResponseWriter, r *http.Request) (leave func(), ok bool) {
	select {
	case s.streams <- struct{}{}:
		return func() { <-s.streams }, true
	default:
		w.Header().Set("Retry-After", "10")
		s.fail(w, r, http.StatusServiceUnavailable, "Too many pages are open that show runs as they work: close some.")
		return nil, false
	}
}

// firstEvents opens the events of a run, which may not have had any yet.
func (s *Server) firstEvents(r *http.Request, run Run) (*os.File, error) {
	tick := time.NewTicker(s.o.poll)
	defer tick.Stop()
	for {
		f, err := run.Events()
		if !errors.Is(err, fs.ErrNotExist) || run.Life() != Working {
			return f, err
		}
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-tick.C:
		}
	}
}

type stream struct {
	*pipe
	p    *progress
	t    *tail
	life func() Life
	poll time.Duration
	seen int64
}

// maxPieces is how many pieces are folded before the page is told: events may
// be written faster than they are read.
const maxPieces = 256

// catchUp folds what there is, but at most so many pieces.
func (st *stream) catchUp(r *http.Request, most int) error {
	for range most {
		if err := r.Context().Err(); err != nil {
			return err
		}
		err := st.t.next(func(line []byte) {
			st.p.line(line)
			if st.seen > 0 && st.p.seq <= st.seen {
				st.p.forget() // it was told in an earlier connection
			}
		})
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (st *stream) follow(r *http.Request) error {
	quiet := 0 * time.Second
	tick := time.NewTicker(st.poll)
	defer tick.Stop()
	if err := st.catchUp(r, 2*maxHistory/pieceSize); err != nil {
		return err
	}
	if st.seen > st.p.seq { // not an id of this run: it is told everything
		st.p.everything()
	} else if st.seen > 0 && st.seen == st.p.seq && st.p.ended != "" {
		st.w.WriteHeader(http.StatusNoContent) // the browser stops asking
		return nil
	}
	for {
		if st.p.ended == "" {
			if err := st.checkLife(r); err != nil {
				return err
			}
		}
		if news := st.p.news(); len(news) > 0 || !st.begun || quiet >= aliveTime {
			quiet = 0
			if err := st.send(news, st.p.seq); err != nil {
				return err
			}
		}
		if st.p.ended != "" {
			return nil
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-tick.C:
			quiet += st.poll
		}
		if err := st.catchUp(r, maxPieces); err != nil {
			return err
		}
	}
}

// checkLife ends the stream of a run whose process has ended. What the process
// wrote last is read before that is believed.
func (st *stream) checkLife(r *http.Request) error {
	life := st.life()
	if life == Working {
		return nil
	}
	if err := st.catchUp(r, maxPieces); err != nil || st.p.ended != "" {
		return err
	}
	if st.p.ended = endedWords; life == Dead {
		st.p.ended = killedWords
	}
	return nil
}

// A pipe takes messages to one client.
type pipe struct {
	w     http.ResponseWriter
	c     *http.ResponseController
	begun bool
}

func pipeTo(w http.ResponseWriter) *pipe { return &pipe{w: w, c: http.NewResponseController(w)} }

// send writes messages in one piece, or one comment when there are none. id is
// what a client has seen that has the last of them.
func (p *pipe) send(news []message, id int64) error {
	var b bytes.Buffer
	if len(news) == 0 {
		b.WriteString(": here\n\n")
	}
	for i, m := range news {
		body, err := json.Marshal(m.body)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "event: %s\ndata: %s\n", m.kind, body)
		if i == len(news)-1 { // whoever has this one has all
			fmt.Fprintf(&b, "id: %d\n", id)
		}
		b.WriteByte('\n')
	}
	if !p.begun {
		p.begun = true
		p.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		p.w.Header().Set("X-Accel-Buffering", "no")
	}
	if err := p.c.SetWriteDeadline(time.Now().Add(streamTime)); err != nil {
		return err
	}
	if _, err := p.w.Write(b.Bytes()); err != nil {
		return err
	}
	return p.c.Flush()
}
