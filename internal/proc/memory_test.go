package proc

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMemoryKiller tells a group that reached its own limit from one that paid
// for others, by what kernels show of both versions of control groups.
func TestMemoryKiller(t *testing.T) {
	type files map[string]string
	events := func(full, kills string) files {
		return files{"memory.events": "low 0\nhigh 0\nmax 812\noom " + full + "\noom_kill " + kills + "\noom_group_kill 0\n"}
	}
	old := func(most, withSwap, kills string) files {
		return files{
			"memory/memory.oom_control":    "oom_kill_disable 0\nunder_oom 0\noom_kill " + kills + "\n",
			"memory/memory.limit_in_bytes": "104857600\n", "memory/memory.max_usage_in_bytes": most + "\n",
			"memory/memory.memsw.limit_in_bytes": "104857600\n", "memory/memory.memsw.max_usage_in_bytes": withSwap + "\n",
		}
	}
	for _, c := range []struct {
		name            string
		before, after   files
		killed, outside bool
	}{
		{"nothing", events("0", "0"), events("0", "0"), false, false},
		{"its own limit", events("0", "0"), events("1", "1"), true, false},
		{"again", events("2", "2"), events("3", "4"), true, false},
		{"somebody else's limit", events("0", "0"), events("0", "1"), true, true},
		{"an earlier one of its own", events("1", "1"), events("1", "2"), true, true},
		{"its limit, and nobody was killed", events("0", "0"), events("1", "0"), false, false},
		{"version 1: its own limit", old("4341760", "4341760", "0"), old("104857600", "104857600", "1"), true, false},
		{"version 1: a large page less", old("4341760", "4341760", "0"), old("102857600", "102857600", "1"), true, false},
		{"version 1: with swap", old("0", "0", "0"), old("90000000", "104857600", "1"), true, false},
		{"version 1: somebody else's limit", old("4341760", "4341760", "0"), old("70000000", "70000000", "1"), true, true},
		{"version 1: full of files that can be dropped", old("0", "0", "0"), old("104857600", "104857600", "0"), false, false},
		{"version 1: no limit of swap", old("0", "0", "0"), files{"memory/memory.oom_control": "oom_kill 1\n", "memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/memory.max_usage_in_bytes": "7000000\n"}, true, true},
		{"nothing to be seen", files{}, files{}, false, false},
	} {
		read := func(f files) memory {
			dir := t.TempDir()
			for name, text := range f {
				file := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			return memoryOf(dir)
		}
		if killed, outside := read(c.after).since(read(c.before)); killed != c.killed || outside != c.outside {
			t.Errorf("%s: killed %v, outside %v", c.name, killed, outside)
		}
	}
}
