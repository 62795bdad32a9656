package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ErrForeign means that others than this user decide what the jobs are.
var ErrForeign = errors.New("others can write what the jobs are")

// Guard refuses the jobs below a home that others than this user, or root, own or
// anybody may write: whoever writes there chooses what is run as this user. What is
// not there yet is no fault. The group may: volumes of Kubernetes give it the right.
func Guard(home string) error {
	for _, path := range []string{home, Folder(home), File(home)} {
		info, err := os.Lstat(path)
		if err == nil && path != File(home) {
			info, err = os.Stat(path) // a directory may lie elsewhere: who made the link owns what is above it
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if path == File(home) && !info.Mode().IsRegular() {
			return fmt.Errorf("%s: %w: it is no plain file", path, ErrForeign)
		}
		owner := -1
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			owner = int(s.Uid)
		}
		if why := foreign(info.Mode(), owner, os.Geteuid()); why != "" {
			return fmt.Errorf("%s: %w: %s", path, ErrForeign, why)
		}
	}
	return nil
}

// foreign says why what has this mode and owner is not a user's alone, and what to
// do; "" if it is. In a directory with the sticky bit nobody replaces what is another's.
func foreign(mode fs.FileMode, owner, user int) string {
	switch {
	case owner != user && owner != 0:
		return fmt.Sprintf("it is of the user %d: use the BESTOF_HOME of this user, or chown it", owner)
	case mode&0o002 != 0 && mode&fs.ModeSticky == 0:
		return "everybody may write it: chmod o-w it, after a look at `bestof job show` of each job"
	}
	return ""
}
