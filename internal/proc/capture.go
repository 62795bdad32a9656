package proc

import (
	"fmt"
	"io"
	"slices"
	"sync"
)

// Output is what was kept of one stream.
type Output struct {
	Head    []byte
	Tail    []byte // what followed Head, at most the last Command.Tail bytes
	Dropped int64  // bytes between Head and Tail that were not kept
}

// A Capture keeps the beginning and the end of a stream in bounded memory. Its
// Write never fails, so that a stream is always drained. It is not for
// concurrent use.
type Capture struct {
	headMax, tailMax int
	log              io.Writer
	head             []byte
	ring             []byte // the end; the oldest byte is at next
	next             int
	after            int64 // bytes written after head
}

// NewCapture keeps head bytes from the beginning and tail from the end, 0
// meaning the 256 KiB of Command. What goes into the head is passed on to log
// as it comes, the rest that is kept when Output is called; log may be nil, and
// its errors are its own affair.
func NewCapture(head, tail int, log io.Writer) *Capture {
	if head == 0 {
		head = defaultKeep
	}
	if tail == 0 {
		tail = defaultKeep
	}
	if log == nil {
		log = io.Discard
	}
	return &Capture{headMax: head, tailMax: tail, log: log}
}

// Write implements io.Writer.
func (c *Capture) Write(p []byte) (int, error) {
	n := len(p)
	if room := c.headMax - len(c.head); room > 0 && n > 0 {
		part := p[:min(room, len(p))]
		c.head = append(c.head, part...)
		_, _ = c.log.Write(part)
		p = p[len(part):]
	}
	c.after += int64(len(p))
	if len(p) > c.tailMax {
		p = p[len(p)-c.tailMax:]
	}
	part := p[:min(c.tailMax-len(c.ring), len(p))]
	c.ring = append(c.ring, part...)
	for p = p[len(part):]; len(p) > 0; {
		k := copy(c.ring[c.next:], p)
		c.next = (c.next + k) % c.tailMax
		p = p[k:]
	}
	return n, nil
}

// Output is what was kept. It is called once, at the end.
func (c *Capture) Output() Output {
	o := Output{Head: c.head, Dropped: c.after - int64(len(c.ring))}
	if len(c.ring) > 0 {
		o.Tail = slices.Concat(c.ring[c.next:], c.ring[:c.next])
	}
	if o.Dropped > 0 {
		fmt.Fprintf(c.log, "\n… %d bytes left out …\n", o.Dropped)
	}
	if len(o.Tail) > 0 {
		_, _ = c.log.Write(o.Tail)
	}
	return o
}

// A sharedLog serialises two streams into one writer and remembers the first
// failure, after which it writes nothing more.
type sharedLog struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

func (l *sharedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w != nil && l.err == nil {
		var n int
		if n, l.err = l.w.Write(p); l.err == nil && n < len(p) {
			l.err = io.ErrShortWrite
		}
	}
	return len(p), nil
}
