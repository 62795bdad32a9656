package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"math"
	"slices"
	"sync"

	"crypto/rand"

	"github.com/bestof-dev/bestof/mcp"
)

const (
	maxSessions = 32      // of one candidate; the oldest gives way
	maxKept     = 64      // answers of one session that a retry can still get
	maxKeptSize = 1 << 20 // bytes of all of them
)

// sessions are a candidate's, of the revisions that have any.
type sessions struct {
	mu   sync.Mutex
	list []*session // oldest first
}

func (s *sessions) open() *session {
	var b [16]byte
	rand.Read(b[:]) // never fails
	one := &session{id: base64.RawURLEncoding.EncodeToString(b[:]), flights: map[string]*flight{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == maxSessions {
		s.list[0].end()
		s.list = slices.Delete(s.list, 0, 1)
	}
	s.list = append(s.list, one)
	return one
}

func (s *sessions) find(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.list {
		if one.id == id {
			return one
		}
	}
	return nil
}

func (s *sessions) drop(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, one := range s.list {
		if one.id == id {
			one.end()
			s.list = slices.Delete(s.list, i, i+1)
			return true
		}
	}
	return false
}

// A session remembers its calls by their ids: the same request sent again gets
// the same answer and no second call.
type session struct {
	id      string
	mu      sync.Mutex
	flights map[string]*flight
	kept    []string // ids of finished flights, oldest first
	size    int
}

// A flight is one call under way or answered.
type flight struct {
	digest   [sha256.Size]byte // of the request
	cancel   context.CancelFunc
	progress chan mcp.Progress // nil if none is wanted
	done     chan struct{}     // closed when answer is there
	answer   []byte
}

func newFlight(cancel context.CancelFunc, progress bool) *flight {
	f := &flight{cancel: cancel, done: make(chan struct{})}
	if progress {
		f.progress = make(chan mcp.Progress, 16)
	}
	return f
}

// report passes progress on to whoever writes the stream. What nobody takes in
// time is dropped: progress is not worth waiting for.
func (f *flight) report(p mcp.Progress) {
	if math.IsNaN(p.Progress) || math.IsInf(p.Progress, 0) || math.IsNaN(p.Total) || math.IsInf(p.Total, 0) {
		return
	}
	select {
	case f.progress <- p:
	default:
	}
}

func (f *flight) land(answer []byte) {
	f.answer = answer
	close(f.done)
	f.cancel()
}

// join gives the flight of a request: the one that is there when the request
// was sent before, a new one, or none when the id is in use for something
// else.
func (s *session) join(id string, digest [sha256.Size]byte, begin func() *flight) (f *flight, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.flights[id]; ok {
		if old.digest == digest {
			return old, false
		}
		select {
		case <-old.done: // a client that counts its requests anew
			s.forget(id)
		default:
			return nil, false
		}
	}
	f = begin()
	f.digest = digest
	s.flights[id] = f
	return f, true
}

// keep holds a finished flight for retries, and lets go of the oldest.
func (s *session) keep(id string, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flights[id] != f {
		return
	}
	s.kept = append(s.kept, id)
	s.size += len(f.answer)
	for len(s.kept) > maxKept || s.size > maxKeptSize && len(s.kept) > 1 {
		s.forget(s.kept[0])
	}
}

// forget drops a finished flight. The caller holds the lock.
func (s *session) forget(id string) {
	if i := slices.Index(s.kept, id); i >= 0 {
		s.kept = slices.Delete(s.kept, i, i+1)
		s.size -= len(s.flights[id].answer)
	}
	delete(s.flights, id)
}

// abort cancels the call of an id, if it is under way.
func (s *session) abort(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.flights[id]; ok {
		f.cancel()
	}
}

// end cancels everything.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flights {
		f.cancel()
	}
}
