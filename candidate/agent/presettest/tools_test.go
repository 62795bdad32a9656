package presettest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/mcp/mcptest"
)

// echo is how the model of each program calls the tool echo of the server
// everything: each program has a spelling of its own for it.
func echo(program, message string) call {
	input := object{"message": message}
	switch program {
	case "codex":
		return call{tool: "exec", script: "text(await tools.mcp__everything__echo(" + must(input) + "))"}
	case "gemini":
		return call{tool: "mcp_everything_echo", input: input}
	case "opencode":
		return call{tool: "everything_echo", input: input}
	}
	return call{tool: "mcp__everything__echo", input: input}
}

// TestSharedTool has the model call a tool of an MCP server of the operator's:
// the program finds it by the settings in its HOME, gets the answer, and the
// server is called once.
func TestSharedTool(t *testing.T) {
	node := filepath.Dir(mcptest.Program(t, "node"))
	servers := fmt.Sprintf("[servers.everything]\ntransport = \"stdio\"\ncmd = %q\nenv = { PATH = %q }\ncandidate_safe = true\n",
		mcptest.Program(t, "mcp-server-everything"), node)
	for _, p := range programs {
		if !slices.Contains([]string{"claude", "codex", "gemini", "opencode"}, p.name) {
			continue // pi speaks no MCP
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			said := rand.Text()
			p.files = map[string]string{"mcp.toml": servers}
			m := newModel(t, rand.Text(), slices.Concat([]call{echo(p.name, said), p.shell}, p.edit))
			r := start(t, p, m, "bwrap", 0)
			_, results, _ := m.said()
			if len(results) == 0 || !strings.Contains(results[0], "Echo: "+said) {
				t.Errorf("the tool's answer to the model: %.500q", results)
			}
			if got, want := r.calls(t, "everything", "echo"), []string{"candidate 1: 1 calls, 0 errors, 0 refused"}; !slices.Equal(got, want) {
				t.Errorf("usage of echo: %q, want %q", got, want)
			}
		})
	}
}

// calls is what `bestof mcp usage` says of a tool.
func (r run) calls(t *testing.T, server, tool string) []string {
	t.Helper()
	c := exec.Command(bestof, "mcp", "usage", "--run", r.document.Run, "--json")
	c.Dir, c.Env = r.repo, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.home, "BESTOF_HOME=" + r.state}
	out, err := c.Output()
	if err != nil {
		t.Fatalf("bestof mcp usage: %v", err)
	}
	var usage struct {
		Uses []struct {
			Candidate              int
			Server, Tool           string
			Calls, Errors, Refused int
		}
	}
	if err := json.Unmarshal(out, &usage); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, u := range usage.Uses {
		if u.Server == server && u.Tool == tool {
			lines = append(lines, fmt.Sprintf("candidate %d: %d calls, %d errors, %d refused", u.Candidate, u.Calls, u.Errors, u.Refused))
		}
	}
	return lines
}
