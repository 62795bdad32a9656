// Package proc starts, identifies and ends operating-system processes.
package proc

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

// An Identity names a process beyond reuse of its pid: a pid alone may belong
// to somebody else after a while, and after a reboot.
type Identity struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"start_time"` // field 22 of /proc/<pid>/stat: clock ticks after boot
	BootID    string `json:"boot_id"`    // /proc/sys/kernel/random/boot_id
}

// ErrNoProcess means that no process has the pid.
var ErrNoProcess = errors.New("no such process")

var bootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
})

// Identify returns the identity of the process that has the pid now.
func Identify(pid int) (Identity, error) {
	boot, err := bootID()
	if err != nil {
		return Identity{}, fmt.Errorf("read the boot id: %w", err)
	}
	switch s, err := statusOf(pid); {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || err == nil && s.dead():
		return Identity{}, ErrNoProcess
	case err != nil:
		return Identity{}, fmt.Errorf("identify process %d: %w", pid, err)
	default:
		return Identity{PID: pid, StartTime: s.start, BootID: boot}, nil
	}
}

// Self is the identity of this process.
func Self() (Identity, error) { return Identify(os.Getpid()) }

// Alive reports whether exactly this process still runs. A zombie does not.
func (id Identity) Alive() bool {
	now, err := Identify(id.PID)
	return err == nil && now == id
}
