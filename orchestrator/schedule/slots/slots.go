// Package slots is the number of candidates that one machine runs at once, over
// all processes of one home: a directory of files, each of which one candidate
// holds the kernel's lock on. Whoever dies frees what it held.
package slots

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Max is the highest number of slots.
const Max = 1024

// between is how long a candidate that found no slot waits before it looks
// again. A lock tells nobody that it is free.
const between = 100 * time.Millisecond

// A Pool is the slots of one home. It may be used concurrently.
type Pool struct {
	dir string
	n   int
}

// Open makes what is missing of n slots below home, which exists. Processes
// that were told different numbers share those that both know.
func Open(home string, n int) (*Pool, error) {
	if n < 1 || n > Max {
		return nil, fmt.Errorf("%d slots: write a number from 1 to %d", n, Max)
	}
	p := &Pool{dir: filepath.Join(home, "slots"), n: n}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the slots: %w", err)
	}
	return p, nil
}

// Size is how many slots there are.
func (p *Pool) Size() int { return p.n }

// Take returns when this process has a slot, which release gives back. When
// none is free it first calls waits, once; that may be nil. Who waits longest
// is not always next.
func (p *Pool) Take(ctx context.Context, waits func()) (release func(), err error) {
	var tick *time.Ticker
	for {
		f, err := p.free()
		if err != nil {
			return nil, fmt.Errorf("take a slot: %w", err)
		}
		if f != nil {
			return func() { give(f) }, nil
		}
		if tick == nil {
			tick = time.NewTicker(between)
			defer tick.Stop()
			if waits != nil {
				waits()
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// Taken is how many slots are held at this moment, by whomever.
func (p *Pool) Taken() (int, error) {
	var held []*os.File
	defer func() {
		for _, f := range held {
			give(f)
		}
	}()
	taken := 0
	for i := range p.n {
		f, err := p.try(i)
		switch {
		case err != nil:
			return 0, fmt.Errorf("count the slots: %w", err)
		case f == nil:
			taken++
		default:
			held = append(held, f)
		}
	}
	return taken, nil
}

// free takes the first slot that nobody has, or nil.
func (p *Pool) free() (*os.File, error) {
	for i := range p.n {
		if f, err := p.try(i); f != nil || err != nil {
			return f, err
		}
	}
	return nil, nil
}

// try takes slot i, or nothing when somebody has it.
func (p *Pool) try(i int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(p.dir, strconv.Itoa(i)), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		return f, nil
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EINTR):
		return nil, f.Close()
	default:
		return nil, errors.Join(err, f.Close())
	}
}

// give frees a slot. Closing alone would wait for a fork that is on its way to
// its exec.
func give(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN) // closing does it otherwise
	_ = f.Close()
}
