// Package mcptest finds the MCP servers and tools that tests start for real.
// Only tests import it.
package mcptest

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Program is the absolute path of one of the programs that .ci/npm-mcp pins,
// such as mcp-server-everything or mcp-inspector. Most are scripts that need a
// node on their PATH; "node" itself is the pinned one.
func Program(t testing.TB, name string) string {
	t.Helper()
	p := filepath.Join(Modules(t), ".bin", name)
	if _, err := exec.LookPath(p); err != nil {
		t.Fatalf("the pinned %s is not installed: run `make tools` first (%v)", name, err)
	}
	return p
}

// Modules is the node_modules folder where .ci/tools installed what
// .ci/npm-mcp pins.
func Modules(t testing.TB) string { return Installed(t, "npm-mcp", "BESTOF_CI_MCP") }

// Installed is the node_modules folder where .ci/tools installed what a folder
// of .ci pins, unless a variable names another: the rule is that script's.
func Installed(t testing.TB, folder, variable string) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		lock, err := os.ReadFile(filepath.Join(root(t), ".ci", folder, "package-lock.json"))
		if err != nil {
			t.Fatal(err)
		}
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(lock)
		dir = filepath.Join(cache, "bestof-ci", folder, hex.EncodeToString(sum[:8]))
	}
	return filepath.Join(dir, "node_modules")
}

// root is the folder of go.mod above the package under test.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return dir
		} else if dir == filepath.Dir(dir) {
			err = statErr
		}
	}
	t.Fatal(err)
	return ""
}
