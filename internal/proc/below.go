package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ReapBelow ends every process that works in dir or has its HOME there, and
// returns how many it ended. dir must be ours alone, such as the scratch
// directory of a run. It is for what outlived its supervisor, which a program
// without a PID namespace of its own can kill; a process that moved away and
// cleared its environment is not found.
func ReapBelow(dir string) (int, error) {
	dir = filepath.Clean(dir)
	if !filepath.IsAbs(dir) || dir == "/" {
		return 0, fmt.Errorf("end processes below %q: not a directory of ours", dir)
	}
	ended := 0
	// What forks while we look is found by looking again.
	const looks = 100
	for range looks {
		found, err := endBelow(dir)
		ended += found
		if err != nil || found == 0 {
			return ended, err
		}
	}
	return ended, fmt.Errorf("end processes below %s: there are always more", dir)
}

// endBelow ends the processes that are there now and waits for their ends.
func endBelow(dir string) (int, error) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	ended := 0
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil || pid == os.Getpid() || !below(name, dir) {
			continue
		}
		// The descriptor keeps its meaning when the pid gets another one, so
		// the process is looked at again through it.
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return ended, fmt.Errorf("end process %d: %w", pid, err)
		}
		if below(name, dir) {
			if err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err == nil {
				_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 5000)
				ended++
			}
		}
		unix.Close(fd)
		if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EINTR) {
			return ended, fmt.Errorf("end process %d: %w", pid, err)
		}
	}
	return ended, nil
}

// below reads what /proc says about one process; nothing can be read of a
// zombie or of somebody else's.
func below(process, dir string) bool {
	inside := func(path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
	if cwd, err := os.Readlink(process + "/cwd"); err == nil && inside(strings.TrimSuffix(cwd, " (deleted)")) {
		return true
	}
	environ, err := os.ReadFile(process + "/environ")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(kv []byte) bool {
		home, ok := bytes.CutPrefix(kv, []byte("HOME="))
		return ok && inside(string(home))
	})
}
