package proc

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The signals that C libraries keep for themselves: Go neither catches nor
// ignores them.
const (
	firstReserved = 32
	lastReserved  = 34
)

// ignoreReserved makes the reserved signals do nothing to this process. The
// first process of a namespace is spared the default action of signals from
// inside only while no thread of it happens to block them: the kernel may then
// give one to another thread, and ends the process. Programs that are started
// from here begin with them ignored, too; a C library that uses one sets its own
// handler.
func ignoreReserved() error {
	// struct sigaction of the kernel begins with the handler, and 1 is SIG_IGN;
	// it is four words long or, where there is no restorer, three.
	ignore := [4]uintptr{1}
	for n := firstReserved; n <= lastReserved; n++ {
		const setBytes = 8 // of a kernel's sigset_t
		if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(&ignore)), 0, setBytes, 0, 0); e != 0 {
			return fmt.Errorf("ignore signal %d: %w", n, e)
		}
	}
	return nil
}
