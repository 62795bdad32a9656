package sandboxtest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
)

const forwardPort = 11977

// probeTalk says something long on as many connections as it is told, ends its
// half of each, and prints how many were answered with all of it in capitals.
// Then, when it has a further argument, it holds one more open and waits.
func probeTalk(_ context.Context, p *fake.Process) fake.Exit {
	n, _ := strconv.Atoi(p.Args[1])
	var mu sync.Mutex
	right := 0
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			text := strings.Repeat(fmt.Sprintf("connection %d ", i), 10_000)
			conn, err := net.Dial("tcp", p.Args[0])
			if err != nil {
				fmt.Fprintln(p.Stderr, err)
				return
			}
			defer conn.Close()
			go func() {
				io.WriteString(conn, text)
				conn.(*net.TCPConn).CloseWrite()
			}()
			if b, err := io.ReadAll(conn); err == nil && string(b) == strings.ToUpper(text) {
				mu.Lock()
				right++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	fmt.Fprint(p.Stdout, right)
	if len(p.Args) > 2 {
		conn, err := net.Dial("tcp", p.Args[0])
		if err != nil {
			return fail(p, err)
		}
		io.WriteString(conn, "held")
		<-time.After(time.Hour) // it is ended; a program all of whose goroutines wait for nothing would end itself
	}
	return fake.Exit{}
}

// capitals is a server of the host's that answers when all was said; began
// counts the connections over which something was, ended is told of each that
// ended.
func capitals(t *testing.T) (socket string, began *atomic.Int64, ended <-chan string) {
	t.Helper()
	// A path as long as they are in a work directory would leave no room.
	dir, err := os.MkdirTemp("", "f")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	began = new(atomic.Int64)
	all := make(chan string, 1000)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				said := bufio.NewReader(c)
				if _, err := said.Peek(1); err == nil {
					began.Add(1)
				}
				b, _ := io.ReadAll(said)
				c.Write(bytes.ToUpper(b))
				all <- string(b)
			})
		}
	})
	t.Cleanup(func() { l.Close(); work.Wait() })
	return socket, began, all
}

// forwards: sockets of the host's are reached through ports of the program's
// own loopback, nothing else is, and the program is as it would be without.
func (s *suite) forwards(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	if !s.expect.Network {
		spec := s.spec(t, "exit", "0")
		spec.Forwards = []sandbox.Forward{{Port: forwardPort, Socket: "/none"}}
		if res, err := b.Run(t.Context(), spec); err == nil {
			t.Errorf("in the place of a network that cannot be kept away: %s", res.End)
		}
		return
	}
	t.Run("talk", s.talk)
	t.Run("nothing else", s.nothingElse)
	with := *s
	with.socket, _, _ = capitals(t)
	t.Run("ends", with.ends)
	for name, test := range map[string]func(*testing.T){
		"exit": with.exit, "not run": with.notRun, "input": with.input, "output": with.output, "directory": with.directory, "place": with.place,
		"environment": with.environment, "timeout": with.timeout, "context": with.context, "started": with.started, "signal": with.signal,
		"terminal": with.terminal, "descriptors": with.descriptors, "daemon": with.daemon, "orphans": with.orphans, "stubborn": with.stubborn,
		"polite": with.polite, "killed caller": with.killedCaller,
	} {
		t.Run(name, test)
	}
	if s.expect.Processes {
		t.Run("strangers", with.strangers)
		t.Run("confined", with.confined)
	}
}

