package choose_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/choose"
)

const noEngine = "DOCKER_HOST=unix:///no/such/socket"

var (
	withBwrap = sandbox.Options{Environ: []string{"PATH=/usr/bin:/bin", noEngine}}
	without   = sandbox.Options{Environ: []string{"PATH=/none", noEngine}}
)

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name    string
		options sandbox.Options
		want    string
		note    string
		fails   string
	}{
		{name: "auto", options: withBwrap, want: "bwrap"},
		{name: "", options: withBwrap, want: "bwrap"},
		{name: "auto", options: without, want: "process", note: "Install the package bubblewrap."},
		{name: "process", options: withBwrap, want: "process"},
		{name: "bwrap", options: withBwrap, want: "bwrap"},
		{name: "bwrap", options: without, fails: "bwrap is not on the PATH"},
		{name: "docker", options: withBwrap, fails: "docker: no image was chosen"},
		{name: "chroot", options: withBwrap, fails: `sandbox "chroot": this version`},
	} {
		s, note, err := choose.Choose(t.Context(), c.name, c.options)
		if c.fails != "" {
			if err == nil || s != nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%q: %v, %v, want an error that says %q", c.name, s, err, c.fails)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%q: %v", c.name, err)
		}
		if got := s.Isolation().Name; got != c.want || !strings.Contains(note, c.note) || (c.note == "") != (note == "") {
			t.Errorf("%q: %s with the note %q, want %s with %q", c.name, got, note, c.want, c.note)
		}
	}
	var u *sandbox.Unavailable
	for _, name := range []string{"bwrap", "docker"} {
		if _, _, err := choose.Choose(t.Context(), name, without); !errors.As(err, &u) || u.Remedy == "" {
			t.Errorf("no %s: %v", name, err)
		}
	}
}

func TestChooseDoesNotHideAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, _, err := choose.Choose(ctx, "auto", withBwrap); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", s, err)
	}
}

func TestProbe(t *testing.T) {
	names := func(found []choose.Finding) (all []string) {
		for _, f := range found {
			if f.Detail == "" || !f.OK && f.Remedy == "" || f.OK != (f.Isolation != nil || f.Engine != nil) {
				t.Errorf("finding %+v", f)
			}
			if f.OK {
				all = append(all, f.Name)
			}
		}
		return all
	}
	if got := strings.Join(names(choose.Probe(t.Context(), withBwrap)), " "); got != "bwrap process" {
		t.Errorf("found %s", got)
	}
	if got := strings.Join(names(choose.Probe(t.Context(), without)), " "); got != "process" {
		t.Errorf("found %s without bwrap", got)
	}
}
