package proc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/internal/proc"
)

func TestMain(m *testing.M) {
	os.Unsetenv("BESTOF_TEST_PLAIN") // here supervisors are what is tested
	if len(os.Args) == 3 && os.Args[1] == "talk-and-hang" {
		talkAndHang(os.Args[2])
	}
	goleak.VerifyTestMain(m)
}

func command(argv ...string) proc.Command {
	return proc.Command{Argv: argv, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, Timeout: time.Minute}
}

func shell(script string) proc.Command { return command("sh", "-c", script) }

func run(t *testing.T, c proc.Command) proc.Result {
	t.Helper()
	res, err := proc.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// marked gives the program and all that it starts a variable to be found by.
func marked(c proc.Command) (proc.Command, string) {
	mark := fmt.Sprintf("PROC_TEST_MARK=%016x", rand.Uint64())
	c.Env = append(c.Env, mark)
	return c, mark
}

// living counts processes that carry a mark.
func living(mark string) (n int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range paths {
		if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte(mark)) {
			n++
		}
	}
	return n
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("not so after 20 seconds: %s", what)
		case <-tick.C:
		}
	}
}

func TestRun(t *testing.T) {
	c := shell("echo out; echo err >&2; cat; exit 3")
	c.Stdin = []byte("given")
	res := run(t, c)
	if res.End != proc.Exited || res.Code != 3 || res.Signal != 0 || res.Duration <= 0 {
		t.Errorf("ended %+v", res)
	}
	if out, err := string(res.Stdout.Head), string(res.Stderr.Head); out != "out\ngiven" || err != "err\n" {
		t.Errorf("stdout %q, stderr %q", out, err)
	}
}

func TestEnvironmentIsExact(t *testing.T) {
	t.Setenv("OF_THE_CALLER", "1")
	for _, env := range [][]string{{"A=1", "B=\xff\n", "A=1"}, {}} {
		c := command("/usr/bin/env", "-0")
		c.Env = env
		want := strings.Join(env, "\x00")
		if len(env) > 0 {
			want += "\x00"
		}
		if got := string(run(t, c).Stdout.Head); got != want {
			t.Errorf("environment %q, want %q", got, want)
		}
	}
}

func TestArgumentsAreBytes(t *testing.T) {
	args := []string{"", "--", "a b", "$HOME", "'\"\n", "\xff\xfe"}
	c := command(append([]string{"printf", "%s|"}, args...)...)
	if got, want := string(run(t, c).Stdout.Head), strings.Join(args, "|")+"|"; got != want {
		t.Errorf("arguments %q, want %q", got, want)
	}
}

