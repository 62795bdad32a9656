package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A relative is a process together with the parent it was found under.
type relative struct{ pid, parent int }

// status is one line of /proc/<pid>/stat: see proc_pid_stat(5).
type status struct {
	state   byte
	parent  int
	group   int
	threads int
	start   uint64 // clock ticks after boot
}

func statusOf(pid int) (status, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return status{}, err
	}
	// The command name, in parentheses, may itself hold spaces and parentheses.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return status{}, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	parent, err1 := strconv.Atoi(f[1])
	group, err2 := strconv.Atoi(f[2])
	threads, err3 := strconv.Atoi(f[17])
	start, err4 := strconv.ParseUint(f[19], 10, 64)
	return status{f[0][0], parent, group, threads, start}, errors.Join(err1, err2, err3, err4)
}

// dead reports whether nothing of the process runs or holds files any more. A
// zombie may be a first thread that ended before the others.
func (s status) dead() bool { return s.state == 'X' || s.state == 'Z' && s.threads <= 1 }

// children lists the processes whose parent is pid now, zombies included.
func children(pid int) []int {
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil
	}
	var pids []int
	for _, t := range tasks {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + t.Name() + "/children")
		if errors.Is(err, os.ErrNotExist) {
			if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/children"); err != nil {
				return childrenByScan(pid) // a kernel without CONFIG_PROC_CHILDREN
			}
		}
		for f := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(f); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

func childrenByScan(pid int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := statusOf(n); err == nil && s.parent == pid {
			pids = append(pids, n)
		}
	}
	return pids
}

// descendants lists the tree below pid, parents first, without pid itself. It
// is a snapshot: a tree that forks meanwhile needs another look.
func descendants(pid int) []relative {
	var all []relative
	seen := map[int]bool{pid: true}
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		for _, c := range children(queue[0]) {
			if !seen[c] {
				seen[c] = true
				all = append(all, relative{c, queue[0]})
				queue = append(queue, c)
			}
		}
	}
	return all
}

// signal sends sig to r, unless its pid meanwhile belongs to a process with
// another parent.
func (r relative) signal(sig syscall.Signal) {
	fd, err := unix.PidfdOpen(r.pid, 0)
	if err != nil {
		if errors.Is(err, unix.ENOSYS) {
			_ = syscall.Kill(r.pid, sig)
		}
		return
	}
	defer unix.Close(fd)
	if s, err := statusOf(r.pid); err == nil && s.parent == r.parent {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

const (
	reapEvery = 5 * time.Millisecond
	reapWait  = 10 * time.Second
)

// Reap kills what a crashed process of ours left behind: the tree of the
// supervisor id, as told to Command.Started, and the supervisor itself. It
// touches nothing when the pid belongs to another process by now, and then
// reports false. It may be called again, and for ids that are long gone.
func Reap(id Identity) (bool, error) {
	if id.PID <= 1 || id.PID == os.Getpid() {
		return false, fmt.Errorf("reap process %d: not a supervisor", id.PID)
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err == nil {
		defer unix.Close(fd)
	} else if !errors.Is(err, unix.ENOSYS) {
		fd = -1
	}
	if !id.Alive() {
		return false, nil
	}
	// The supervisor stays until its tree is gone: it is what orphans are
	// handed to, so as long as it lives none of them can leave the tree.
	for tries := reapWait / reapEvery; ; tries-- {
		living := 0
		for _, r := range descendants(id.PID) {
			if s, err := statusOf(r.pid); err == nil && !s.dead() {
				living++
				r.signal(syscall.SIGKILL)
			}
		}
		if !id.Alive() {
			return true, nil
		}
		if living == 0 {
			if fd >= 0 {
				_ = unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0)
			} else {
				_ = syscall.Kill(id.PID, syscall.SIGKILL)
			}
		}
		if tries == 0 {
			return true, fmt.Errorf("reap process %d: %d of its processes do not die", id.PID, living+1)
		}
		<-time.After(reapEvery)
	}
}
