package docker

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/docker/docker/api/types/build"
	images "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/client"
)

// errHung is the cause of a context that a watch ended.
var errHung = errors.New("the engine does not answer any more")

// A watch finds out that an engine hangs, while somebody waits for something of
// which it may truly take hours to hear: the end of a program, of a pull, of a
// build. One goroutine asks for all who work with the same connection, and none
// when nobody does.
type watch struct {
	ask   func(context.Context) error
	every time.Duration // between an answer and the next question
	wait  time.Duration // for one answer
	most  int           // questions in a row without an answer

	mu      sync.Mutex
	working map[*work]struct{}
	rest    context.CancelFunc // of the goroutine; nil when there is none
}

// A work is one who waits.
type work struct{ end context.CancelCauseFunc }

// newWatch gives up an engine that has said nothing for 30 to 35 seconds. One
// that takes its time, but less than askWait for an answer, is never given up.
func newWatch(c *client.Client) *watch {
	return &watch{wait: askWait, every: 5 * time.Second, most: 3, ask: func(ctx context.Context) error {
		_, err := c.Ping(ctx)
		return err
	}}
}

// during is a context that ends with its parent, or with the cause errHung when
// the engine does not answer any more. Who works with the engine calls done
// when that is over.
func (w *watch) during(parent context.Context) (ctx context.Context, done func()) {
	ctx, end := context.WithCancelCause(parent)
	one := &work{end}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.working == nil {
		w.working = map[*work]struct{}{}
	}
	w.working[one] = struct{}{}
	if w.rest == nil {
		var asking context.Context
		asking, w.rest = context.WithCancel(context.WithoutCancel(parent))
		go w.look(asking)
	}
	return ctx, func() {
		end(nil)
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.working, one)
		if len(w.working) == 0 && w.rest != nil {
			w.rest()
			w.rest = nil
		}
	}
}

// look asks until ctx ends.
func (w *watch) look(ctx context.Context) {
	next := time.NewTimer(w.every)
	defer next.Stop()
	for missed := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		limited, cancel := context.WithTimeout(ctx, w.wait)
		err := w.ask(limited)
		late := limited.Err() != nil
		cancel()
		switch {
		case err == nil || answered(err):
			missed = 0
		default:
			missed++
		}
		if missed == w.most {
			w.giveUp(ctx)
			missed = 0
		}
		if late {
			next.Reset(0) // that much time has passed already
		} else {
			next.Reset(w.every)
		}
	}
}

// giveUp ends all work, but for whom nobody asks any more: work that began since
// has a goroutine of its own.
func (w *watch) giveUp(asking context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if asking.Err() != nil {
		return
	}
	for one := range w.working {
		one.end(errHung)
	}
}

// hung is errHung when a watch ended ctx, and err otherwise.
func hung(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errHung) {
		return errHung
	}
	return err
}

// A watched engine gets images as its client does, and is given up when it does
// not answer while it pulls or builds.
type watched struct {
	*client.Client
	watch *watch
}

func (e watched) ImageInspect(ctx context.Context, ref string, o ...client.ImageInspectOption) (images.InspectResponse, error) {
	ctx, done := e.watch.during(ctx)
	defer done()
	found, err := e.Client.ImageInspect(ctx, ref, o...)
	return found, hung(ctx, err)
}

func (e watched) ImagePull(ctx context.Context, ref string, o images.PullOptions) (io.ReadCloser, error) {
	ctx, done := e.watch.during(ctx)
	r, err := e.Client.ImagePull(ctx, ref, o)
	if err != nil {
		defer done()
		return nil, hung(ctx, err)
	}
	return watchedBody{r, ctx, done}, nil
}

func (e watched) ImageBuild(ctx context.Context, tar io.Reader, o build.ImageBuildOptions) (build.ImageBuildResponse, error) {
	ctx, done := e.watch.during(ctx)
	r, err := e.Client.ImageBuild(ctx, tar, o)
	if err != nil {
		defer done()
		return r, hung(ctx, err)
	}
	r.Body = watchedBody{r.Body, ctx, done}
	return r, nil
}

func (e watched) DistributionInspect(ctx context.Context, ref, auth string) (registry.DistributionInspect, error) {
	ctx, done := e.watch.during(ctx)
	defer done()
	found, err := e.Client.DistributionInspect(ctx, ref, auth)
	return found, hung(ctx, err)
}

// A watchedBody is what an engine says about one pull or build.
type watchedBody struct {
	io.ReadCloser
	ctx  context.Context
	done func()
}

func (b watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, hung(b.ctx, err)
}

func (b watchedBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
