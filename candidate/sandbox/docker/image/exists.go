package image

import (
	"context"
	"errors"
	"fmt"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/registry"
)

// A Registrar asks the registry of an image for it, without getting it.
type Registrar interface {
	DistributionInspect(ctx context.Context, ref, auth string) (registry.DistributionInspect, error)
}

// Exists reports whether Pull would have an image: the engine has it, or its
// registry, which is asked only when r is not nil. Without it what the engine
// does not have is taken to exist, unless it is an id. An error is that nobody
// could say.
func (f Fetcher) Exists(ctx context.Context, ref string, r Registrar) (bool, error) {
	full, err := ParseRef(ref)
	if err != nil {
		return false, err
	}
	switch _, err := f.have(ctx, ref, full); {
	case err == nil:
		return true, nil
	case !errors.Is(err, ErrMissing):
		return false, err
	case isID(full) || r == nil:
		return !isID(full), nil
	}
	_, err = r.DistributionInspect(ctx, full, "")
	switch {
	case err == nil:
		return true, nil
	case cerrdefs.IsNotFound(err), cerrdefs.IsUnauthorized(err), cerrdefs.IsPermissionDenied(err):
		return false, nil // registries refuse rather than say that there is none
	}
	return false, fmt.Errorf("the engine does not have it, and its registry does not answer: %w", err)
}
