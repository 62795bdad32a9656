package docker

import (
	"context"
	"fmt"
	"slices"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	images "github.com/bestof-dev/bestof/candidate/sandbox/docker/image"
)

// An Engine is one that was found and asked what it is, for sandboxes whose
// images it may not have yet. Close ends the connection, which the sandboxes
// that it made share.
type Engine struct {
	sandbox Sandbox // without an image
	options sandbox.Options
	docker  Options
}

// Open is the first half of New: it finds the operator's engine. It looks for
// no image; Options.Image is only what is shown as its name.
func Open(ctx context.Context, o sandbox.Options, d Options) (*Engine, error) {
	if err := d.Limits.check(); err != nil {
		return nil, fmt.Errorf("docker: %w", err)
	}
	c, f, err := ask(ctx, o.Environ)
	if err != nil {
		return nil, err
	}
	return &Engine{sandbox: Sandbox{client: c, facts: f, named: d.Image, watch: newWatch(c)}, options: o, docker: d}, nil
}

// Facts are what the engine said about itself.
func (e *Engine) Facts() Facts { return e.sandbox.facts }

// Isolation is what the sandboxes of the engine keep.
func (e *Engine) Isolation() sandbox.Isolation { return e.sandbox.Isolation() }

// Fetcher gets images onto the engine.
func (e *Engine) Fetcher(step func(text string)) images.Fetcher {
	return images.Fetcher{Engine: watched{e.sandbox.client, e.sandbox.watch}, Step: step}
}

// Exists reports whether an image is on the engine or, with ask, in a registry.
func (e *Engine) Exists(ctx context.Context, ref string, ask bool) (bool, error) {
	if !ask {
		return e.Fetcher(nil).Exists(ctx, ref, nil)
	}
	return e.Fetcher(nil).Exists(ctx, ref, watched{e.sandbox.client, e.sandbox.watch})
}

// An Outfit is what programs find besides what their image has.
type Outfit struct {
	Env  []string // NAME=VALUE, on top of the image's own
	User string   // what programs are called; "" for the operator's name. Their uid is the caller's
}

// Sandbox is the second half of New: a sandbox of an image that the engine now
// has. Several may be made, of several images.
func (e *Engine) Sandbox(ctx context.Context, i images.Image, with Outfit) (*Sandbox, error) {
	d, o := e.docker, e.options
	d.Image = i.ID
	if with.User != "" {
		o.Environ = append(slices.Clone(o.Environ), "USER="+with.User)
	}
	s, err := newSandbox(ctx, e.sandbox.client, e.sandbox.facts, o, d)
	if err != nil {
		return nil, err
	}
	s.named, s.watch = i.Ref, e.sandbox.watch
	s.options.Base = slices.Concat(s.options.Base, with.Env)
	return s, nil
}

// Close ends the connection to the engine.
func (e *Engine) Close() error { return e.sandbox.client.Close() }
