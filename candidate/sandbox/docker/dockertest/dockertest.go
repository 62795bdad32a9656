// Package dockertest finds the engine that tests use and gives it an image.
// Only tests import it.
package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
)

// Host is the engine of DOCKER_HOST, the one that .ci/tools started, or the
// machine's, as a value of DOCKER_HOST. The rule is that script's.
func Host(t testing.TB) string {
	t.Helper()
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	hosts := []string{"unix://" + filepath.Join(cache, "bestof-ci", "docker", "docker.sock"), "unix:///var/run/docker.sock"}
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		hosts = []string{host}
	}
	for _, host := range hosts {
		conn, err := net.DialTimeout("unix", strings.TrimPrefix(host, "unix://"), 5*time.Second)
		if err == nil {
			conn.Close()
			return host
		}
	}
	t.Fatalf("no engine at %s: run `make tools` first", strings.Join(hosts, " or "))
	return ""
}

// Client is a client of the engine.
func Client(t testing.TB, host string) *client.Client {
	t.Helper()
	c, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Layers names the volumes whose overlays have layers below a directory.
func Layers(t testing.TB, host, dir string) []string {
	t.Helper()
	all, err := Client(t, host).VolumeList(t.Context(), volume.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range all.Volumes {
		if strings.Contains(v.Options["o"], "upperdir="+dir+"/") {
			names = append(names, v.Name)
		}
	}
	return names
}

// tools are what the suite's programs call.
var tools = []string{
	"sh", "cat", "chmod", "chown", "cp", "env", "false", "grep", "id", "ls", "mkdir", "mv", "rm", "rmdir", "sleep", "stat", "test", "touch", "true", "setsid", "kill", "head", "dd", "wc", "umount",
}

// Image is an image with a shell, a few tools of this machine and what they and
// this test binary are linked with. It is made once for each content of them.
func Image(t testing.TB, host string) string {
	t.Helper()
	imagesMu.Lock()
	defer imagesMu.Unlock()
	if name, ok := imagesMade[host]; ok {
		return name
	}
	name, err := makeImage(t.Context(), Client(t, host))
	if err != nil {
		t.Fatal(err)
	}
	imagesMade[host] = name
	return name
}

// What this process made already, by engine.
var (
	imagesMu   sync.Mutex
	imagesMade = map[string]string{}
)

func makeImage(ctx context.Context, c *client.Client) (string, error) {
	files, err := contents()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range sorted(files) {
		fi, err := os.Stat(files[name])
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, name, fi.Size(), fi.ModTime().UnixNano())
	}
	ref := "bestof-ci/suite:" + hex.EncodeToString(sum.Sum(nil))[:16]
	if _, err := c.ImageInspect(ctx, ref); err == nil {
		return ref, nil
	}
	packed, err := pack(files)
	if err != nil {
		return "", err
	}
	said, err := c.ImageImport(ctx, image.ImportSource{Source: packed, SourceName: "-"}, ref, image.ImportOptions{Changes: []string{"ENV PATH=/image/bin:/usr/bin:/bin"}})
	if err != nil {
		return "", err
	}
	defer said.Close()
	if _, err := io.Copy(io.Discard, said); err != nil {
		return "", err
	}
	return ref, nil
}

func sorted(files map[string]string) []string {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var library = regexp.MustCompile(`(/\S+) \(0x`)

// contents maps paths of the image to files of this machine.
func contents() (map[string]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	files, linked := map[string]string{}, []string{self}
	for _, tool := range tools {
		p, err := exec.LookPath(tool)
		if err != nil {
			return nil, err
		}
		if p, err = filepath.EvalSymlinks(p); err != nil {
			return nil, err
		}
		files["usr/bin/"+tool] = p
		linked = append(linked, p)
	}
	for _, p := range linked {
		out, _ := exec.Command("ldd", p).CombinedOutput() // fails for a static one
		for _, m := range library.FindAllStringSubmatch(string(out), -1) {
			resolved, err := filepath.EvalSymlinks(m[1])
			if err != nil {
				return nil, err
			}
			files["usr/"+strings.TrimPrefix(strings.TrimPrefix(m[1], "/"), "usr/")] = resolved
		}
	}
	return files, nil
}

// directories are all that the image has, outer ones first: an engine makes
// those that nobody names so that not even their owner can enter.
func directories(files map[string]string) []string {
	all := []string{"etc", "usr", "usr/bin", "usr/lib", "usr/lib64"}
	for name := range files {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			all = append(all, dir)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func pack(files map[string]string) (io.Reader, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	var failed error
	add := func(h *tar.Header, data []byte) {
		h.Size, h.ModTime = int64(len(data)), time.Unix(0, 0)
		if failed == nil {
			failed = w.WriteHeader(h)
		}
		if failed == nil {
			_, failed = w.Write(data)
		}
	}
	for _, dir := range directories(files) {
		add(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}, nil)
	}
	for _, link := range []string{"bin", "lib", "lib64"} {
		add(&tar.Header{Typeflag: tar.TypeSymlink, Name: link, Linkname: "usr/" + link, Mode: 0o777}, nil)
	}
	for _, name := range sorted(files) {
		data, err := os.ReadFile(files[name])
		if err != nil {
			return nil, err
		}
		add(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, data)
	}
	if err := w.Close(); failed == nil {
		failed = err
	}
	return &buf, failed
}
