package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// The kinds of shadow, best first, and how to find out whether one works in a
// directory, which is empty and whose mounts and files are removed afterwards.
// Overlays come first: they cost neither what the base holds, nor, when they
// are read, what nobody changed; a snapshot's files have to be looked at.
var shadowKinds = []struct {
	kind ShadowKind
	try  func(dir string) error
}{
	{ShadowOverlay, tryOverlay},
	{ShadowUserns, tryUserns},
	{ShadowBtrfs, tryBtrfs},
	{ShadowEngine, func(dir string) error { return engineWorks(context.Background(), dir, nil) }},
	{ShadowReflink, tryReflink},
	{ShadowCopy, func(string) error { return nil }},
}

// A Capability says whether a kind of shadow works in a directory.
type Capability struct {
	Kind   ShadowKind
	Works  bool
	Reason string // why not
}

// Capabilities tries each kind of shadow in dir, best first. layers is as
// BaseSpec.TryLayers.
func Capabilities(ctx context.Context, dir string, layers func(ctx context.Context, e Entry, root, home string) error) []Capability {
	var out []Capability
	for _, k := range shadowKinds {
		c, try := Capability{Kind: k.kind, Works: true}, k.try
		if k.kind == ShadowEngine && layers != nil {
			try = func(dir string) error { return engineWorks(ctx, dir, layers) }
		}
		if err := tryKind(dir, try); err != nil {
			c.Works, c.Reason = false, err.Error()
			if k.kind == ShadowOverlay && os.Geteuid() != 0 {
				c.Reason = "only root may mount one: " + c.Reason
			}
		}
		out = append(out, c)
	}
	return out
}

func tryKind(dir string, try func(string) error) error {
	tmp, err := os.MkdirTemp(dir, "probe-")
	if err != nil {
		return err
	}
	err = try(tmp)
	if _, uerr := unmountBelow(tmp); uerr != nil {
		return errors.Join(err, uerr)
	}
	return errors.Join(err, removeAll(context.Background(), tmp))
}

// probes remembers what was found out about a store's directory.
type probes struct {
	mu    sync.Mutex
	known map[ShadowKind]error
}

// works reports why a kind of shadow does not work in the store.
func (s *Store) works(ctx context.Context, kind ShadowKind, try func(string) error) error {
	s.probes.mu.Lock()
	defer s.probes.mu.Unlock()
	if err, ok := s.probes.known[kind]; ok {
		return err
	}
	dir, err := s.newWork(mark{What: "work"})
	if err == nil {
		err = tryKind(dir, try)
		_ = s.discard(dir) // gc finds it otherwise
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // which says nothing about the kind
	}
	if s.probes.known == nil {
		s.probes.known = make(map[ShadowKind]error)
	}
	s.probes.known[kind] = err
	return err
}

// engineFrom is how many files a base has at least for which trying an engine
// costs less than a few copies.
const engineFrom = 1000

// kind chooses the kind of the shadows of a base. What costs more to try than
// a small base is worth is decided when there is one: until then it is
// ShadowAuto.
func (s *Store) kind(ctx context.Context, spec BaseSpec, b *Base) (ShadowKind, error) {
	want := spec.Shadow
	var names []string
	for _, k := range shadowKinds {
		names = append(names, string(k.kind))
		if want != k.kind && want != ShadowAuto {
			continue
		}
		try := k.try
		if k.kind == ShadowEngine {
			switch {
			case want == ShadowAuto && spec.TryLayers == nil:
				continue
			case want == ShadowAuto && b == nil:
				return ShadowAuto, nil
			case want == ShadowAuto && len(b.entries) < engineFrom && spec.Setup == nil:
				continue
			case spec.TryLayers == nil:
				return "", fmt.Errorf("%s shadows do not work in %s: %w", want, s.dir, errNoEngine)
			}
			try = func(dir string) error { return engineWorks(ctx, dir, spec.TryLayers) }
		}
		if k.kind == ShadowUserns && spec.TryEntry != nil {
			try = func(dir string) error {
				return usernsWorks(dir, spec.Offline, func(e Entry, root, home string) error { return spec.TryEntry(ctx, e, root, home) })
			}
		}
		err := s.works(ctx, k.kind, try)
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if err == nil {
			return k.kind, nil
		}
		if want != ShadowAuto {
			return "", fmt.Errorf("%s shadows do not work in %s: %w", want, s.dir, err)
		}
	}
	slices.Sort(names)
	return "", fmt.Errorf("%q is no kind of shadow: use one of %s", want, strings.Join(names, ", "))
}

// cloneFrom is the size from which sharing a file's blocks costs less than
// copying them.
const cloneFrom = 16 << 10

// tryReflink makes one file share the blocks of another.
func tryReflink(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "a"), make([]byte, cloneFrom), 0o600); err != nil {
		return err
	}
	in, err := os.Open(filepath.Join(dir, "a"))
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(filepath.Join(dir, "b"))
	if err != nil {
		return err
	}
	defer out.Close()
	if err := unix.IoctlFileClone(int(out.Fd()), int(in.Fd())); err != nil {
		return fmt.Errorf("share the blocks of a file: %w", err)
	}
	return nil
}
