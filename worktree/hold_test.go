package worktree

import (
	"context"
	"errors"
	"os"
	"testing"
)

// TestHold: one job at a time works on a repository, none while somebody is about
// to adopt, and a job's adoption waits for those who are.
func TestHold(t *testing.T) {
	r := &Repository{commonDir: t.TempDir()}
	if _, err := HoldJobs(r.commonDir); err == nil || errors.Is(err, ErrHeld) {
		t.Errorf("what is no repository was held: %v", err)
	}
	if err := os.Mkdir(r.commonDir+"/objects", 0o700); err != nil {
		t.Fatal(err)
	}
	job, err := HoldJobs(r.commonDir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := HoldJobs(r.commonDir); !errors.Is(err, ErrHeld) {
		t.Errorf("two jobs: %v", err)
	}
	one, err := r.HoldTree(t.Context(), false, nil)
	if err != nil {
		t.Fatal("somebody who adopts waits for a job that only works", err)
	}
	two, err := r.HoldTree(t.Context(), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	job()
	if _, err := HoldJobs(r.commonDir); !errors.Is(err, ErrHeld) {
		t.Errorf("a job beside those who adopt: %v", err)
	}
	one()
	waited, cancel := context.WithCancel(t.Context())
	if _, err := r.HoldTree(waited, true, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("a job's adoption did not wait: %v", err)
	}
	alone, err := r.HoldTree(t.Context(), true, two)
	if err != nil {
		t.Fatal(err)
	}
	waited, cancel = context.WithCancel(t.Context())
	if _, err := r.HoldTree(waited, false, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("adopting beside a job's adoption: %v", err)
	}
	alone()
	if job, err = HoldJobs(r.commonDir); err != nil {
		t.Fatal(err)
	}
	job()
}
