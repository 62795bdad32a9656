package session

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/internal/redact"
	"github.com/bestof-dev/bestof/internal/term"
)

// A lineReader reads lines of a bounded length. Of a longer line nothing is
// ever taken for another one: it is read to its end.
type lineReader struct {
	r   *bufio.Reader
	max int
	buf []byte
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 32<<10), max: max}
}

// next returns one line without its end, valid until the next call. Of a line
// over the limit it returns the beginning and reports long. What follows the
// last newline is no line, unless it is wanted.
func (l *lineReader) next(partial bool) (line []byte, long bool, err error) {
	const worthKeeping = 1 << 20
	if l.buf = l.buf[:0]; cap(l.buf) > worthKeeping {
		l.buf = nil
	}
	for {
		part, err := l.r.ReadSlice('\n')
		room := l.max + 1 - len(l.buf) // and the newline
		l.buf = append(l.buf, part[:min(len(part), room)]...)
		long = long || len(part) > room
		switch {
		case err == nil:
			line = bytes.TrimSuffix(bytes.TrimSuffix(l.buf, []byte("\n")), []byte("\r"))
			return line[:min(len(line), l.max)], long || len(line) > l.max, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case partial && len(l.buf) > 0:
			return l.buf[:min(len(l.buf), l.max)], long, nil
		default:
			return nil, false, err
		}
	}
}

// A tail keeps the last lines that a server wrote to its stderr.
type tail struct {
	mu    sync.Mutex
	lines []string
	ended chan struct{}
}

const (
	tailLines = 16
	tailWidth = 512 // bytes of one line
	tailShown = 5
	tailWait  = 150 * time.Millisecond
)

// drain reads until the stream ends, so that nobody ever waits for room in it.
func drain(r io.Reader) *tail {
	t := &tail{ended: make(chan struct{})}
	go func() {
		defer close(t.ended)
		for lines := newLineReader(r, tailWidth); ; {
			line, _, err := lines.next(true)
			if err != nil {
				return
			}
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			t.mu.Lock()
			if len(t.lines) == tailLines {
				t.lines = slices.Delete(t.lines, 0, 1)
			}
			t.lines = append(t.lines, string(line))
			t.mu.Unlock()
		}
	}()
	return t
}

// said is the last lines, cleaned, as one, without what is to be hidden. It waits a little for the stream to
// end, since what explains a death is what was written last.
func (t *tail) said(hide *redact.Redactor) string {
	timer := time.NewTimer(tailWait)
	defer timer.Stop()
	select {
	case <-t.ended:
	case <-timer.C:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	said := ""
	for i, line := range t.lines[max(0, len(t.lines)-tailShown):] {
		if i > 0 {
			said += " | "
		}
		said += term.Clean(hide.String(line), 200).String()
	}
	return said
}
