package ledger

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Whoever may write what the jobs are chooses what is run: that is this user, or
// root.
func TestForeign(t *testing.T) {
	for _, c := range []struct {
		mode        fs.FileMode
		owner, user int
		refused     bool
	}{
		{fs.ModeDir | 0o700, 1000, 1000, false},
		{fs.ModeDir | 0o2770, 1000, 1000, false}, // a volume of Kubernetes
		{0o644, 1000, 1000, false},
		{0o600, 0, 1000, false},
		{fs.ModeDir | fs.ModeSticky | 0o777, 0, 1000, false}, // as /tmp
		{0o600, 1000, 0, true},
		{0o600, 1000, 1001, true},
		{0o600, -1, 1001, true},
		{fs.ModeDir | 0o777, 1000, 1000, true},
		{0o646, 0, 0, true},
	} {
		if why := foreign(c.mode, c.owner, c.user); (why != "") != c.refused {
			t.Errorf("%v of %d for %d: %q", c.mode, c.owner, c.user, why)
		}
	}
}

// Jobs that somebody else planted are refused by all that would read or run them,
// and stay as they are.
func TestPlanted(t *testing.T) {
	for name, plant := range map[string]func(home string) error{
		"a directory for everybody": func(home string) error { return os.Chmod(Folder(home), 0o777) },
		"a file for everybody":      func(home string) error { return os.Chmod(File(home), 0o666) },
		"a home for everybody":      func(home string) error { return os.Chmod(home, 0o777) },
		"a link": func(home string) error {
			return errors.Join(os.Rename(File(home), home+"/there"), os.Symlink(home+"/there", File(home)))
		},
		"a link to nothing": func(home string) error {
			return errors.Join(os.Remove(File(home)), os.Symlink(home+"/there", File(home)))
		},
		"a directory that lies elsewhere, for everybody": func(home string) error {
			return errors.Join(os.Rename(Folder(home), home+"/there"), os.Symlink(home+"/there", Folder(home)), os.Chmod(home+"/there", 0o777))
		},
		"a pipe": func(home string) error {
			return errors.Join(os.Remove(File(home)), unix.Mkfifo(File(home), 0o600))
		},
	} {
		home := t.TempDir()
		l, err := Open(home)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.Close(), plant(home)); err != nil {
			t.Fatal(err)
		}
		_, opened := Open(home)
		_, viewed := View(home)
		_, claimed := TakeClaim(home, Daemon)
		for _, err := range []error{opened, viewed, claimed} {
			if !errors.Is(err, ErrForeign) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
