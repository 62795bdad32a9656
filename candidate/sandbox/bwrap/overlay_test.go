package bwrap_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/candidate/sandbox"
)

// TestRootThatIsAMount: a shadow of root's is an overlay, and must be free to
// be unmounted as soon as Run returns, whatever was left running in it.
func TestRootThatIsAMount(t *testing.T) {
	if os.Geteuid() != 0 {
		return // whose shadows are copies
	}
	dir := t.TempDir()
	root, upper := filepath.Join(dir, "root"), filepath.Join(dir, "upper")
	for _, d := range []string{"lower", "upper", "work", "root", "home"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "lower/file"), []byte("base"), 0o644); err != nil {
		t.Fatal(err)
	}
	options := "lowerdir=" + filepath.Join(dir, "lower") + ",upperdir=" + upper + ",workdir=" + filepath.Join(dir, "work")
	if err := unix.Mount("overlay", root, "overlay", 0, options); err != nil {
		t.Fatal(err)
	}
	mounted := true
	t.Cleanup(func() {
		if mounted {
			_ = unix.Unmount(root, unix.MNT_DETACH)
		}
	})
	b, err := newSandbox(sandbox.Options{Environ: []string{"PATH=" + sandbox.DefaultPath}, Hidden: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := b.Run(t.Context(), sandbox.Spec{
		Argv: []string{"sh", "-c", "cat file; echo changed >file; echo new >new; setsid sleep 1000 </dev/null & ls .."},
		Root: root, Home: filepath.Join(dir, "home"), Network: sandbox.NetworkNone, Timeout: time.Minute,
	})
	if err != nil || string(res.Stdout.Head) != "basehome\nroot\n" {
		t.Errorf("%q, %v\n%s", res.Stdout.Head, err, res.Stderr.Head)
	}
	if err := unix.Unmount(root, 0); err != nil {
		t.Errorf("unmount after Run: %v", err)
	} else {
		mounted = false
	}
	changed, err1 := os.ReadFile(filepath.Join(upper, "file"))
	created, err2 := os.ReadFile(filepath.Join(upper, "new"))
	if string(changed) != "changed\n" || string(created) != "new\n" {
		t.Errorf("upper layer: %q, %q, %v", changed, created, errors.Join(err1, err2))
	}
}
