package sandboxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
)

// probeWord as the first argument makes a test binary one of the probes.
const probeWord = "sandboxtest-probe"

// probes are what the suite runs inside a sandbox. Those that need no process
// of their own run in the fake as well.
var probes = map[string]fake.Program{
	"exit":      probeExit,
	"env":       probeEnv,
	"dir":       probeDir,
	"stdin":     probeStdin,
	"flood":     probeFlood,
	"write":     probeWrite,
	"wait":      probeWait,
	"tty":       probeTTY,
	"die":       probeDie,
	"daemon":    probeDaemon,
	"hold":      probeHold,
	"polite":    probePolite,
	"stat":      probeStat,
	"dial":      probeDial,
	"talk":      probeTalk,
	"loopback":  probeLoopback,
	"processes": probeProcesses,
	"confined":  probeConfined,
	"environ":   probeEnviron,
	"fds":       probeDescriptors,
	"orphans":   probeOrphans,

	"overlay-marks": probeOverlayMarks,
}

// Programs are the probes for a fake, under the name that the suite runs.
func Programs() map[string]fake.Program {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return map[string]fake.Program{self: func(ctx context.Context, p *fake.Process) fake.Exit {
		if len(p.Args) < 2 || p.Args[0] != probeWord {
			return fake.Exit{Code: 99}
		}
		name := p.Args[1]
		p.Args = p.Args[2:]
		return probes[name](ctx, p)
	}}
}

// Probes is the main of a program of probes alone, and returns its status.
func Probes(args []string) int {
	code, ok := probeMain(args)
	if !ok {
		fmt.Fprintln(os.Stderr, "name a probe")
		return 2
	}
	return code
}

// probeMain runs the probe that args ask for.
func probeMain(args []string) (code int, ok bool) {
	if len(args) > 1 && args[1] == mountsWord {
		return holdMounts(args[2:]), true
	}
	if len(args) < 3 || args[1] != probeWord {
		return 0, false
	}
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98, true
	}
	exit := probes[args[2]](context.Background(), &fake.Process{
		Args: args[3:], Dir: dir, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	return exit.Code, true
}

func fail(p *fake.Process, err error) fake.Exit {
	fmt.Fprintln(p.Stderr, err)
	return fake.Exit{Code: 97}
}

func probeExit(_ context.Context, p *fake.Process) fake.Exit {
	n, _ := strconv.Atoi(p.Args[0])
	return fake.Exit{Code: n}
}

func probeWait(ctx context.Context, _ *fake.Process) fake.Exit {
	select {
	case <-ctx.Done():
	case <-time.After(time.Hour):
	}
	return fake.Exit{}
}

func probeEnv(_ context.Context, p *fake.Process) fake.Exit {
	fmt.Fprint(p.Stdout, strings.Join(p.Env, "\x00"))
	return fake.Exit{}
}

func probeDir(_ context.Context, p *fake.Process) fake.Exit {
	fmt.Fprint(p.Stdout, p.Dir)
	return fake.Exit{}
}

func probeStdin(_ context.Context, p *fake.Process) fake.Exit {
	h := sha256.New()
	n, err := io.Copy(h, p.Stdin)
	if err != nil {
		return fail(p, err)
	}
	fmt.Fprintf(p.Stdout, "%d %x", n, h.Sum(nil))
	return fake.Exit{}
}

// floodLine is line n of a flood; all have the same length.
func floodLine(n int) string {
	digits := strconv.Itoa(n)
	return "000000000000000"[len(digits):] + digits + "\n"
}

func probeFlood(_ context.Context, p *fake.Process) fake.Exit {
	lines, _ := strconv.Atoi(p.Args[0])
	const block = 4096
	for _, w := range []io.Writer{p.Stdout, p.Stderr} {
		b := make([]byte, 0, block*16)
		for n := range lines {
			if b = append(b, floodLine(n)...); len(b) == cap(b) || n == lines-1 {
				if _, err := w.Write(b); err != nil {
					return fail(p, err)
				}
				b = b[:0]
			}
		}
	}
	return fake.Exit{}
}

func probeWrite(_ context.Context, p *fake.Process) fake.Exit {
	for _, path := range p.Args {
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.Dir, path)
		}
		if err := os.WriteFile(path, []byte("written"), 0o666); err != nil {
			return fail(p, err)
		}
	}
	return fake.Exit{}
}

