package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bestof-dev/bestof/candidate/sandbox"
)

// defaultHost is where an engine of the machine listens.
const defaultHost = "unix:///var/run/docker.sock"

// maxSettings bounds docker's own files.
const maxSettings = 1 << 20

var contextName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.+-]{0,127}$`)

// Host finds the engine that the operator's docker command would use:
// DOCKER_HOST, then the context of DOCKER_CONTEXT or of config.json, then the
// machine's socket, or else the one of a rootless engine.
// https://docs.docker.com/engine/manage-resources/contexts/
func Host(environ []string) (string, error) {
	host, _ := sandbox.Lookup(environ, "DOCKER_HOST")
	if host != "" {
		return local(host)
	}
	dir, _ := sandbox.Lookup(environ, "DOCKER_CONFIG")
	if dir == "" {
		if home, _ := sandbox.Lookup(environ, "HOME"); filepath.IsAbs(home) {
			dir = filepath.Join(home, ".docker")
		}
	}
	name, _ := sandbox.Lookup(environ, "DOCKER_CONTEXT")
	if name == "" && dir != "" {
		var config struct {
			CurrentContext string `json:"currentContext"`
		}
		if err := readJSON(filepath.Join(dir, "config.json"), &config); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		name = config.CurrentContext
	}
	if name != "" && name != "default" {
		host, err := hostOfContext(dir, name)
		if err != nil {
			return "", err
		}
		return local(host)
	}
	if _, err := os.Stat(strings.TrimPrefix(defaultHost, "unix://")); err != nil {
		if dir, _ := sandbox.Lookup(environ, "XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
			own := filepath.Join(dir, "docker.sock")
			if _, err := os.Stat(own); err == nil {
				return "unix://" + own, nil
			}
		}
	}
	return defaultHost, nil
}

// local refuses an engine that does not share this machine's files.
func local(host string) (string, error) {
	path, ok := strings.CutPrefix(host, "unix://")
	if !ok {
		scheme, _, _ := strings.Cut(host, "://")
		return "", fmt.Errorf("the engine is reached by %.20q: only one on a unix socket is known to see this machine's files", scheme)
	}
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("the engine's socket %.200q is not an absolute path", path)
	}
	return host, nil
}

func hostOfContext(dir, name string) (string, error) {
	if !contextName.MatchString(name) {
		return "", fmt.Errorf("the docker context %.40q has no valid name", name)
	}
	sum := sha256.Sum256([]byte(name))
	var meta struct {
		Name      string
		Endpoints map[string]struct{ Host string }
	}
	err := readJSON(filepath.Join(dir, "contexts", "meta", hex.EncodeToString(sum[:]), "meta.json"), &meta)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no docker context %q", name)
	}
	if err != nil {
		return "", err
	}
	if meta.Name != name || meta.Endpoints["docker"].Host == "" {
		return "", fmt.Errorf("the docker context %q names no engine", name)
	}
	return meta.Endpoints["docker"].Host, nil
}

func readJSON(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSettings))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
