package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// shield keeps the tested code, which runs under the same user, from reaching
// this process through /proc or a debugger, and from inheriting a descriptor.
// Against code with the privilege to trace any process it is no help.
func shield() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the process undumpable: %w", err)
	}
	err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("keep descriptors from the test: %w", err)
	}
	return nil // kernels before 5.11 lack it; this process opens nothing inheritable itself
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir() && filepath.IsAbs(path)
}

type testRun struct {
	code     int
	signal   syscall.Signal // that killed it, or 0
	timedOut bool
	took     time.Duration
	tests    Tests
}

// A command is one process that an adapter, or the verifier itself, starts.
type command struct {
	argv   []string
	dir    string
	env    []string  // nil for this process's own
	stdout io.Writer // what gets all of stdout instead of the counter and the log; may be nil
}

// pipeGrace is how long output is awaited from processes that outlive the test
// in a session of their own.
const pipeGrace = 500 * time.Millisecond

// runTest runs the granted test with its output going to stderr, clipped. An
// error means that it could not be started.
func runTest(c *wire.Grant, timeout time.Duration, stderr io.Writer) (testRun, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return command{argv: append([]string{c.Test.Program}, c.Test.Args...), dir: c.Root}.run(ctx, stderr)
}

// run runs the command until it ends or ctx does, in a process group of its
// own, of which nothing is left. Its output is shown, clipped.
func (c command) run(ctx context.Context, show io.Writer) (testRun, error) {
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Dir, cmd.Env = c.dir, c.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

	shown := &shared{w: show}
	out, err := newStream(shown)
	if err != nil {
		return testRun{}, err
	}
	out.instead = c.stdout
	defer out.r.Close()
	errs, err := newStream(shown)
	if err != nil {
		out.w.Close()
		return testRun{}, err
	}
	defer errs.r.Close()
	cmd.Stdout, cmd.Stderr = out.w, errs.w

	started := time.Now()
	err = cmd.Start()
	out.w.Close()
	errs.w.Close()
	if err != nil {
		return testRun{}, err
	}
	var copying sync.WaitGroup
	copying.Go(out.copy)
	copying.Go(errs.copy)
	_ = cmd.Wait() // how it ended is in ProcessState
	r := testRun{took: time.Since(started), code: cmd.ProcessState.ExitCode()}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		r.signal, r.timedOut = status.Signal(), ctx.Err() != nil
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind in its group
	deadline := time.Now().Add(pipeGrace)
	out.r.SetReadDeadline(deadline)
	errs.r.SetReadDeadline(deadline)
	copying.Wait()
	out.shown.Output()
	errs.shown.Output()
	shown.endLine()
	r.tests = tests(&out.tally, &errs.tally)
	return r, nil
}

// A stream carries one output of the test to where it is counted, and clipped
// to where it is shown.
type stream struct {
	r, w    *os.File
	tally   tally
	shown   *proc.Capture
	instead io.Writer // of tally and shown; may be nil
}

func newStream(shown io.Writer) (*stream, error) {
	r, w, err := os.Pipe()
	return &stream{r: r, w: w, shown: proc.NewCapture(clip, clip, shown)}, err
}

// clip is how much is shown of the beginning and of the end of a stream each.
const clip = 128 << 10

// copy ends when nobody can write any more, or at the read deadline.
func (s *stream) copy() {
	if s.instead != nil {
		_, _ = io.Copy(s.instead, s.r)
		return
	}
	_, _ = io.Copy(io.MultiWriter(&s.tally, s.shown), s.r)
}

// A shared writer passes on whole writes of several streams, and remembers how
// the last one ended. Errors of w are ignored: what is shown decides nothing.
type shared struct {
	mu   sync.Mutex
	w    io.Writer
	last byte
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p) > 0 {
		s.last = p[len(p)-1]
		_, _ = s.w.Write(p)
	}
	return len(p), nil
}

// endLine ends the last line, if something is in it.
func (s *shared) endLine() {
	if s.last != 0 && s.last != '\n' {
		_, _ = s.Write([]byte("\n"))
	}
}
