package seccomp

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

const installWord = "install-the-filter"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == installWord {
		os.Exit(installed())
	}
	os.Exit(m.Run())
}

// run is what the kernel makes of the filter: its instructions are few.
func run(t *testing.T, data map[uint32]uint32) uint32 {
	t.Helper()
	p, a := filter(), uint32(0)
	for pc := 0; pc < len(p); pc++ {
		i := p[pc]
		is := false
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = data[i.K]
			continue
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			is = a == i.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			is = a&i.K != 0
		default:
			t.Fatalf("instruction %d: %+v", pc, i)
		}
		if is {
			pc += int(i.Jt)
		} else {
			pc += int(i.Jf)
		}
	}
	t.Fatal("the filter does not end")
	return 0
}

func TestFilter(t *testing.T) {
	if !Supported {
		if Program() != nil || Install() != nil {
			t.Error("a filter for an architecture that has none")
		}
		return
	}
	perm, none := retErrno(unix.EPERM), retErrno(unix.ENOSYS)
	for _, c := range []struct {
		name  string
		arch  uint32
		call  uint32
		first uint32
		want  uint32
	}{
		{"read", arch, unix.SYS_READ, 0, retAllow},
		{"execve", arch, unix.SYS_EXECVE, 0, retAllow},
		{"ptrace", arch, unix.SYS_PTRACE, 0, retAllow},
		{"the number of a refused call as an argument", arch, unix.SYS_READ, unix.SYS_BPF, retAllow},
		{"io_uring_setup", arch, unix.SYS_IO_URING_SETUP, 0, perm},
		{"mount", arch, unix.SYS_MOUNT, 0, perm},
		{"unshare", arch, unix.SYS_UNSHARE, unix.CLONE_NEWUSER, perm},
		{"a thread", arch, unix.SYS_CLONE, unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND, retAllow},
		{"a process", arch, unix.SYS_CLONE, uint32(unix.SIGCHLD), retAllow},
		{"a process in a namespace", arch, unix.SYS_CLONE, unix.CLONE_NEWUSER | uint32(unix.SIGCHLD), perm},
		{"clone3", arch, unix.SYS_CLONE3, 0, none},
		{"unix", arch, unix.SYS_SOCKET, unix.AF_UNIX, retAllow},
		{"IPv4", arch, unix.SYS_SOCKET, unix.AF_INET, retAllow},
		{"netlink", arch, unix.SYS_SOCKET, unix.AF_NETLINK, retAllow},
		{"vsock", arch, unix.SYS_SOCKET, unix.AF_VSOCK, retErrno(unix.EAFNOSUPPORT)},
		{"another architecture", arch + 1, unix.SYS_READ, 0, retKill},
		{"another byte order", arch ^ 0x40000000, unix.SYS_READ, 0, retKill},
	} {
		if got := run(t, map[uint32]uint32{offsetArch: c.arch, offsetNumber: c.call, offsetFirst: c.first}); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
	for _, n := range refused {
		if got := run(t, map[uint32]uint32{offsetArch: arch, offsetNumber: n}); got != perm {
			t.Errorf("call %d: %#x", n, got)
		}
		if got := run(t, map[uint32]uint32{offsetArch: arch, offsetNumber: n | x32}); x32 != 0 && got != none {
			t.Errorf("call %d of x32: %#x", n, got)
		}
	}
	if b, n := Program(), len(filter()); len(b) != 8*n || n > 4096 {
		t.Errorf("%d bytes of %d instructions", len(b), n)
	}
}

// TestInstall: the filter holds for every thread of a process, and for what it
// starts.
func TestInstall(t *testing.T) {
	out, err := exec.Command("/proc/self/exe", installWord).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// installed is the process of TestInstall: its status says what went wrong.
func installed() int {
	other := make(chan struct{})
	begun, held := make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread() // a thread that is there before the filter
		close(begun)
		<-other
		held <- unix.Unshare(0)
	}()
	<-begun
	if Install() != nil {
		return 3
	}
	close(other)
	if err := <-held; Supported && !errors.Is(err, unix.EPERM) {
		return 4
	}
	if exec.Command("/proc/self/exe", "-test.run", "^$").Run() != nil {
		return 5
	}
	return 0
}
