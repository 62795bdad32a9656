package orchestrator

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
)

// soakVariable says how many turns TestManyTurnsLeaveNothing plays; 8 without
// it.
const soakVariable = "BESTOF_SOAK"

// A footprint is what this process holds of the machine.
type footprint struct{ descriptors, goroutines, children, mounts, heapKiB int }

// stand measures it, after what is not needed any more was let go of.
func stand(t *testing.T) (f footprint) {
	t.Helper()
	mounts, err1 := os.ReadFile("/proc/self/mountinfo") // others' too: those of this test have its name in their path
	open, err2 := os.ReadDir("/proc/self/fd")
	threads, err3 := filepath.Glob("/proc/self/task/*/children")
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for _, name := range threads {
		b, _ := os.ReadFile(name) // a thread may end
		f.children += len(bytes.Fields(b))
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second one lets go of what pools kept
	runtime.ReadMemStats(&m)
	f.descriptors, f.goroutines, f.mounts, f.heapKiB = len(open), runtime.NumGoroutine(), bytes.Count(mounts, []byte(t.Name())), int(m.HeapAlloc>>10)
	return f
}

// heapSlack is by how many KiB the heap may differ between two measurements for
// reasons that are nobody's leak: tables that grew, a log of the test's.
const heapSlack = 4 << 10

// TestManyTurnsLeaveNothing: turns one after the other, of four candidates
// each, cost no descriptor, goroutine, process, mount or memory.
func TestManyTurnsLeaveNothing(t *testing.T) {
	turns := 8
	if asked := os.Getenv(soakVariable); asked != "" {
		var err error
		if turns, err = strconv.Atoi(asked); err != nil || turns < 3 {
			t.Fatalf("%s=%q is not a number of turns, at least 3", soakVariable, asked)
		}
	}
	var before footprint
	for turn := range turns {
		t.Run("turn", func(t *testing.T) {
			sb := fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "fix": writes("right\n"), "other": writes("no\n")})
			doc := newStage(t, sb, "other", "fix", "other", "fix").run(t)
			if doc.Winner == nil || doc.Candidates[0].Outcome != candidate.Unmet {
				t.Errorf("winner %v, outcomes %v", doc.Winner, outcomes(doc))
			}
		})
		if turn == 1 {
			before = stand(t) // what is opened once is open
		}
	}
	after := stand(t)
	t.Logf("after 2 turns %+v, after %d %+v", before, turns, after)
	if after.descriptors > before.descriptors || after.goroutines > before.goroutines || after.children > before.children || after.mounts > before.mounts ||
		after.heapKiB > before.heapKiB+heapSlack {
		t.Errorf("%d turns later %+v, before %+v", turns-2, after, before)
	}
}
