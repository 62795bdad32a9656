package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/worktree"
)

// A scene is a repository that changes from one fingerprint to the next.
type scene struct {
	prints []worktree.Fingerprint

	mu      sync.Mutex
	at      int
	looks   int
	written []time.Time
}

// newScene has as many states of a repository, each a real one.
func newScene(t *testing.T, states int) *scene {
	t.Helper()
	s := newStage(t, fake.New(sandbox.Options{}, nil), "idle")
	sc, looker := &scene{}, s.cfg.Repo.Looker()
	for i := range states {
		if err := os.WriteFile(filepath.Join(s.cfg.Repo.Root(), fmt.Sprintf("new%d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := looker.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sc.prints = append(sc.prints, f)
	}
	return sc
}

func (sc *scene) write() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.at, sc.written = sc.at+1, append(sc.written, time.Now())
}

func (sc *scene) writtenIn(from, to time.Time) bool {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return slices.ContainsFunc(sc.written, func(at time.Time) bool { return !at.Before(from) && !at.After(to) })
}

// look sees the state in the middle of the time it takes.
func (sc *scene) look(half func() time.Duration) func(context.Context) (worktree.Fingerprint, error) {
	return func(ctx context.Context) (worktree.Fingerprint, error) {
		time.Sleep(half())
		if ctx.Err() != nil {
			return worktree.Fingerprint{}, ctx.Err()
		}
		sc.mu.Lock()
		f := sc.prints[sc.at]
		sc.looks++
		sc.mu.Unlock()
		time.Sleep(half())
		return f, nil
	}
}

// TestWhoWritesIsASuspect: of candidates of two runs that begin, write and end
// at any time, whoever wrote is a suspect, and nobody is for what was written
// well before it began or after it ended.
func TestWhoWritesIsASuspect(t *testing.T) {
	const longest = 400 * time.Millisecond
	sc := newScene(t, 30)
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			sc.at, sc.written = 0, nil
			random := rand.New(rand.NewPCG(seed, 1))
			var guard sync.Mutex
			upTo := func(d time.Duration) time.Duration {
				guard.Lock()
				defer guard.Unlock()
				return time.Duration(random.Int64N(int64(d)))
			}
			l := newLookout(sc.look(func() time.Duration { return upTo(longest / 2) }), time.Now)
			var wg sync.WaitGroup
			for run := range 2 {
				w, err := newWatch(t.Context(), l, false)
				if err != nil {
					t.Fatal(err)
				}
				for n := range 8 {
					wg.Go(func() {
						time.Sleep(upTo(6 * time.Second))
						if upTo(4) == 0 {
							w.quiet()
						}
						asked := time.Now()
						if err := w.enter(t.Context(), n); err != nil {
							t.Error(err)
						}
						entered := time.Now()
						time.Sleep(upTo(time.Second))
						wrote := upTo(3) == 0
						if wrote {
							sc.write()
						}
						time.Sleep(upTo(time.Second))
						suspicious, err := w.leave(t.Context(), n)
						if err != nil {
							t.Error(err)
						}
						if wrote && len(suspicious) == 0 {
							t.Errorf("seed %d: candidate %d of run %d wrote at some time after %s and is not suspected", seed, n, run, entered)
						}
						if len(suspicious) > 0 && !sc.writtenIn(asked.Add(-recent-longest), time.Now()) {
							t.Errorf("seed %d: candidate %d of run %d is suspected of %q", seed, n, run, suspicious)
						}
					})
				}
			}
			wg.Wait()
			for w := range l.watches {
				changed, err := w.sinceStart(t.Context())
				if err != nil || len(changed) != sc.at {
					t.Errorf("seed %d: %d writes, and changed are %q, %v", seed, sc.at, changed, err)
				}
				w.end()
			}
			if l.working != 0 || len(l.watches) != 0 {
				t.Errorf("seed %d: %d work, %d watch", seed, l.working, len(l.watches))
			}
		})
	}
}

// TestOneLookServesAll: candidates that end at about the same time, and those
// that begin soon after, share a look; where candidates are kept from the
// repository, a run looks when it begins and when it ends.
func TestOneLookServesAll(t *testing.T) {
	sc := newScene(t, 1)
	synctest.Test(t, func(t *testing.T) {
		l := newLookout(sc.look(func() time.Duration { return 0 }), time.Now)
		counts := func(want int, what string) {
			t.Helper()
			if sc.looks != want {
				t.Errorf("%s: %d looks, not %d", what, sc.looks, want)
			}
			sc.looks = 0
		}
		w, err := newWatch(t.Context(), l, false)
		if err != nil {
			t.Fatal(err)
		}
		counts(1, "a run begins")
		for n := range 5 {
			if err := w.enter(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		counts(1, "five begin when the run itself had programs") // newWatch cannot know of them
		var wg sync.WaitGroup
		for n := range 4 {
			wg.Go(func() {
				time.Sleep(time.Duration(n) * gather / 4)
				if _, err := w.leave(t.Context(), n); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		counts(1, "four of them end")
		if err := w.enter(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		counts(0, "one begins soon after")
		time.Sleep(recent)
		if err := w.enter(t.Context(), 6); err != nil {
			t.Fatal(err)
		}
		counts(1, "one begins later")
		for _, n := range []int{4, 5, 6} {
			if _, err := w.leave(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		counts(3, "three end one after the other")
		if _, err := w.sinceStart(t.Context()); err != nil {
			t.Fatal(err)
		}
		counts(0, "the run ends soon after")

		apart, err := newWatch(t.Context(), l, true)
		if err != nil {
			t.Fatal(err)
		}
		counts(0, "another begins soon after")
		if err := apart.enter(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if _, err := apart.leave(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		counts(0, "its candidate comes and goes")
		if _, err := apart.sinceStart(t.Context()); err != nil {
			t.Fatal(err)
		}
		counts(1, "it ends")

		if err := w.enter(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		w.end()
		apart.end()
		if l.working != 0 || len(l.watches) != 0 {
			t.Errorf("nobody watches, and %d work, %d watch", l.working, len(l.watches))
		}
	})
}

// TestWhoWaitsForALookIsNotLeftAlone: when the one who looks is cancelled,
// another who waits looks itself.
func TestWhoWaitsForALookIsNotLeftAlone(t *testing.T) {
	sc := newScene(t, 2)
	synctest.Test(t, func(t *testing.T) {
		l := newLookout(sc.look(func() time.Duration { return time.Second }), time.Now)
		w, err := newWatch(t.Context(), l, false)
		if err != nil {
			t.Fatal(err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := w.enter(cancelled, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("the one who was cancelled: %v", err)
			}
		})
		wg.Go(func() {
			time.Sleep(time.Millisecond)
			if err := w.enter(t.Context(), 2); err != nil {
				t.Errorf("the other: %v", err)
			}
			sc.write()
			if suspicious, err := w.leave(t.Context(), 2); err != nil || len(suspicious) == 0 {
				t.Errorf("the other: %q, %v", suspicious, err)
			}
		})
		time.Sleep(500 * time.Millisecond)
		cancel()
		wg.Wait()
	})
}
