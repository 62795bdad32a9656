package gateway

import "sync"

// ends decides between the two who can end a call: the work itself, and the
// one who waited for it long enough. After the end nothing is sent.
type ends struct {
	mu    sync.Mutex
	sent  bool
	ended bool
}

// send reports whether the request may leave, and remembers that it did.
func (e *ends) send() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return false
	}
	e.sent = true
	return true
}

// wasSent reports whether the request left.
func (e *ends) wasSent() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sent
}

// end reports whether the caller is the one who ends the call.
func (e *ends) end() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := !e.ended
	e.ended = true
	return first
}