func TestLookup(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), mode)); err != nil {
			t.Fatal(err)
		}
	}
	write("a/tool", "#!/bin/sh\necho a\n", 0o755)
	write("b/tool", "#!/bin/sh\necho b\n", 0o755)
	write("noexec/tool", "#!/bin/sh\necho noexec\n", 0o644)
	write("dir/tool/file", "", 0o644)
	write("broken", "#!/no/such/program\n", 0o755)
	write("garbage", "\x00\x01\x02", 0o755)
	t.Setenv("PATH", filepath.Join(dir, "b")) // the caller's, which is not asked
	long := strings.Repeat("x", 3<<20)
	for _, c := range []struct {
		path   string
		argv   []string
		want   string
		reason string
	}{
		{path: "a:b", argv: []string{"tool"}, want: "a\n"},
		{path: "b:a", argv: []string{"tool"}, want: "b\n"},
		{path: "noexec:dir:none:b", argv: []string{"tool"}, want: "b\n"},
		{path: "noexec", argv: []string{"tool"}, reason: "cannot be executed"},
		{path: "none", argv: []string{"tool"}, reason: "tool is not on the PATH"},
		{path: "", argv: []string{"tool"}, reason: "tool is not on the PATH"},
		{argv: []string{"a/tool"}, want: "a\n"},
		{argv: []string{"./a/tool"}, want: "a\n"},
		{argv: []string{"./none"}, reason: "does not exist"},
		{argv: []string{"./dir/tool"}, reason: "cannot be executed"},
		{argv: []string{"./broken"}, reason: "interpreter"},
		{argv: []string{"./garbage"}, reason: "exec format error"},
		{argv: []string{"a/tool", long}, reason: "too long"},
	} {
		cmd := command(c.argv...)
		cmd.Dir = dir
		var path []string
		for _, p := range strings.Split(c.path, ":") {
			if p != "" {
				path = append(path, filepath.Join(dir, p))
			}
		}
		cmd.Env = []string{"PATH=.:a::" + strings.Join(path, ":")} // relative ones are ignored
		res := run(t, cmd)
		if c.reason != "" {
			if res.End != proc.NotRun || !strings.Contains(res.Reason, c.reason) {
				t.Errorf("PATH %q, %.20q: %s, %q, want %q", c.path, c.argv, res.End, res.Reason, c.reason)
			}
		} else if got := string(res.Stdout.Head); got != c.want {
			t.Errorf("PATH %q, %q: ran %q %s, want %q", c.path, c.argv, got, res.Reason, c.want)
		}
	}
	cmd := command("true")
	cmd.Dir = filepath.Join(dir, "gone")
	if res := run(t, cmd); res.End != proc.NotRun {
		t.Errorf("without its directory: %s", res.End)
	}
}

func TestRefused(t *testing.T) {
	for name, spoil := range map[string]func(*proc.Command){
		"no program":         func(c *proc.Command) { c.Argv = nil },
		"empty program":      func(c *proc.Command) { c.Argv = []string{""} },
		"NUL argument":       func(c *proc.Command) { c.Argv = []string{"true", "a\x00b"} },
		"relative directory": func(c *proc.Command) { c.Dir = "." },
		"no timeout":         func(c *proc.Command) { c.Timeout = 0 },
		"bare variable":      func(c *proc.Command) { c.Env = []string{"A"} },
		"nameless variable":  func(c *proc.Command) { c.Env = []string{"=A"} },
		"negative limit":     func(c *proc.Command) { c.Tail = -1 },
		"many files":         func(c *proc.Command) { c.Files = make([][]byte, 65) },
	} {
		c := command("true")
		spoil(&c)
		if res, err := proc.Run(t.Context(), c); err == nil {
			t.Errorf("%s: %s", name, res.End)
		}
	}
}

func TestFilesAndReport(t *testing.T) {
	c := shell("cat; cat <&4; cat <&5; printf reported >&3; ls /proc/$$/fd")
	c.Stdin, c.Files, c.Report = []byte("in,"), [][]byte{[]byte("first,"), []byte("second,")}, true
	res := run(t, c)
	if got := string(res.Stdout.Head); got != "in,first,second,0\n1\n2\n3\n4\n5\n" {
		t.Errorf("read and saw %q", got)
	}
	if string(res.Report) != "reported" {
		t.Errorf("report %q", res.Report)
	}
	c = shell("head -c 1000000 /dev/zero >&3")
	c.Report = true
	if res := run(t, c); len(res.Report) != 4<<10 || res.Code != 0 {
		t.Errorf("%d bytes of a long report, and status %d", len(res.Report), res.Code)
	}
}

func TestNothingOutlivesRun(t *testing.T) {
	for name, script := range map[string]string{
		"background": "sleep 1000 & exit 0",
		"sessions":   "for i in $(seq 100); do setsid sh -c 'trap : TERM; sleep 1000 & wait' & done; exit 0",
		"deep":       "deep() { [ $1 = 0 ] || ( deep $(($1-1)); sleep 1000 ) & }; deep 60; exit 0",
		"stopped":    "sleep 1000 & kill -STOP $!; exit 0",
		"bomb":       "(for i in 1 2 3 4 5 6 7; do (while :; do (sleep 1000 &) ; done) & done) 2>/dev/null; sleep .2; exit 0",
		"no streams": "setsid sleep 1000 </dev/null >/dev/null 2>&1 & exit 0",
	} {
		t.Run(name, func(t *testing.T) {
			c, mark := marked(shell(script))
			if res := run(t, c); res.Code != 0 || res.End != proc.Exited {
				t.Errorf("%+v", res)
			}
			if n := living(mark); n != 0 {
				t.Errorf("%d processes are alive", n)
			}
		})
	}
}

