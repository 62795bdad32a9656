package proc_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

const readsKey = "reads-a-key"

// init is a program that reads a key of its session.
func init() {
	if len(os.Args) != 3 || os.Args[1] != readsKey {
		return
	}
	id, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", os.Args[2], 0)
	fmt.Print(id > 0, err)
	os.Exit(0)
}

// TestKeysOfTheSession: a program has a session keyring of its own, so that it
// can read no key of the caller's and pass none on to another program.
func TestKeysOfTheSession(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the keyring is the thread's
		if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil {
			t.Logf("this kernel keeps no keys: %v", err)
			return
		}
		if _, err := unix.AddKey("user", "bestof-test-key", []byte("x"), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
			t.Error(err)
			return
		}
		done <- string(run(t, command(self, readsKey, "bestof-test-key")).Stdout.Head)
	}()
	if said, tried := <-done; tried && said != "false "+unix.ENOKEY.Error() {
		t.Errorf("the program found the key: %s", said)
	}
}
