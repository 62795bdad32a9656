package proc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/internal/bytestring"
)

// ErrSupervisorLost means that the supervisor of a program was killed by
// somebody else. Nothing is known about how the program ended, and what it
// started may still run.
var ErrSupervisorLost = errors.New("the supervisor was killed")

const (
	reportMax  = 4 << 10
	verdictMax = 64 << 10

	// A supervisor that is stopped or starved is given this much more than
	// the grace before its tree is killed from here.
	supervisorSlack = 5 * time.Second

	// Everything that could write to the streams is dead when this starts to
	// count, unless a descriptor was handed to a process outside the tree.
	drainWait = 2 * time.Second
)

// Run starts the program and returns when it and everything that it started
// are dead. It may be called concurrently.
//
// When ctx ends or the timeout passes the tree gets TERM, and KILL after the
// grace; when the program ends by itself, what it left behind is killed at
// once; when this process dies, so does the tree. A program cannot make Run
// wait by holding on to its streams. Result is valid whenever the error is nil
// and also for an error of Command.Log.
func Run(ctx context.Context, c Command) (Result, error) {
	c, err := c.withDefaults()
	if err != nil {
		return Result{}, fmt.Errorf("run: %w", err)
	}
	if ctx.Err() != nil {
		return Result{End: Stopped}, nil
	}
	res, err := run(ctx, c)
	if err != nil {
		return res, fmt.Errorf("run %s: %w", c.Argv[0], err)
	}
	return res, nil
}

// A launched is a supervisor that has been told to run its program.
type launched struct {
	cmd    *exec.Cmd
	enters bool // Command.Enter is set
	id     Identity
	exited chan struct{} // closed when the supervisor is gone

	// Our ends of its pipes; ours closes them.
	control                        *os.File
	status, stdout, stderr, report *os.File
	ours                           closers
}

// launch starts the program of c under a supervisor. When stdin is not nil it
// is the program's input in the place of c.Stdin; launch closes it.
func launch(c Command, stdin *os.File) (_ *launched, err error) {
	l := &launched{exited: make(chan struct{})}
	var theirs closers
	defer theirs.close()
	defer func() {
		if err != nil {
			l.ours.close()
		}
	}()
	if stdin != nil {
		theirs.add(stdin)
	}

	controlR, controlW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	theirs.add(controlR)
	l.ours.add(controlW)
	l.control = controlW
	var writers [4]*os.File
	for i, read := range []**os.File{&l.status, &l.stdout, &l.stderr, &l.report} {
		if *read, writers[i], err = os.Pipe(); err != nil {
			return nil, err
		}
		l.ours.add(*read)
		theirs.add(writers[i])
	}

	given := []*os.File{} // what the program finds: its input, then from descriptor 3 on
	if stdin != nil {
		given = append(given, stdin)
	} else if len(c.Stdin) > 0 {
		given, err = appendMemfile(given, c.Stdin, &theirs)
	}
	j := c.job(len(given) > 0)
	if c.Report {
		given = append(given, writers[3])
	}
	for _, b := range c.Files {
		if err == nil {
			given, err = appendMemfile(given, b, &theirs)
		}
	}
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	files, err := appendMemfile([]*os.File{controlR, writers[0]}, encoded, &theirs)
	if err != nil {
		return nil, err
	}
	files = append(files, given...)

	cmd, program, err := supervisor(c.Enter, 3+len(files))
	if err != nil {
		return nil, fmt.Errorf("start its supervisor: %w", err)
	}
	if program != nil {
		theirs.add(program)
		files = append(files, program)
	}
	cmd.Dir = "/"
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0"}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = writers[1], writers[2], files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c.Offline {
		offline(cmd.SysProcAttr)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start its supervisor: %w", err)
	}
	theirs.close()
	l.cmd, l.enters = cmd, len(c.Enter) > 0
	l.id, err = Identify(cmd.Process.Pid)
	if err == nil {
		if c.Started != nil {
			c.Started(l.id)
		}
		_, err = controlW.Write([]byte{cmdGo})
	}
	if err != nil {
		_ = controlW.Close()
		_ = cmd.Wait()
		if len(c.Enter) > 0 { // it never came to be a supervisor
			said, _ := io.ReadAll(io.LimitReader(l.stderr, reportMax))
			return nil, notEntered(said)
		}
		return nil, fmt.Errorf("start its supervisor: %w", err)
	}
	go func() {
		_ = cmd.Wait()
		close(l.exited)
	}()
	return l, nil
}

// job is what the supervisor reads of c.
func (c Command) job(stdin bool) job {
	j := job{
		Argv:     convert[bytestring.String](c.Argv),
		Dir:      bytestring.String(c.Dir),
		Env:      convert[bytestring.String](c.Env),
		Grace:    c.Grace,
		Stdin:    stdin,
		Extra:    len(c.Files),
		Wrapper:  c.Wrapper,
		Loopback: c.Offline,
	}
	if c.Report {
		j.Extra++
	}
	return j
}

// notEntered is the error of Command.Enter, by what that program said.
func notEntered(said []byte) error {
	line, _, _ := strings.Cut(string(said), "\n")
	return fmt.Errorf("enter its namespaces: %s", line)
}

