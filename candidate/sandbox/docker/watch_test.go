package docker

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
)

// Watchful finds out sooner that an engine hangs, for tests.
func Watchful(s *Sandbox) *Sandbox {
	s.watch.every, s.watch.wait, s.watch.most = 10*time.Millisecond, 500*time.Millisecond, 2
	return s
}

// standard is a watch with the times of every engine.
func standard(ask func(context.Context) error) *watch {
	w := newWatch(nil)
	w.ask = ask
	return w
}

// TestWatch: how long an engine may be silent, and what is no silence.
func TestWatch(t *testing.T) {
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	after := func(d time.Duration, err error) func(context.Context) error {
		return func(ctx context.Context) error {
			select {
			case <-time.After(d):
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	refused := errors.New("connect: connection refused")
	inTurn := func(asks ...func(context.Context) error) func(context.Context) error {
		n := -1
		return func(ctx context.Context) error { n++; return asks[n%len(asks)](ctx) }
	}
	for name, c := range map[string]struct {
		ask   func(context.Context) error
		after time.Duration // 0 for never
	}{
		"answers":                 {after(0, nil), 0},
		"takes its time":          {after(9900*time.Millisecond, nil), 0},
		"has trouble of its own":  {after(time.Second, errdefs.ErrInternal), 0},
		"misses two of three":     {inTurn(silent, silent, after(9*time.Second, nil)), 0},
		"hangs":                   {silent, 35 * time.Second},
		"is gone":                 {after(0, refused), 15 * time.Second},
		"answers, and then hangs": {inTurn(after(time.Second, nil), silent, silent, silent, silent), 41 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, done := standard(c.ask).during(t.Context())
				defer done()
				select {
				case <-ctx.Done():
				case <-time.After(time.Hour):
				}
				took := time.Since(began)
				if c.after == 0 && ctx.Err() != nil || c.after != 0 && (took != c.after || hung(ctx, ctx.Err()) != errHung) {
					t.Errorf("ended after %v (%v), want %v", took, context.Cause(ctx), c.after)
				}
			})
		})
	}
}

// TestWatchIsShared: all who work are asked for at once and end at once, and
// nobody is asked for when nobody works.
func TestWatchIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var hangs atomic.Bool
		w := standard(func(ctx context.Context) error {
			asked.Add(1)
			if hangs.Load() {
				<-ctx.Done()
			}
			return ctx.Err()
		})
		var all []context.Context
		for range 100 {
			ctx, done := w.during(t.Context())
			defer done()
			all = append(all, ctx)
		}
		stopped, stop := context.WithCancel(t.Context())
		own, done := w.during(stopped)
		stop()
		if <-own.Done(); hung(own, own.Err()) == errHung {
			t.Error("who is stopped is taken for one whose engine hangs")
		}
		done()
		time.Sleep(61 * time.Second) // of the bubble
		if n := asked.Load(); n != 12 {
			t.Errorf("asked %d times in a minute", n)
		}
		hangs.Store(true)
		for _, ctx := range all {
			<-ctx.Done()
		}
		hangs.Store(false)
		// Who begins again is not held to what was.
		again, end := w.during(t.Context())
		time.Sleep(time.Minute)
		if again.Err() != nil {
			t.Error(context.Cause(again))
		}
		end()
	})
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		w := standard(func(context.Context) error { asked++; return nil })
		for range 3 {
			_, done := w.during(t.Context())
			done()
			done()
			time.Sleep(time.Hour)
		}
		if asked != 0 {
			t.Errorf("asked %d times for nobody", asked)
		}
	})
}

// TestWhoBeginsAfterAHang is not ended by the goroutine that asked before and has
// not noticed yet that nobody waits for it.
func TestWhoBeginsAfterAHang(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			w := standard(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			ctx, done := w.during(t.Context())
			<-ctx.Done()
			done()
			again, done := w.during(t.Context())
			defer done()
			synctest.Wait()
			if again.Err() != nil {
				t.Fatal(context.Cause(again))
			}
		})
	}
}

// endless is what an engine says that says nothing.
type endless struct{ ctx context.Context }

func (e endless) Read([]byte) (int, error) { <-e.ctx.Done(); return 0, e.ctx.Err() }
func (e endless) Close() error             { return nil }

// TestWatchedBody: an engine that hangs while it pulls is named for it.
func TestWatchedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := standard(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		ctx, done := w.during(t.Context())
		b := watchedBody{endless{ctx}, ctx, done}
		if _, err := io.ReadAll(b); err != errHung {
			t.Error(err)
		}
		if err := b.Close(); err != nil || len(w.working) != 0 {
			t.Error(err)
		}
		ctx, done = w.during(t.Context())
		b = watchedBody{io.NopCloser(strings.NewReader("all")), ctx, done}
		if said, err := io.ReadAll(b); err != nil || string(said) != "all" {
			t.Errorf("%q, %v", said, err)
		}
		b.Close()
	})
}
