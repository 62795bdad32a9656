package app

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBatchOnAFullDisk: while a batch runs its disk becomes full, with nothing
// left on it or with some bytes. It stops with one line that says what to do,
// its state is what happened, and it ends well when there is room again.
func TestBatchOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts a small file system: run it as root")
	}
	b := newBench(t, "grep -qx right value\n", `[agents.fill]
command = ["sh", "-c", "echo >> $COUNT; echo right > value; test -e $COUNT.full || { touch $COUNT.full; cat /dev/zero > $SMALL/filler; test $LEFT = 0 || truncate -s -$LEFT $SMALL/filler; }; true"]
env = ["COUNT", "SMALL", "LEFT"]
`)
	for _, left := range []string{"0", "60000"} {
		dir := t.TempDir()
		small, count, tasks := filepath.Join(dir, "small"), filepath.Join(dir, "count"), filepath.Join(dir, "tasks.csv")
		t.Setenv("SMALL", small)
		t.Setenv("COUNT", count)
		t.Setenv("LEFT", left)
		if err := os.WriteFile(tasks, []byte(batchKillTasks), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(small, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=1500k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(small, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		out := filepath.Join(small, "out")
		remedy := "bestof: the disk is full: make room on it, then go on with: bestof batch resume "
		_, errs, status := b.run("batch", "run", tasks, "--repo", b.repo, "--sandbox", "process", "--holds", "0", "--agents", "fill:2", "-j", "1", "--retry-wait", "1ms", "--out", out)
		if status != 7 || strings.Count(errs, remedy) != 1 {
			t.Errorf("%s left: status %d: %s", left, status, errs)
		}
		var now struct{ Solved, Failed, Running, Pending, Process int }
		answer, errs, _ := b.run("batch", "status", out, "--json")
		if err := json.Unmarshal([]byte(answer), &now); err != nil || now.Failed+now.Process != 0 || now.Running+now.Pending == 0 || now.Solved+now.Running+now.Pending != 2 {
			t.Errorf("%s left: %s%s, %v", left, answer, errs, err)
		}
		if left == "0" {
			if _, errs, status := b.run("batch", "resume", out); status != 7 || strings.Count(errs, "the disk is full: make room on it, then ") != 1 {
				t.Errorf("resumed before there was room: status %d: %s", status, errs)
			}
		}
		if err := os.Remove(filepath.Join(small, "filler")); err != nil {
			t.Fatal(err)
		}
		if stdout, errs, status := b.run("batch", "resume", out); status != 0 || !strings.Contains(stdout, "2 tasks: 2 solved") {
			t.Errorf("%s left: resumed with room: status %d: %s%s", left, status, stdout, errs)
		}
		starts, err := os.ReadFile(count)
		if n := bytes.Count(starts, []byte("\n")); err != nil || n > 6 { // of the task that ran, what could not be written down is run again
			t.Errorf("%s left: %d candidates were run for 4, %v", left, n, err)
		}
	}
}
