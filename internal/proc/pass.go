package proc

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/internal/bytestring"
)

// Pass runs a program in the working directory with this process's standard
// streams, for a process that does something beside it and is to be taken for
// it: PassEnd ends this process as the program ended. Signals are not passed
// on, and do not end this process: whoever ends a tree signals all of it.
// notRun is why the program could not be run, where that is its own fault.
//
// This process cannot be traced afterwards, nor its environment read, by a
// program of the same user.
func Pass(argv, env []string) (ws syscall.WaitStatus, notRun string, err error) {
	// The program's parent-death signal fires when the thread that started it
	// ends.
	runtime.LockOSThread()
	signal.Notify(make(chan os.Signal, 1)) // a caught signal is the default again in the program
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return 0, "", fmt.Errorf("hide from the program: %w", err)
	}
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 0, "", fmt.Errorf("keep descriptors from the program: %w", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return 0, "", err
	}
	j := job{Argv: convert[bytestring.String](argv), Dir: bytestring.String(dir), Env: convert[bytestring.String](env)}
	pid, notRun, err := startProgram(j, []uintptr{0, 1, 2})
	if err != nil || notRun != "" {
		return 0, notRun, err
	}
	for {
		got, err := syscall.Wait4(pid, &ws, 0, nil)
		if got == pid && (ws.Exited() || ws.Signaled()) {
			return ws, "", nil
		}
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return 0, "", fmt.Errorf("wait for the program: %w", err)
		}
	}
}

// PassEnd ends this process as another ended.
func PassEnd(ws syscall.WaitStatus) {
	if ws.Signaled() {
		// The runtime's own handlers would print, and exit with a status: the
		// kernel's default is set without asking it. All zeros are SIG_DFL.
		var action [64]byte
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(ws.Signal()), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
		_ = syscall.Kill(os.Getpid(), ws.Signal())
		select {} // it is on its way
	}
	syscall.Exit(ws.ExitStatus())
}