func probeTTY(_ context.Context, p *fake.Process) fake.Exit {
	if f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
		f.Close()
		return fail(p, errors.New("/dev/tty can be opened"))
	}
	return fake.Exit{}
}

func probeDie(_ context.Context, p *fake.Process) fake.Exit {
	n, _ := strconv.Atoi(p.Args[0])
	_ = syscall.Kill(os.Getpid(), syscall.Signal(n))
	select {}
}

// again runs this binary as another probe.
func again(p *fake.Process, session bool, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{probeWord}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	return cmd, nil
}

// probeDaemon leaves a process behind as daemons do: a child in a session of
// its own starts a grandchild and ends. It returns when the grandchild lives.
func probeDaemon(_ context.Context, p *fake.Process) fake.Exit {
	lock, stage := p.Args[0], "first"
	if len(p.Args) > 1 {
		stage = p.Args[1]
	}
	args := []string{"daemon", lock, "second"}
	if stage == "second" {
		args = []string{"hold", lock}
	}
	cmd, err := again(p, true, args...)
	if err != nil {
		return fail(p, err)
	}
	if err := cmd.Start(); err != nil {
		return fail(p, err)
	}
	if stage == "first" {
		if err := cmd.Wait(); err != nil {
			return fail(p, err)
		}
	}
	for free(lock) {
		<-time.After(time.Millisecond)
	}
	return fake.Exit{}
}

// probeHold ignores every request to end, holds on to its streams and locks
// files until it is killed: a lock that can be had proves a death. A child of
// its own holds each file but the first.
func probeHold(_ context.Context, p *fake.Process) fake.Exit {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	f, err := os.OpenFile(p.Args[0], os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return fail(p, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return fail(p, err)
	}
	if len(p.Args) > 1 {
		cmd, err := again(p, false, append([]string{"hold"}, p.Args[1:]...)...)
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return fail(p, err)
		}
	}
	for {
		_, _ = os.Stdout.WriteString(strings.Repeat("x", 1024))
		<-time.After(10 * time.Millisecond)
	}
}

// free reports whether nobody holds the lock of an existing file.
func free(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return true
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// probePolite says when it is ready. When it is asked to end it takes a while,
// as programs do that have something to put away, and writes a file.
func probePolite(_ context.Context, p *fake.Process) fake.Exit {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	if err := os.WriteFile(p.Args[0], nil, 0o666); err != nil {
		return fail(p, err)
	}
	<-c
	<-time.After(300 * time.Millisecond)
	if err := os.WriteFile(p.Args[1], nil, 0o666); err != nil {
		return fail(p, err)
	}
	return fake.Exit{}
}

// inUserNamespace runs a probe in a user namespace of its own.
func inUserNamespace(p *fake.Process, args ...string) error {
	cmd, err := again(p, false, args...)
	if err != nil {
		return err
	}
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
	return cmd.Run()
}

// probeStat prints the paths that exist.
func probeStat(_ context.Context, p *fake.Process) fake.Exit {
	for _, path := range p.Args {
		if _, err := os.ReadFile(path); err == nil {
			fmt.Fprintln(p.Stdout, path)
		} else if entries, err := os.ReadDir(path); err == nil && len(entries) > 0 {
			fmt.Fprintln(p.Stdout, path)
		}
	}
	return fake.Exit{}
}

func probeDial(_ context.Context, p *fake.Process) fake.Exit {
	conn, err := net.DialTimeout(p.Args[0], p.Args[1], 5*time.Second)
	if err != nil {
		return fail(p, err)
	}
	conn.Close()
	return fake.Exit{}
}

func probeLoopback(_ context.Context, p *fake.Process) fake.Exit {
	for _, addr := range []string{"127.0.0.1:0"} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return fail(p, err)
		}
		conn, err := net.DialTimeout("tcp", l.Addr().String(), 5*time.Second)
		if err != nil {
			return fail(p, err)
		}
		conn.Close()
		l.Close()
	}
	return fake.Exit{}
}

