package seccomp

import "golang.org/x/sys/unix"

const (
	arch = unix.AUDIT_ARCH_AARCH64
	x32  = 0 // there is none
)

// refusedHere are calls of this architecture alone.
var refusedHere []uint32
