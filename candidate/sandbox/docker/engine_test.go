package docker_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker/dockertest"
	"github.com/bestof-dev/bestof/candidate/sandbox/sandboxtest"
)

// hung is an engine that takes requests and answers none.
func hung(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
		}
	}()
	return "unix://" + path
}

func unavailable(t *testing.T, err error, reason string) {
	t.Helper()
	var u *sandbox.Unavailable
	if !errors.As(err, &u) || !strings.Contains(u.Reason, reason) || u.Remedy == "" || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want one line that says %q, and a remedy", err, reason)
	}
}

func TestEngineThatCannotBeUsed(t *testing.T) {
	docker.SetAskWait(t, 200*time.Millisecond)
	for _, c := range []struct{ host, reason string }{
		{"unix:///no/such/socket", "there is no engine at unix:///no/such/socket"},
		{hung(t), "does not answer"},
		{"tcp://localhost:2375", "only one on a unix socket"},
	} {
		environ := []string{"DOCKER_HOST=" + c.host}
		_, err := docker.New(t.Context(), sandbox.Options{Environ: environ}, docker.Options{Image: "x"})
		unavailable(t, err, c.reason)
		_, err = docker.Probe(t.Context(), environ)
		unavailable(t, err, c.reason)
		_, err = docker.Reap(t.Context(), environ, false)
		unavailable(t, err, c.reason)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := docker.Probe(ctx, []string{"DOCKER_HOST=" + hung(t)}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

func TestImageThatIsNotThere(t *testing.T) {
	o := sandbox.Options{Environ: []string{"DOCKER_HOST=" + engine(t)}}
	_, err := docker.New(t.Context(), o, docker.Options{Image: "bestof-ci/none:1"})
	unavailable(t, err, `the engine has no image "bestof-ci/none:1"`)
	_, err = docker.New(t.Context(), o, docker.Options{})
	unavailable(t, err, "no image was chosen")
	if _, err := docker.New(t.Context(), o, docker.Options{Image: "x", Limits: docker.Limits{PIDs: 1}}); err == nil {
		t.Error("a limit of one process")
	}
}

func TestProbe(t *testing.T) {
	f, err := docker.Probe(t.Context(), []string{"DOCKER_HOST=" + engine(t)})
	if err != nil || f.Version == "" || f.API == "" || f.CgroupVersion == "" || f.Storage == "" || !strings.Contains(f.Words(), f.Version) {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestUserWithoutTheSocket is one who may not use the engine.
func TestUserWithoutTheSocket(t *testing.T) {
	if os.Geteuid() == 0 {
		p := dockertest.NewProxy(t, engine(t), 0)
		sandboxtest.AsUser(t, 65534, "TestUserWithoutTheSocket", "DOCKER_HOST="+p.Host)
		return
	}
	path := strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	if conn, err := net.Dial("unix", path); err == nil {
		conn.Close()
		return // who may use it: nothing to see
	}
	_, err := docker.Probe(t.Context(), []string{"DOCKER_HOST=unix://" + path})
	unavailable(t, err, "this user may not use the engine")
}
