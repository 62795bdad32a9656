package gateway

import (
	"fmt"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/mcp"
)

// Limits bound what one candidate can have done. Zero values mean the default.
type Limits struct {
	Calls      int           // in its whole life
	Bytes      int64         // of arguments and results together; the call that crosses it is the last
	Concurrent int           // at the same time
	Wall       time.Duration // one call, its hooks included
	Body       int           // bytes of one request
}

// DefaultLimits are far beyond what a turn needs.
func DefaultLimits() Limits {
	return Limits{Calls: 5000, Bytes: 256 << 20, Concurrent: 16, Wall: mcp.CallTimeout + 10*time.Second, Body: 4 << 20}
}

func (l Limits) orDefault() Limits {
	d := DefaultLimits()
	if l.Calls == 0 {
		l.Calls = d.Calls
	}
	if l.Bytes == 0 {
		l.Bytes = d.Bytes
	}
	if l.Concurrent == 0 {
		l.Concurrent = d.Concurrent
	}
	if l.Wall == 0 {
		l.Wall = d.Wall
	}
	if l.Body == 0 {
		l.Body = d.Body
	}
	return l
}

// A meter counts what one candidate has used.
type meter struct {
	mu      sync.Mutex
	calls   int
	bytes   int64
	running int
	refused int
}

// maxRefusals is how many refused calls of one candidate are kept in usage.
const maxRefusals = 200

// refuse counts a call that was not made, and reports whether it is worth a
// record.
func (m *meter) refuse() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused++
	return m.refused <= maxRefusals
}

// enter takes a place for one call, or says which limit refuses it.
func (m *meter) enter(l Limits, arguments int) (refusal string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.calls >= l.Calls:
		return fmt.Sprintf("over the limit of %d calls for one candidate", l.Calls)
	case m.bytes >= l.Bytes || int64(arguments) > l.Bytes-m.bytes:
		return fmt.Sprintf("over the limit of %d bytes of arguments and results for one candidate", l.Bytes)
	case m.running >= l.Concurrent:
		return fmt.Sprintf("over the limit of %d calls at the same time for one candidate: wait for one to end", l.Concurrent)
	}
	m.calls++
	m.bytes += int64(arguments)
	m.running++
	return ""
}

func (m *meter) received(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes += n
}

// leave gives the place back: when the work has really ended, not when nobody
// waits for it any more.
func (m *meter) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
}
