package proc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A firstProcess is contain in a process of its own, which is no container: all
// that it starts are its descendants all the same.
type firstProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader
}

func startContain(t *testing.T) *firstProcess {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", ContainArgs()...)
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0"}
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &firstProcess{cmd, in, out}
}

func containedCommand(t *testing.T, script string) Command {
	return Command{Argv: []string{"/bin/sh", "-c", script}, Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin", "A=b\xff"}, Timeout: time.Minute}
}

func runContained(t *testing.T, c Command, places ...Seen) (Result, error) {
	t.Helper()
	p := startContain(t)
	return RunContained(t.Context(), c, places, p.in, p.out)
}

func TestContainedEnds(t *testing.T) {
	for script, want := range map[string]Result{
		"exit 0":                          {End: Exited},
		"exit 42":                         {End: Exited, Code: 42},
		"exit 137":                        {End: Exited, Code: 137},
		"kill -9 $$":                      {End: Exited, Signal: 9},
		"kill -ABRT $PPID; exit 3":        {End: Exited, Code: 3},
		"kill -SEGV $PPID; exit 3":        {End: Exited, Code: 3},
		"kill -TERM $PPID; exit 3":        {End: Exited, Code: 3},
		"kill -QUIT $PPID; exit 3":        {End: Exited, Code: 3},
		"setsid sleep 1000 & exit 4":      {End: Exited, Code: 4},
		"test \"$(ulimit -c)\" = 0":       {End: Exited},
		"test \"$(ulimit -n)\" -le 65536": {End: Exited},
	} {
		res, err := runContained(t, containedCommand(t, script))
		if err != nil || res.End != want.End || res.Code != want.Code || res.Signal != want.Signal || res.OOM {
			t.Errorf("%s: %s, code %d, signal %d, %v\n%s", script, res.End, res.Code, res.Signal, err, res.Stderr.Head)
		}
	}
}

func TestContainedStreams(t *testing.T) {
	c := containedCommand(t, `printf '%s' "$A"; cat; echo v >&2; printf 'v\0\0\0\2{}' >&2`)
	c.Stdin = bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	c.Head = 1 << 20
	var log bytes.Buffer
	c.Log = &log
	res, err := runContained(t, c)
	if want := "b\xff" + string(c.Stdin); err != nil || string(res.Stdout.Head) != want || string(res.Stderr.Head) != "v\nv\x00\x00\x00\x02{}" {
		t.Errorf("%d bytes, %q, %v", len(res.Stdout.Head), res.Stderr.Head, err)
	}
	if log.Len() != len(res.Stdout.Head)+len(res.Stderr.Head) {
		t.Errorf("the log has %d bytes", log.Len())
	}
}

func TestContainedThatCannotRun(t *testing.T) {
	c := containedCommand(t, "")
	c.Argv = []string{"no-such-program"}
	if res, err := runContained(t, c); err != nil || res.End != NotRun || !strings.Contains(res.Reason, "no-such-program is not on the PATH") {
		t.Errorf("%+v, %v", res, err)
	}
	c = containedCommand(t, "true")
	c.Env = append(c.Env, "BIG="+strings.Repeat("x", jobMax))
	if res, err := runContained(t, c); err != nil || res.End != NotRun {
		t.Errorf("%s, %v", res.End, err)
	}
}

func TestContainedPlaces(t *testing.T) {
	here, other := t.TempDir(), t.TempDir()
	seen, err := Look(here, here)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := runContained(t, containedCommand(t, "true"), seen); err != nil || res.End != Exited {
		t.Errorf("%+v, %v", res, err)
	}
	seen.Path = other
	if _, err := runContained(t, containedCommand(t, "true"), seen); err == nil || !strings.Contains(err.Error(), "the engine does not see the same files") {
		t.Errorf("another directory: %v", err)
	}
	seen.Path = filepath.Join(other, "gone")
	if _, err := runContained(t, containedCommand(t, "true"), seen); err == nil {
		t.Error("a directory that is not there")
	}
	if _, err := Look(seen.Path, "/x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("look: %v", err)
	}
}

// TestContainedOffline: an engine that gave a network where none was asked for
// is found out. Where this test itself has none, neither has the program.
func TestContainedOffline(t *testing.T) {
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	online := slices.ContainsFunc(links, func(l net.Interface) bool { return l.Flags&net.FlagUp != 0 && l.Flags&net.FlagLoopback == 0 })
	c := containedCommand(t, "true")
	c.Offline = true
	if _, err := runContained(t, c); (err != nil) != online || err != nil && !strings.Contains(err.Error(), "it was to have none") {
		t.Errorf("online is %v, %v", online, err)
	}
}

func TestContainedDeadlineAndStop(t *testing.T) {
	c := containedCommand(t, "trap '' TERM; sleep 1000 & sleep 1000")
	c.Timeout, c.Grace = 50*time.Millisecond, 50*time.Millisecond
	if res, err := runContained(t, c); err != nil || res.End != Deadline || res.Signal != 9 {
		t.Errorf("%+v, %v", res, err)
	}
	c.Timeout = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	p := startContain(t)
	ready := filepath.Join(c.Dir, "ready")
	c.Argv[2] = "trap 'exit 7' TERM; echo there; >" + ready + "; while :; do sleep 0.01; done"
	c.Grace = 20 * time.Second
	c.Log = writerFunc(func(b []byte) (int, error) { cancel(); return len(b), nil })
	if res, err := RunContained(ctx, c, nil, p.in, p.out); err != nil || res.End != Stopped || res.Code != 7 {
		t.Errorf("%+v, %v", res, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestContainedEndsWithItsCaller: the first process and its tree die when its
// input ends, whatever the program does about it.
func TestContainedEndsWithItsCaller(t *testing.T) {
	p := startContain(t)
	c := containedCommand(t, "trap '' TERM HUP INT PIPE; setsid sh -c 'trap \"\" TERM; while :; do echo x; sleep 0.01; done' & echo $!; while :; do echo x; sleep 0.01; done")
	c.Log = writerFunc(func(b []byte) (int, error) { p.in.Close(); return len(b), nil })
	_, err := RunContained(t.Context(), c, nil, p.in, p.out)
	if !errors.Is(err, ErrSupervisorLost) {
		t.Errorf("RunContained says %v", err)
	}
	if err := p.cmd.Wait(); err == nil {
		t.Error("the first process says that all is well")
	}
	if left, err := ReapBelow(c.Dir); left != 0 || err != nil {
		t.Errorf("%d processes were left, %v", left, err)
	}
}

// TestContainedCallerIsNotFooled: whatever comes in place of a first process is
// an error, and no result.
func TestContainedCallerIsNotFooled(t *testing.T) {
	hello := frameOf(frameHello, containVersion)
	for name, said := range map[string]string{
		"nothing":            "",
		"text":               "exec /.bestof-init: no such file or directory\n",
		"another version":    frameOf(frameHello, "bestof contain 0"),
		"no hello":           frameOf(frameVerdict, `{"code":0}`),
		"no verdict":         hello + frameOf(frameStdout, "x"),
		"half a frame":       hello + frameOf(frameStdout, "xyz")[:6],
		"an unknown frame":   hello + frameOf('z', ""),
		"a frame too long":   hello + "o\xff\xff\xff\xff",
		"a verdict of words": hello + frameOf(frameVerdict, "passed"),
		"an error":           hello + frameOf(frameVerdict, `{"error":"it hurts"}`),
	} {
		res, err := RunContained(t.Context(), containedCommand(t, "true"), nil, io.Discard, strings.NewReader(said))
		if err == nil {
			t.Errorf("%s: %+v", name, res)
		}
	}
}

func frameOf(kind byte, data string) string {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(data)))
	return string(b) + data
}

// TestContainIsNotFooled: what makes no sense ends the first process with an
// error of its own, and runs nothing.
func TestContainIsNotFooled(t *testing.T) {
	for name, said := range map[string]string{
		"an unknown frame":  frameOf('z', ""),
		"too long":          "j\xff\xff\xff\xff",
		"no job":            frameOf(frameGo, ""),
		"a job of words":    frameOf(frameJob, "run it") + frameOf(frameGo, ""),
		"a job of no words": frameOf(frameJob, "{}") + frameOf(frameGo, ""),
	} {
		p := startContain(t)
		if _, err := io.WriteString(p.in, said); err != nil {
			t.Fatal(err)
		}
		frames := newFrameReader(p.out)
		hello, err1 := frames.next()
		kind := hello.kind
		f, err2 := frames.next()
		if kind != frameHello || f.kind != frameVerdict || !bytes.Contains(f.data, []byte("error")) {
			t.Errorf("%s: %q, then %q %q, %v", name, kind, f.kind, f.data, errors.Join(err1, err2))
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte(frameOf(frameStdout, "x") + frameOf(frameVerdict, "{}")))
	f.Add([]byte("o\x00\x01\x00\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		frames := newFrameReader(bytes.NewReader(b))
		var again bytes.Buffer
		for {
			got, err := frames.next()
			if err != nil {
				if !bytes.HasPrefix(b, again.Bytes()) || err == io.EOF && again.Len() != len(b) {
					t.Fatalf("%q was read as %q, then %v", b, again.Bytes(), err)
				}
				return
			}
			if err := writeFrame(&again, nil, got.kind, got.data); err != nil {
				t.Fatal(err)
			}
		}
	})
}
