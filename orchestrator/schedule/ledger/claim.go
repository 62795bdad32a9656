package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bestof-dev/bestof/internal/ownedlock"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

// A Mode is who runs the jobs of a home.
type Mode string

// The modes.
const (
	Daemon Mode = "daemon"
	Tick   Mode = "tick"
)

// A Claim is the right to run the jobs of a home. It ends with the process,
// however that ends.
type Claim struct{ lock *ownedlock.Lock }

func claimFile(home string) string { return filepath.Join(Folder(home), "runner.lock") }

// TakeClaim gets it for this process. Of several that try one gets it, and the
// error of the others is ErrBusy and names that one.
func TakeClaim(home string, mode Mode) (*Claim, error) {
	if err := Guard(home); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(Folder(home), 0o700); err != nil {
		return nil, fmt.Errorf("claim the jobs: %w", err)
	}
	l, owner, err := ownedlock.Take(claimFile(home), string(mode))
	switch {
	case errors.Is(err, ownedlock.ErrHeld):
		return nil, fmt.Errorf("%s: %w: %s of process %d", Folder(home), ErrBusy, modeOf(owner.As), owner.PID)
	case err != nil:
		return nil, fmt.Errorf("claim the jobs: %w", err)
	}
	return &Claim{l}, nil
}

// modeOf reads a mode from the lock's file.
func modeOf(as string) Mode {
	if m := Mode(as); m == Daemon || m == Tick {
		return m
	}
	return "runner"
}

// Release gives it back.
func (c *Claim) Release() error { return c.lock.Release() }

// Claimed is who runs the jobs of a home now, ok whether somebody does.
func Claimed(home string) (mode Mode, owner schedule.Process, ok bool) {
	o, ok := ownedlock.Held(claimFile(home))
	return modeOf(o.As), schedule.Process(o.Identity), ok
}
