package app

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bestof-dev/bestof/candidate/sandbox/docker/dockertest"
)

// static builds bestof as it is shipped: an image without a libc can run nothing
// else.
func static(file string) error {
	build := exec.Command("go", "build", "-trimpath", "-o", file, "..")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	return build.Run()
}

// staticVariable names bestof as it is shipped, for a user who cannot build it.
const staticVariable = "BESTOF_TEST_STATIC"

// images names an engine in DOCKER_HOST, an image with Python and git in
// PYTHON, one with a shell and little else in SHELL_ONLY, and one with nothing
// in EMPTY. With the argument shell there is no PYTHON; with the argument static
// it names bestof as it is shipped in STATIC.
func cmdImages(t *testing.T, ts *testscript.TestScript, args []string) {
	host := dockertest.Host(t)
	ts.Setenv("DOCKER_HOST", host)
	if !slices.Contains(args, "shell") {
		ts.Setenv("PYTHON", dockertest.Python(t, host))
	}
	ts.Setenv("SHELL_ONLY", dockertest.Image(t, host))
	ts.Setenv("EMPTY", dockertest.Empty(t, host))
	if slices.Contains(args, "static") {
		ts.Setenv("STATIC", ts.Getenv(staticVariable))
	}
}

// containers N DIR waits until there are N containers of the runs of the
// repository in DIR, for half a minute at most.
func cmdContainers(t *testing.T, ts *testscript.TestScript, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: containers N DIR")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	deadline := time.Now().Add(30 * time.Second)
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		got := containersOf(t, ts, ts.MkAbs(args[1]))
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("the engine has %d containers of these runs, want %d", got, want)
		}
	}
}

// volumes waits until the engine has no volume of a process that is dead, or
// that began here, for half a minute at most.
func cmdVolumes(t *testing.T, ts *testscript.TestScript, args []string) {
	if len(args) != 0 {
		ts.Fatalf("usage: volumes")
	}
	deadline := time.Now().Add(30 * time.Second)
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		got := dockertest.Layers(t, ts.Getenv("DOCKER_HOST"), ts.Getenv("BESTOF_HOME"))
		if len(got) == 0 {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("the engine has the volumes %v", got)
		}
	}
}

func containersOf(t *testing.T, ts *testscript.TestScript, dir string) int {
	records, err := filepath.Glob(filepath.Join(dir, ".bestof/runs/*/run.json"))
	ts.Check(err)
	if len(records) == 0 {
		ts.Fatalf("there is no run in %s", dir)
	}
	n := 0
	for _, run := range dockertest.Runs(t, ts.Getenv("DOCKER_HOST")) {
		if slices.ContainsFunc(records, func(r string) bool { return filepath.Base(filepath.Dir(r)) == run }) {
			n++
		}
	}
	return n
}
