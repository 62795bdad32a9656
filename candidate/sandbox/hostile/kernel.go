package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernel are requests that a machine's kernel should turn down. What could
// change a setting is only opened, and never written to; what could harm even
// so is tried only away from the host's processes.
func kernel() []Attack {
	asks := func(name, what string, do func(*Place) error) Attack {
		return Attack{Name: name, What: what, Threat: threatKernel, Wants: kept(noise, cannot), Do: do}
	}
	inside := func(name, what string, do func(*Place) error) Attack {
		return Attack{Name: name, What: what, Threat: threatKernel, Wants: kept(Want{Not: "it could harm the machine"}, cannot), Do: func(p *Place) error {
			if err := p.contained(); err != nil {
				return err
			}
			return do(p)
		}}
	}
	opened := func(files []string) func(*Place) error {
		return func(*Place) error {
			err := error(unix.ENOENT)
			for _, pattern := range files {
				found, _ := filepath.Glob(pattern)
				for _, f := range found {
					if err = opens(f); err == nil {
						return nil
					}
				}
			}
			return err
		}
	}
	knob := func(name, what string, files ...string) Attack { return asks(name, what, opened(files)) }
	device := func(name, what string, files ...string) Attack { return inside(name, what, opened(files)) }
	namespace := func(name, what string, flags uintptr) Attack {
		return asks(name, what, func(*Place) error {
			// A thread of a program with many cannot leave its user namespace:
			// a child does, which then tries to mount.
			cmd := exec.Command("/proc/self/exe", "-fork", "none")
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
			return cmd.Run()
		})
	}
	return []Attack{
		namespace("ns-user", "makes a user namespace", unix.CLONE_NEWUSER),
		namespace("ns-mount", "makes a mount namespace", unix.CLONE_NEWNS),
		namespace("ns-all", "makes user, mount, process and network namespaces", unix.CLONE_NEWUSER|unix.CLONE_NEWNS|unix.CLONE_NEWPID|unix.CLONE_NEWNET),
		inside("mount-tmpfs", "mounts a file system", func(p *Place) error { return unix.Mount("x", p.Me, "tmpfs", 0, "") }),
		inside("mount-bind", "binds a directory over another", func(p *Place) error { return unix.Mount("/etc", p.Me, "", unix.MS_BIND, "") }),
		inside("mount-remount", "makes its read-only system writable", func(*Place) error { return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") }),
		inside("mount-umount", "unmounts what covers something", func(*Place) error { return unix.Unmount("/proc", unix.MNT_DETACH) }),
		inside("mount-tree", "takes a mount by open_tree and move_mount", func(*Place) error {
			fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		}),
		inside("mount-pivot", "changes its root", func(p *Place) error { return unix.PivotRoot(p.Root, p.Root) }),
		inside("mount-chroot", "leaves by chroot", func(*Place) error { return unix.Chroot(".") }),
		{Name: "enter-init", What: "enters the namespaces of process 1", Threat: threatKernel, Wants: kept(noise, cannot), Do: func(p *Place) error {
			if err := p.contained(); err != nil {
				return err
			}
			fd, err := unix.Open("/proc/1/ns/user", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Setns(fd, unix.CLONE_NEWUSER)
		}},
		{Name: "key-session", What: "reads keys of the operator's session keyring", Threat: threatKernel, Wants: alike(cannot), Do: func(p *Place) error {
			id, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", p.Key, 0)
			if err != nil {
				return err
			}
			_, err = unix.KeyctlBuffer(unix.KEYCTL_READ, id, make([]byte, 64), 0)
			return err
		}},
		inside("bpf-load", "loads a program into the kernel", func(*Place) error {
			_, _, e := unix.Syscall(unix.SYS_BPF, 5, 0, 0)
			return denied(e)
		}),
		inside("perf-watch", "watches the kernel by perf events", func(*Place) error {
			fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Config: unix.PERF_COUNT_SW_CPU_CLOCK}, -1, 0, -1, 0)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		}),
		inside("module-load", "loads a module", func(*Place) error {
			_, _, e := unix.Syscall(unix.SYS_INIT_MODULE, 0, 0, 0)
			return denied(e)
		}),
		inside("kexec-load", "loads another kernel", func(*Place) error {
			_, _, e := unix.Syscall6(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0xffffffff, 0, 0)
			return denied(e)
		}),
		inside("reboot", "reboots", func(*Place) error {
			_, _, e := unix.Syscall6(unix.SYS_REBOOT, 0, 0, 0, 0, 0, 0) // a wrong magic number: EINVAL where it may
			return denied(e)
		}),
		inside("host-name", "changes the host's name", func(*Place) error {
			name, err := os.Hostname()
			if err != nil {
				return err
			}
			return unix.Sethostname([]byte(name))
		}),
		inside("clock-set", "sets the clock", func(*Place) error {
			var t unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_REALTIME, &t); err != nil {
				return err
			}
			return unix.ClockSettime(unix.CLOCK_REALTIME, &t)
		}),
		inside("device-make", "makes a device for the disk and opens it", func(p *Place) error {
			at := filepath.Join(p.Me, "disk")
			if err := unix.Mknod(at, unix.S_IFBLK|0o600, int(unix.Mkdev(8, 0))); err != nil {
				return err
			}
			defer os.Remove(at)
			return opens(at)
		}),
		inside("raise-limits", "raises its hard limits", func(*Place) error {
			var l unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
				return err
			}
			return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: l.Cur, Max: l.Max + 1})
		}),
		inside("handle-open", "opens files of the disk by handle", func(*Place) error {
			handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/usr", 0)
			if err != nil {
				return err
			}
			fd, err := unix.Open("/usr", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			got, err := unix.OpenByHandleAt(fd, handle, unix.O_RDONLY)
			if err != nil {
				return err
			}
			return unix.Close(got)
		}),
		knob("knob-core", "sets what runs when a program crashes", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug"),
		knob("knob-sysctl", "sets the kernel's other settings", "/proc/sys/vm/*", "/proc/sys/kernel/*", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/net/ipv4/ip_forward"),
		knob("knob-sysrq", "presses the magic key", "/proc/sysrq-trigger"),
		knob("knob-cgroup", "sets a control group's release agent", "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/*/release_agent", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/*/tasks"),
		device("knob-sys", "writes to /sys", "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/debug/*", "/sys/module/*/parameters/*"),
		device("device-memory", "opens the machine's memory, log, disks and consoles", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/vd*", "/dev/sd*", "/dev/nvme*", "/dev/kvm", "/dev/fuse", "/dev/loop*", "/dev/mapper/control", "/dev/tty[0-9]*", "/dev/net/tun"),
		asks("engine-socket", "calls a container engine's socket", func(p *Place) error { return dial("unix", p.Socket) }),
		asks("privileges", "gains rights from a setuid program", func(*Place) error {
			b, err := os.ReadFile("/proc/self/status")
			if err != nil {
				return err
			}
			if bytes.Contains(b, []byte("NoNewPrivs:\t1")) {
				return errors.New("no new privileges")
			}
			return nil
		}),
		asks("capabilities", "holds a capability in its namespaces", func(*Place) error {
			b, err := os.ReadFile("/proc/self/status")
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(b)) {
				name, value, _ := strings.Cut(line, ":")
				if (name == "CapEff" || name == "CapPrm" || name == "CapAmb" || name == "CapInh") && strings.Trim(value, "0\t\n ") != "" {
					return nil
				}
			}
			return errors.New("none")
		}),
		{Name: "program-overwrite", What: "overwrites the programs of the host: its own, its parent's", Threat: threatKernel, Wants: alike(cannot), Do: func(p *Place) error {
			err := error(unix.ENOENT)
			for _, f := range []string{"/proc/self/exe", "/proc/1/exe", "/proc/" + itoa(os.Getppid()) + "/exe"} {
				if err = opens(f); err == nil {
					return fmt.Errorf("opened %s: %w", f, errors.Join(nil))
				}
			}
			return err
		}},
	}
}

// denied tells a request that was turned down from one that was understood:
// the arguments were wrong on purpose.
func denied(e syscall.Errno) error {
	if e == unix.EPERM || e == unix.EACCES || e == unix.ENOSYS {
		return e
	}
	return nil
}
