package docker_test

import (
	"context"
	"os"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker/dockertest"
	"github.com/bestof-dev/bestof/candidate/sandbox/sandboxtest"
	"github.com/bestof-dev/bestof/internal/proc"
)

// The engine and the image of this test binary, for processes that it starts
// too.
const (
	imageVariable = "BESTOF_TEST_IMAGE"
	filesVariable = "BESTOF_TEST_FILES"
)

func newSandbox(o sandbox.Options) (sandbox.Sandbox, error) {
	o.Environ = append(o.Environ, "DOCKER_HOST="+os.Getenv("DOCKER_HOST"))
	s, err := docker.New(context.Background(), o, docker.Options{Image: os.Getenv(imageVariable), Dir: os.Getenv(filesVariable)})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func TestMain(m *testing.M) { os.Exit(sandboxtest.Main(m, newSandbox)) }

// engine is the engine of these tests, also for newSandbox.
func engine(t testing.TB) string {
	host := dockertest.Host(t)
	if os.Getenv(imageVariable) == "" {
		t.Setenv(imageVariable, dockertest.Image(t, host))
	}
	t.Setenv("DOCKER_HOST", host)
	t.Setenv(filesVariable, t.TempDir())
	return host
}

func TestContract(t *testing.T) {
	engine(t)
	sandboxtest.Run(t, newSandbox, sandboxtest.Expect{
		Name: "docker", Filesystem: true, Processes: true, Network: true, NoWay: true, Layer: true,
		Path: "/image/bin:/usr/bin:/bin", First: "/.bestof-init " + proc.ContainArgs()[0],
		Shows: []string{"/sys"}, // read-only: programs find the limits of their control group there
	})
	if _, err := docker.Reap(t.Context(), []string{"DOCKER_HOST=" + os.Getenv("DOCKER_HOST")}, false); err != nil { // of killed callers
		t.Error(err)
	}
}

// TestContractAsAnotherUser runs as one who may use the engine's socket and is
// nothing else.
func TestContractAsAnotherUser(t *testing.T) {
	const uid = 65534
	host := engine(t)
	if os.Geteuid() == 0 {
		host = dockertest.NewProxy(t, host, uid).Host
	}
	sandboxtest.AsUser(t, uid, "TestContract", "DOCKER_HOST="+host, imageVariable+"="+os.Getenv(imageVariable))
}
