package hostile

import (
	"fmt"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls are system calls with which no build or test needs to speak to the
// kernel, and ways around a filter of them. Unlike those of kernel, most of
// them are granted to everybody.
func calls() []Attack {
	asks := func(name, what string, do func(*Place) error) Attack {
		return Attack{Name: name, What: what, Threat: threatCalls, Wants: kept(noise, cannot), Do: do}
	}
	opens := func(number uintptr, args ...uintptr) func(*Place) error {
		return func(*Place) error {
			var a [6]uintptr
			copy(a[:], args)
			fd, _, e := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
			if e != 0 {
				return e
			}
			return unix.Close(int(fd))
		}
	}
	socket := func(family int) func(*Place) error {
		return func(*Place) error {
			fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if family == unix.AF_ALG {
				fd, err = unix.Socket(family, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			}
			if err != nil {
				return err
			}
			return unix.Close(fd)
		}
	}
	return []Attack{
		asks("call-uring", "makes a ring of io_uring", func(*Place) error {
			var params [120]byte
			fd, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
			runtime.KeepAlive(&params)
			if e != 0 {
				return e
			}
			return unix.Close(int(fd))
		}),
		asks("call-userfault", "handles its own page faults", opens(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1)),
		{Name: "call-key", What: "keeps a key with the kernel", Threat: threatCalls, Wants: kept(can, cannot), Do: func(*Place) error {
			_, err := unix.AddKey("user", "hostile", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
			return err
		}},
		asks("call-fanotify", "watches files of all by fanotify", opens(unix.SYS_FANOTIFY_INIT, 0x200, 0)),
		asks("call-vsock", "opens a socket to the host of a virtual machine", socket(unix.AF_VSOCK)),
		asks("call-alg", "opens a socket to the kernel's own ciphers", socket(unix.AF_ALG)),
		asks("call-clone3", "asks for namespaces where a filter cannot see it", func(*Place) error {
			args := struct{ flags, rest [8]uint64 }{flags: [8]uint64{unix.CLONE_NEWUSER}}
			pid, _, e := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), 64, 0)
			if e == 0 && pid == 0 {
				unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
			if e != 0 {
				return e
			}
			_, err := unix.Wait4(int(pid), nil, 0, nil)
			return err
		}),
		asks("call-x32", "makes a call by its number of x32", func(*Place) error {
			const x32 = 0x40000000
			if _, _, e := unix.Syscall(x32|unix.SYS_GETPID, 0, 0, 0); e != 0 {
				return e
			}
			return nil
		}),
		asks("call-other-arch", "makes a call of another architecture", func(*Place) error {
			if out, err := exec.Command("/proc/self/exe", "-other-arch").CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %.200s", err, out)
			}
			return nil
		}),
	}
}
