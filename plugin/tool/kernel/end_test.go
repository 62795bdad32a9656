package kernel_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/bwrap"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker/dockertest"
	"github.com/bestof-dev/bestof/candidate/sandbox/process"
	"github.com/bestof-dev/bestof/plugin/tool/kernel"
)

// A clinger says its pid and that of a child in a session of its own into a
// pipe, and then does not end.
const clinger = `import json, os, signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def run(args):
    p = subprocess.Popen(['sleep', '3600'], start_new_session=True)
    with open(args['to'], 'w') as f:
        f.write(f'{os.getpid()} {p.pid}\n')
    time.sleep(3600)
`

// fifo is a pipe that a tool can write to, and what comes out of it.
func fifo(t *testing.T) (path string, line func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	r := bufio.NewReader(f)
	return path, func() string {
		s, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(s)
	}
}

// watched are processes that are to end.
func watched(t *testing.T, pids string) (ended func()) {
	t.Helper()
	var fds []unix.PollFd
	for _, s := range strings.Fields(pids) {
		pid, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	return func() {
		t.Helper()
		for _, fd := range fds {
			if n, err := unix.Poll([]unix.PollFd{fd}, 30_000); err != nil || n != 1 {
				t.Errorf("a process is still there: %v", err)
			}
			unix.Close(int(fd.Fd))
		}
	}
}

func args(t *testing.T, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCancelAndTimeoutEndAllOfIt(t *testing.T) {
	for _, how := range []string{"cancel", "timeout", "close"} {
		t.Run(how, func(t *testing.T) {
			c := kernel.Config{}
			if how == "timeout" {
				c.CallTimeout = 3 * time.Second
			}
			k := open(t, c, file("clings", clinger), file("count", "n = 0\ndef run(args):\n    global n\n    n += 1\n    return n"))
			wantText(t, call(t, k, "count", `{}`), "1")
			to, line := fifo(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var r kernel.Result
			var err error
			var work sync.WaitGroup
			work.Go(func() { r, err = k.Call(ctx, "clings", args(t, map[string]string{"to": to})) })
			ended := watched(t, line())
			sorry := errors.New("nobody waits any more")
			switch how {
			case "cancel":
				cancel(sorry)
			case "close":
				k.Close()
			}
			work.Wait()
			ended()
			switch {
			case how == "cancel" && !errors.Is(err, sorry), how == "close" && !errors.Is(err, kernel.ErrClosed):
				t.Errorf("got %v", err)
			case how == "timeout" && (err != nil || !r.IsError || !strings.Contains(r.Text, "did not end within 3s")):
				t.Errorf("got %+v, %v", r, err)
			}
			if how == "close" {
				if _, err := k.Call(t.Context(), "count", nil); !errors.Is(err, kernel.ErrClosed) {
					t.Errorf("got %v", err)
				}
				return
			}
			wantText(t, call(t, k, "count", `{}`), "1") // a new kernel, with the registry whole
		})
	}
}

// Who waits for the turn is not charged for it, and can go away.
func TestQueue(t *testing.T) {
	k := open(t, kernel.Config{CallTimeout: 20 * time.Second}, file("waits", `def run(args):
    with open(args['to'], 'w') as f: f.write('here\n')
    with open(args['until']) as f: return f.readline()
`), file("count", "n = 0\ndef run(args):\n    global n\n    n += 1\n    return n"))
	wantText(t, call(t, k, "count", `{}`), "1")
	to, line := fifo(t)
	until := filepath.Join(t.TempDir(), "until")
	if err := unix.Mkfifo(until, 0o600); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		if r, err := k.Call(t.Context(), "waits", args(t, map[string]string{"to": to, "until": until})); err != nil || r.Text != "go\n" {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	line()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Call(ctx, "count", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("who waits cannot go away: %v", err)
	}
	for range 3 {
		work.Go(func() {
			if r, err := k.Call(t.Context(), "count", json.RawMessage(`{}`)); err != nil || r.IsError {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
	f, err := os.OpenFile(until, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(f, "go")
	f.Close()
	work.Wait()
	wantText(t, call(t, k, "count", `{}`), "5")
}

// hold is a process of this test's that dies with a call under way.
func hold(to string) int {
	k := kernel.New(kernel.Config{
		Tools: []kernel.Source{file("clings", clinger)}, Python: os.Getenv("KERNEL_PYTHON"),
		Start: kernel.Host(os.Environ(), "/"),
	})
	_, err := k.Call(context.Background(), "clings", json.RawMessage(fmt.Sprintf(`{"to": %q}`, to)))
	fmt.Println(err)
	return 1
}

func TestNothingIsLeftAfterKill(t *testing.T) {
	to, line := fifo(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "KERNEL_HOLD="+to, "KERNEL_PYTHON="+python())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := watched(t, line())
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	ended()
}

// boxes are real sandboxes, with how a kernel is started in each.
func boxes(t *testing.T) map[string]func(t *testing.T) kernel.Starter {
	t.Helper()
	o := sandbox.Options{Environ: append(os.Environ(), "SECRET=x")}
	b, err := bwrap.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	in := func(sb sandbox.Sandbox, inside string, seen sandbox.Place) func(t *testing.T) kernel.Starter {
		return func(t *testing.T) kernel.Starter {
			dir := t.TempDir()
			spec := sandbox.Spec{Root: filepath.Join(dir, "root"), Home: filepath.Join(dir, "home"), Seen: seen, Network: sandbox.NetworkNone, Timeout: time.Hour}
			if err := errors.Join(os.Mkdir(spec.Root, 0o700), os.Mkdir(spec.Home, 0o700)); err != nil {
				t.Fatal(err)
			}
			meet, err := os.MkdirTemp("", "k")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if left, err := os.ReadDir(meet); err != nil || len(left) > 0 {
					t.Errorf("left in the meeting place: %v, %v", left, err)
				}
				os.RemoveAll(meet)
			})
			return kernel.Sandboxed(sb, spec, kernel.Meeting{Path: filepath.Join(meet, "s"), Inside: inside})
		}
	}
	host := dockertest.Host(t)
	d, err := docker.New(t.Context(), sandbox.Options{Environ: []string{"DOCKER_HOST=" + host, "SECRET=x"}}, docker.Options{Image: dockertest.Python(t, host)})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]func(t *testing.T) kernel.Starter{
		"docker":  in(d, "/run/bestof/tools.sock", sandbox.Place{Root: "/workspace/x", Home: "/home/candidate"}),
		"process": in(process.New(o), "", sandbox.Place{}),
		"bwrap":   in(b, "/run/bestof/tools.sock", sandbox.Place{Root: "/workspace/x", Home: "/home/candidate"}),
	}
}

func TestSandboxed(t *testing.T) {
	for name, starter := range boxes(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := kernel.Config{Start: starter(t), CallTimeout: 5 * time.Second}
			if name == "docker" {
				c.Python = "python3" // the image's
			}
			k := open(t, c, file("count", "n = 0\ndef run(args):\n    global n\n    n += 1\n    print('counted')\n    return n"),
				file("peek", "import os\ndef run(args):\n    return ['SECRET' in os.environ, sorted(os.environ)]"),
				file("dies", "import os\ndef run(args):\n    os._exit(3)"), file("hangs", "import time\ndef run(args):\n    time.sleep(3600)"))
			for _, want := range []string{"1", "2"} {
				if r := call(t, k, "count", `{}`); r.Text != want || r.Printed != "counted\n" {
					t.Errorf("got %+v", r)
				}
			}
			if r := call(t, k, "peek", `{}`); r.IsError || strings.Contains(r.Text, "SECRET") || !strings.HasPrefix(r.Text, "[false") {
				t.Errorf("got %+v", r)
			}
			if r := call(t, k, "dies", `{}`); !r.IsError || !strings.Contains(r.Text, "exited with status 3") {
				t.Errorf("got %+v", r)
			}
			wantText(t, call(t, k, "count", `{}`), "1")
			if r := call(t, k, "hangs", `{}`); !r.IsError || !strings.Contains(r.Text, "did not end within 5s") {
				t.Errorf("got %+v", r)
			}
			wantText(t, call(t, k, "count", `{}`), "1")
		})
	}
}

func TestSandboxWithoutPython(t *testing.T) {
	for name, starter := range boxes(t) {
		k := open(t, kernel.Config{Start: starter(t), Python: "no-such-python"}, file("one", runs))
		if _, err := k.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "no-such-python could not be run: no-such-python") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
