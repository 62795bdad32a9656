package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/internal/seccomp"
)

// containWord is the argument that makes this executable the first process of
// a container.
const containWord = "contain-one-program-for-bestof"

// ContainArgs are the arguments with which an executable that uses this package
// is the first process of a container, to be talked to by RunContained over
// its standard streams.
func ContainArgs() []string { return []string{containWord} }

// A Seen is a directory that must be the same for both ends.
type Seen struct {
	Path string // as the first process sees it
	Dev  uint64 // as RunContained's caller sees it, from stat; 0 for one that a mount made anew, but for its inode
	Ino  uint64
}

// Look makes a Seen of a directory that is seen there as path.
func Look(here, path string) (Seen, error) {
	var st unix.Stat_t
	if err := unix.Stat(here, &st); err != nil {
		return Seen{}, &os.PathError{Op: "stat", Path: here, Err: err}
	}
	return Seen{Path: path, Dev: uint64(st.Dev), Ino: st.Ino}, nil
}

// A contained is a job for the first process of a container.
type contained struct {
	job
	Places  []place `json:"places"`
	Offline bool    `json:"offline"`
}

type place struct {
	Path bytestring.String `json:"path"`
	Dev  uint64            `json:"dev"`
	Ino  uint64            `json:"ino"`
}

// A container is the first process of one, as it talks.
type container struct {
	mu  sync.Mutex // one frame at a time
	out io.Writer
	buf []byte
}

func (c *container) say(kind byte, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return writeFrame(c.out, c.buf, kind, data)
}

// contain is the life of the first process: one program, for whoever holds the
// other end of in. It dies, and with it everything in its PID namespace, when
// in ends.
func contain(in io.Reader, out, stderr io.Writer) int {
	// A program's PR_SET_PDEATHSIG is tied to this thread.
	runtime.LockOSThread()
	c := &container{out: out, buf: make([]byte, 0, headLength+frameMax)}
	v, gone := c.live(in)
	if gone {
		return 1 // there is nobody to tell
	}
	b, err := json.Marshal(v)
	if err == nil {
		err = c.say(frameVerdict, b[:min(len(b), frameMax)])
	}
	if err != nil {
		fmt.Fprintln(stderr, "bestof: say how the program ended:", err)
		return 1
	}
	return 0
}

func (c *container) live(in io.Reader) (v verdict, gone bool) {
	// No signal ends this process: it catches or ignores all that can be.
	signal.Notify(make(chan os.Signal, 1))
	if err := ignoreReserved(); err != nil {
		return verdict{Error: err.Error()}, false
	}
	exits := make(chan os.Signal, 1)
	signal.Notify(exits, syscall.SIGCHLD)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return verdict{Error: "become a subreaper: " + err.Error()}, false
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return verdict{Error: "hide the first process: " + err.Error()}, false
	}
	if err := keepDescriptors(); err != nil {
		return verdict{Error: "keep descriptors from the program: " + err.Error()}, false
	}
	if err := limitFiles(); err != nil {
		return verdict{Error: "limit what the program may open: " + err.Error()}, false
	}
	if err := c.say(frameHello, []byte(containVersion)); err != nil {
		return verdict{}, true
	}
	frames := newFrameReader(in)
	j, stdin, err := receive(frames)
	if errors.Is(err, io.EOF) {
		return verdict{}, true
	}
	if err != nil {
		return verdict{Error: err.Error()}, false
	}
	if err := j.check(); err != nil {
		return verdict{Error: err.Error()}, false
	}
	reserveThreads(spareThreads)
	// An engine's own filter depends on its version and its operator; this one
	// holds besides it.
	if err := seccomp.Install(); err != nil {
		return verdict{Error: err.Error()}, false
	}
	return c.run(j.job, stdin, orders(frames), exits)
}

// spareThreads are more than a first process ever has in calls that block.
const spareThreads = 12

// limitFiles keeps a contained program from writing cores and from having more
// open than is sane: some close every number there could be before they start
// another, and engines allow a thousand million. Only less can be asked for.
func limitFiles() error {
	const most = 1 << 16
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return err
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	files.Max = min(files.Max, most)
	files.Cur = files.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files)
}

