package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/proc"
)

// Host starts kernels as the operator: with their privileges, in dir, and of
// their environment with what Python and its programs are found by and no more.
func Host(environ []string, dir string) Starter {
	env := []string{"LANG=C.UTF-8"}
	for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "TMPDIR"} {
		if v, ok := sandbox.Lookup(environ, name); ok {
			env = append(env, name+"="+v)
		}
	}
	return func(_ context.Context, python string) (Process, error) {
		p, err := proc.Start(proc.Command{
			Argv: []string{python, "-I", "-c", driver, "stdio", "user-site"}, Dir: dir, Env: env, Grace: endGrace,
		})
		if err != nil {
			return nil, err
		}
		h := &hostProcess{p: p, drained: make(chan struct{})}
		go h.drain()
		return h, nil
	}
}

const (
	endGrace   = 50 * time.Millisecond // between TERM and KILL
	keptStderr = 4 << 10

	descriptorLost = 70 // exit status, as in driver.py
)

// A hostProcess is a driver under a supervisor of this process's.
type hostProcess struct {
	p       *proc.Process
	stderr  []byte // complete when drained is closed
	drained chan struct{}
	ended   sync.Once
	how     string
}

func (h *hostProcess) Read(b []byte) (int, error)  { return h.p.Stdout.Read(b) }
func (h *hostProcess) Write(b []byte) (int, error) { return h.p.Stdin.Write(b) }
func (h *hostProcess) Done() <-chan struct{}       { return h.p.Done() }

// drain keeps what Python says before the driver is there.
func (h *hostProcess) drain() {
	defer close(h.drained)
	h.stderr, _ = io.ReadAll(io.LimitReader(h.p.Stderr, keptStderr))
	_, _ = io.Copy(io.Discard, h.p.Stderr)
}

// End implements Process.
func (h *hostProcess) End() string {
	h.ended.Do(func() {
		h.p.Stdin.Close()
		stopErr := h.p.Stop()
		<-h.drained
		res, err := h.p.Wait()
		err = errors.Join(stopErr, err, h.p.Close())
		h.how = howEnded(sandbox.Ended(res), err, h.stderr)
	})
	return h.how
}

// howEnded completes "the kernel …".
func howEnded(res sandbox.Result, err error, stderr []byte) string {
	how := ""
	switch {
	case err != nil:
		return "was lost: " + err.Error()
	case res.End == sandbox.NotRun:
		return "could not be run: " + res.Reason
	case res.OOM:
		return "was ended for want of memory"
	case res.End == sandbox.Deadline:
		return "was ended with the time of its candidate"
	case res.Code == descriptorLost && len(stderr) == 0:
		return "lost its private descriptor"
	case res.Signal != 0:
		how = fmt.Sprintf("died of signal %d", res.Signal)
	default:
		how = fmt.Sprintf("exited with status %d", res.Code)
	}
	if words := lastWords(stderr); words != "" {
		how += ": " + words
	}
	return how
}