func (s *suite) talk(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	socket, began, ended := capitals(t)
	other, _, _ := capitals(t)
	port := "127.0.0.1:" + strconv.Itoa(forwardPort)
	spec := s.spec(t, "talk", port, "30")
	spec.Forwards = []sandbox.Forward{{Port: forwardPort, Socket: socket}, {Port: forwardPort + 1, Socket: other}}
	if got := ok(t, b, spec); got != "30" {
		t.Errorf("%s of 30 connections were answered right", got)
	}
	for range 30 {
		<-ended
	}
	spec = s.spec(t, "talk", "localhost:"+strconv.Itoa(forwardPort+1), "1")
	spec.Forwards = []sandbox.Forward{{Port: forwardPort, Socket: "/no/such/socket/of/the/host"}, {Port: forwardPort + 1, Socket: other}}
	if res, err := b.Run(t.Context(), spec); s.expect.Filesystem {
		if err == nil {
			t.Error("a socket that is not there is bound")
		}
	} else if err != nil || string(res.Stdout.Bytes()) != "1" {
		t.Errorf("beside a socket that is not there: %s, %v", res.Stdout.Bytes(), err)
	}

	// What is open when the program ends, ends.
	spec = s.spec(t, "talk", port, "0", "hold")
	spec.Forwards = []sandbox.Forward{{Port: forwardPort, Socket: socket}}
	spec.Grace = 100 * time.Millisecond
	told := began.Load()
	if res := stop(t, b, spec, func() bool { return began.Load() > told }); res.End != sandbox.Stopped {
		t.Fatalf("ended %s: %s", res.End, res.Stderr.Bytes())
	}
	if said := <-ended; said != "held" {
		t.Errorf("the connection that was held said %q", said)
	}
}

func (s *suite) nothingElse(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	socket, _, _ := capitals(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	abstract, err := net.Listen("unix", "@sandboxtest-forward-"+strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	for _, to := range [][2]string{
		{"tcp", tcp.Addr().String()}, {"unix", abstract.Addr().String()}, {"tcp", "127.0.0.1:" + strconv.Itoa(forwardPort+1)}, {"tcp", "192.0.2.1:80"},
	} {
		spec := s.spec(t, "dial", to[0], to[1])
		spec.Forwards = []sandbox.Forward{{Port: forwardPort, Socket: socket}}
		if run(t, b, spec).OK() {
			t.Errorf("%s is reached", to[1])
		}
	}
	// Two programs at once have a loopback each.
	var group sync.WaitGroup
	for range 4 {
		spec := s.spec(t, "talk", "127.0.0.1:"+strconv.Itoa(forwardPort), "3")
		spec.Forwards = []sandbox.Forward{{Port: forwardPort, Socket: socket}}
		group.Go(func() {
			if res, err := b.Run(t.Context(), spec); err != nil || string(res.Stdout.Bytes()) != "3" {
				t.Errorf("%q, %v\n%s", res.Stdout.Bytes(), err, res.Stderr.Bytes())
			}
		})
	}
	group.Wait()
}

// ends: how a program ends is told as it was, whatever it says.
func (s *suite) ends(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	spec := s.spec(t)
	for name, n := range map[string]int{"HUP": 1, "INT": 2, "QUIT": 3, "ABRT": 6, "USR1": 10, "SEGV": 11, "PIPE": 13} {
		spec.Argv = []string{"sh", "-c", "ulimit -c 0; kill -" + name + " $$"}
		if res := run(t, b, spec); res.End != sandbox.Exited || res.Signal != n || len(res.Stderr.Head) > 0 {
			t.Errorf("%s: %s, code %d, signal %d, said %q", name, res.End, res.Code, res.Signal, res.Stderr.Head)
		}
	}
	for code, line := range map[int]string{125: "bestof inside : the host failed", 126: "bestof inside : not run"} {
		spec.Argv = []string{"sh", "-c", fmt.Sprintf("echo %q >&2; exit %d", line, code)}
		if res := run(t, b, spec); res.End != sandbox.Exited || res.Code != code || string(res.Stderr.Head) != line+"\n" {
			t.Errorf("who speaks as the wrapper does: %s, code %d, %q", res.End, res.Code, res.Stderr.Head)
		}
	}
	if s.expect.Processes {
		spec.Argv = []string{"sh", "-c", "cat /proc/$PPID/environ /proc/$PPID/mem; true"}
		if got := ok(t, b, spec); got != "" {
			t.Errorf("a program reads of its wrapper %q", got)
		}
	}
	// Who ends the wrapper ends itself.
	spec.Argv = []string{"sh", "-c", "kill -TERM $PPID; kill -KILL $PPID; exec sleep 3600"}
	if res := run(t, b, spec); res.End != sandbox.Exited || res.OK() {
		t.Errorf("who ends its wrapper: %s, code %d, signal %d", res.End, res.Code, res.Signal)
	}
}
