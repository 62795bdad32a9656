package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/internal/bytestring"
)

// superviseWord is the argument that makes this executable a supervisor.
const superviseWord = "supervise-one-program-for-bestof"

// The descriptors of a supervisor. Its stdout and stderr are the program's.
const (
	controlFD = 3 // bytes from the process that called Run; its end means that that process is gone
	statusFD  = 4 // one verdict back
	jobFD     = 5 // a job
	firstFD   = 6 // what the program gets: stdin, report, files, as the job says
)

// What can be said on controlFD.
const (
	cmdGo   = 'g' // run the program
	cmdTerm = 't' // end the tree: TERM, grace, KILL
)

// A job is a Command as a supervisor reads it.
type job struct {
	Argv     []bytestring.String `json:"argv"`
	Dir      bytestring.String   `json:"dir"`
	Env      []bytestring.String `json:"env"`
	Grace    time.Duration       `json:"grace"`
	Stdin    bool                `json:"stdin"`
	Extra    int                 `json:"extra"` // descriptors after stdin
	Wrapper  bool                `json:"wrapper"`
	Loopback bool                `json:"loopback"`
}

func convert[To, From ~string](in []From) []To {
	out := make([]To, len(in))
	for i, s := range in {
		out[i] = To(s)
	}
	return out
}

// A verdict is all that a supervisor says, after everything below it is dead.
type verdict struct {
	NotRun string `json:"not_run,omitempty"`
	Error  string `json:"error,omitempty"`
	Code   int    `json:"code"`
	Signal int    `json:"signal"`
	OOM    bool   `json:"oom,omitempty"` // the memory killer acted in a container

	OOMOutside bool `json:"oom_outside,omitempty"` // although that was within its own limit
}

// An executable that uses this package becomes a supervisor before anything that
// it imports and that this package does not is made ready: what all of it needs
// is many times what a supervisor does, and there is one for each program that
// is run. Names of packages order what is equally ready, see the Go
// specification on program initialization.
func init() {
	if len(os.Args) != 2 {
		return
	}
	switch os.Args[1] {
	case containWord:
		syscall.Exit(contain(os.Stdin, os.Stdout, os.Stderr)) // os.Exit waits for a second under the race detector
	case superviseWord:
		os.Exit(superviseMain())
	}
}

// superviseMain supervises one program, and returns its own exit status.
func superviseMain() int {
	var st unix.Stat_t // the runtime may have opened something of that number
	if err := unix.Fstat(statusFD, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		fmt.Fprintln(os.Stderr, "this is an internal word; nothing to supervise")
		return 2
	}
	// PR_SET_PDEATHSIG of the program fires when the thread that started it
	// ends, so that thread must be this one for good.
	runtime.LockOSThread()
	v := supervise()
	b, err := json.Marshal(v)
	if err == nil {
		_, err = os.NewFile(statusFD, "status").Write(b)
	}
	if err != nil {
		return 1
	}
	return 0
}

func supervise() verdict {
	// A caught signal is the default again in the program; an ignored one
	// would stay ignored there.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	exits := make(chan os.Signal, 1)
	signal.Notify(exits, syscall.SIGCHLD)

	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return verdict{Error: "become a subreaper: " + err.Error()}
	}
	// A program of the same user may neither trace this process nor open its
	// descriptors.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return verdict{Error: "hide the supervisor: " + err.Error()}
	}
	// The keys of the caller's session are none of the program's, and no two
	// programs share any. A kernel without keys has nothing to keep.
	_, _ = unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if err := keepDescriptors(); err != nil {
		return verdict{Error: "keep descriptors from the program: " + err.Error()}
	}
	var j job
	if err := json.NewDecoder(os.NewFile(jobFD, "job")).Decode(&j); err != nil {
		return verdict{Error: "read the job: " + err.Error()}
	}
	if j.Loopback {
		if err := RaiseLoopback(); err != nil {
			return verdict{Error: "bring up the loopback: " + err.Error()}
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			return verdict{Error: "give up capabilities: " + err.Error()}
		}
	}
	return watch(j, listen(os.NewFile(controlFD, "control")), exits)
}

// keepDescriptors lets the program inherit only what start names. Some may have
// come down from whoever started the caller of Run.
func keepDescriptors() error {
	err := unix.CloseRange(controlFD, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	entries, err := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= controlFD {
			unix.CloseOnExec(fd)
		}
	}
	return err
}

// listen passes on what the caller of Run says. The channel is closed when
// that process is gone.
func listen(r io.Reader) <-chan byte {
	c := make(chan byte)
	go func() {
		defer close(c)
		var b [1]byte
		for {
			if _, err := io.ReadFull(r, b[:]); err != nil {
				return
			}
			c <- b[0]
		}
	}()
	return c
}

// watch runs the program and returns when it and all its descendants are dead.
// All waiting and killing happens on this goroutine, so a child's pid cannot be
// given to another process between looking at it and signalling it.
func watch(j job, control <-chan byte, exits <-chan os.Signal) verdict {
	if b, ok := <-control; !ok || b != cmdGo {
		return verdict{Error: "the caller went away"}
	}
	program, notRun, err := start(j)
	if err != nil {
		return verdict{Error: err.Error()}
	}
	if notRun != "" {
		return verdict{NotRun: notRun}
	}
	return follow(j, program, control, exits)
}

