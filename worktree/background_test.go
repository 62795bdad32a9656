package worktree

import (
	"slices"
	"sync"
	"testing"
)

// TestWaitForWhatBegan: a sweep that waits beside runs that go on removing,
// as `batch run` has it, is no race, and what began before it has ended.
func TestWaitForWhatBegan(t *testing.T) {
	var b background
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for range 200 {
				ended := false
				b.Go(func() { ended = true })
				b.Wait()
				if !ended {
					t.Error("not waited for")
				}
			}
		})
	}
	others.Wait()

	hold := make(chan struct{})
	var order []string
	b.Go(func() { <-hold; order = append(order, "work") })
	waited := make(chan struct{})
	go func() { b.Wait(); order = append(order, "waiter"); close(waited) }()
	close(hold)
	<-waited
	if !slices.Equal(order, []string{"work", "waiter"}) {
		t.Errorf("order: %v", order)
	}
}
