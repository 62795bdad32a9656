package kernel

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
)

// A Meeting is where the two ends of a private descriptor find each other: a
// socket, gone as soon as they did.
type Meeting struct {
	Path   string // absolute host path that does not exist, in a directory of mode 0700
	Inside string // where the program finds it; "" for Path itself
}

const (
	maxSocketPath = 100              // bytes; Linux takes 107
	wordTime      = 10 * time.Second // for who has connected to say the word
)

// Sandboxed starts kernels in a sandbox: spec is all of the program but Argv,
// Stdin and the socket.
func Sandboxed(sb sandbox.Sandbox, spec sandbox.Spec, at Meeting) Starter {
	return func(ctx context.Context, python string) (Process, error) {
		if len(at.Path) > maxSocketPath {
			return nil, fmt.Errorf("the socket's path %s is longer than %d bytes: choose a shorter --work-dir", at.Path, maxSocketPath)
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at.Path, Net: "unix"})
		if err != nil {
			return nil, err
		}
		defer l.Close() // removes it
		if err := os.Chmod(at.Path, 0o600); err != nil {
			return nil, err
		}
		seen := at.Path
		if at.Inside != "" {
			seen = at.Inside
			spec.Binds = append(spec.Binds[:len(spec.Binds):len(spec.Binds)], sandbox.Bind{Source: at.Path, Target: at.Inside})
		}
		word := []byte(rand.Text())
		spec.Argv, spec.Stdin = []string{python, "-I", "-c", driver, seen}, word
		spec.Grace, spec.Head, spec.Tail = endGrace, keptStderr, keptStderr
		p := &boxedProcess{done: make(chan struct{})}
		running, cancel := context.WithCancel(context.WithoutCancel(ctx))
		p.cancel = cancel
		go func() {
			defer close(p.done)
			defer cancel()
			p.result, p.err = sb.Run(running, spec)
		}()
		if p.conn, err = accept(ctx, l, word, p.done); err != nil {
			how := p.End()
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, fmt.Errorf("%s %s; tools need a Python 3 in the sandbox", python, how)
		}
		return p, nil
	}
}

var errNobodyCame = errors.New("nobody connected")

// accept waits for who says the word, as long as the program may come.
func accept(ctx context.Context, l *net.UnixListener, word []byte, gone <-chan struct{}) (*net.UnixConn, error) {
	came := make(chan *net.UnixConn)
	giveUp := make(chan struct{})
	defer close(giveUp)
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return // it was closed
			}
			go func() {
				said := make([]byte, len(word))
				_ = c.SetDeadline(time.Now().Add(wordTime))
				_, err := io.ReadFull(c, said)
				if err != nil || subtle.ConstantTimeCompare(said, word) == 0 {
					c.Close()
					return
				}
				_ = c.SetDeadline(time.Time{})
				select {
				case came <- c:
				case <-giveUp:
					c.Close()
				}
			}()
		}
	}()
	select {
	case c := <-came:
		return c, nil
	case <-ctx.Done():
	case <-gone:
	}
	return nil, errNobodyCame
}

// A boxedProcess is a driver in a sandbox.
type boxedProcess struct {
	conn   *net.UnixConn // nil when nobody came
	done   chan struct{}
	cancel context.CancelFunc
	result sandbox.Result // of Run, when done is closed
	err    error
	ended  sync.Once
}

func (p *boxedProcess) Read(b []byte) (int, error)  { return p.conn.Read(b) }
func (p *boxedProcess) Write(b []byte) (int, error) { return p.conn.Write(b) }
func (p *boxedProcess) Done() <-chan struct{}       { return p.done }

// End implements Process.
func (p *boxedProcess) End() string {
	p.ended.Do(func() {
		p.cancel()
		<-p.done
		if p.conn != nil {
			p.conn.Close()
		}
	})
	return howEnded(p.result, p.err, bytes.Join([][]byte{p.result.Stderr.Head, p.result.Stderr.Tail}, nil))
}
