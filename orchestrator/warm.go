package orchestrator

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/worktree"
)

// A warmer is a sandbox that can begin what a run to come needs. See
// docker.Sandbox.Warm.
type warmer interface {
	Warm(ctx context.Context, s sandbox.Spec) (drop func())
}

// Warm passes on to a sandbox that can.
func (l labelled) Warm(ctx context.Context, s sandbox.Spec) func() {
	w, ok := l.Sandbox.(warmer)
	if !ok {
		return func() {}
	}
	labels := maps.Clone(l.labels)
	maps.Copy(labels, s.Labels)
	s.Labels = labels
	return w.Warm(ctx, s)
}

// aheads are what was made for candidates that wait for their turn, by index of
// their seat.
type aheads struct {
	mu   sync.Mutex
	made map[int]*ahead
}

// An ahead is a candidate's shadow, and a container for its agent.
type ahead struct {
	ready  chan struct{} // closed when the rest is set
	shadow *worktree.Shadow
	drop   func()
}

// goAhead makes, while candidate i works, what the one needs that follows it in
// its slot. A candidate with tools gets its container when it works.
func (t *turn) goAhead(ctx context.Context, i int) {
	next := i + t.Settings.Jobs
	if _, can := t.Sandbox.(warmer); !t.Settings.Warm || !can || next >= len(t.Seats) || t.offersTools() {
		return
	}
	a := &ahead{ready: make(chan struct{}), drop: func() {}}
	t.aheads.mu.Lock()
	defer t.aheads.mu.Unlock()
	if t.aheads.made == nil {
		t.aheads.made = map[int]*ahead{}
	}
	t.aheads.made[next] = a
	go func() {
		defer close(a.ready)
		seat := t.Seats[next]
		sh, err := t.work.NewShadow(ctx, t.base, seat.Number.ID())
		if err != nil {
			return // its own attempt says why
		}
		a.shadow = sh
		if len(seat.Reach) > 0 {
			return // its sockets, which a container has to be made with, are opened when it works
		}
		a.drop = t.box(seat.Number, phaseAgent).(labelled).Warm(ctx, sandbox.Spec{
			Argv: []string{"-"}, Root: sh.Root(), Home: sh.Home(), Enter: sandbox.Entry(sh.Enter()), Seen: t.seen(),
			Binds: []sandbox.Bind{{Source: t.Self, Target: t.Self}}, Network: agentNetwork(t.Settings.Network), Timeout: time.Second,
		})
	}()
}

// taken is what was made ahead for seat i, which then is its own, or nil.
func (t *turn) taken(i int) *ahead {
	t.aheads.mu.Lock()
	a := t.aheads.made[i]
	delete(t.aheads.made, i)
	t.aheads.mu.Unlock()
	if a != nil {
		<-a.ready
	}
	return a
}

// forgo removes what was made for candidates that never came to work.
func (t *turn) forgo() {
	for i := range t.Seats {
		if a := t.taken(i); a != nil {
			a.drop()
		}
	}
}

// newShadow makes the candidate's shadow, or takes the one that was made ahead.
// The returned function ends what was begun with it and not used.
func (l *life) newShadow(ctx context.Context, name string) (*worktree.Shadow, func(), error) {
	if a := l.taken(l.index); a != nil && a.shadow != nil {
		return a.shadow, a.drop, nil
	}
	sh, err := l.work.NewShadow(ctx, l.base, name)
	return sh, func() {}, err
}
