package orchestrator

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/worktree"
)

// A bench is where a candidate's calls of the host's tools are served while its
// agent works: hooks look at shadows of the base, and package tools work in the
// candidate's own shadow. When the agent ended nothing of it is left, so that
// what is sealed is what the candidate left.
type bench struct {
	*life
	shadow *worktree.Shadow
	over   context.Context // ends with the agent
	end    context.CancelFunc

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // adding needs mu and not closed
	booths map[int]*booth // by hook
	homes  int

	counterMu sync.Mutex
	counter   *counter // nil until a one-file tool is asked for
}

// A booth is one hook's own shadow for one candidate and round. What it leaves
// there only it sees again.
type booth struct {
	sync.Mutex
	shadow *worktree.Shadow
}

// offersTools reports whether candidates can call tools of the host's, so that
// what they call is known.
func (t *turn) offersTools() bool { return t.Tooling != nil || t.offered.gateway != nil }

// atBench opens the candidate's bench for one round, and returns how to close
// it.
func (l *life) atBench(ctx context.Context, shadow *worktree.Shadow) (leave func()) {
	l.tools = nil
	if !l.offersTools() {
		return func() {}
	}
	b := &bench{life: l, shadow: shadow, booths: map[int]*booth{}}
	b.over, b.end = context.WithCancel(ctx)
	n := int(l.seat.Number)
	l.benchMu.Lock()
	if l.benches == nil {
		l.benches = map[int]*bench{}
	}
	l.benches[n] = b
	l.benchMu.Unlock()
	return func() {
		l.benchMu.Lock()
		delete(l.benches, n)
		l.benchMu.Unlock()
		b.close(ctx)
	}
}

func (b *bench) close(ctx context.Context) {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.end()
	b.calls.Wait()
	b.counter.close()
	for _, o := range b.booths {
		if o.shadow != nil {
			b.discard(ctx, o.shadow)
		}
	}
}

// serving is the bench of a candidate whose agent works now, entered: done has to
// be called. It is nil when nothing can be asked for that candidate.
func (t *turn) serving(candidate int) (b *bench, done func()) {
	t.benchMu.Lock()
	b = t.benches[candidate]
	t.benchMu.Unlock()
	if b == nil {
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil
	}
	b.calls.Add(1)
	return b, b.calls.Done
}

// during is ctx, and ends with the agent too.
func (b *bench) during(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(b.over, cancel)
	return ctx, func() { stop(); cancel() }
}

// booth is hook i's, locked; its shadow is made when it is first asked.
func (b *bench) booth(ctx context.Context, i int) (*booth, error) {
	b.mu.Lock()
	o := b.booths[i]
	if o == nil {
		o = &booth{}
		b.booths[i] = o
	}
	b.mu.Unlock()
	o.Lock()
	if o.shadow != nil {
		return o, nil
	}
	var err error
	if o.shadow, err = b.work.NewShadow(ctx, b.base, fmt.Sprintf("%s-tools-%d-%d-%d", b.seat.Number.ID(), b.trial, b.round, i)); err != nil {
		o.Unlock()
		return nil, fmt.Errorf("make a shadow for a hook: %w", err)
	}
	return o, nil
}

// home is a fresh one for a tool that works in the candidate's shadow.
func (b *bench) home() (dir string, remove func(), err error) {
	b.mu.Lock()
	b.homes++
	name := fmt.Sprintf("%s-home-%d-%d-%d", b.seat.Number.ID(), b.trial, b.round, b.homes)
	b.mu.Unlock()
	dir = filepath.Join(b.work.Dir(), name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("make a home for a tool: %w", err)
	}
	return dir, func() {
		if err := os.RemoveAll(dir); err != nil {
			b.notice("a tool's home was not removed (`bestof gc` finishes it): %v", err)
		}
	}, nil
}

// place is where a program of the bench runs: a shadow, and what is to be reaped
// of it while it does. ended has to be called when it did.
func (b *bench) place(shadow *worktree.Shadow) (at call.Place, ended func()) {
	var mu sync.Mutex
	var mine []sandbox.Process
	at = b.turn.place(shadow, int(b.seat.Number), func(p sandbox.Process) {
		mu.Lock()
		mine = append(mine, p)
		mu.Unlock()
		b.startedProcess(p)
	})
	return at, func() {
		b.record(b.index, func(c *record.Candidate) {
			c.Processes = slices.DeleteFunc(slices.Clone(c.Processes), func(p sandbox.Process) bool { return slices.Contains(mine, p) })
		})
	}
}
