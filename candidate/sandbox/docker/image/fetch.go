package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

// An Engine holds images. *client.Client is one.
type Engine interface {
	ImageInspect(ctx context.Context, ref string, o ...client.ImageInspectOption) (image.InspectResponse, error)
	ImagePull(ctx context.Context, ref string, o image.PullOptions) (io.ReadCloser, error)
	ImageBuild(ctx context.Context, tar io.Reader, o build.ImageBuildOptions) (build.ImageBuildResponse, error)
}

// A Fetcher gets images onto an engine.
type Fetcher struct {
	Engine Engine
	Step   func(text string)                                // told what happens, one line each; nil tells nobody
	Wait   func(ctx context.Context, d time.Duration) error // between tries; nil waits
}

// Label marks images that were built by us; its value is the content address.
const Label = "dev.bestof.built"

// tries are how often a registry that asks for patience is asked, and how long
// is waited before each further time.
var tries = []time.Duration{2 * time.Second, 8 * time.Second, 30 * time.Second}

// Errors of images, each with its remedy in its words.
var (
	ErrMissing = errors.New("the engine does not have it")
	ErrPull    = errors.New("it cannot be pulled")
	ErrBuild   = errors.New("the build failed")
)

// Pull returns the image of a reference, and asks a registry for it only when
// the engine does not have it. An id is never asked for.
func (f Fetcher) Pull(ctx context.Context, ref string) (Image, error) {
	full, err := ParseRef(ref)
	if err != nil {
		return Image{}, err
	}
	found, err := f.have(ctx, ref, full)
	if err == nil || !errors.Is(err, ErrMissing) {
		return found, err
	}
	if isID(full) {
		return Image{}, fmt.Errorf("image %s: %w: `docker images --no-trunc` lists what it has", ref, ErrMissing)
	}
	if err := f.pull(ctx, ref, full); err != nil {
		return Image{}, err
	}
	return f.have(ctx, ref, full)
}

func (f Fetcher) have(ctx context.Context, ref, full string) (Image, error) {
	got, err := f.Engine.ImageInspect(ctx, full)
	switch {
	case cerrdefs.IsNotFound(err):
		return Image{}, fmt.Errorf("image %s: %w", ref, ErrMissing)
	case err != nil:
		return Image{}, fmt.Errorf("image %s: ask the engine for it: %w", ref, err)
	case got.Os != "" && got.Os != "linux":
		return Image{}, fmt.Errorf("image %s is for %s: name one for linux", ref, got.Os)
	}
	i := Image{Ref: ref, ID: got.ID, Digest: digestOf(full, got.RepoDigests)}
	if got.Config != nil {
		i.User = got.Config.User
	}
	return i, nil
}

// digestOf is the digest under which the registry of a reference knows an
// image.
func digestOf(full string, digests []string) string {
	for _, d := range digests {
		repository, digest, ok := strings.Cut(d, "@")
		if !ok {
			continue
		}
		if n, err := ParseRef(repository); err == nil && strings.TrimSuffix(n, ":latest") == repositoryOf(full) {
			return digest
		}
	}
	return ""
}

// repositoryOf is a full reference without its tag and digest.
func repositoryOf(full string) string {
	full, _, _ = strings.Cut(full, "@")
	if i := strings.LastIndex(full, ":"); i > strings.LastIndex(full, "/") {
		return full[:i]
	}
	return full
}

func (f Fetcher) pull(ctx context.Context, ref, full string) error {
	for try := 0; ; try++ {
		f.step("pulling the image %s", ref)
		err := f.pullOnce(ctx, ref, full)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case try == len(tries) || !busy(err):
			return fmt.Errorf("image %s: %w: %w: check its name and the network, or get it with `docker pull` first (which knows your registry's password)", ref, ErrPull, err)
		}
		f.step("pulling the image %s: the registry asks for patience, trying again in %s", ref, tries[try])
		if err := f.wait(ctx, tries[try]); err != nil {
			return err
		}
	}
}

func (f Fetcher) pullOnce(ctx context.Context, ref, full string) error {
	r, err := f.Engine.ImagePull(ctx, full, image.PullOptions{})
	if err != nil {
		return err
	}
	defer r.Close()
	var l layers
	return follow(r, func(m line) {
		if text := l.told(m); text != "" {
			f.step("pulling the image %s: %s", ref, text)
		}
	})
}

// busy reports whether a registry asks to be asked later. Engines pass its
// error code on as text: TOOMANYREQUESTS of the distribution specification,
// in small letters, or the status of HTTP.
func busy(err error) bool {
	text := err.Error()
	return cerrdefs.IsResourceExhausted(err) || strings.Contains(text, "toomanyrequests") || strings.Contains(text, "429 Too Many Requests")
}

func (f Fetcher) wait(ctx context.Context, d time.Duration) error {
	if f.Wait != nil {
		return f.Wait(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Build returns the image of a Dockerfile below root, and builds it only when
// the engine has none of the same context and settings. The build has a
// network, and pulls what the Dockerfile says it is FROM; tmp is a directory
// for the packed context.
func (f Fetcher) Build(ctx context.Context, root *os.Root, b Build, tmp string) (Image, error) {
	c, err := ReadContext(ctx, root, b, tmp)
	if err != nil {
		return Image{}, err
	}
	defer c.Close()
	found, err := f.have(ctx, c.Tag, c.Tag)
	if err == nil || !errors.Is(err, ErrMissing) {
		return found, err
	}
	if _, err := c.file.Seek(0, io.SeekStart); err != nil {
		return Image{}, fmt.Errorf("send the build context: %w", err)
	}
	f.step("building the image of %s: %d files, %d kB of context", b.Dockerfile, c.Files, (c.Bytes+999)/1000)
	args := map[string]*string{}
	for k, v := range b.Args {
		args[k] = &v
	}
	r, err := f.Engine.ImageBuild(ctx, c.file, build.ImageBuildOptions{
		Version: build.BuilderV1, Tags: []string{c.Tag}, Dockerfile: b.Dockerfile, BuildArgs: args, Target: b.Target,
		Remove: true, ForceRemove: true, Labels: map[string]string{Label: c.Tag},
	})
	if err != nil {
		return Image{}, fmt.Errorf("%w: %w", ErrBuild, err)
	}
	defer r.Body.Close()
	var s steps
	if err := follow(r.Body, func(m line) {
		if text := s.told(m); text != "" {
			f.step("building the image: %s", text)
		}
	}); err != nil {
		if ctx.Err() != nil {
			return Image{}, context.Cause(ctx)
		}
		return Image{}, fmt.Errorf("%w: %s: %w", ErrBuild, strings.Join(s.tail, " | "), err)
	}
	return f.have(ctx, c.Tag, c.Tag)
}

func (f Fetcher) step(format string, args ...any) {
	if f.Step != nil {
		f.Step(fmt.Sprintf(format, args...))
	}
}
