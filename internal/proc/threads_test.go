package proc

import (
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestThreadsAreReserved: as many calls as threads were reserved may block at
// once without a new one.
func TestThreadsAreReserved(t *testing.T) {
	const n = 24
	threads := func() int {
		all, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	reserveThreads(n)
	before := threads()
	if before < n {
		t.Fatalf("%d threads after %d were reserved", before, n)
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	var blocked, over sync.WaitGroup
	for range n / 2 {
		blocked.Add(1)
		over.Go(func() {
			blocked.Done()
			_, _ = unix.Read(ends[0], make([]byte, 1))
		})
	}
	blocked.Wait()
	if after := threads(); after > before {
		t.Errorf("%d threads, %d before", after, before)
	}
	unix.Close(ends[1])
	over.Wait()
	unix.Close(ends[0])
}
