package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/spf13/pflag"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/choose"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker/image"
	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/store"
)

// imageOptions are the flags about containers and limits; see addFlags.
type imageOptions struct {
	ref          string
	dockerfile   string
	devcontainer bool
	cpus         float64
	memory       string
	pids         int64
	warm         bool

	flags []string // those that were given on the command line
}

func (o *imageOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.ref, "image", "", "the image of the containers of --sandbox docker: a `REF`, pulled when it is missing, or an id")
	f.StringVar(&o.dockerfile, "dockerfile", "", "build the image from the Dockerfile at `PATH` and its directory, once for each content")
	f.BoolVar(&o.devcontainer, "devcontainer", false, "use the image of the repository's devcontainer.json, without trusting the repository otherwise")
	f.Float64Var(&o.cpus, "cpus", 0, "how many processors' time each program gets; only docker keeps it (default no limit)")
	f.StringVar(&o.memory, "memory", "", "how much memory each program and its children get, for example 2GB; only docker keeps it")
	f.Int64Var(&o.pids, "pids", 0, "how many processes and threads each program may have; only docker keeps it (default 4096)")
	f.BoolVar(&o.warm, "warm", false, "start the containers of waiting candidates while others work")
}

// fill takes from the configuration what no flag said. A flag about the image
// stands for all that is configured about it.
func (o *imageOptions) fill(f sandboxSettings, given func(string) bool) {
	for _, name := range []string{"image", "dockerfile", "devcontainer"} {
		if given(name) {
			o.flags = append(o.flags, "--"+name)
		}
	}
	if len(o.flags) == 0 {
		fillIn(&o.ref, f.Image, false)
		fillIn(&o.dockerfile, f.Dockerfile, false)
	}
	fillIn(&o.cpus, f.CPUs, given("cpus"))
	fillIn(&o.memory, f.Memory, given("memory"))
	fillIn(&o.pids, f.PIDs, given("pids"))
	fillIn(&o.warm, f.Warm, given("warm"))
}

// check refuses what cannot be meant.
func (o imageOptions) check(sandbox string) error {
	switch {
	case len(o.flags) > 1:
		return usagef("%s and %s are two answers to one question: leave one out", o.flags[0], o.flags[1])
	case len(o.flags) > 0 && sandbox != "docker":
		return usagef("%s is about containers: add --sandbox docker", o.flags[0])
	case o.ref != "" && o.dockerfile != "":
		return usagef("[sandbox] has both an image and a dockerfile: leave one out")
	case !(o.cpus >= 0 && o.cpus <= 4096):
		return usagef("--cpus: write a number from 0.01, or 0 for no limit")
	case o.pids < 0:
		return usagef("--pids: write a number from 32, or 0 for what the sandbox has by itself")
	}
	if o.memory != "" {
		if _, err := parseSize(o.memory); err != nil {
			return usagef("--memory: %w", err)
		}
	}
	return nil
}

// limits are what was asked, for the record; nil for nothing.
func (o imageOptions) limits() *record.Limits {
	l := record.Limits{CPUs: o.cpus, PIDs: o.pids}
	if o.memory != "" {
		l.MemoryBytes, _ = parseSize(o.memory) // check has tried it
	}
	if l == (record.Limits{}) {
		return nil
	}
	return &l
}

// imagesOf is with which a finished run was started.
func imagesOf(s record.Settings) imageOptions {
	o := imageOptions{warm: s.Warm}
	if s.Image != nil {
		o.ref = s.Image.Ref
	}
	if l := s.Limits; l != nil {
		o.cpus, o.pids = l.CPUs, l.PIDs
		if l.MemoryBytes > 0 {
			o.memory = fmt.Sprintf("%dB", l.MemoryBytes)
		}
	}
	return o
}

// A box is the sandbox of a run, as far as it is known before the run begins.
type box struct {
	sandbox   sandbox.Sandbox // nil when prepare makes it
	isolation sandbox.Isolation
	image     *record.Image
	prepare   func(context.Context, func(string)) (orchestrator.Prepared, error)
	outfits   outfits
}

// outfits are the sandboxes of a run's plugins, of which some have an image of
// their own. They are known once the run is prepared.
type outfits struct {
	mu      sync.Mutex
	options sandbox.Options
	own     map[string]outfit
}

// An outfit is a sandbox with its options.
type outfit struct {
	sandbox sandbox.Sandbox
	options sandbox.Options
}

