package mutate

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// A result is how one run of the test ended.
type result struct {
	code   int
	hung   bool
	output string
	took   time.Duration
}

func (r result) passed() bool { return r.code == 0 && !r.hung }

// grace is what a hanging test gets to print where it is.
const grace = 500 * time.Millisecond

// run runs argv in a process group of its own and leaves nothing of the group
// behind. With ask set, a test that hangs is first asked where it is.
func run(ctx context.Context, dir string, env, argv []string, limit time.Duration, capture bool, ask ...syscall.Signal) result {
	began := time.Now()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = grace
	out := &capped{max: 512 << 10}
	if capture {
		cmd.Stdout, cmd.Stderr = out, out
	}
	if err := cmd.Start(); err != nil {
		return result{code: 127, output: err.Error(), took: time.Since(began)}
	}
	group := -cmd.Process.Pid
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	kill := func() { _ = syscall.Kill(group, syscall.SIGKILL) } // ESRCH when all are gone
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	hung := false
	select {
	case err = <-done:
		kill()
	case <-ctx.Done():
		hung = true
		kill()
		<-done
	case <-timer.C:
		hung = true
		for _, s := range ask {
			_ = syscall.Kill(group, s)
			timer.Reset(grace)
			select {
			case err := <-done:
				done <- err
			case <-timer.C:
			}
		}
		kill()
		<-done
	}
	r := result{hung: hung, output: out.String(), took: time.Since(began)}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		r.code = exit.ExitCode()
	} else if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		r.code = 1
	}
	return r
}

// capped keeps the first and the last bytes written to it.
type capped struct {
	max        int
	head, tail bytes.Buffer
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.max/2-c.head.Len())
	c.head.Write(p[:n])
	c.tail.Write(p[n:])
	if over := c.tail.Len() - c.max/2; over > c.max/2 {
		c.tail.Next(over)
	}
	return len(p), nil
}

func (c *capped) String() string {
	tail := c.tail.Bytes()
	if over := len(tail) - c.max/2; over > 0 {
		tail = tail[over:]
	}
	return c.head.String() + string(tail)
}
