package image

import (
	"context"
	"errors"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
)

// registrar answers with one error, nil for an image that is there.
type registrar struct {
	err   error
	asked []string
}

func (r *registrar) DistributionInspect(_ context.Context, ref, auth string) (registry.DistributionInspect, error) {
	r.asked = append(r.asked, ref+auth)
	return registry.DistributionInspect{}, r.err
}

func TestExists(t *testing.T) {
	here := map[string]image.InspectResponse{"docker.io/library/here:latest": {ID: someID, Os: "linux"}, "docker.io/library/other:latest": {ID: someID, Os: "windows"}}
	down := errors.New("no route to host")
	for name, c := range map[string]struct {
		ref   string
		r     *registrar
		there bool
		fault bool
		asks  int
	}{
		"on the engine":          {ref: "here", r: &registrar{err: down}, there: true},
		"in the registry":        {ref: "far", r: &registrar{}, there: true, asks: 1},
		"nowhere":                {ref: "far", r: &registrar{err: cerrdefs.ErrNotFound}, asks: 1},
		"a registry that hides":  {ref: "far", r: &registrar{err: cerrdefs.ErrUnauthenticated}, asks: 1},
		"nobody answers":         {ref: "far", r: &registrar{err: down}, fault: true, asks: 1},
		"nobody is asked":        {ref: "far", there: true},
		"an id is nowhere else":  {ref: someID, r: &registrar{}},
		"an id, nobody is asked": {ref: someID},
		"of another system":      {ref: "other", r: &registrar{}, fault: true},
		"no reference":           {ref: "A b", r: &registrar{}, fault: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := Fetcher{Engine: &engine{images: here}}
			var r Registrar
			if c.r != nil {
				r = c.r
			}
			there, err := f.Exists(t.Context(), c.ref, r)
			if there != c.there || (err != nil) != c.fault {
				t.Errorf("%v, %v", there, err)
			}
			if c.r != nil && len(c.r.asked) != c.asks {
				t.Errorf("the registry was asked for %q", c.r.asked)
			}
		})
	}
}
