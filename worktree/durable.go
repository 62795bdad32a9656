package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/internal/proc"
)

// durableFile is made in a base when all of the base is on the disk. A base
// is thousands of files, and to wait for the disk would cost more than to
// write them: until it is there, the base is as good as the memory that holds
// it, which is to say as long as the machine runs.
const durableFile = "durable"

var bootID = sync.OnceValues(func() (string, error) {
	id, err := proc.Self()
	return id.BootID, err
})

// survived reports whether a finished base is on the disk. It is an error
// when it is not and may have lost something in a power failure since.
func survived(dir string, m mark) (durable bool, err error) {
	_, err = os.Lstat(filepath.Join(dir, durableFile))
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	boot, err := bootID()
	if err == nil && m.Boot != boot {
		err = fmt.Errorf("%s may not have reached the disk before the machine stopped", dir)
	}
	return false, err
}

// makeDurable brings a base to the disk in the background. When that fails,
// or this process ends before, the next one to use the base tries.
func (s *Store) makeDurable(dir string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	s.background.Go(func() {
		defer root.Close()
		_ = noteDurable(root)
	})
}

// noteDurable goes by the directory that it was given, also when another took
// its name meanwhile.
func noteDurable(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return err
	}
	f, err := root.OpenFile(durableFile, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), d.Sync())
}
