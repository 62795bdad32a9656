package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHazardMovesWhileItIsRead puts something else in the place of a file
// between the walker's look at it and its reading: that is found, whatever it
// is, and nothing waits for it.
func TestHazardMovesWhileItIsRead(t *testing.T) {
	const content = "0123456789"
	inPlace := func(text string) func(t *testing.T, at string) {
		return func(t *testing.T, at string) {
			var before, now unix.Stat_t
			if err := unix.Lstat(at, &before); err != nil {
				t.Fatal(err)
			}
			for now.Ctim = before.Ctim; now.Ctim == before.Ctim; { // its clock is coarse
				if err := errors.Join(os.WriteFile(at, []byte(text), 0o644), os.Chtimes(at, time.Time{}, time.Unix(before.Mtim.Unix())), unix.Lstat(at, &now)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	instead := func(make func(at string) error) func(t *testing.T, at string) {
		return func(t *testing.T, at string) {
			if err := errors.Join(os.Rename(at, at+"-old"), make(at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, move := range map[string]func(t *testing.T, at string){
		"same size and time": inPlace("9876543210"),
		"grown":              inPlace(content + "1"),
		"shrunk":             inPlace("0"),
		"mode": func(t *testing.T, at string) {
			instead(func(at string) error { return os.WriteFile(at, []byte(content), 0o755) })(t, at)
		},
		"another file": instead(func(at string) error { return os.WriteFile(at, []byte(content), 0o644) }),
		"gone":         instead(func(string) error { return nil }),
		"a link":       instead(func(at string) error { return os.Symlink("f-old", at) }),
		"a directory":  instead(func(at string) error { return os.Mkdir(at, 0o755) }),
		"a socket":     instead(func(at string) error { return unix.Mknod(at, unix.S_IFSOCK|0o644, 0) }),
		"a pipe that somebody holds open": func(t *testing.T, at string) {
			instead(func(at string) error { return unix.Mkfifo(at, 0o644) })(t, at)
			held, err := os.OpenFile(at, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { held.Close() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			at := filepath.Join(dir, "f")
			if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			d, err := os.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			var seen unix.Stat_t
			if err := unix.Lstat(at, &seen); err != nil {
				t.Fatal(err)
			}
			if got, err := readAt(int(d.Fd()), "f", &seen); err != nil || string(got) != content {
				t.Fatalf("%q, %v", got, err)
			}
			move(t, at)
			if got, err := readAt(int(d.Fd()), "f", &seen); !errors.Is(err, errChanged) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	link := filepath.Join(t.TempDir(), "f")
	var seen unix.Stat_t
	if err := errors.Join(os.Symlink("there", link), unix.Lstat(link, &seen), os.Remove(link), os.Symlink("elsewhere", link)); err != nil {
		t.Fatal(err)
	}
	if got, err := readAt(unix.AT_FDCWD, link, &seen); !errors.Is(err, errChanged) {
		t.Errorf("a link: %q, %v", got, err)
	}
}
