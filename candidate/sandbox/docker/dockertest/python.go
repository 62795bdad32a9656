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