func TestStoppedTreeObeysTerm(t *testing.T) {
	c := shell("trap 'echo term; exit 5' TERM; sh -c 'kill -STOP $PPID; echo stopped'; while :; do sleep 1 & wait; done")
	c.Grace = time.Hour // nobody waits for it to pass
	if res := stop(t, c, "stopped"); res.End != proc.Stopped || string(res.Stdout.Head) != "stopped\nterm\n" {
		t.Errorf("ended %s and said %q", res.End, res.Stdout.Head)
	}
}

func TestTermPassesOverAWrapper(t *testing.T) {
	script := `trap 'echo outer' TERM; sh -c 'trap "echo inner; exit" TERM; echo ready; while :; do sleep 1 & wait $!; done' & wait; wait`
	for wrapper, want := range map[bool]string{true: "inner\n", false: "inner,outer"} {
		c := shell(script)
		c.Wrapper, c.Grace = wrapper, time.Hour
		got := strings.TrimPrefix(string(stop(t, c, "ready").Stdout.Head), "ready\n")
		if wrapper && got != want || !wrapper && !(strings.Contains(got, "inner") && strings.Contains(got, "outer")) {
			t.Errorf("wrapper %v: %q, want %q", wrapper, got, want)
		}
	}
}

func TestKilledSupervisorIsAnError(t *testing.T) {
	c, mark := marked(shell("echo before; exec sleep 1000"))
	var id proc.Identity
	c.Started = func(i proc.Identity) { id = i }
	c.Log = writerFunc(func([]byte) { _ = syscall.Kill(id.PID, syscall.SIGKILL) })
	if _, err := proc.Run(t.Context(), c); !errors.Is(err, proc.ErrSupervisorLost) {
		t.Errorf("%v", err)
	}
	eventually(t, "the program is dead", func() bool { return living(mark) == 0 })
}

func TestStoppedSupervisorIsOvercome(t *testing.T) {
	c, mark := marked(shell("echo before; setsid sleep 1000 & sleep 1000"))
	var id proc.Identity
	c.Started = func(i proc.Identity) { id = i }
	c.Log = writerFunc(func([]byte) { _ = syscall.Kill(id.PID, syscall.SIGSTOP) })
	c.Grace = time.Millisecond
	res := stop(t, c, "before")
	if n := living(mark); n != 0 || id.Alive() || res.End != proc.Stopped || res.Signal != int(syscall.SIGKILL) {
		t.Errorf("%s, signal %d, %d processes alive, supervisor alive: %v", res.End, res.Signal, n, id.Alive())
	}
}

