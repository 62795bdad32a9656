package runner

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

// smallHome is a home on a file system of its own, of one MiB.
func smallHome(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts a small file system: run it as root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill fills what a home has left, but for some bytes.
func fill(t *testing.T, home string, left int64) {
	t.Helper()
	f, err := os.Create(filepath.Join(home, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := int64(0)
	for zeros := make([]byte, 4096); err == nil; {
		var n int
		n, err = f.Write(zeros)
		size += int64(n)
	}
	if err := f.Truncate(size - left); err != nil {
		t.Fatal(err)
	}
}

// Hazard: the disk is full when a job's time comes, with nothing or with some
// bytes left. What runs has its line in the history before it is spawned, and
// what does not run is not in it; with room again the fire runs, once.
func TestHazardDiskFullBeforeARun(t *testing.T) {
	for _, left := range []int64{0, 4 << 10, 12 << 10, 40 << 10} {
		m := newRoomIn(t, smallHome(t), "exit 0")
		var planned atomic.Int64
		m.fake.plan = func(r schedule.Run) (string, error) {
			planned.Add(1)
			if kept, err := m.l.Run(r.ID); err != nil || !kept.Ended.IsZero() {
				t.Errorf("%d left: a run is planned that the history has as %+v, %v", left, kept, err)
			}
			return "exit 0", nil
		}
		m.add(nil)
		m.start(nil)
		fill(t, m.home, left)
		m.setAndSeeFault(m.hands.clock().Now().Add(time.Hour))
		if n := int64(len(m.runs())); planned.Load() > n || n > 1 {
			t.Errorf("%d left: %d runs, %d planned", left, n, planned.Load())
		}
		if left == 0 {
			if fault := m.r.Health().Fault; !strings.Contains(fault, "the disk is full: make room on it") || strings.Contains(fault, "\n") || m.outcomes() != "" {
				t.Errorf("the fault is %q; %s", fault, m.outcomes())
			}
		}
		if err := os.Remove(filepath.Join(m.home, "filler")); err != nil {
			t.Fatal(err)
		}
		m.until("the run", func() bool { m.hands.forward(patience); return strings.HasSuffix(m.outcomes(), "won") })
		m.until("health", func() bool { return m.r.Health().Fault == "" })
		m.stop()
		if got := strings.ReplaceAll(m.outcomes(), "infrastructure ", ""); got != "won" {
			t.Errorf("%d left: %s", left, m.outcomes())
		}
	}
}

// setAndSeeFault sets the clock to when something is due, and returns when it
// was begun or cannot be.
func (m *room) setAndSeeFault(t time.Time) {
	m.t.Helper()
	m.hands.set(t)
	m.until("a run or a fault", func() bool { return m.r.Health().Fault != "" || m.outcomes() != "" && m.outcomes() != "goes-on" })
}

// Hazard: the disk becomes full while a job runs. How it ended is kept when
// there is room, and a log that could not be kept changes nothing about it.
func TestHazardDiskFullDuringARun(t *testing.T) {
	home := smallHome(t)
	m := newRoomIn(t, home, "cat /dev/zero > "+home+"/filler; yes of course | head -c 20000 >&2; exit 0")
	m.add(func(j *schedule.Job) { j.Result.OnFinish = []string{"tell"} })
	m.hands.forward(time.Hour)
	m.start(nil)
	m.until("the fault", func() bool { return m.r.Health().Fault != "" })
	if fault := m.r.Health().Fault; m.outcomes() != "goes-on" || strings.Contains(fault, "\n") || !strings.Contains(fault, "the disk is full: make room on it") {
		t.Errorf("%s; the fault is %q", m.outcomes(), fault)
	}
	if err := os.Remove(filepath.Join(home, "filler")); err != nil {
		t.Fatal(err)
	}
	m.until("the end", func() bool { m.hands.forward(patience); return m.outcomes() != "goes-on" })
	m.stop()
	res, err := LoadResult(home, 1)
	if got := m.outcomes(); got != "won" || err != nil || len(res.Notices) != 1 || !strings.Contains(res.Notices[0], "log") || len(m.fake.finished) != 1 {
		t.Errorf("%s, %+v, %v; told %d times", got, res, err, len(m.fake.finished))
	}
}
