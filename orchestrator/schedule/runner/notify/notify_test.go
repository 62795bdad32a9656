package notify

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTell(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), fmt.Sprintf("@bestof-notify-test-%d", os.Getpid())} {
		manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer manager.Close()
		s, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Tell(Ready, Status("two\njobs")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, err := manager.Read(b)
		if got := string(b[:n]); err != nil || got != "READY=1\nSTATUS=two jobs" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNobodyToTell(t *testing.T) {
	s, err := Open("")
	if err != nil || s.Tell(Ready) != nil || s.Close() != nil {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"relative", "@", "/", "vsock:2:1", filepath.Join(t.TempDir(), "none")} {
		if _, err := Open(name); err == nil {
			t.Errorf("%q was opened", name)
		}
	}
}

func TestWatchdog(t *testing.T) {
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
	}{
		{"", "", 0}, {"30000000", "", 15 * time.Second}, {"30000000", "7", 15 * time.Second}, {"30000000", "8", 0},
		{"-1", "", 0}, {"x", "", 0}, {"99999999999999999999", "", 0}, {"9223372036854775807", "", 0},
	} {
		if got := Watchdog(c.usec, c.pid, 7); got != c.want {
			t.Errorf("Watchdog(%q, %q) is %s, want %s", c.usec, c.pid, got, c.want)
		}
	}
}

// Hazard: a manager that does not listen. Nobody waits for it.
func TestHazardManagerThatDoesNotListen(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	s, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 100_000 { // more than any queue of datagrams is long
		if err = s.Tell(Alive); err != nil {
			break
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
