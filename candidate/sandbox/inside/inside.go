// Package inside is how a program that has no network reaches sockets of the
// host's: this executable again, as its parent in the sandbox, which listens on
// the sandbox's own loopback, passes on what comes to unix sockets, and ends as
// the program ends. Every sandbox has forwards alike, since it is a wrapper
// around the program and not a part of the sandbox.
package inside

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/proc"
)

const (
	// dir is where the wrapper and the sockets are in a sandbox that shows
	// only what is bound.
	dir = "/run/bestof"

	// reportVariable names a run to its wrapper. The program does not get it,
	// so that it cannot speak in the wrapper's name.
	reportVariable = "BESTOF_INSIDE"

	statusNotRun = 126 // with a report: the program could not be run
	statusFailed = 125 // with a report: the wrapper could not do its part

	maxConns = 512 // at once, of one forward
)

// hooked guards against an executable that forgot Main, as in proc.
var hooked atomic.Bool

// Main must be called early by an executable whose sandboxes have forwards. It
// does not return in a process that Wrap started, and does nothing in others.
//
//	bestof internal inside --listen PORT=SOCKET … -- PROGRAM ARG…
func Main(args []string) {
	hooked.Store(true)
	sweepMain(args)
	if len(args) < 3 || args[1] != "internal" || args[2] != "inside" {
		return
	}
	secret := os.Getenv(reportVariable)
	forwards, argv, err := parse(args[3:])
	if err == nil {
		err = listen(forwards)
	}
	if err != nil {
		report(secret, statusFailed, err.Error())
	}
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, reportVariable+"=") })
	ws, notRun, err := proc.Pass(argv, env)
	switch {
	case err != nil:
		report(secret, statusFailed, err.Error())
	case notRun != "":
		report(secret, statusNotRun, notRun)
	}
	proc.PassEnd(ws)
}

func report(secret string, status int, reason string) {
	fmt.Fprintf(os.Stderr, "%s%s\n", reportHead(secret), strings.ReplaceAll(reason, "\n", " "))
	syscall.Exit(status)
}

func reportHead(secret string) string { return "bestof inside " + secret + ": " }

// parse reads what Wrap wrote.
func parse(args []string) (forwards []sandbox.Forward, argv []string, err error) {
	for len(args) >= 2 && args[0] == "--listen" {
		port, socket, ok := strings.Cut(args[1], "=")
		n, err := strconv.Atoi(port)
		if !ok || err != nil || n < 1 || n > 65535 || socket == "" {
			return nil, nil, fmt.Errorf("%q is not PORT=SOCKET", args[1])
		}
		forwards = append(forwards, sandbox.Forward{Port: n, Socket: socket})
		args = args[2:]
	}
	if len(args) < 2 || args[0] != "--" {
		return nil, nil, errors.New("no program")
	}
	return forwards, args[1:], nil
}

// listen opens every port, on both loopbacks where there are two.
func listen(forwards []sandbox.Forward) error {
	for _, f := range forwards {
		for _, host := range []string{"127.0.0.1", "::1"} {
			l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(f.Port)))
			if err == nil {
				go accept(l, f.Socket)
			} else if host == "127.0.0.1" {
				return err
			}
		}
	}
	return nil
}

func accept(l net.Listener, socket string) {
	slots := make(chan struct{}, maxConns)
	for {
		slots <- struct{}{}
		c, err := l.Accept()
		if err != nil {
			<-slots // of want of descriptors: the program's own doing
			continue
		}
		go func() {
			defer func() { <-slots }()
			defer c.Close()
			forward(c.(*net.TCPConn), socket)
		}()
	}
}

// forward carries one connection; each direction ends by itself.
func forward(c *net.TCPConn, socket string) {
	up, err := net.Dial("unix", socket)
	if err != nil {
		_ = c.SetLinger(0) // as if nobody listened
		return
	}
	defer up.Close()
	var way sync.WaitGroup
	way.Go(func() {
		_, _ = io.Copy(up, c)
		_ = up.(*net.UnixConn).CloseWrite()
	})
	if _, err = io.Copy(c, up); err != nil {
		up.Close()
		c.Close()
	}
	_ = c.CloseWrite()
	way.Wait()
}

// Wrap is the run that a sandbox does in the place of one with forwards: the
// same program under a wrapper. bound says that programs see only what is
// bound. What Run would return goes through done.
func Wrap(s sandbox.Spec, bound bool) (wrapped sandbox.Spec, done func(sandbox.Result, error) (sandbox.Result, error), err error) {
	if len(s.Forwards) == 0 {
		return s, func(r sandbox.Result, err error) (sandbox.Result, error) { return r, err }, nil
	}
	if !hooked.Load() {
		return s, nil, errors.New("this executable does not call inside.Main first")
	}
	self, err := proc.Executable()
	if err != nil {
		return s, nil, fmt.Errorf("find this program: %w", err)
	}
	program := self
	binds := slices.Clone(s.Binds)
	if bound {
		program = dir + "/inside"
		binds = append(binds, sandbox.Bind{Source: self, Target: program})
	}
	argv := []string{program, "internal", "inside"}
	for i, f := range s.Forwards {
		socket := f.Socket
		if bound {
			socket = fmt.Sprintf("%s/forward-%d.sock", dir, i)
			binds = append(binds, sandbox.Bind{Source: f.Socket, Target: socket})
		}
		argv = append(argv, "--listen", strconv.Itoa(f.Port)+"="+socket)
	}
	secret := rand.Text()
	env := maps.Clone(s.Env)
	if env == nil {
		env = map[string]string{}
	}
	env[reportVariable] = secret
	wrapped = s
	wrapped.Argv, wrapped.Binds, wrapped.Env, wrapped.Forwards = slices.Concat(argv, []string{"--"}, s.Argv), binds, env, nil
	return wrapped, func(r sandbox.Result, err error) (sandbox.Result, error) { return unwrap(secret, r, err) }, nil
}

// unwrap tells the wrapper's own word from the program's end.
func unwrap(secret string, r sandbox.Result, err error) (sandbox.Result, error) {
	if err != nil || r.End != sandbox.Exited || r.Code != statusNotRun && r.Code != statusFailed {
		return r, err
	}
	said, ok := strings.CutPrefix(string(r.Stderr.Head), reportHead(secret))
	if !ok {
		return r, nil
	}
	said = strings.TrimSuffix(said, "\n")
	if r.Code == statusNotRun {
		return sandbox.Result{End: sandbox.NotRun, Reason: said, Duration: r.Duration}, nil
	}
	return r, fmt.Errorf("forward to the host: %s", said)
}
