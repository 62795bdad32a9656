package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	ocispec "github.com/moby/docker-image-spec/specs-go/v1"
)

const someID = "sha256:0123456789012345678901234567890123456789012345678901234567890123"

// An engine is a fake that answers pulls with what it is told to say, and has
// an image once one was said to the end without an error.
type engine struct {
	images map[string]image.InspectResponse
	pulls  []string // one answer each
	asked  []string
	builds []build.ImageBuildOptions
	built  string // what a build says
}

func (e *engine) ImageInspect(_ context.Context, ref string, _ ...client.ImageInspectOption) (image.InspectResponse, error) {
	if i, ok := e.images[ref]; ok {
		return i, nil
	}
	return image.InspectResponse{}, fmt.Errorf("no such image: %s: %w", ref, cerrdefs.ErrNotFound)
}

func (e *engine) ImagePull(_ context.Context, ref string, o image.PullOptions) (io.ReadCloser, error) {
	if o.All || o.RegistryAuth != "" {
		return nil, errors.New("the pull asks for more than one image, or with a password")
	}
	e.asked = append(e.asked, ref)
	if len(e.pulls) == 0 {
		return nil, errors.New("a pull that nobody expected")
	}
	said := e.pulls[0]
	e.pulls = e.pulls[1:]
	if !strings.Contains(said, "error") {
		e.images[ref] = image.InspectResponse{ID: someID, Os: "linux", RepoDigests: []string{"other@sha256:aa", strings.TrimSuffix(repositoryOf(ref), ":") + "@sha256:bb"}}
	}
	return io.NopCloser(strings.NewReader(said)), nil
}

func (e *engine) ImageBuild(_ context.Context, tar io.Reader, o build.ImageBuildOptions) (build.ImageBuildResponse, error) {
	if _, err := io.Copy(io.Discard, tar); err != nil {
		return build.ImageBuildResponse{}, err
	}
	e.builds = append(e.builds, o)
	if !strings.Contains(e.built, "error") {
		e.images[o.Tags[0]] = image.InspectResponse{ID: someID, Os: "linux", Config: &ocispec.DockerOCIImageConfig{}}
	}
	return build.ImageBuildResponse{Body: io.NopCloser(strings.NewReader(e.built))}, nil
}

type told struct {
	steps []string
	waits []time.Duration
}

func (l *told) fetcher(e *engine) Fetcher {
	return Fetcher{
		Engine: e, Step: func(s string) { l.steps = append(l.steps, s) },
		Wait: func(_ context.Context, d time.Duration) error { l.waits = append(l.waits, d); return nil },
	}
}

