package mcptest

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A Check is one thing that the conformance suite looked at.
type Check struct {
	ID          string
	Description string
	Status      string // SUCCESS, FAILURE, WARNING, INFO or SKIPPED
	Details     json.RawMessage
}

// Conformance runs one client scenario of the official conformance suite. The
// suite starts command, a line for the shell, with a server's URL as its last
// argument and the scenario's name in MCP_CONFORMANCE_SCENARIO. It returns
// what was checked, and what the suite and the client printed.
func Conformance(t testing.TB, scenario, command string) ([]Check, string) {
	t.Helper()
	node := Program(t, "node")
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, Program(t, "conformance"), "client",
		"--scenario", scenario, "--command", command, "--output-dir", dir, "--timeout", "60000")
	cmd.Env = []string{"PATH=" + filepath.Dir(node) + ":/usr/bin:/bin", "HOME=" + dir, "GORACE=atexit_sleep_ms=0"}
	cmd.WaitDelay = time.Second
	out, _ := cmd.CombinedOutput() // its status repeats the checks
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if deeper, _ := filepath.Glob(filepath.Join(dir, "*", "*", "checks.json")); len(files) == 0 {
		files = deeper
	}
	if err != nil || len(files) != 1 {
		t.Fatalf("%s left %d results: %s", scenario, len(files), out)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var checks []Check
	if err := json.Unmarshal(b, &checks); err != nil {
		t.Fatalf("%s: %v: %s", scenario, err, b)
	}
	return checks, string(out)
}
