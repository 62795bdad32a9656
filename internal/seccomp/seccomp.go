// Package seccomp filters the system calls of candidates' programs: what no
// build or test needs, and what faults of the kernel were found in. It says
// what a filter refuses; Program is that as instructions for the kernel, and
// Install puts it over this process.
package seccomp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refused are the system calls that fail with EPERM whatever they are asked.
// Most of them need a capability that no candidate has; the others, from
// io_uring to keys, ask nobody. They are those of the default profile of
// Docker's engine that are refused without a capability, less the few which
// debuggers, profilers of memory and runtimes use on themselves.
var refused = slices.Concat([]uint32{
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_USERFAULTFD, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_FANOTIFY_INIT,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_SETNS, unix.SYS_UNSHARE,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
}, refusedHere)

// families are the sockets that there may be. Others reach what no network
// namespace keeps away, as AF_VSOCK reaches the host of a virtual machine, or
// parts of the kernel that hardly anybody uses.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// namespaces are the flags with which a process begins in namespaces of its own.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Where struct seccomp_data has what is looked at; of arguments the lower half,
// which is all that the kernel takes of an int.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetFirst  = 16
)

const (
	retAllow = unix.SECCOMP_RET_ALLOW
	retKill  = unix.SECCOMP_RET_KILL_PROCESS
)

func retErrno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func ret(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }

// unless skips n instructions when what was loaded compares with k.
func unless(compare uint16, k uint32, n uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | compare | unix.BPF_K, Jt: n, K: k}
}

// when goes on with the next instruction only if what was loaded compares with
// k, and skips n otherwise.
func when(compare uint16, k uint32, n uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | compare | unix.BPF_K, Jf: n, K: k}
}

// filter is the whole program. A call of another architecture than this
// program's has other numbers, so whoever makes one is ended; x32 is no
// architecture but a bit in the number, and such a call does not exist.
func filter() []unix.SockFilter {
	p := []unix.SockFilter{
		load(offsetArch),
		unless(unix.BPF_JEQ, arch, 1),
		ret(retKill),
		load(offsetNumber),
	}
	if x32 != 0 {
		p = append(p, when(unix.BPF_JSET, x32, 1), ret(retErrno(unix.ENOSYS)))
	}
	for _, n := range refused {
		p = append(p, when(unix.BPF_JEQ, n, 1), ret(retErrno(unix.EPERM)))
	}
	// The flags of clone3 are in memory, where a filter cannot look: it does
	// not exist, and everybody turns to clone.
	p = append(p, when(unix.BPF_JEQ, unix.SYS_CLONE3, 1), ret(retErrno(unix.ENOSYS)))
	p = append(p, when(unix.BPF_JEQ, unix.SYS_CLONE, 4), load(offsetFirst),
		when(unix.BPF_JSET, namespaces, 1), ret(retErrno(unix.EPERM)), ret(retAllow))
	p = append(p, when(unix.BPF_JEQ, unix.SYS_SOCKET, uint8(len(families)+3)), load(offsetFirst))
	for i, f := range families {
		p = append(p, unless(unix.BPF_JEQ, f, uint8(len(families)-i)))
	}
	return append(p, ret(retErrno(unix.EAFNOSUPPORT)), ret(retAllow), ret(retAllow))
}

// Supported reports whether there is a filter for the architecture that this
// program was built for.
const Supported = arch != 0

// Program is the filter as bytes that the kernel reads, as an array of struct
// sock_filter; nil where it is not Supported.
func Program() []byte {
	if !Supported {
		return nil
	}
	var b []byte
	for _, i := range filter() {
		b = binary.NativeEndian.AppendUint16(b, i.Code)
		b = append(b, i.Jt, i.Jf)
		b = binary.NativeEndian.AppendUint32(b, i.K)
	}
	return b
}

// Install puts the filter over every thread of this process, and so over all
// that it starts, for good; none of them gains rights from a program any more.
// It does nothing where it is not Supported. It is an error on a kernel without
// such filters.
func Install() error {
	if !Supported {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	p := filter()
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	other, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(p)
	switch {
	case e != 0:
		return fmt.Errorf("filter system calls: %w", e)
	case other != 0:
		return errors.New("filter system calls: a thread has a filter of its own")
	}
	return nil
}
