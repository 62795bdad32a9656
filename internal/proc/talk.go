package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// A Process is a program that is talked to for as long as it lives. It runs
// under a supervisor as in Run: when it ends, what it started is killed; when
// this process dies, so does the tree.
//
// The streams are pipes without anything behind them but the kernel's buffers:
// a program whose output nobody reads comes to a halt. They are closed by
// Close. A read of Stdout or Stderr ends when everything below the supervisor
// is dead, also when a descendant held on to them.
type Process struct {
	Stdin  io.WriteCloser // closing it interrupts a Write that waits
	Stdout io.Reader
	Stderr io.Reader

	l       *launched
	grace   time.Duration
	began   time.Time
	said    chan []byte
	stopped bool
	stop    sync.Mutex
	result  func() (Result, error)
}

// Start starts a program to be talked to. Stdin, Timeout, Head, Tail and Log
// of the Command are not used. A program that cannot be run is no error: it
// has ended, and Wait says NotRun. Close must be called in the end.
func Start(c Command) (*Process, error) {
	c.Stdin, c.Timeout = nil, time.Hour
	c, err := c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	p := &Process{Stdin: write, grace: c.Grace, began: time.Now(), said: make(chan []byte, 1)}
	if p.l, err = launch(c, read); err != nil {
		write.Close()
		return nil, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	p.Stdout, p.Stderr = p.l.stdout, p.l.stderr
	go func() {
		b, _ := io.ReadAll(io.LimitReader(p.l.status, verdictMax))
		p.said <- b
	}()
	p.result = sync.OnceValues(p.settle)
	return p, nil
}

// Done is closed when the program and everything that it started are dead.
func (p *Process) Done() <-chan struct{} { return p.l.exited }

// Wait returns how the program ended, once Done is closed. Stdout, Stderr and
// Report of the Result are empty.
func (p *Process) Wait() (Result, error) {
	<-p.l.exited
	return p.result()
}

func (p *Process) settle() (Result, error) {
	_ = p.l.status.SetReadDeadline(time.Now().Add(drainWait))
	res := Result{End: Exited, Duration: time.Since(p.began)}
	p.stop.Lock()
	if p.stopped {
		res.End = Stopped
	}
	p.stop.Unlock()
	err := p.l.settle(&res, <-p.said)
	return res, err
}

// Stop ends the tree, TERM first and KILL after the grace, and returns when it
// is dead. It may be called more than once and concurrently.
func (p *Process) Stop() error {
	select {
	case <-p.l.exited:
		return nil
	default:
	}
	p.stop.Lock()
	p.stopped = true
	p.stop.Unlock()
	if err := p.l.end(p.grace); err != nil {
		return fmt.Errorf("stop a program: %w", err)
	}
	return nil
}

// Close stops the program and lets go of the streams.
func (p *Process) Close() error {
	err := p.Stop()
	p.Stdin.Close()
	_, settleErr := p.result()
	p.l.ours.close()
	if errors.Is(settleErr, ErrSupervisorLost) {
		return errors.Join(err, settleErr)
	}
	return err
}