// of is where a plugin runs: in sb, unless it has an image of its own.
func (f *outfits) of(plugin string, sb sandbox.Sandbox) (sandbox.Sandbox, sandbox.Options) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if own, ok := f.own[plugin]; ok {
		if l, ok := sb.(interface {
			In(sandbox.Sandbox) sandbox.Sandbox
		}); ok {
			return l.In(own.sandbox), own.options
		}
		return own.sandbox, own.options
	}
	return sb, f.options
}

// box chooses the sandbox of a run. What a devcontainer.json says about the
// setup goes into o.
func (a *app) box(ctx context.Context, s *site, o *runOptions, file fileConfig, options sandbox.Options, plugins []store.Installed) (*box, error) {
	if err := o.image.check(o.sandbox); err != nil {
		return nil, err
	}
	if o.sandbox == "docker" {
		return a.dockerBox(ctx, s, o, file, options, plugins)
	}
	sb, note, err := choose.Choose(ctx, o.sandbox, options)
	if err != nil {
		return nil, sandboxError(err)
	}
	if note != "" {
		a.warn("%s", note)
	}
	b := &box{sandbox: sb, isolation: sb.Isolation(), outfits: outfits{options: options}}
	if o.image.limits() != nil {
		b.isolation.Missing = append(slices.Clone(b.isolation.Missing), "--cpus, --memory and --pids are not kept: --sandbox docker keeps them")
	}
	return b, nil
}

// sandboxError gives the exit status to the error of a sandbox that was asked
// for by name: an engine that is not there, or hangs, is infrastructure.
func sandboxError(err error) error {
	var u *sandbox.Unavailable
	if errors.As(err, &u) && u.Sandbox == "docker" {
		return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("%w. %s", err, u.Remedy)}
	}
	return usageError{err}
}

// containerFiles is where the engine finds what containers are shown of
// bestof's own.
func containerFiles(home string) string { return filepath.Join(home, "containers") }

// A wanted image is one with what is said about its programs.
type wanted struct {
	source image.Source
	root   string // of which a build reads its context
	outfit docker.Outfit
	name   string
}

func (a *app) dockerBox(ctx context.Context, s *site, o *runOptions, file fileConfig, options sandbox.Options, plugins []store.Installed) (*box, error) {
	want, err := a.wantedImage(s, o)
	if err != nil {
		return nil, err
	}
	d := docker.Options{Image: want.name, Dir: containerFiles(s.home)}
	if l := o.image.limits(); l != nil {
		d.Limits = docker.Limits{CPUs: l.CPUs, MemoryBytes: l.MemoryBytes, PIDs: l.PIDs}
	}
	engine, err := docker.Open(ctx, options, d)
	if err != nil {
		return nil, sandboxError(err)
	}
	b := &box{isolation: engine.Isolation(), image: &record.Image{Ref: want.name}, outfits: outfits{options: options, own: map[string]outfit{}}}
	own, err := pluginImages(file.Plugin, plugins)
	if err != nil {
		return nil, err
	}
	b.prepare = func(ctx context.Context, step func(string)) (orchestrator.Prepared, error) {
		p, err := b.fetch(ctx, engine, want, own, d.Dir, step)
		if err != nil {
			_ = engine.Close()
		}
		return p, err
	}
	return b, nil
}

// fetch gets all images onto the engine and makes the sandboxes.
func (b *box) fetch(ctx context.Context, engine *docker.Engine, want wanted, own map[string]string, tmp string, step func(string)) (orchestrator.Prepared, error) {
	var none orchestrator.Prepared
	f := engine.Fetcher(step)
	got, err := want.get(ctx, f, tmp)
	if err != nil {
		return none, err
	}
	sb, err := engine.Sandbox(ctx, got, want.outfit)
	if err != nil {
		return none, err
	}
	p := orchestrator.Prepared{Sandbox: sb, Image: recorded(got), Plugins: map[string]record.Image{}, Close: func() { _ = engine.Close() }}
	b.outfits.mu.Lock()
	defer b.outfits.mu.Unlock()
	b.outfits.options.Base = sb.Base()
	for _, name := range slices.Sorted(maps.Keys(own)) {
		got, err := f.Pull(ctx, own[name])
		if err != nil {
			return none, fmt.Errorf("the plugin %s: %w", name, err)
		}
		sb, err := engine.Sandbox(ctx, got, docker.Outfit{})
		if err != nil {
			return none, fmt.Errorf("the plugin %s: %w", name, err)
		}
		options := b.outfits.options
		options.Base = sb.Base()
		b.outfits.own[name], p.Plugins[name] = outfit{sb, options}, recorded(got)
	}
	return p, nil
}

