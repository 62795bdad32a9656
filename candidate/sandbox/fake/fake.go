// Package fake is a sandbox without processes: its programs are Go functions,
// and what a test wants to happen is what its programs do. It finds callers
// that break the rules of sandbox.Sandbox.
package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/proc"
)

// A Process is what a program finds when it starts. A fake enters nothing: its
// programs are where this process is, and find Root and Home there.
type Process struct {
	Spec   sandbox.Spec
	Args   []string // Spec.Argv without the program
	Dir    string
	Env    []string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Getenv is the value of a variable, "" when there is none.
func (p *Process) Getenv(name string) string {
	v, _ := sandbox.Lookup(p.Env, name)
	return v
}

// An Exit is how a program ends.
type Exit struct {
	Code   int
	Signal int
	OOM    bool
}

// A Program must return soon after its context ends: that is its TERM and its
// KILL in one.
type Program func(ctx context.Context, p *Process) Exit

// A Sandbox implements sandbox.Sandbox; New makes one.
type Sandbox struct {
	options  sandbox.Options
	programs map[string]Program

	mu     sync.Mutex
	runs   []sandbox.Spec
	in     []string // roots and homes of programs that run now
	misuse []string
}

// New returns a sandbox that knows these programs by Argv[0]. Every other name
// is NotRun.
func New(o sandbox.Options, programs map[string]Program) *Sandbox {
	return &Sandbox{options: o, programs: programs}
}

// Isolation implements sandbox.Sandbox.
func (s *Sandbox) Isolation() sandbox.Isolation {
	return sandbox.Isolation{Name: "fake", Loopback: true, Summary: "functions of this process", Missing: []string{"everything: this is for tests"}}
}

// Runs lists what was run so far, in the order of their starts.
func (s *Sandbox) Runs() []sandbox.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs)
}

// Misuse lists the rules that callers broke. Each was an error of Run too; a
// test asks here so that a caller that drops errors is found as well.
func (s *Sandbox) Misuse() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.misuse)
}

// firstPID is above what Linux can give to a process, so that nobody is reaped.
const firstPID = 1<<22 + 1

// Run implements sandbox.Sandbox.
func (s *Sandbox) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Result, error) {
	dir, reason, err := s.enter(spec)
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("fake sandbox: %w", err)
	}
	defer s.leave(spec)
	if ctx.Err() != nil {
		return sandbox.Result{End: sandbox.Stopped}, nil
	}
	program := s.programs[spec.Argv[0]]
	if program == nil {
		reason = spec.Argv[0] + " is not on the PATH"
	}
	if reason != "" {
		return sandbox.Result{End: sandbox.NotRun, Reason: reason}, nil
	}
	if err := sandbox.PrepareHome(spec.HostHome()); err != nil {
		return sandbox.Result{}, fmt.Errorf("fake sandbox: %w", err)
	}
	return s.run(ctx, spec, dir, program)
}

func (s *Sandbox) run(ctx context.Context, spec sandbox.Spec, dir string, program Program) (sandbox.Result, error) {
	dir = spec.Enter.Host + dir
	spec.Root, spec.Home = spec.HostRoot(), spec.HostHome()
	if spec.Started != nil {
		spec.Started(sandbox.Process{PID: firstPID})
	}
	log := &locked{w: spec.Log}
	stdout, stderr := proc.NewCapture(spec.Head, spec.Tail, log), proc.NewCapture(spec.Head, spec.Tail, log)
	p := &Process{
		Spec: spec, Args: spec.Argv[1:], Dir: dir, Env: s.options.Environment(spec, nil),
		Stdin: bytes.NewReader(spec.Stdin), Stdout: &locked{w: stdout}, Stderr: &locked{w: stderr},
	}
	timed, cancel := context.WithTimeout(ctx, spec.Timeout)
	defer cancel()
	done := make(chan Exit, 1)
	go func() { done <- program(timed, p) }()

	var exit Exit
	select {
	case exit = <-done:
	case <-timed.Done():
		patience := time.NewTimer(max(spec.Grace, 10*time.Second))
		defer patience.Stop()
		select {
		case exit = <-done:
		case <-patience.C:
			return sandbox.Result{}, s.broken(fmt.Errorf("program %s does not return when its context ends", spec.Argv[0]))
		}
	}
	end := sandbox.Exited
	if ctx.Err() != nil {
		end = sandbox.Stopped
	} else if timed.Err() != nil {
		end = sandbox.Deadline
	}
	return sandbox.Result{
		End: end, Code: exit.Code, Signal: exit.Signal, OOM: exit.OOM,
		Stdout: sandbox.Output(stdout.Output()), Stderr: sandbox.Output(stderr.Output()),
	}, log.err
}

// enter admits a spec, unless it breaks a rule.
func (s *Sandbox) enter(spec sandbox.Spec) (dir, reason string, err error) {
	if err := errors.Join(spec.Check(), spec.Unmoved(), spec.Unlayered()); err != nil {
		return "", "", s.broken(err)
	}
	if dir, reason, err = spec.Dir(); err != nil {
		return "", "", s.broken(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range []string{spec.Root, spec.Home} {
		if slices.Contains(s.in, p) {
			err := fmt.Errorf("%s is already in use by another run", p)
			s.misuse = append(s.misuse, err.Error())
			return "", "", err
		}
	}
	s.in = append(s.in, spec.Root, spec.Home)
	spec.Argv = slices.Clone(spec.Argv)
	s.runs = append(s.runs, spec)
	return dir, reason, nil
}

func (s *Sandbox) leave(spec sandbox.Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in = slices.DeleteFunc(s.in, func(p string) bool { return p == spec.Root || p == spec.Home })
}

func (s *Sandbox) broken(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.misuse = append(s.misuse, err.Error())
	return err
}

// locked lets several goroutines of a program write to one stream.
type locked struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w == nil {
		return len(p), nil
	}
	n, err := l.w.Write(p)
	l.err = errors.Join(l.err, err)
	return n, err
}

// Say is a program that prints a line and ends with a status.
func Say(line string, code int) Program {
	return func(_ context.Context, p *Process) Exit {
		fmt.Fprintln(p.Stdout, strings.TrimSuffix(line, "\n"))
		return Exit{Code: code}
	}
}

// Hang is a program that runs until it is told to end.
func Hang(ctx context.Context, _ *Process) Exit {
	<-ctx.Done()
	return Exit{Signal: 15}
}
