package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// controlGroups is where a container sees its own control group.
const controlGroups = "/sys/fs/cgroup"

// A memory is what the kernel has counted of one control group's memory.
type memory struct {
	kills int64 // processes of the group that a memory killer ended, whatever group it acted for
	full  int64 // how often the group's own limit was reached
}

// memoryOf reads the counts of the control group that is mounted at dir, of
// version 2 or 1; zeroes where they cannot be seen. In version 2 a group counts
// "oom" for itself and its children, and "oom_kill" wherever the killer was
// called. In version 1 there is the most that was ever used, with and without
// swap: failcnt does not count on all kernels.
func memoryOf(dir string) memory {
	if kills, full, ok := counts(filepath.Join(dir, "memory.events")); ok {
		return memory{kills, full}
	}
	kills, _, _ := counts(filepath.Join(dir, "memory", "memory.oom_control"))
	m := memory{kills: kills}
	for _, name := range []string{"memory.", "memory.memsw."} {
		limit, most := number(filepath.Join(dir, "memory", name+"limit_in_bytes")), number(filepath.Join(dir, "memory", name+"max_usage_in_bytes"))
		if limit > 0 && most > limit-largePage {
			m.full++
		}
	}
	return m
}

// largePage is how far from a limit a group may be when a page is refused.
const largePage = 4 << 20

// counts reads the lines "oom_kill N" and "oom N" of a file.
func counts(file string) (kills, full int64, ok bool) {
	b, err := os.ReadFile(file)
	for line := range bytes.Lines(b) {
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "oom_kill":
			kills = n
		case "oom":
			full = n
		}
	}
	return kills, full, err == nil
}

func number(file string) int64 {
	b, _ := os.ReadFile(file)
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n
}

// since says of what was counted after another count whether the memory killer
// acted, and whether it acted although the group was within its own limit: for
// want of memory on the machine, or in a group above.
func (m memory) since(before memory) (killed, outside bool) {
	killed = m.kills > before.kills
	return killed, killed && m.full == before.full
}
