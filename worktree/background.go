package worktree

import "sync"

// background is work that goes on beside its callers. Unlike a sync.WaitGroup,
// it may be waited for while more begins.
type background struct {
	mu   sync.Mutex
	open map[chan struct{}]struct{} // closed at the end of each
}

// Go begins f.
func (b *background) Go(f func()) {
	done := make(chan struct{})
	b.mu.Lock()
	if b.open == nil {
		b.open = map[chan struct{}]struct{}{}
	}
	b.open[done] = struct{}{}
	b.mu.Unlock()
	go func() {
		defer func() {
			b.mu.Lock()
			delete(b.open, done)
			b.mu.Unlock()
			close(done)
		}()
		f()
	}()
}

// Wait returns when all that had begun before it has ended.
func (b *background) Wait() {
	b.mu.Lock()
	var all []chan struct{}
	for done := range b.open {
		all = append(all, done)
	}
	b.mu.Unlock()
	for _, done := range all {
		<-done
	}
}
