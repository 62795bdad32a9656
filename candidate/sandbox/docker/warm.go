package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/docker/docker/api/types"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/inside"
)

// A begun container waits for what it is to run.
type begun struct {
	id     string
	volume string // of an overlay; "" for none
	conn   types.HijackedResponse
}

// begin makes and starts a container. It returns nil without an error when ctx
// ended.
func (s *Sandbox) begin(ctx context.Context, p plan, one string) (*begun, error) {
	select {
	case s.starts <- struct{}{}:
	case <-ctx.Done():
		return nil, nil
	}
	defer func() { <-s.starts }()
	if ctx.Err() != nil {
		return nil, nil
	}
	c := &begun{volume: p.volume}
	var err error
	if c.id, err = s.create(ctx, p, one); err != nil {
		return nil, errors.Join(err, s.dropVolume(ctx, p.volume))
	}
	if c.conn, err = s.start(ctx, c.id); err == nil {
		return c, nil
	}
	if ctx.Err() != nil {
		err = nil
	}
	return nil, errors.Join(err, s.drop(ctx, c))
}

// drop removes a container, whatever became of ctx, and its overlay's volume
// when no other container has it.
func (s *Sandbox) drop(ctx context.Context, c *begun) error {
	if err := remove(ctx, s.client, c.id); err != nil {
		return fmt.Errorf("remove its container: %s", oneLine(err))
	}
	return s.dropVolume(ctx, c.volume)
}

// A warmth is a container that was begun before anybody asked for it.
type warmth struct {
	plan  plan
	ready chan struct{} // closed when the rest is set
	begun *begun
	err   error
}

// warm are the containers that wait, by the path of their root.
type warm struct {
	mu      sync.Mutex
	waiting map[string]*warmth
}

// Warm begins the container of a run to come, so that Run with a Spec of the
// same paths, network and labels finds it started. What the program is, its
// environment and its input may still change; when anything else does, Run
// begins another. It does nothing while memory is short. The returned function
// removes the container if it was not used, and waits until it is gone.
func (s *Sandbox) Warm(ctx context.Context, spec sandbox.Spec) (drop func()) {
	none, one := func() {}, rand.Text()
	if spec.Check() != nil || spec.Enter.Host != "" || len(spec.Enter.Argv) > 0 || s.short() {
		return none
	}
	spec, _, err := inside.Wrap(spec, true)
	if err != nil || sandbox.PrepareHome(spec.Home) != nil {
		return none // Run says why
	}
	p, _, err := s.settle(spec, one)
	if err != nil {
		return none
	}
	w := &warmth{plan: p, ready: make(chan struct{})}
	s.warm.mu.Lock()
	if s.warm.waiting == nil {
		s.warm.waiting = map[string]*warmth{}
	}
	if _, ok := s.warm.waiting[spec.Root]; ok {
		s.warm.mu.Unlock()
		return none
	}
	s.warm.waiting[spec.Root] = w
	s.warm.mu.Unlock()
	go func() {
		defer close(w.ready)
		w.begun, w.err = s.begin(ctx, p, one)
	}()
	return func() {
		if s.take(spec.Root) == w {
			s.cool(ctx, w)
		}
	}
}

// take removes a container from those that wait.
func (s *Sandbox) take(root string) *warmth {
	s.warm.mu.Lock()
	defer s.warm.mu.Unlock()
	w := s.warm.waiting[root]
	delete(s.warm.waiting, root)
	return w
}

// cool removes a container that was not used.
func (s *Sandbox) cool(ctx context.Context, w *warmth) {
	<-w.ready
	if w.begun != nil {
		w.begun.conn.Close()
		_ = s.drop(ctx, w.begun) // Reap finds it otherwise
	}
}

// warmed is the container that waits for a run of this plan, or nil.
func (s *Sandbox) warmed(ctx context.Context, root string, p plan) *begun {
	w := s.take(root)
	if w == nil {
		return nil
	}
	if !same(w.plan, p) {
		s.cool(ctx, w)
		return nil
	}
	<-w.ready
	return w.begun
}

// same reports whether two plans differ in nothing but the label of their run.
func same(a, b plan) bool {
	x, y := *a.config, *b.config
	x.Labels, y.Labels = maps.Clone(x.Labels), maps.Clone(y.Labels)
	delete(x.Labels, labelOne)
	delete(y.Labels, labelOne)
	return reflect.DeepEqual(x, y) && reflect.DeepEqual(a.host, b.host)
}

// short reports whether this machine has too little memory free for a
// container that does not work yet: less than its limit, or than a gigabyte
// where that is more than enough.
func (s *Sandbox) short() bool {
	b, err := os.ReadFile(s.meminfo)
	return err == nil && available(string(b)) < min(s.limits.MemoryBytes, 1<<30)
}

// available reads MemAvailable of /proc/meminfo, in bytes; 0 when it is not
// there.
func available(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemAvailable:" {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			return n << 10
		}
	}
	return 0
}