func TestPullOnlyWhatIsMissing(t *testing.T) {
	var l told
	e := &engine{images: map[string]image.InspectResponse{}, pulls: []string{
		`{"status":"Pulling from library/python","id":"3.12"}{"status":"Pulling fs layer","id":"a"}{"status":"Pulling fs layer","id":"b"}` +
			`{"status":"Downloading","id":"a","progressDetail":{"current":1,"total":2}}{"status":"Pull complete","id":"a"}{"status":"Already exists","id":"b"}`,
	}}
	for range 2 {
		got, err := l.fetcher(e).Pull(t.Context(), "python:3.12")
		if want := (Image{Ref: "python:3.12", Digest: "sha256:bb", ID: someID}); err != nil || got != want {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
	}
	if !slices.Equal(e.asked, []string{"docker.io/library/python:3.12"}) {
		t.Errorf("the registry was asked for %v", e.asked)
	}
	want := []string{"pulling the image python:3.12", "0 of 1 layers", "0 of 2 layers", "1 of 2 layers", "2 of 2 layers"}
	if len(l.steps) != len(want) {
		t.Fatalf("steps %q", l.steps)
	}
	for i, w := range want {
		if !strings.HasSuffix(l.steps[i], w) {
			t.Errorf("step %d is %q, want …%q", i, l.steps[i], w)
		}
	}
}

func TestRegistryThatAsksForPatience(t *testing.T) {
	const busy = `{"errorDetail":{"message":"toomanyrequests: You have reached your pull rate limit."},"error":"toomanyrequests"}`
	var l told
	e := &engine{images: map[string]image.InspectResponse{}, pulls: []string{busy, busy, `{"status":"Pull complete","id":"a"}`}}
	if _, err := l.fetcher(e).Pull(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(l.waits, tries[:2]) {
		t.Errorf("waited %v", l.waits)
	}
	l = told{}
	e.images, e.pulls = map[string]image.InspectResponse{}, []string{busy, busy, busy, busy}
	_, err := l.fetcher(e).Pull(t.Context(), "a")
	if !errors.Is(err, ErrPull) || !strings.Contains(err.Error(), "rate limit") || len(l.waits) != len(tries) {
		t.Errorf("after %v: %v", l.waits, err)
	}
}

func TestPullErrors(t *testing.T) {
	e := &engine{
		images: map[string]image.InspectResponse{"docker.io/library/win:latest": {ID: someID, Os: "windows"}},
		pulls:  []string{`{"error":"manifest unknown"}`, `{"status":`, `{"status":"x"}{"errorDetail":{"message":"no space"}}`},
	}
	for ref, want := range map[string][]string{
		"win": {"is for windows"}, someID: {"the engine does not have it", "docker images"}, "A": {"is no image"}, "-x": {"is no image"}, "": {"is no image"},
		strings.Repeat("a", 600): {"at most 512 bytes"}, "a:b:c": {"is no image"},
	} {
		_, err := Fetcher{Engine: e}.Pull(t.Context(), ref)
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%.20s: %v, want %q", ref, err, w)
			}
		}
	}
	if len(e.asked) > 0 {
		t.Errorf("the registry was asked for %v", e.asked)
	}
	for _, want := range []string{"manifest unknown", "read what the engine says", "no space"} {
		delete(e.images, "docker.io/library/a:latest")
		_, err := Fetcher{Engine: e}.Pull(t.Context(), "a")
		if !errors.Is(err, ErrPull) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestBuildOnce(t *testing.T) {
	_, root := files(t, map[string]string{"c/Dockerfile": "FROM scratch"})
	var l told
	e := &engine{images: map[string]image.InspectResponse{}, built: `{"stream":"Step 1/1 : FROM scratch\n"}{"stream":" ---> \n"}{"aux":{"ID":"x"}}`}
	b := Build{Dir: "c", Dockerfile: "Dockerfile", Args: map[string]string{"A": "1", "B": "2"}, Target: "t"}
	for range 2 {
		got, err := l.fetcher(e).Build(t.Context(), root, b, t.TempDir())
		if err != nil || got.ID != someID || got.Digest != "" || !strings.HasPrefix(got.Ref, "bestof/built:") {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if len(e.builds) != 1 {
		t.Fatalf("it was built %d times", len(e.builds))
	}
	o := e.builds[0]
	if o.Dockerfile != "Dockerfile" || *o.BuildArgs["A"] != "1" || *o.BuildArgs["B"] != "2" || o.Target != "t" || o.PullParent || o.Labels[Label] != o.Tags[0] || !o.ForceRemove {
		t.Errorf("it was built with %+v", o)
	}
	if !slices.Contains(l.steps, "building the image: Step 1/1 : FROM scratch") {
		t.Errorf("steps %q", l.steps)
	}
	e.built = `{"stream":"Step 1/2 : RUN false\n"}{"errorDetail":{"message":"returned a non-zero code: 1"},"error":"x"}`
	b.Target = "u"
	if _, err := l.fetcher(e).Build(t.Context(), root, b, t.TempDir()); !errors.Is(err, ErrBuild) || !strings.Contains(err.Error(), "RUN false: returned a non-zero code: 1") {
		t.Errorf("a build that fails: %v", err)
	}
}

func TestParseRef(t *testing.T) {
	for in, want := range map[string]string{
		"python": "docker.io/library/python:latest", "ghcr.io/a/b:1": "ghcr.io/a/b:1", "localhost:5000/a": "localhost:5000/a:latest",
		someID: someID, "a@" + someID: "docker.io/library/a@" + someID,
	} {
		if got, err := ParseRef(in); err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", in, got, err, want)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	f.Add("python:3.12")
	f.Add("localhost:5000/a/b@" + someID)
	f.Fuzz(func(t *testing.T, s string) {
		full, err := ParseRef(s)
		if err != nil {
			return
		}
		if again, err := ParseRef(full); err != nil || again != full {
			t.Errorf("%q became %q, and that %q, %v", s, full, again, err)
		}
		if strings.ContainsAny(full, " \n\x00") || strings.HasPrefix(full, "-") {
			t.Errorf("%q became %q", s, full)
		}
	})
}

// Whatever an engine says is followed to its end, or an error.
func FuzzFollow(f *testing.F) {
	f.Add(`{"status":"Pull complete","id":"a"}{"stream":"Step 1/2 : RUN x\n"}`)
	f.Add(`{"errorDetail":{"message":"x"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var l layers
		var s steps
		n := 0
		err := follow(strings.NewReader(text), func(m line) { n++; l.told(m); s.told(m) })
		if len(l.done) > len(l.known) || len(s.tail) > 5 {
			t.Errorf("%q: %d of %d layers, %d lines", text, len(l.done), len(l.known), len(s.tail))
		}
		if err == nil && n == 0 && strings.TrimSpace(text) != "" && !json.Valid([]byte(text)) {
			t.Errorf("%q was nothing, and no error", text)
		}
	})
}
