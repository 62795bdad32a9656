package docker

import (
	"context"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
)

// Warmed is Warm, and waits until the container has begun.
func Warmed(ctx context.Context, s *Sandbox, spec sandbox.Spec) {
	s.Warm(ctx, spec)
	s.warm.mu.Lock()
	w := s.warm.waiting[spec.Root]
	s.warm.mu.Unlock()
	<-w.ready
}

// Waiting is how many containers wait, or are being begun.
func Waiting(s *Sandbox) int {
	s.warm.mu.Lock()
	defer s.warm.mu.Unlock()
	return len(s.warm.waiting)
}

// Unasked is the same sandbox, with limits that nobody chose.
func Unasked(s *Sandbox) *Sandbox {
	s.asked = false
	return s
}

// Below is the same sandbox, with its containers below a control group.
func Below(s *Sandbox, parent string) *Sandbox {
	s.parent = parent
	return s
}

// Impatient gives an engine a moment to remove a container, for one test.
func Impatient(t *testing.T) {
	before := removeWait
	removeWait = time.Second
	t.Cleanup(func() { removeWait = before })
}

// Remembering is the same sandbox on a machine with that /proc/meminfo.
func Remembering(s *Sandbox, meminfo string) *Sandbox {
	s.meminfo = meminfo
	return s
}

func TestAvailable(t *testing.T) {
	for text, want := range map[string]int64{
		"MemTotal:  100 kB\nMemAvailable:    7 kB\n": 7 << 10, "MemAvailable:\n": 0, "": 0, "MemAvailable: x kB": 0,
	} {
		if got := available(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
