package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/choose"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker/image"
	"github.com/bestof-dev/bestof/orchestrator"
)

// A booth is a sandbox to try a plugin in, with a directory of its own.
type booth struct {
	sandbox sandbox.Sandbox
	options sandbox.Options
	dir     string
	n       int
	close   func()
}

// boothOptions are the flags about it.
type boothOptions struct{ kind, image string }

func (o *boothOptions) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.kind, "sandbox", o.kind, "how it is kept in: auto | process | bwrap | docker")
	c.Flags().StringVar(&o.image, "image", "", "with --sandbox docker: the image of its containers, a `REF`, pulled when it is missing, or an id")
	_ = c.RegisterFlagCompletionFunc("sandbox", cobra.FixedCompletions([]string{"auto", "process", "bwrap", "docker"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("image", cobra.NoFileCompletions)
}

func (a *app) booth(ctx context.Context, in boothOptions, dir string) (*booth, error) {
	b := &booth{options: sandbox.Options{Environ: a.Environ}, dir: dir, close: func() {}}
	home, homeErr := a.home()
	if homeErr == nil {
		b.options.Hidden = []string{home}
	}
	switch {
	case in.kind == "docker" && homeErr != nil:
		return nil, homeErr
	case in.kind == "docker":
		return b, a.contain(ctx, b, in.image, containerFiles(home))
	case in.image != "":
		return nil, usagef("--image is about containers: add --sandbox docker")
	}
	sb, note, err := choose.Choose(ctx, in.kind, b.options)
	var u *sandbox.Unavailable
	switch {
	case errors.As(err, &u):
		return nil, statusError{orchestrator.ExitInfrastructure, fmt.Errorf("%w. %s", err, u.Remedy)}
	case err != nil:
		return nil, usageError{err}
	case note != "":
		a.warn("%s", note)
	}
	b.sandbox = sb
	return b, nil
}

// contain gives the booth containers of an image. files is where the engine
// finds what they are shown of bestof's own.
func (a *app) contain(ctx context.Context, b *booth, ref, files string) error {
	if ref == "" {
		return usagef("--sandbox docker: name an image with --image that has what the plugin needs")
	}
	if _, err := image.ParseRef(ref); err != nil {
		return usagef("--image: %w", err)
	}
	engine, err := docker.Open(ctx, b.options, docker.Options{Image: ref, Dir: files})
	if err != nil {
		return sandboxError(err)
	}
	b.close = func() { _ = engine.Close() }
	got, err := engine.Fetcher(func(text string) {
		if !a.quiet {
			a.warn("%s", text)
		}
	}).Pull(ctx, ref)
	var sb *docker.Sandbox
	if err == nil {
		sb, err = engine.Sandbox(ctx, got, docker.Outfit{})
	}
	if err != nil {
		b.close()
		return statusError{exitOf(ctx, orchestrator.ExitInfrastructure), err}
	}
	b.sandbox, b.options.Base = sb, sb.Base()
	return nil
}