// stop runs a program and stops it when it has said a word.
func stop(t *testing.T, c proc.Command, word string) proc.Result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said []byte
	log := c.Log
	c.Log = writerFunc(func(p []byte) { // one write at a time
		if log != nil {
			_, _ = log.Write(p)
		}
		if said = append(said, p...); bytes.Contains(said, []byte(word)) {
			cancel()
		}
	})
	res, err := proc.Run(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

func TestStreamHandedOutsideTheTree(t *testing.T) {
	// Somebody else opens the program's stdout and keeps it.
	c := shell("readlink /proc/$$/fd/1 >/dev/null; echo $$; sleep 1000")
	var held *os.File
	c.Log = writerFunc(func(p []byte) {
		held, _ = os.OpenFile("/proc/"+strings.TrimSpace(string(p))+"/fd/1", os.O_WRONLY, 0)
	})
	c.Timeout, c.Grace = 24*time.Hour, time.Millisecond
	res := stop(t, c, "\n")
	if held == nil {
		t.Fatal("could not open the stream")
	}
	held.Close()
	if res.End != proc.Stopped {
		t.Errorf("ended %s", res.End)
	}
}

func TestOffline(t *testing.T) {
	c := command("cat", "/proc/net/dev")
	c.Offline = true
	if got := string(run(t, c).Stdout.Head); strings.Count(got, ":") != 1 || !strings.Contains(got, "lo:") {
		t.Errorf("interfaces: %s", got)
	}
}

func TestReapLeavesOthersAlone(t *testing.T) {
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []proc.Identity{{}, {PID: 1}, {PID: -1}, self} {
		if found, err := proc.Reap(id); found || err == nil {
			t.Errorf("Reap of %v: %v, %v", id, found, err)
		}
	}
	bystander := exec.Command("sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := proc.Identify(bystander.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []proc.Identity{
		{PID: id.PID, StartTime: id.StartTime + 1, BootID: id.BootID},
		{PID: id.PID, StartTime: id.StartTime, BootID: "another boot"},
	} {
		if found, err := proc.Reap(other); found || err != nil {
			t.Errorf("Reap of a process that had the pid before: %v, %v", found, err)
		}
	}
	if !id.Alive() {
		t.Error("a stranger was killed")
	}
	if found, err := proc.Reap(id); !found || err != nil { // now it is meant
		t.Errorf("Reap: %v, %v", found, err)
	}
	_ = bystander.Wait()
	if found, err := proc.Reap(id); found || err != nil {
		t.Errorf("Reap once more: %v, %v", found, err)
	}
}

func TestNoDescriptorIsLeaked(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	c := shell("exit 0")
	c.Stdin, c.Files, c.Report = []byte("x"), [][]byte{{1}, {2}}, true
	run(t, c)
	before := count()
	for range 10 {
		run(t, c)
		run(t, command("no-such-program"))
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// TestCapture compares with the obvious way to do it.
func TestCapture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		head, tail := rapid.IntRange(1, 40).Draw(t, "head"), rapid.IntRange(1, 40).Draw(t, "tail")
		var all, log bytes.Buffer
		c := proc.NewCapture(head, tail, &log)
		for _, p := range rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 60), 0, 12).Draw(t, "writes") {
			all.Write(p)
			if n, err := c.Write(p); n != len(p) || err != nil {
				t.Fatalf("Write: %d, %v", n, err)
			}
		}
		rest := all.Bytes()[min(head, all.Len()):]
		want := proc.Output{Head: all.Bytes()[:min(head, all.Len())], Tail: rest[max(0, len(rest)-tail):], Dropped: int64(max(0, len(rest)-tail))}
		got := c.Output()
		if !bytes.Equal(got.Head, want.Head) || !bytes.Equal(got.Tail, want.Tail) || got.Dropped != want.Dropped {
			t.Fatalf("kept %+v, want %+v", got, want)
		}
		line := ""
		if want.Dropped > 0 {
			line = "\n… " + strconv.FormatInt(want.Dropped, 10) + " bytes left out …\n"
		}
		if log.String() != string(want.Head)+line+string(want.Tail) {
			t.Fatalf("logged %q", log.String())
		}
	})
}

// A process whose first thread ended is a zombie to look at, and still runs.
func TestAZombieWithThreadsIsAlive(t *testing.T) {
	const program = `
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(3600,)).start()
ctypes.CDLL(None).syscall(60, 0) # exit(2) ends one thread
`
	cmd := exec.Command("python3", "-c", program)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := proc.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	stat := fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid)
	for deadline := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		b, err := os.ReadFile(stat)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(") Z ")) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the first thread did not end: %s", b)
		}
	}
	if !id.Alive() {
		t.Error("it counts as dead")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if id.Alive() {
		t.Error("it counts as alive")
	}
}
