package toolchain_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/toolchain"
)

// operator makes a home directory with these files and links ("a -> b").
func operator(t *testing.T, files ...string) string {
	t.Helper()
	home := t.TempDir()
	for _, f := range files {
		name, to, link := strings.Cut(f, " -> ")
		p := filepath.Join(home, name)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		if link {
			err = errors.Join(err, os.Symlink(filepath.Join(home, to), p))
		} else {
			err = errors.Join(err, os.WriteFile(p, nil, 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return home
}

// below gives the paths relative to a home, sorted.
func below(t *testing.T, home string, paths []string) []string {
	t.Helper()
	var rel []string
	for _, p := range paths {
		r, err := filepath.Rel(home, p)
		if err != nil {
			t.Fatal(err)
		}
		rel = append(rel, r)
	}
	slices.Sort(rel)
	return rel
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name   string
		files  []string
		path   []string // below the home
		hidden []string
		read   []string
		env    []string
	}{
		{name: "nothing"},
		{name: "a personal bin is not the whole home", files: []string{"bin/tool", ".ssh/id", "notes"}, path: []string{"bin"}, read: []string{"bin"}},
		{name: "the home itself is never granted", files: []string{"tool", ".ssh/id"}, path: []string{"."}},
		{name: "pyenv", files: []string{".pyenv/shims/python", ".pyenv/versions/3/bin/python"}, path: []string{".pyenv/shims"}, read: []string{".pyenv"}, env: []string{"PYENV_ROOT=.pyenv"}},
		{name: "nvm", files: []string{".nvm/versions/node/v20/bin/node", ".nvm/alias/default", ".nvm/.npmrc"}, path: []string{".nvm/versions/node/v20/bin"}, read: []string{".nvm/alias", ".nvm/versions"}, env: []string{"NVM_DIR=.nvm"}},
		{name: "cargo without its credentials", files: []string{".cargo/bin/cargo", ".cargo/registry/x", ".cargo/credentials.toml", ".rustup/toolchains/x"}, path: []string{".cargo/bin"}, read: []string{".cargo/bin", ".rustup"}, env: []string{"RUSTUP_HOME=.rustup"}},
		{name: "maven without its settings", files: []string{".m2/repository/x", ".m2/settings.xml"}},
		{name: "go modules", files: []string{"go/pkg/mod/x", "go/src/private"}, path: []string{"go/bin"}, read: []string{"go/pkg/mod"}, env: []string{"GOMODCACHE=go/pkg/mod"}},
		{name: "a virtual environment", files: []string{"venv/pyvenv.cfg", "venv/bin/python", "venv/lib/x"}, path: []string{"venv/bin"}, read: []string{"venv"}},
		{name: "a venv in the hidden checkout", files: []string{"project/venv/pyvenv.cfg", "project/venv/bin/python"}, path: []string{"project/venv/bin"}, hidden: []string{"project"}},
		{name: "links out of a bin", files: []string{"apps/one/run", "apps/one/secret", "js/lib/node_modules/x/cli.js", "js/lib/node_modules/y/z", "bin/one -> apps/one/run", "bin/two -> js/lib/node_modules/x/cli.js", "bin/gone -> none"}, path: []string{"bin"}, read: []string{"apps/one/run", "bin", "js/lib/node_modules"}},
		{name: "a link into the hidden checkout", files: []string{"project/tool", "bin/tool -> project/tool"}, path: []string{"bin"}, hidden: []string{"project"}, read: []string{"bin"}},
		{name: "a hidden toolchain", files: []string{".pyenv/shims/python"}, path: []string{".pyenv/shims"}, hidden: []string{".pyenv"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			home := operator(t, c.files...)
			o := sandbox.Options{}
			var path []string
			for _, p := range c.path {
				path = append(path, filepath.Join(home, p))
			}
			for _, p := range c.hidden {
				o.Hidden = append(o.Hidden, filepath.Join(home, p))
			}
			o.Environ = []string{"HOME=" + home, "PATH=/usr/bin:/bin:relative:" + strings.Join(path, ":")}
			f := toolchain.Find(o)
			if diff := cmp.Diff(c.read, below(t, home, f.Read)); diff != "" {
				t.Errorf("granted (-want +got):\n%s", diff)
			}
			env := f.Env("/private", sandbox.NetworkNone)
			for _, want := range c.env {
				name, dir, _ := strings.Cut(want, "=")
				if env[name] != filepath.Join(home, dir) {
					t.Errorf("%s=%q, want %s below the home", name, env[name], dir)
				}
			}
			if diff := cmp.Diff(f.Read, toolchain.Find(o).Read); diff != "" {
				t.Errorf("another answer the second time:\n%s", diff)
			}
		})
	}
}

func TestCachesInsideHome(t *testing.T) {
	home := operator(t, ".cargo/bin/cargo", ".cargo/registry/x", ".m2/repository/x")
	f := toolchain.Find(sandbox.Options{Environ: []string{"HOME=" + home}})
	want := []sandbox.Bind{
		{Source: filepath.Join(home, ".cargo/registry"), Target: "/private/.cargo/registry"},
		{Source: filepath.Join(home, ".m2/repository"), Target: "/private/.m2/repository"},
	}
	if diff := cmp.Diff(want, f.Home("/private")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for network, want := range map[sandbox.Network]string{sandbox.NetworkNone: "off", sandbox.NetworkHost: ""} {
		env := f.Env("/private", network)
		if env["GOPROXY"] != want || env["CARGO_HOME"] != "/private/.cargo" {
			t.Errorf("network %s: %v", network, env)
		}
		if _, there := env["GOFLAGS"]; there {
			t.Error("GOFLAGS is nobody's to set")
		}
	}
}
