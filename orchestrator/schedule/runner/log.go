package runner

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/internal/redact"
	"github.com/bestof-dev/bestof/internal/term"
)

const (
	maxLog  = 8 << 20   // of a run's log; what comes after has its end kept
	logTail = 256 << 10 // of that
	maxLine = 8 << 10   // bytes; a longer line is cut into several
)

// A logFile is the log of a run: without secrets, in whole lines of nothing but
// what prints, and of bounded length. It may be written to concurrently.
type logFile struct {
	file  io.WriteCloser
	locks chan struct{} // one writer at a time
	clean io.WriteCloser
	line  []byte
	made  []byte // lines that are not written yet
	left  int
	rest  *proc.Capture // what came when left was 0
	fault error
}

func newLog(file io.WriteCloser, r *redact.Redactor, most int) *logFile {
	l := &logFile{file: file, locks: make(chan struct{}, 1), left: most}
	l.clean = r.Writer(writerFunc(l.lines))
	return l
}

// Write never fails: a program is not told that its log cannot be kept.
func (l *logFile) Write(p []byte) (int, error) {
	l.locks <- struct{}{}
	defer func() { <-l.locks }()
	_, _ = l.clean.Write(p) // lines never fails
	return len(p), nil
}

// lines cuts what comes without secrets into lines.
func (l *logFile) lines(p []byte) (int, error) {
	l.line = append(l.line, p...)
	left := l.line
	for {
		n := bytes.IndexByte(left, '\n')
		size := n + 1
		if n < 0 {
			if len(left) < maxLine {
				break
			}
			n, size = maxLine, maxLine
		}
		n = min(n, maxLine)
		l.put(left[:n])
		if size > n+1 {
			size = n // the rest of a long line is one of its own
		}
		left = left[size:]
	}
	l.line = append(l.line[:0], left...)
	l.flush()
	return len(p), nil
}

func (l *logFile) put(line []byte) {
	text := append([]byte(term.Clean(string(line), 0).String()), '\n')
	if l.rest == nil && len(text) > l.left {
		l.rest = proc.NewCapture(1, logTail, nil)
	}
	if l.rest != nil {
		_, _ = l.rest.Write(text) // a Capture takes everything
		return
	}
	l.left -= len(text)
	l.write(text)
}

func (l *logFile) write(b []byte) { l.made = append(l.made, b...) }

// flush writes what was made of what came, at once: a program that prints many
// short lines is not kept waiting for each.
func (l *logFile) flush() {
	if l.fault == nil && len(l.made) > 0 {
		_, l.fault = l.file.Write(l.made)
	}
	l.made = l.made[:0]
}

// Close writes what is left. Its error is the first of all.
func (l *logFile) Close() error {
	l.locks <- struct{}{}
	_ = l.clean.Close()
	if len(l.line) > 0 {
		l.put(l.line)
	}
	if l.rest != nil {
		o := l.rest.Output()
		if o.Dropped > 0 {
			l.write(fmt.Appendf(nil, "… %d bytes left out …\n", o.Dropped))
		}
		l.write(append(o.Head, o.Tail...))
	}
	l.flush()
	return errors.Join(l.fault, l.file.Close())
}
