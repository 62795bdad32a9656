package slots

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// holdWord makes this test binary a process that holds a slot until it dies.
const holdWord = "hold-a-slot"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == holdWord {
		p, err := Open(os.Args[2], 2)
		if err == nil {
			_, err = p.Take(context.Background(), nil)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		select {}
	}
	os.Exit(m.Run())
}

func open(t *testing.T, home string, n int) *Pool {
	t.Helper()
	p, err := Open(home, n)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNoMoreAtOnceThanThereAreSlots(t *testing.T) {
	home := t.TempDir()
	var now, most atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		p := open(t, home, 3)
		for range 5 {
			all.Go(func() {
				release, err := p.Take(t.Context(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				now.Add(-1)
				release()
			})
		}
	}
	all.Wait()
	if m := most.Load(); m < 1 || m > 3 {
		t.Errorf("%d at once with 3 slots", m)
	}
	if n, err := open(t, home, 3).Taken(); n != 0 || err != nil {
		t.Errorf("%d slots are taken when all are given back, %v", n, err)
	}
}

func TestWhoWaitsIsToldAndEndsWithItsContext(t *testing.T) {
	home := t.TempDir()
	p := open(t, home, 1)
	release, err := p.Take(t.Context(), func() { t.Error("waits for a free slot") })
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	told := 0
	_, err = open(t, home, 1).Take(ctx, func() { told++; cancel(cause) })
	if !errors.Is(err, cause) || told != 1 {
		t.Errorf("%v, told %d times", err, told)
	}
	if n, err := p.Taken(); n != 1 || err != nil {
		t.Errorf("%d taken, %v", n, err)
	}
	release()
	if again, err := p.Take(t.Context(), nil); err != nil {
		t.Error(err)
	} else {
		again()
	}
}

// A process that is killed frees its slot.
func TestDeadProcessFreesItsSlot(t *testing.T) {
	home := t.TempDir()
	p := open(t, home, 2)
	cmd := exec.Command(os.Args[0], holdWord, home)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "held" {
		t.Fatalf("the other process says %q", lines.Text())
	}
	if n, err := p.Taken(); n != 1 || err != nil {
		t.Errorf("%d taken, %v", n, err)
	}
	release, err := p.Take(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	second, err := p.Take(t.Context(), func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	second()
	_ = cmd.Wait() // it was killed
}

// Hazard: a link where a slot should be is not followed.
func TestHazardLinkInPlaceOfSlot(t *testing.T) {
	home := t.TempDir()
	p := open(t, home, 1)
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.Symlink(victim, filepath.Join(home, "slots", "0")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Take(t.Context(), nil); err == nil {
		t.Error("a link was taken for a slot")
	}
	if _, err := os.Lstat(victim); err == nil {
		t.Error("the link was followed")
	}
}

func TestNumberOfSlots(t *testing.T) {
	for _, n := range []int{0, -1, Max + 1} {
		if _, err := Open(t.TempDir(), n); err == nil {
			t.Errorf("%d slots were made", n)
		}
	}
}