// receive reads the job and the program's input, up to the word to go.
func receive(frames *frameReader) (j contained, stdin *os.File, err error) {
	var encoded []byte
	for {
		f, err := frames.next()
		if err != nil {
			return j, nil, err
		}
		switch f.kind {
		case frameJob:
			if encoded = append(encoded, f.data...); len(encoded) > jobMax {
				return j, nil, errors.New("the job is too long")
			}
		case frameInput:
			if stdin == nil {
				if stdin, err = memfile(nil); err != nil {
					return j, nil, fmt.Errorf("keep the input: %w", err)
				}
			}
			if _, err := stdin.Write(f.data); err != nil {
				return j, nil, fmt.Errorf("keep the input: %w", err)
			}
		case frameGo:
			if err := json.Unmarshal(encoded, &j); err != nil || len(j.Argv) == 0 {
				return j, nil, fmt.Errorf("the job cannot be read: %w", err)
			}
			if stdin == nil {
				stdin, err = os.Open(os.DevNull)
			} else {
				_, err = stdin.Seek(0, io.SeekStart)
			}
			return j, stdin, err
		default:
			return j, nil, fmt.Errorf("%w: %q", errFrame, f.kind)
		}
	}
}

// check compares what this process sees with what the other end sees, and
// whether the engine kept the network away.
func (j contained) check() error {
	for _, p := range j.Places {
		var st unix.Stat_t
		if err := unix.Stat(string(p.Path), &st); err != nil {
			return fmt.Errorf("look at %s in the container: %w", p.Path, err)
		}
		if p.Dev != 0 && uint64(st.Dev) != p.Dev || st.Ino != p.Ino {
			return fmt.Errorf("%s in the container is not the directory of this machine that was meant: the engine does not see the same files", p.Path)
		}
	}
	if !j.Offline {
		return nil
	}
	up, err := linksUp()
	if err != nil {
		return fmt.Errorf("look at the container's network: %w", err)
	}
	if len(up) > 0 {
		return fmt.Errorf("the container has a network, %s, although it was to have none", up[0])
	}
	return nil
}

// linksUp are the names of this process's network interfaces that are up, but
// for loopbacks. The package net would be made ready in every supervisor for
// this alone.
func linksUp() ([]string, error) {
	table, err := os.ReadFile("/proc/self/net/dev")
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var up []string
	for line := range strings.Lines(string(table)) {
		name, _, ok := strings.Cut(strings.TrimSpace(line), ":") // "  lo: 0 0 …", after two lines of headings
		if !ok {
			continue
		}
		req, err := unix.NewIfreq(name)
		if err == nil {
			err = unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if flags := req.Uint16(); flags&unix.IFF_UP != 0 && flags&unix.IFF_LOOPBACK == 0 {
			up = append(up, name)
		}
	}
	return up, nil
}

// orders passes on what follows the word to go. The channel is closed when the
// other end is gone.
func orders(frames *frameReader) <-chan byte {
	c := make(chan byte)
	go func() {
		defer close(c)
		for {
			f, err := frames.next()
			if err != nil || f.kind != frameTerm {
				return
			}
			c <- cmdTerm
		}
	}()
	return c
}

// run runs the program and passes its streams on. What it reads and writes are
// pipes of its own: only this process can make frames.
func (c *container) run(j job, stdin *os.File, control <-chan byte, exits <-chan os.Signal) (v verdict, gone bool) {
	before := memoryOf(controlGroups)
	var ours [2]*os.File
	var theirs closers
	theirs.add(stdin)
	defer theirs.close()
	files := []uintptr{stdin.Fd()}
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			return verdict{Error: err.Error()}, false
		}
		defer r.Close()
		theirs.add(w)
		ours[i], files = r, append(files, w.Fd())
	}
	program, notRun, err := startProgram(j, files)
	theirs.close()
	if err != nil {
		return verdict{Error: err.Error()}, false
	}
	if notRun != "" {
		return verdict{NotRun: notRun}, false
	}
	var passed sync.WaitGroup
	for i, kind := range []byte{frameStdout, frameStderr} {
		passed.Go(func() { c.pass(ours[i], kind) })
	}
	left := make(chan struct{}) // the other end is gone
	heard := make(chan byte)
	go func() {
		defer close(heard)
		defer close(left)
		for b := range control {
			heard <- b
		}
	}()
	v = follow(j, program, heard, exits)
	select {
	case <-left:
		return v, true
	default:
	}
	for _, r := range ours {
		_ = r.SetReadDeadline(time.Now().Add(drainWait))
	}
	passed.Wait()
	v.OOM, v.OOMOutside = memoryOf(controlGroups).since(before)
	return v, false
}

// pass reads a stream to its end, and goes on reading when nobody listens.
func (c *container) pass(r *os.File, kind byte) {
	buf := make([]byte, frameMax)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			_ = c.say(kind, buf[:n]) // without an other end the program is about to be ended
		}
		if err != nil {
			return
		}
	}
}
