package app

import (
	"os"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/mcp/serve"
)

// A token is shown as long as the process lives that waits for it, and what one
// left that was killed is removed.
func TestTokensOfALivingServer(t *testing.T) {
	home, now := t.TempDir(), time.Now()
	shown := func() (tokens string) {
		t.Helper()
		waiting, err := pendingAdoptions(home, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range waiting {
			tokens += p.Token + " "
		}
		return tokens
	}
	if got := shown(); got != "" {
		t.Errorf("nobody was asked, and there is %s", got)
	}
	server := newPendingFile(home)
	for _, token := range []string{"AAA", "BBB"} {
		old := serve.Pending{Token: "OLD", Until: now}
		if err := server.keep([]serve.Pending{{Token: token, Until: now.Add(time.Minute)}, old}); err != nil {
			t.Fatal(err)
		}
		if got := shown(); got != token+" " {
			t.Errorf("shown: %q", got)
		}
	}
	if err := server.alive.Close(); err != nil { // as the end of a process does
		t.Fatal(err)
	}
	if got := shown(); got != "" {
		t.Errorf("of a dead process: %s", got)
	}
	if left, err := os.ReadDir(confirmDir(home)); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	other := newPendingFile(home)
	if err := other.keep(nil); err != nil {
		t.Fatal(err)
	}
	other.remove()
	if left, err := os.ReadDir(confirmDir(home)); err != nil || len(left) != 0 {
		t.Errorf("left after an end in order: %v, %v", left, err)
	}
}

// A token is shown also where nothing can be locked, and what has no lock beside
// it could be of a process that lives.
func TestTokensWithoutLocks(t *testing.T) {
	home, now := t.TempDir(), time.Now()
	asked := []serve.Pending{{Token: "AAA", Until: now.Add(time.Minute)}}
	server := newPendingFile(home)
	if err := os.MkdirAll(server.path+pendingLock, 0o700); err != nil { // which no lock is
		t.Fatal(err)
	}
	if err := server.keep(asked); err != nil {
		t.Error(err)
	}
	for range 2 {
		waiting, err := pendingAdoptions(home, now)
		if err != nil || len(waiting) != 1 || waiting[0].Token != "AAA" {
			t.Errorf("shown: %+v, %v", waiting, err)
		}
	}
	if left, err := os.ReadDir(confirmDir(home)); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}
