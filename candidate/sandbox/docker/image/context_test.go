package image

import (
	"archive/tar"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// files makes a directory of files; a name that ends with a slash is a
// directory.
func files(t *testing.T, content map[string]string) (string, *os.Root) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return dir, root
}

func read(t *testing.T, root *os.Root, b Build) *Context {
	t.Helper()
	c, err := ReadContext(t.Context(), root, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func entries(t *testing.T, c *Context) map[string]string {
	t.Helper()
	if _, err := c.file.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for r := tar.NewReader(c.file); ; {
		h, err := r.Next()
		if err == io.EOF {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = string(b)
		if h.Typeflag == tar.TypeSymlink {
			got[h.Name] = "-> " + h.Linkname
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(time.Unix(0, 0)) {
			t.Errorf("%s says who it belongs to, or when: %+v", h.Name, h)
		}
	}
}

func TestContextIsWhatIsSent(t *testing.T) {
	dir, root := files(t, map[string]string{
		"Dockerfile": "FROM scratch", ".dockerignore": "# not these\n*\n!keep\n!*.md\nkeep/secret\n", "keep/a": "a", "keep/secret": "s",
		"drop/b": "b", "c.md": "c", ".git/HEAD": "h", ".bestof/secrets.toml": "s",
	})
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link.md")); err != nil {
		t.Fatal(err)
	}
	got := entries(t, read(t, root, Build{Dir: ".", Dockerfile: "Dockerfile"}))
	want := map[string]string{
		"Dockerfile": "FROM scratch", ".dockerignore": "# not these\n*\n!keep\n!*.md\nkeep/secret\n",
		"keep/": "", "keep/a": "a", "c.md": "c", "link.md": "-> /etc/passwd",
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is %q, want %q", name, got[name], text)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is sent", name)
		}
	}
}

// The tag is of what is sent: times and what is left out do not count, bytes,
// modes, arguments and the target do.
func TestTagFollowsContent(t *testing.T) {
	content := map[string]string{"Dockerfile": "FROM scratch", ".dockerignore": "log", "a": "1", "log": "x"}
	dir, root := files(t, content)
	b := Build{Dir: ".", Dockerfile: "Dockerfile"}
	first := read(t, root, b).Tag
	if !strings.HasPrefix(first, "bestof/built:") {
		t.Errorf("the tag is %s", first)
	}
	if _, err := ParseRef(first); err != nil {
		t.Error(err)
	}
	old := time.Unix(1000, 0)
	if err := os.Chtimes(filepath.Join(dir, "a"), old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "log"), []byte("more"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, again := files(t, content)
	if second := read(t, root, b).Tag; second != first || read(t, again, b).Tag != first {
		t.Errorf("the same content has the tags %s and %s", first, second)
	}
	tags := []string{first}
	for _, other := range []Build{{Dir: ".", Dockerfile: "Dockerfile", Target: "x"}, {Dir: ".", Dockerfile: "Dockerfile", Args: map[string]string{"A": "1"}}} {
		tags = append(tags, read(t, root, other).Tag)
	}
	if err := os.Chmod(filepath.Join(dir, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	tags = append(tags, read(t, root, b).Tag)
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("2"), 0o755); err != nil {
		t.Fatal(err)
	}
	tags = append(tags, read(t, root, b).Tag)
	slices.Sort(tags)
	if len(slices.Compact(slices.Clone(tags))) != len(tags) {
		t.Errorf("different builds have one tag: %v", tags)
	}
}

func TestContextRefuses(t *testing.T) {
	dir, root := files(t, map[string]string{"Dockerfile": "FROM scratch", "sub/x": "x"})
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../Dockerfile", filepath.Join(dir, "sub/Dockerfile")); err != nil {
		t.Fatal(err)
	}
	for want, b := range map[string]Build{
		"escapes":                     {Dir: "out", Dockerfile: "Dockerfile"},
		"no such file":                {Dir: ".", Dockerfile: "Dockerfile.dev"},
		"it is not a regular file":    {Dir: "sub", Dockerfile: "Dockerfile"},
		"path escapes from parent":    {Dir: "..", Dockerfile: "Dockerfile"},
		"no such file or directory":   {Dir: "nothing", Dockerfile: "Dockerfile"},
		"sub is no Dockerfile: it is": {Dir: ".", Dockerfile: "sub"},
	} {
		if _, err := ReadContext(t.Context(), root, b, t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", b, err, want)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadContext(t.Context(), root, Build{Dir: ".", Dockerfile: "Dockerfile"}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "pipe is a device, a socket or a pipe") {
		t.Errorf("a pipe: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".dockerignore"), []byte("pipe\nsub/Dockerfile"), 0o644); err != nil {
		t.Fatal(err)
	}
	read(t, root, Build{Dir: ".", Dockerfile: "Dockerfile"})
	big := filepath.Join(dir, "big")
	if err := os.WriteFile(big, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, MaxContextBytes+1); err != nil {
		t.Fatal(err)
	}
	_, err = ReadContext(t.Context(), root, Build{Dir: ".", Dockerfile: "Dockerfile"}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "more than 512 MB") {
		t.Errorf("a large context: %v", err)
	}
}

// Whatever a .dockerignore says, the Dockerfile is sent and secrets are not.
func FuzzIgnore(f *testing.F) {
	f.Add("*\n!a/b\n", "a/b")
	f.Add("**/*.go\n# x\n/abs\n", "x.go")
	f.Add("[a-\n", "a")
	f.Add("!.git", "Dockerfile/x")
	f.Fuzz(func(t *testing.T, text, path string) {
		_, root := files(t, map[string]string{ignoreName: text})
		patterns, err := ignorePatterns(root)
		if err != nil {
			return
		}
		i, err := newIgnore(patterns, "d/Dockerfile")
		if err != nil {
			return
		}
		for _, p := range []string{"d/Dockerfile", ignoreName} {
			if skip, _, err := i.skips(p, false); skip || err != nil {
				t.Errorf("%q leaves out %s: %v", text, p, err)
			}
		}
		if skip, whole, err := i.skips("d", true); skip || whole || err != nil {
			t.Errorf("%q leaves out the directory of the Dockerfile", text)
		}
		for _, p := range always {
			if skip, whole, _ := i.skips(p, true); !skip || !whole {
				t.Errorf("%q sends %s", text, p)
			}
		}
		_, _, _ = i.skips(path, false) // must not panic
	})
}