// follow returns when the program and all descendants of this process are dead.
func follow(j job, program int, control <-chan byte, exits <-chan os.Signal) verdict {
	var v verdict
	var kill <-chan time.Time // set: TERM was sent and this is the end of the grace
	var again <-chan time.Time
	sweeping := false
	for {
		done, gone := reapChildren(program, &v)
		if gone {
			return v
		}
		if done {
			sweeping = true
		}
		if sweeping {
			killChildren()
			again = time.After(2 * time.Millisecond)
		}
		select {
		case <-exits:
		case <-again:
		case <-kill:
			sweeping = true
		case b, ok := <-control:
			if !ok {
				control, sweeping = nil, true
			} else if b == cmdTerm && kill == nil {
				terminate(program, j.Wrapper)
				kill = time.After(j.Grace)
			}
		}
	}
}

// reapChildren collects every child that has ended. It reports whether the
// program was among them, and whether there is no child left; since orphans are
// handed to this process, no child means no descendant.
func reapChildren(program int, v *verdict) (done, gone bool) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return done, true // ECHILD
		case pid == 0:
			return done, false
		case pid == program && (ws.Exited() || ws.Signaled()):
			done = true
			if ws.Signaled() {
				v.Code, v.Signal = 0, int(ws.Signal())
			} else {
				v.Code, v.Signal = ws.ExitStatus(), 0
			}
		}
	}
}

// killChildren kills every child with its process group. A group dies at one
// instant, so one that forks faster than it can be listed does not get away.
// No group here can hold a stranger: the program began a session of its own,
// and a process joins only groups of its session.
func killChildren() {
	self := os.Getpid()
	for _, pid := range children(self) {
		if s, err := statusOf(pid); err == nil && s.group > 1 && s.group != self {
			_ = syscall.Kill(-s.group, syscall.SIGKILL)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// terminate asks the whole tree to end. A wrapper is left out: it has to live
// until what it wraps has had its chance.
func terminate(program int, wrapper bool) {
	for _, r := range descendants(os.Getpid()) {
		if wrapper && r.pid == program {
			continue
		}
		r.signal(syscall.SIGTERM)
		r.signal(syscall.SIGCONT) // a stopped process cannot act on TERM
	}
}

// start runs the program of j with what a supervisor was given for it. A reason
// in words means that it is the program's fault that it did not run.
func start(j job) (pid int, notRun string, err error) {
	files, next := []uintptr{0, 1, 2}, uintptr(firstFD)
	if j.Stdin {
		files[0], next = next, next+1
	}
	for range j.Extra {
		files, next = append(files, next), next+1
	}
	pid, notRun, err = startProgram(j, files)
	for fd := firstFD; fd < int(next); fd++ {
		_ = unix.Close(fd)
	}
	// The streams must end with the program's tree, not with this process.
	for _, fd := range []int{1, 2} {
		if err := unix.Dup3(0, fd, 0); err != nil {
			return pid, "", fmt.Errorf("let go of descriptor %d: %w", fd, err)
		}
	}
	return pid, notRun, err
}

// startProgram runs the program of j with the descriptors that are listed.
func startProgram(j job, files []uintptr) (pid int, notRun string, err error) {
	dir, argv, env := string(j.Dir), convert[string](j.Argv), convert[string](j.Env)
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return 0, "directory " + dir + " does not exist", nil
	}
	path, notRun := lookPath(argv[0], dir, env)
	if notRun != "" {
		return 0, notRun, nil
	}
	pid, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Dir:   dir,
		Env:   env,
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	switch {
	case err == nil:
		return pid, "", nil
	case errors.Is(err, syscall.ENOENT):
		return 0, path + ": the interpreter or loader it names does not exist", nil
	case errors.Is(err, syscall.E2BIG):
		return 0, "its arguments and environment are too long", nil
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.ETXTBSY),
		errors.Is(err, syscall.ELIBBAD), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EINVAL):
		return 0, path + ": " + err.Error(), nil
	}
	return 0, "", fmt.Errorf("start %s: %w", path, err)
}

// lookPath finds a program as execvp does, but with the PATH of the program's
// own environment and never in a relative directory of it.
func lookPath(name, dir string, env []string) (path, notRun string) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		switch err := executable(name); {
		case errors.Is(err, os.ErrNotExist):
			return "", name + " does not exist"
		case err != nil:
			return "", name + " cannot be executed"
		}
		return name, ""
	}
	list := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			list = v
		}
	}
	found := ""
	for _, d := range filepath.SplitList(list) {
		if !filepath.IsAbs(d) {
			continue
		}
		p := filepath.Join(d, name)
		err := executable(p)
		if err == nil {
			return p, ""
		}
		if found == "" && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			found = p
		}
	}
	if found != "" {
		return "", found + " cannot be executed"
	}
	return "", name + " is not on the PATH"
}

func executable(path string) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return syscall.EACCES
	}
	return unix.Access(path, unix.X_OK)
}

// RaiseLoopback brings up the loopback of the network namespace that this
// process is in. It needs CAP_NET_ADMIN there.
func RaiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}
