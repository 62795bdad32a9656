package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/bestof-dev/bestof/internal/term"
)

// maxQuestions is how many questions are remembered; the oldest is forgotten.
const maxQuestions = 256

// questions are what the operator was asked. A form names its question and
// nothing else, so that what was shown is what is done; and it is acted on
// once, however often the form comes.
type questions struct {
	mu    sync.Mutex
	all   map[string]*question
	order []string
}

type question struct {
	answers  []string // that are possible
	back     string   // where to go on
	backText string
	act      func(ctx context.Context, answer string) (done string, err error)

	once sync.Once
	over chan struct{} // closed when it was acted on
	done string        // what was done, "" when it was refused
	err  error
}

func (q *questions) ask(one *question) (nonce string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all == nil {
		q.all = map[string]*question{}
	}
	nonce, one.over = secret(), make(chan struct{})
	q.all[nonce] = one
	if q.order = append(q.order, nonce); len(q.order) > maxQuestions {
		delete(q.all, q.order[0])
		q.order = q.order[1:]
	}
	return nonce
}

func (q *questions) find(nonce string) *question {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all[nonce]
}

const readsOnly = "This page only reads: bestof view was started with --read-only."

// confirm acts on an answer, once: whoever sends the form again is shown what
// the first one did.
func (s *Server) confirm(w http.ResponseWriter, r *http.Request) {
	nonce, answer := r.PostForm.Get("question"), r.PostForm.Get("answer")
	q := s.asked.find(nonce)
	switch {
	case s.o.ReadOnly:
		s.fail(w, r, http.StatusForbidden, readsOnly)
		return
	case q == nil:
		s.fail(w, r, http.StatusConflict, "This question is not known any more: nothing was done. Go back and ask again.")
		return
	case !slices.Contains(q.answers, answer):
		s.fail(w, r, http.StatusBadRequest, "This is no answer to the question: nothing was done.")
		return
	}
	q.once.Do(func() {
		defer close(q.over)
		// Whoever closes the page now gets all of it, and not half.
		q.done, q.err = q.act(context.WithoutCancel(r.Context()), answer)
		if q.err == nil && q.done == "" {
			q.err = errors.New("nothing was done")
		}
	})
	<-q.over
	http.Redirect(w, r, "/done/"+nonce, http.StatusSeeOther)
}

type doneBody struct {
	Back, BackText string
	Done, Fault    term.Safe
}

// done is what became of a question.
func (s *Server) done(w http.ResponseWriter, r *http.Request) {
	q := s.asked.find(r.PathValue("question"))
	if q == nil {
		s.fail(w, r, http.StatusNotFound, "This question is not known any more.")
		return
	}
	body := doneBody{Back: q.back, BackText: q.backText}
	select {
	case <-q.over:
	default:
		body.Fault = clean("It was not answered yet.")
		s.page(w, r, http.StatusConflict, "done", "Not done", body)
		return
	}
	if q.err != nil {
		body.Fault = clean(q.err.Error())
		s.page(w, r, http.StatusConflict, "done", "Not done", body)
		return
	}
	body.Done = clean(q.done)
	s.page(w, r, http.StatusOK, "done", "Done", body)
}