func recorded(i image.Image) record.Image {
	return record.Image{Ref: i.Ref, Digest: i.Digest, ID: i.ID}
}

// get pulls or builds the image.
func (w wanted) get(ctx context.Context, f image.Fetcher, tmp string) (image.Image, error) {
	if w.source.Build == nil {
		return f.Pull(ctx, w.source.Ref)
	}
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return image.Image{}, err
	}
	root, err := os.OpenRoot(w.root)
	if err != nil {
		return image.Image{}, fmt.Errorf("read the build context: %w", err)
	}
	defer root.Close()
	return f.Build(ctx, root, *w.source.Build, tmp)
}

// pluginImages are those of plugins that take part.
func pluginImages(configured map[string]onePlugin, plugins []store.Installed) (map[string]string, error) {
	own := map[string]string{}
	for _, p := range plugins {
		ref := configured[string(p.Name)].Image
		if ref == "" {
			continue
		}
		if _, err := image.ParseRef(ref); err != nil {
			return nil, usagef("[plugin.%s] image: %w", p.Name, err)
		}
		own[string(p.Name)] = ref
	}
	return own, nil
}

// wantedImage is what was asked for: by a flag, by the configuration, or by the
// repository when it is trusted.
func (a *app) wantedImage(s *site, o *runOptions) (wanted, error) {
	i := o.image
	switch {
	case i.ref != "":
		if _, err := image.ParseRef(i.ref); err != nil {
			return wanted{}, usagef("--image: %w", err)
		}
		return wanted{source: image.Source{Ref: i.ref}, name: i.ref}, nil
	case i.dockerfile != "":
		file, err := filepath.Abs(i.dockerfile)
		if err != nil {
			return wanted{}, err
		}
		if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
			return wanted{}, usagef("--dockerfile: %s is not a regular file", i.dockerfile)
		}
		dir, name := filepath.Split(file)
		return wanted{source: image.Source{Build: &image.Build{Dir: ".", Dockerfile: name}}, root: dir, name: "the image of " + name}, nil
	}
	trust := trusted(a.getenv("BESTOF_TRUST_PROJECT"))
	name, data, err := readDevcontainer(s.repo.Root())
	switch {
	case errors.Is(err, fs.ErrNotExist) && i.devcontainer:
		return wanted{}, usagef("--devcontainer: the repository has no %s", image.DevcontainerFiles[0])
	case errors.Is(err, fs.ErrNotExist):
		return wanted{}, usageError{image.ErrNone}
	case err != nil:
		return wanted{}, usageError{err}
	case !trust && !i.devcontainer:
		return wanted{}, usagef("%w (this repository has a %s, which counts only with --devcontainer, since it is not trusted)", image.ErrNone, name)
	}
	return a.fromDevcontainer(s, o, name, data)
}

func (a *app) fromDevcontainer(s *site, o *runOptions, name string, data []byte) (wanted, error) {
	d, err := image.ParseDevcontainer(name, data)
	if err != nil {
		return wanted{}, usageError{err}
	}
	if n := d.Notice(); n != "" {
		a.warn("%s: %s", name, n)
	}
	if len(d.Setup) > 0 && o.setup == "" {
		o.setup = argv.Join(d.Setup)
	}
	w := wanted{source: d.Source, root: s.repo.Root(), name: d.Source.Ref, outfit: docker.Outfit{User: d.User}}
	if w.name == "" {
		w.name = "the image of " + d.Source.Build.Dockerfile
	}
	for _, k := range slices.Sorted(maps.Keys(d.Env)) {
		w.outfit.Env = append(w.outfit.Env, k+"="+d.Env[k])
	}
	return w, nil
}

// readDevcontainer reads the first devcontainer.json that a work tree has.
func readDevcontainer(top string) (name string, data []byte, err error) {
	root, err := os.OpenRoot(top)
	if err != nil {
		return "", nil, err
	}
	defer root.Close()
	for _, name := range image.DevcontainerFiles {
		info, err := root.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("it is not a regular file")
		}
		var f *os.File
		if err == nil {
			f, err = root.Open(name)
		}
		if err != nil {
			return "", nil, fmt.Errorf("read %s: %w", name, err)
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, image.MaxDevcontainer+1))
		return name, data, err
	}
	return "", nil, fs.ErrNotExist
}
