package batch

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bestof-dev/bestof/internal/ownedlock"
	"github.com/bestof-dev/bestof/internal/proc"
)

// ErrBusy means that another process runs the batch.
var ErrBusy = errors.New("another process runs this batch")

// lockFile holds the identity of the process that runs the batch.
const lockFile = "batch.lock"

// take gets the batch in dir for this process.
func take(dir string) (*ownedlock.Lock, error) {
	l, owner, err := ownedlock.Take(filepath.Join(dir, lockFile), "")
	switch {
	case errors.Is(err, ownedlock.ErrHeld):
		return nil, fmt.Errorf("%s: %w: process %d", dir, ErrBusy, owner.PID)
	case err != nil:
		return nil, fmt.Errorf("lock the batch: %w", err)
	}
	return l, nil
}

// Owner is the process that runs the batch in dir now, ok whether there is one.
func Owner(dir string) (proc.Identity, bool) {
	owner, ok := ownedlock.Held(filepath.Join(dir, lockFile))
	return owner.Identity, ok
}
