package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/internal/proc"
)

// ErrBusy means that another process runs the batch.
var ErrBusy = errors.New("another process runs this batch")

// lockFile holds the identity of the process that runs the batch, and the
// kernel's lock on it, which ends with the process however it ends.
const lockFile = "batch.lock"

type lock struct{ file *os.File }

// take gets the batch in dir for this process.
func take(dir string) (*lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the batch: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		owner, _ := identity(f)
		return nil, errors.Join(fmt.Errorf("%s: %w: process %d", dir, ErrBusy, owner.PID), f.Close())
	}
	var self proc.Identity
	if err == nil {
		self, err = proc.Self()
	}
	if err == nil {
		err = write(f, self)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the batch: %w", err), f.Close())
	}
	return &lock{f}, nil
}

func write(f *os.File, id proc.Identity) error {
	b, err := json.Marshal(id)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	return err
}

func identity(f *os.File) (proc.Identity, error) {
	var id proc.Identity
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 4096))
	if err == nil {
		err = json.Unmarshal(b, &id)
	}
	return id, err
}

func (l *lock) release() error { return errors.Join(l.file.Truncate(0), l.file.Close()) }

// Owner is the process that runs the batch in dir now, ok whether there is one.
func Owner(dir string) (owner proc.Identity, ok bool) {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return owner, false
	}
	defer f.Close()
	owner, err = identity(f)
	return owner, err == nil && owner.Alive()
}