// probeProcesses prints the command lines of all processes in sight.
func probeProcesses(_ context.Context, p *fake.Process) fake.Exit {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return fail(p, err)
	}
	for _, path := range paths {
		if b, err := os.ReadFile(path); err == nil {
			fmt.Fprintf(p.Stdout, "%s\n", bytes.ReplaceAll(b, []byte{0}, []byte{' '}))
		}
	}
	return fake.Exit{}
}

// probeEnviron prints the environments of all processes in sight.
func probeEnviron(_ context.Context, p *fake.Process) fake.Exit {
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return fail(p, err)
	}
	for _, path := range paths {
		if b, err := os.ReadFile(path); err == nil {
			_, _ = p.Stdout.Write(b)
		}
	}
	return fake.Exit{}
}

// probeDescriptors prints the descriptors that it was started with.
func probeDescriptors(_ context.Context, p *fake.Process) fake.Exit {
	for fd := range 1024 {
		to, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err != nil || strings.HasPrefix(to, "anon_inode:") {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			fmt.Fprintln(p.Stdout, fd)
		}
	}
	return fake.Exit{}
}

// probeConfined tries what a program without any privilege cannot do, in ways
// that change nothing outside should one of them work. Its argument is the pid
// of a process outside.
func probeConfined(_ context.Context, p *fake.Process) fake.Exit {
	outside, _ := strconv.Atoi(p.Args[0])
	scratch := p.Getenv("TMPDIR")
	var got []string
	try := func(what string, err error) {
		if err == nil {
			got = append(got, what)
		}
	}
	try("mount a file system", unix.Mount("tmpfs", scratch, "tmpfs", 0, ""))
	try("remount read-only", unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	try("unmount", unix.Unmount("/no/such/mount", 0))
	try("change root", unix.Chroot("/"))
	try("make a device", unix.Mknod(filepath.Join(scratch, "null"), unix.S_IFCHR|0o600, 1<<8|3))
	try("make a namespace", unix.Unshare(unix.CLONE_NEWNS))
	try("make a user namespace", inUserNamespace(p, "exit", "0"))
	try("signal a process outside", unix.Kill(outside, 0))
	_, err := unix.Getpgid(outside)
	try("find a process outside", err)
	try("become another user", unix.Setresuid(12345, 12345, 12345))
	for _, path := range []string{"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/sys/vm/overcommit_memory", "/proc/1/oom_score_adj"} {
		f, err := os.OpenFile(path, os.O_WRONLY, 0) // opening is enough to know
		try("write "+path, err)
		_ = f.Close()
	}
	for _, path := range []string{"/proc/kcore", "/proc/kmsg", "/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda"} {
		f, err := os.Open(path)
		if err == nil && isNull(f) {
			err = errors.New("masked")
		}
		try("read "+path, err)
		_ = f.Close()
	}
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fail(p, err)
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		name, v, _ := strings.Cut(line, ":")
		v = strings.TrimSpace(v)
		if strings.HasPrefix(name, "Cap") && strings.Trim(v, "0") != "" {
			got = append(got, "capabilities "+line)
		}
		if name == "NoNewPrivs" && v != "1" {
			got = append(got, "new privileges")
		}
	}
	fmt.Fprint(p.Stdout, strings.Join(got, "\n"))
	return fake.Exit{}
}

// isNull reports whether a file is /dev/null, with which containers mask others.
func isNull(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3)
}

// probeOrphans starts a chain in which every process starts the next one in a
// new session and ends at once, so that there is always one alive and never
// the same. The last argument counts down.
func probeOrphans(_ context.Context, p *fake.Process) fake.Exit {
	left, _ := strconv.Atoi(p.Args[1])
	f, err := os.OpenFile(p.Args[0], os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return fail(p, err)
	}
	// A shared lock, handed on from one to the next, is held by the chain.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		return fail(p, err)
	}
	if left == 0 {
		return fake.Exit{}
	}
	cmd, err := again(p, true, "orphans", p.Args[0], strconv.Itoa(left-1))
	if err != nil {
		return fail(p, err)
	}
	cmd.ExtraFiles = []*os.File{f}
	if err := cmd.Start(); err != nil {
		return fail(p, err)
	}
	return fake.Exit{}
}
