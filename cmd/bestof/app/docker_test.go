package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bestof-dev/bestof/candidate/sandbox/docker/dockertest"
)

// static builds bestof as it is shipped, once: an image without a libc can run
// nothing else.
var static = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "bestof-static-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "bestof")
	build := exec.Command("go", "build", "-trimpath", "-o", file, "..")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	return file, build.Run()
})

// images names an engine in DOCKER_HOST, an image with Python and git in
// PYTHON, one with a shell and little else in SHELL_ONLY, and one with nothing
// in EMPTY. With the argument static it names bestof as it is shipped in STATIC.
func cmdImages(t *testing.T, ts *testscript.TestScript, args []string) {
	host := dockertest.Host(t)
	ts.Setenv("DOCKER_HOST", host)
	ts.Setenv("PYTHON", dockertest.Python(t, host))
	ts.Setenv("SHELL_ONLY", dockertest.Image(t, host))
	ts.Setenv("EMPTY", dockertest.Empty(t, host))
	if slices.Contains(args, "static") {
		file, err := static()
		ts.Check(err)
		ts.Setenv("STATIC", file)
	}
}

// containers N DIR wants N containers of the runs of the repository in DIR.
func cmdContainers(t *testing.T, ts *testscript.TestScript, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: containers N DIR")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	dirs, err := filepath.Glob(filepath.Join(ts.MkAbs(args[1]), ".bestof/runs/*/run.json"))
	ts.Check(err)
	if len(dirs) == 0 {
		ts.Fatalf("there is no run in %s", args[1])
	}
	running := dockertest.Runs(t, ts.Getenv("DOCKER_HOST"))
	got := 0
	for _, d := range dirs {
		for _, r := range running {
			if r == filepath.Base(filepath.Dir(d)) {
				got++
			}
		}
	}
	if got != want {
		ts.Fatalf("the engine has %d containers of these runs, want %d", got, want)
	}
}
