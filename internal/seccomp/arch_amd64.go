package seccomp

import "golang.org/x/sys/unix"

const (
	arch = unix.AUDIT_ARCH_X86_64
	x32  = 0x40000000
)

// refusedHere are calls of this architecture alone.
var refusedHere = []uint32{
	unix.SYS_IOPERM, unix.SYS_IOPL, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL,
	unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE,
}
