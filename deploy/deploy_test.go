// Package deploy is what operators apply; it has no code but tests of it.
package deploy

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/bestof-dev/bestof/candidate/sandbox/docker/dockertest"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker/image"
)

// A composeFile is as much of the Compose specification as compose.yaml uses.
type composeFile struct {
	Services map[string]struct {
		Image      string
		Build      struct{ Context, Dockerfile string }
		Entrypoint []string
		Command    []string
		WorkingDir string `yaml:"working_dir"`
		User       string
		GroupAdd   []string          `yaml:"group_add"`
		Env        map[string]string `yaml:"environment"`
		Volumes    []struct{ Type, Source, Target string }
		Tmpfs      []string
		ReadOnly   bool `yaml:"read_only"`
		Init       bool
		CapDrop    []string `yaml:"cap_drop"`
		Security   []string `yaml:"security_opt"`
	}
}

// compose's variables with their defaults, with BESTOF_DIR set.
var variable = regexp.MustCompile(`\$\{([A-Z_]+)(?::[-?]([^}]*))?\}`)

func compose(t *testing.T) composeFile {
	t.Helper()
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	filled := variable.ReplaceAllFunc(text, func(m []byte) []byte {
		parts := variable.FindSubmatch(m)
		if string(parts[1]) == "BESTOF_DIR" {
			return []byte("/srv/bestof")
		}
		return parts[2]
	})
	d := yaml.NewDecoder(bytes.NewReader(filled))
	d.KnownFields(true)
	var c composeFile
	if err := d.Decode(&c); err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(new(any)); err != io.EOF {
		t.Errorf("something follows the document: %v", err)
	}
	return c
}

func TestComposeIsClosed(t *testing.T) {
	c := compose(t)
	b, ok := c.Services["bestof"]
	if !ok || len(c.Services) != 1 {
		t.Fatalf("the services are %v", c.Services)
	}
	if !b.ReadOnly || !slices.Equal(b.CapDrop, []string{"ALL"}) || !slices.Contains(b.Security, "no-new-privileges:true") || strings.HasPrefix(b.User, "0") {
		t.Errorf("it is open: %+v", b)
	}
	for _, v := range b.Volumes {
		if v.Type != "bind" || v.Source != v.Target && !strings.HasSuffix(v.Source, "docker.sock") {
			t.Errorf("%+v has another path on the machine, where the engine looks for it", v)
		}
	}
	// What the engine mounts into other containers has one path inside and outside.
	for _, path := range []string{b.Entrypoint[0], b.Env["BESTOF_HOME"], b.WorkingDir} {
		if !strings.HasPrefix(path, b.Volumes[0].Target+"/") {
			t.Errorf("%s is not in %s", path, b.Volumes[0].Target)
		}
	}
	if _, err := os.Stat(filepath.Join(b.Build.Context, b.Build.Dockerfile)); err != nil {
		t.Error(err)
	}
}

// TestComposeReadsIt lets the program that people have read the file.
func TestComposeReadsIt(t *testing.T) {
	cmd := exec.Command("docker-compose", "-f", "compose.yaml", "config")
	cmd.Env = append(os.Environ(), "BESTOF_DIR=/srv/bestof", "DOCKER_GROUP=123")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"/srv/bestof/bin/bestof", "BESTOF_HOME: /srv/bestof/home", "read_only: true", "'123'"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it does not say %s:\n%s", want, out)
		}
	}
	cmd = exec.Command("docker-compose", "-f", "compose.yaml", "config")
	cmd.Env = append(os.Environ(), "BESTOF_DIR=")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "a directory of yours") {
		t.Errorf("it does without BESTOF_DIR: %s", out)
	}
}

// TestDockerfile builds all of the image but the compilation, whose command is
// the Makefile's, on an image that needs no network, and runs bestof in it.
func TestDockerfile(t *testing.T) {
	host := dockertest.Host(t)
	dir := t.TempDir()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages, compile, ok := strings.Cut(string(text), "FROM ${GO} AS build")
	if !ok || !strings.Contains(compile, "RUN CGO_ENABLED=0 go build -trimpath -o /bestof ./cmd/bestof\n") {
		t.Fatal("the Dockerfile compiles something else than `make build`")
	}
	program := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "bestof"), "../cmd/bestof")
	program.Env = append(program.Environ(), "CGO_ENABLED=0")
	if out, err := program.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(stages+"\nFROM base\nCOPY bestof /usr/bin/bestof\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	client := dockertest.Client(t, host)
	built, err := image.Fetcher{Engine: client}.Build(t.Context(), root, image.Build{
		Dir: ".", Dockerfile: "Dockerfile", Args: map[string]string{"SYSTEM": dockertest.Python(t, host)},
	}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dockertest.Remove(context.Background(), client, built.ID); err != nil {
			t.Error(err)
		}
	})
	if built.User != "65532:65532" {
		t.Errorf("it runs as %q", built.User)
	}
	out, status := dockertest.Output(t, client, built.ID, "doctor")
	if !regexp.MustCompile(`(?m)^ok   git +.*2\.`).MatchString(out) {
		t.Errorf("doctor in the image: status %d\n%s", status, out)
	}
	if !certificates(t, dir) {
		t.Error("the Dockerfile copies no certificates of authorities")
	}
	if !strings.Contains(out, "sandbox docker") || !strings.Contains(out, "DOCKER_HOST") {
		t.Errorf("doctor does not say that there is no engine\n%s", out)
	}
}

// certificates reports whether the Dockerfile has the authorities' certificates
// in the image; what the image of tests is made on has none, and needs none.
func certificates(t *testing.T, dir string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), "ca-certificates") && strings.Contains(string(text), "/rootfs/etc/ssl/certs/ca-certificates.crt")
}
