package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
)

// Python is an image of Debian's Python, git and a shell, made of what
// .ci/tools put into the cache.
func Python(t testing.TB, host string) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(top(t), ".ci/python-image"))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(script)
	key := hex.EncodeToString(sum[:8])
	f, err := os.Open(filepath.Join(cache, "bestof-ci/python-image", key, "rootfs.tar"))
	if err != nil {
		t.Fatalf("run `make tools` first: %v", err)
	}
	defer f.Close()
	ref := "bestof-ci/python:" + key
	if err := imported(t.Context(), Client(t, host), ref, f, "ENV PATH=/usr/bin:/bin"); err != nil {
		t.Fatal(err)
	}
	return ref
}

func imported(ctx context.Context, c *client.Client, ref string, tar io.Reader, change string) error {
	if _, err := c.ImageInspect(ctx, ref); err == nil {
		return nil
	}
	said, err := c.ImageImport(ctx, image.ImportSource{Source: tar, SourceName: "-"}, ref, image.ImportOptions{Changes: []string{change}})
	if err != nil {
		return fmt.Errorf("import %s: %w", ref, err)
	}
	defer said.Close()
	_, err = io.Copy(io.Discard, said)
	return err
}

// top is the directory of go.mod.
func top(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("there is no go.mod above")
	return ""
}

// Runs lists the value of the label bestof.run of every container there is.
func Runs(t testing.TB, host string) []string {
	t.Helper()
	all, err := Client(t, host).ContainerList(t.Context(), container.ListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	var runs []string
	for _, c := range all {
		if run := c.Labels["bestof.run"]; run != "" {
			runs = append(runs, run)
		}
	}
	return runs
}

// Empty is an image with nothing in it.
func Empty(t testing.TB, host string) string {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, dir := range []string{"tmp/", "etc/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const ref = "bestof-ci/empty:1"
	if err := imported(t.Context(), Client(t, host), ref, &buf, "ENV PATH=/bin"); err != nil {
		t.Fatal(err)
	}
	return ref
}

// Output runs a container of an image, closed and without a network, and
// returns what it said and its status.
func Output(t testing.TB, c *client.Client, ref string, argv ...string) (string, int64) {
	t.Helper()
	made, err := c.ContainerCreate(t.Context(), &container.Config{Image: ref, Cmd: argv, NetworkDisabled: true},
		&container.HostConfig{ReadonlyRootfs: true, CapDrop: []string{"ALL"}, NetworkMode: "none", Tmpfs: map[string]string{"/home/bestof": "mode=1777"}}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.ContainerRemove(context.WithoutCancel(t.Context()), made.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			t.Error(err)
		}
	}()
	ended, failed := c.ContainerWait(t.Context(), made.ID, container.WaitConditionNextExit)
	if err := c.ContainerStart(t.Context(), made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	var status int64
	select {
	case w := <-ended:
		status = w.StatusCode
	case err := <-failed:
		t.Fatal(err)
	}
	said, err := c.ContainerLogs(t.Context(), made.ID, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &out, said); err != nil {
		t.Fatal(err)
	}
	return out.String(), status
}

// Remove removes an image.
func Remove(ctx context.Context, c *client.Client, id string) error {
	_, err := c.ImageRemove(ctx, id, image.RemoveOptions{Force: true, PruneChildren: true})
	return err
}
