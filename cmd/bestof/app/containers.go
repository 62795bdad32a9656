package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// inContainers reports whether one of the runs had containers.
func inContainers(docs []record.Document) bool {
	for _, d := range docs {
		if d.Settings.Isolation.Name == "docker" {
			return true
		}
	}
	return false
}

// sweepLayers has the engine remove what its overlays left. Without an engine it
// stays.
func (a *app) sweepLayers(ctx context.Context, dirs []string) error {
	err := docker.Sweep(ctx, a.Environ, dirs)
	var absent *sandbox.Unavailable
	if errors.As(err, &absent) {
		return nil
	}
	return err
}

// reapContainers removes the containers whose orchestrator is dead, of any
// repository. They have ended by themselves when it died, so an engine that
// does not answer leaves clutter and nothing that works.
func (a *app) reapContainers(ctx context.Context, dryRun bool) ([]string, error) {
	gone, err := docker.Reap(ctx, a.Environ, dryRun)
	ids := []string{}
	for _, c := range gone {
		ids = append(ids, fmt.Sprintf("%.12s", c.ID))
	}
	return ids, err
}