// settle fills in how the program ended, once the supervisor is gone: by what
// it said, or by why it was killed.
func (l *launched) settle(res *Result, said []byte) error {
	var v verdict
	err := json.NewDecoder(bytes.NewReader(said)).Decode(&v)
	switch {
	case err != nil && res.End == Exited && l.enters && l.cmd.ProcessState.Exited():
		// A supervisor that is killed dies of a signal.
		return notEntered(res.Stderr.Head)
	case err != nil && res.End == Exited:
		return ErrSupervisorLost
	case err != nil:
		v = verdict{Signal: int(syscall.SIGKILL)} // it was killed from here
	case v.Error != "":
		return errors.New(v.Error)
	case v.NotRun != "":
		res.End, res.Reason = NotRun, v.NotRun
	}
	res.Code, res.Signal = v.Code, v.Signal
	return nil
}

func run(ctx context.Context, c Command) (Result, error) {
	began := time.Now()
	l, err := launch(c, nil)
	if err != nil {
		return Result{}, err
	}
	defer l.ours.close()

	log := &sharedLog{w: c.Log}
	stdout, stderr := NewCapture(c.Head, c.Tail, log), NewCapture(c.Head, c.Tail, log)
	report, said := NewCapture(reportMax, 1, nil), NewCapture(verdictMax, 1, nil)
	var drained sync.WaitGroup
	streams := []*os.File{l.status, l.stdout, l.stderr, l.report}
	for i, w := range []io.Writer{said, stdout, stderr, report} {
		drained.Go(func() {
			// The end of the stream and the deadline below are both an end.
			_, _ = io.CopyBuffer(w, struct{ io.Reader }{streams[i]}, make([]byte, 32<<10))
		})
	}

	end, reapErr := await(ctx, c, l)
	for _, s := range streams {
		_ = s.SetReadDeadline(time.Now().Add(drainWait))
	}
	drained.Wait()
	res := Result{End: end, Stdout: stdout.Output(), Stderr: stderr.Output(), Report: report.head, Duration: time.Since(began)}
	if reapErr != nil {
		return res, reapErr
	}
	if err := l.settle(&res, said.head); err != nil {
		return res, err
	}
	if log.err != nil {
		return res, fmt.Errorf("write its log: %w", log.err)
	}
	return res, nil
}

// supervisor is this executable as a supervisor: even when its file was
// replaced, and even where enter leads to. There it finds itself at the
// descriptor fd, as the file that is returned.
func supervisor(enter []string, fd int) (*exec.Cmd, *os.File, error) {
	self := "/proc/self/exe"
	if plain := plainProgram(); plain != "" {
		self = plain
	}
	if len(enter) == 0 {
		return exec.Command(self, superviseWord), nil, nil
	}
	program, err := os.Open(self)
	if err != nil {
		return nil, nil, err
	}
	args := append(slices.Clone(enter), "/proc/self/fd/"+strconv.Itoa(fd), superviseWord)
	return &exec.Cmd{Path: enter[0], Args: args}, program, nil
}

// await returns when the supervisor is gone, having ended it when there was a
// reason to.
func await(ctx context.Context, c Command, l *launched) (End, error) {
	timeout := time.NewTimer(c.Timeout)
	defer timeout.Stop()
	var end End
	select {
	case <-l.exited:
		return Exited, nil
	case <-timeout.C:
		end = Deadline
	case <-ctx.Done():
		end = Stopped
	}
	return end, l.end(c.Grace)
}

// end ends the tree: TERM, KILL after the grace. It returns when the supervisor
// is gone.
func (l *launched) end(grace time.Duration) error {
	_, _ = l.control.Write([]byte{cmdTerm}) // fails only when the supervisor is gone
	slack := time.NewTimer(grace + supervisorSlack)
	defer slack.Stop()
	select {
	case <-l.exited:
		return nil
	case <-slack.C:
	}
	if _, err := Reap(l.id); err != nil {
		return err
	}
	<-l.exited
	return nil
}

// offline asks for a network namespace. Whoever may not make one gets it
// through a user namespace in which they are themselves.
func offline(a *syscall.SysProcAttr) {
	a.Cloneflags = syscall.CLONE_NEWNET
	if os.Geteuid() != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		a.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN} // for the loopback; the supervisor gives it up
	}
}

// appendMemfile appends a memfile of b, which theirs will close.
func appendMemfile(files []*os.File, b []byte, theirs *closers) ([]*os.File, error) {
	f, err := memfile(b)
	if err != nil {
		return files, fmt.Errorf("hand over %d bytes: %w", len(b), err)
	}
	theirs.add(f)
	return append(files, f), nil
}

// memfile returns a file in memory that holds b, to be read from its start.
func memfile(b []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("input", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "input")
	if _, err := f.Write(b); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// closers closes files once, however often it is asked to.
type closers []*os.File

func (c *closers) add(f *os.File) { *c = append(*c, f) }

func (c *closers) close() {
	for _, f := range *c {
		f.Close()
	}
	*c = nil
}
