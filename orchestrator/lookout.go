package orchestrator

import (
	"context"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/worktree"
)

// recent is how old a look may be, from its beginning, to serve a candidate that
// begins. What changed in that time before it is put down to it too.
const recent = time.Second

// gather is how long a look waits while programs of candidates run: some of them
// may end, and one look serves them all.
const gather = 50 * time.Millisecond

// A Lookout looks at one user's repository for everyone who runs candidates on
// it. A look serves all who wait for one that begins now or later, and tells all
// watches what changed since the look before it.
type Lookout struct {
	look func(context.Context) (worktree.Fingerprint, error)
	now  func() time.Time

	mu      sync.Mutex
	begun   int64                // looks; each has its number
	running chan struct{}        // closed when the one under way, or about to begin, ends
	done    int64                // the last that ended well, 0 for none
	at      time.Time            // when that one began
	seen    worktree.Fingerprint // by it
	watches map[*watch]bool
	working int           // programs of candidates that run now, by all watches
	nobody  chan struct{} // closed when none does, for a look that gathers
}

// NewLookout is a lookout for runs on a repository, in this process.
func NewLookout(repo *worktree.Repository, now func() time.Time) *Lookout {
	return newLookout(repo.Looker().Look, now)
}

func newLookout(look func(context.Context) (worktree.Fingerprint, error), now func() time.Time) *Lookout {
	return &Lookout{look: look, now: now, watches: map[*watch]bool{}}
}

// left says that a program ended, and returns when a look that began since has
// ended too. l.mu is held, but not while it waits.
func (l *Lookout) left(ctx context.Context) error {
	if l.working--; l.working == 0 && l.nobody != nil {
		close(l.nobody)
		l.nobody = nil
	}
	return l.after(ctx, l.begun)
}

// after returns when a look whose number is above n ended. l.mu is held, but
// not while it waits.
func (l *Lookout) after(ctx context.Context, n int64) error {
	for l.done <= n {
		var err error
		if l.running == nil {
			err = l.once(ctx)
		} else {
			err = l.wait(ctx, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wait returns when the look under way ended, whoever looks.
func (l *Lookout) wait(ctx context.Context, n int64) error {
	ended := l.running
	l.mu.Unlock()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	l.mu.Lock()
	if ctx.Err() != nil && l.done <= n {
		return context.Cause(ctx)
	}
	return nil
}

// lately returns when there is a look whose number is above n and that is not
// older than recent. l.mu is held, but not while it waits.
func (l *Lookout) lately(ctx context.Context, n int64) error {
	since := l.now().Add(-recent)
	for l.done <= n || !l.at.After(since) {
		if err := l.after(ctx, max(n, l.done)); err != nil {
			return err
		}
	}
	return nil
}

// once looks, after it gathered. l.mu is held, but not meanwhile; no other look
// is under way.
func (l *Lookout) once(ctx context.Context) error {
	ended := make(chan struct{})
	l.running = ended
	if l.working > 0 {
		nobody := make(chan struct{})
		l.nobody = nobody
		l.mu.Unlock()
		enough := time.NewTimer(gather)
		select {
		case <-nobody:
		case <-enough.C:
		case <-ctx.Done():
		}
		enough.Stop()
		l.mu.Lock()
		l.nobody = nil
	}
	l.begun++
	number, began := l.begun, l.now()
	l.mu.Unlock()
	now, err := l.look(ctx)
	l.mu.Lock()
	l.running = nil
	close(ended)
	if err != nil {
		return err
	}
	if len(l.watches) > 0 {
		if diff := l.seen.Diff(now); len(diff) > 0 {
			for w := range l.watches {
				w.note(diff)
			}
		}
	}
	l.done, l.at, l.seen = number, began, now
	return nil
}
