package proc

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// Output is what was kept of one stream.
type Output struct {
	Head    []byte
	Tail    []byte // what followed Head, at most the last Command.Tail bytes
	Dropped int64  // bytes between Head and Tail that were not kept
}

// A capture keeps the beginning and the end of a stream in bounded memory. Its
// Write never fails, so that the stream is always drained.
type capture struct {
	headMax, tailMax int
	head             []byte
	ring             []byte // the end, oldest byte at next once it is full
	next             int
	after            int64 // bytes written after head
	log              *sharedLog
}

func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	if room := c.headMax - len(c.head); room > 0 {
		part := p[:min(room, len(p))]
		c.head = append(c.head, part...)
		c.log.write(part)
		p = p[len(part):]
	}
	c.after += int64(len(p))
	if len(p) > c.tailMax {
		p = p[len(p)-c.tailMax:]
	}
	if room := c.tailMax - len(c.ring); room > 0 {
		part := p[:min(room, len(p))]
		c.ring = append(c.ring, part...)
		p = p[len(part):]
	}
	for len(p) > 0 {
		k := copy(c.ring[c.next:], p)
		c.next = (c.next + k) % c.tailMax
		p = p[k:]
	}
	return n, nil
}

// output ends the capture and passes the kept end on to the log.
func (c *capture) output() Output {
	o := Output{
		Head:    c.head,
		Tail:    append(append([]byte(nil), c.ring[c.next:]...), c.ring[:c.next]...),
		Dropped: c.after - int64(len(c.ring)),
	}
	if o.Dropped > 0 {
		c.log.write(fmt.Appendf(nil, "\n… %d bytes left out …\n", o.Dropped))
	}
	c.log.write(o.Tail)
	return o
}

// A sharedLog serialises two streams into one writer and remembers the first
// failure, after which it writes nothing more.
type sharedLog struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

func (l *sharedLog) write(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w == nil || l.err != nil || len(p) == 0 {
		return
	}
	n, err := l.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	l.err = err
}

// drain copies a stream into w until its end. The expiry of the reader's
// deadline counts as the end.
func drain(w io.Writer, r io.Reader, expired error) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, 32<<10))
	if errors.Is(err, expired) {
		return nil
	}
	return err
}
