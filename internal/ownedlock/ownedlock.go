// Package ownedlock is a lock among processes that says who holds it. The
// kernel's lock ends with the process however it ends.
package ownedlock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/internal/proc"
)

// ErrHeld means that another process, or another Lock, holds it.
var ErrHeld = errors.New("it is held")

// An Owner is who holds a lock, and as what.
type Owner struct {
	proc.Identity
	As string `json:"as,omitempty"`
}

// maxOwner is how much of a lock's file is read, in bytes.
const maxOwner = 4096

// A Lock is held until Release.
type Lock struct{ file *os.File }

// Take gets the lock of the file at path, which is made if it is missing. When
// somebody else has it, the error is ErrHeld and owner says who.
func Take(path, as string) (l *Lock, owner Owner, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, owner, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		owner, _ := read(f) // it may be about to write who it is
		return nil, owner, errors.Join(ErrHeld, f.Close())
	}
	if err != nil {
		return nil, owner, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	owner.As = as
	if owner.Identity, err = proc.Self(); err == nil {
		err = write(f, owner)
	}
	if err != nil {
		return nil, Owner{}, errors.Join(err, f.Close())
	}
	return &Lock{f}, owner, nil
}

func write(f *os.File, o Owner) error {
	b, err := json.Marshal(o)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	return err
}

func read(f *os.File) (o Owner, err error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxOwner))
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	return o, err
}

// Release gives the lock back.
func (l *Lock) Release() error { return errors.Join(l.file.Truncate(0), l.file.Close()) }

// File is what holds the lock: a child that inherits it goes on holding it when
// this process is gone.
func (l *Lock) File() *os.File { return l.file }

// Held is who holds the lock of the file at path now, ok whether somebody does.
func Held(path string) (owner Owner, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return owner, false
	}
	defer f.Close()
	owner, err = read(f)
	return owner, err == nil && owner.Alive()
}
