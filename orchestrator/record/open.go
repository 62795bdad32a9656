package record

import (
	"encoding/json"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Open opens one regular file of a run for reading. Whatever else is at the
// name is an error, and none that waits for somebody.
func (s *Store) Open(id, name string) (*os.File, error) {
	if s.root == nil {
		return nil, os.ErrNotExist
	}
	f, err := s.root.OpenFile(path.Join(id, name), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Working is the process of a run that has not said that it ended, whether or
// not it is alive.
func (s *Store) Working(id string) (owner Owner, ok bool) {
	b, err := s.ReadFile(id, runningFile, 4096)
	return owner, err == nil && json.Unmarshal(b, &owner) == nil
}
