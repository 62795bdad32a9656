package app

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestJobOnAFullDisk: the disk of the jobs is full when a job is to run, and
// becomes full while one does. One line says so, the history has what happened,
// and with room again everything goes on.
func TestJobOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts a small file system: run it as root")
	}
	b := newBench(t, "grep -qx right value\n", `[agents.fill]
command = ["sh", "-c", "echo >> $COUNT; echo right > value; test -z \"$FILL\" || cat /dev/zero > $FILL; true"]
env = ["COUNT", "FILL"]
`)
	small, count := filepath.Join(b.home, "jobs"), filepath.Join(t.TempDir(), "count")
	filler := filepath.Join(small, "filler")
	t.Setenv("COUNT", count)
	t.Setenv("FILL", "")
	if err := os.Mkdir(small, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(small, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	b.addJob("mend", "fill")
	fill(t, filler)
	for _, args := range [][]string{{"job", "run", "mend"}, {"job", "pause", "mend"}} {
		if _, errs, status := b.run(args...); status != 7 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "the disk is full: make room on it") {
			t.Errorf("%v: status %d: %s", args, status, errs)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if runs := b.jobRuns().Runs; len(runs) != 0 {
		t.Errorf("on a full disk: %+v", runs)
	}
	if _, err := os.Stat(count); err == nil {
		t.Error("an agent ran that the history knows nothing of")
	}
	if out, errs, status := b.run("job", "run", "mend"); status != 0 {
		t.Fatalf("with room: status %d: %s%s", status, out, errs)
	}

	// It becomes full while the job runs; who runs it is told to end.
	t.Setenv("FILL", filler)
	cmd := b.command("job", "run", "mend")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	full, last := 0, ""
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		last = lines.Text()
		if strings.Contains(last, "the ledger of jobs cannot be used") {
			if full++; full == 1 {
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if err := cmd.Wait(); err == nil || full != 1 || !strings.Contains(last, "the disk is full: make room on it") || !strings.HasSuffix(last, "who runs jobs next settles it") {
		t.Errorf("%v; %d lines say that the disk is full, the last is %q", err, full, last)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if runs := b.jobRuns().Runs; len(runs) != 2 || runs[0].Ended != nil {
		t.Errorf("on a full disk: %+v", runs)
	}
	t.Setenv("FILL", "")
	if out, errs, status := b.run("job", "tick"); status != 0 {
		t.Errorf("with room again: status %d: %s%s", status, out, errs)
	}
	starts, err := os.ReadFile(count)
	if runs := b.jobRuns().Runs; err != nil || bytes.Count(starts, []byte("\n")) != 2 || len(runs) != 2 || runs[0].Outcome != "won" || runs[0].Branch == "" {
		t.Errorf("agents ran %q, %v; %+v", starts, err, runs)
	}
}

// fill fills what a file system has left.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for zeros := make([]byte, 4096); err == nil; {
		_, err = f.Write(zeros)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
