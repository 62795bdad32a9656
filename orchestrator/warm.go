package orchestrator

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/candidate/agent"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/egress"
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

// An ahead is a candidate's shadow, its way to the hosts that it reaches, and a
// container for its agent.
type ahead struct {
	ready  chan struct{} // closed when the rest is set
	shadow *worktree.Shadow
	out    outlet
	drop   func()
}

// forgo ends what was not used. What was is its candidate's to end.
func (a *ahead) forgo() error {
	a.drop()
	return a.out.close()
}

// note keeps what is made for seat i. The caller holds the lock.
func (a *aheads) note(i int, one *ahead) {
	if a.made == nil {
		a.made = map[int]*ahead{}
	}
	a.made[i] = one
}

// warms reports whether anything is made ahead in this run.
func (t *turn) warms() bool {
	_, can := t.Sandbox.(warmer)
	return t.Settings.Warm && can
}

// firstAhead makes what the candidates need that begin as soon as the run's
// plugins said what they say before it: one, where a task of a batch has the
// place of one.
func (t *turn) firstAhead(ctx context.Context) {
	first := t.Settings.Jobs
	if t.Admit != nil {
		first = 1
	}
	for i, s := range t.Seats {
		if first > 0 && t.kept(s.Number) == nil {
			t.goAhead(ctx, i)
			first--
		}
	}
}

// goAhead makes what candidate i needs before it is its turn, once.
func (t *turn) goAhead(ctx context.Context, i int) {
	if !t.warms() || i >= len(t.Seats) || t.kept(t.Seats[i].Number) != nil {
		return
	}
	a := &ahead{ready: make(chan struct{}), drop: func() {}}
	t.aheads.mu.Lock()
	defer t.aheads.mu.Unlock()
	if _, there := t.aheads.made[i]; there {
		return
	}
	t.aheads.note(i, a)
	go func() {
		defer close(a.ready)
		seat := t.Seats[i]
		sh, err := t.work.NewShadow(ctx, t.base, seat.Number.ID())
		if err != nil {
			return // its own attempt says why
		}
		a.shadow = sh
		unit, err := t.unit(seat, sh, outlet{}, &egress.Ledger{})
		if err != nil {
			return
		}
		a.out, unit.Timeout = unit.Out, time.Second
		a.drop = t.box(seat.Number, phaseAgent).(labelled).Warm(ctx, unit.spec(agent.Invocation{Argv: []string{"-"}}))
	}()
}

// taken is what was made ahead for seat i, which then is its own, or nil.
func (t *turn) taken(i int) *ahead {
	t.aheads.mu.Lock()
	a := t.aheads.made[i]
	t.aheads.note(i, nil) // nothing is made for it any more
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
			t.endAhead(a)
		}
	}
}

func (t *turn) endAhead(a *ahead) {
	if err := a.forgo(); err != nil {
		t.notice("what was begun for a candidate did not end well: %v", err)
	}
}

// newShadow makes the candidate's shadow, or takes the one that was made ahead,
// with the rest that was. The returned function ends what was begun with it and
// not used.
func (l *life) newShadow(ctx context.Context, name string) (*worktree.Shadow, func(), error) {
	a := l.taken(l.index)
	if a == nil || a.shadow == nil {
		sh, err := l.work.NewShadow(ctx, l.base, name)
		return sh, func() {}, err
	}
	if l.out = a.out; a.out.ledger != nil {
		l.network = a.out.ledger
	}
	return a.shadow, func() { l.endAhead(a) }, nil
}
