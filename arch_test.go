package bestof_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/bestof-dev/bestof"

// rooms says what each folder of docs/architecture.md may import of ours. A
// folder stands for everything below it; the longest name that matches counts.
var rooms = map[string][]string{
	"judge":             {},
	"candidate":         {"judge"},
	"candidate/agent":   {"candidate", "internal"},
	"candidate/sandbox": {"candidate", "internal"},
	"worktree":          {"internal"},
	"plugin":            {"judge", "candidate/sandbox", "internal"},
	"mcp":               {"internal"},
	"orchestrator":      {"judge", "candidate", "worktree", "plugin", "mcp", "internal"},
	"orchestrator/event": {
		"candidate",
	},
	"orchestrator/plan":           {},
	"orchestrator/compare":        {"judge", "candidate", "orchestrator/record", "internal"},
	"orchestrator/record":         {"judge", "candidate", "orchestrator/event", "internal"},
	"orchestrator/batch/task":     {"internal", "worktree/patch"},
	"orchestrator/batch/progress": {},
	"orchestrator/batch/report":   {"candidate", "orchestrator/batch/task", "internal"},
	"cmd/bestof/view":             {"judge", "candidate", "orchestrator/event", "orchestrator/record", "orchestrator/compare", "orchestrator/batch/report", "orchestrator/batch/progress", "orchestrator/schedule/report", "internal"},
	"cmd/bestof/web":              {"candidate", "orchestrator/event", "orchestrator/record", "orchestrator/compare", "orchestrator/batch/report", "cmd/bestof/view", "internal"},
	"cmd":                         {"judge", "candidate", "worktree", "plugin", "mcp", "orchestrator", "internal", "deploy"},
	"deploy":                      {},
	"internal":                    {},

	"internal/telemetry":           {"candidate", "orchestrator/event", "orchestrator/batch/progress", "orchestrator/schedule"},
	"orchestrator/schedule":        {"internal"},
	"orchestrator/schedule/ledger": {"orchestrator/schedule", "internal"},
	"orchestrator/schedule/slots":  {"internal"},
	"orchestrator/schedule/runner": {"judge", "candidate", "worktree", "plugin", "mcp", "orchestrator", "internal"},
	"orchestrator/schedule/export": {"orchestrator/schedule", "internal"},
	"orchestrator/schedule/desk":   {"orchestrator/schedule", "internal"},
	"orchestrator/schedule/report": {},

	"orchestrator/tiebreak": {"judge", "candidate", "orchestrator/record", "internal"},
}

// third says who alone may import a module from outside.
var third = map[string][]string{
	"github.com/go-git/go-git/v5":            {"worktree"},
	"github.com/docker/docker":               {"candidate/sandbox/docker"},
	"github.com/mark3labs/mcp-go":            {"mcp/session", "mcp/gateway", "mcp/serve"},
	"github.com/modelcontextprotocol/go-sdk": {"mcp/login"},
	"modernc.org/sqlite":                     {"internal/sqlitefile"},
	"charm.land/bubbletea/v2":                {"cmd/bestof/view"},
	"github.com/alecthomas/chroma/v2":        {"cmd/bestof/view"},
	"github.com/alecthomas/chroma/v2/lexers": {}, // reads hundreds of grammars whenever a program starts
	"github.com/santhosh-tekuri/jsonschema":  {"plugin/tool"},
	"github.com/spf13/cobra":                 {"cmd/bestof/app"},
	"github.com/BurntSushi/toml":             {"internal/stricttoml"},
	"mvdan.cc/sh/v3":                         {"internal/argv"},
	"github.com/aymanbagabas/go-udiff":       {"worktree", "orchestrator/compare"},
}

// pure are packages that decide and do no I/O: what they must not reach.
var pure = map[string][]string{
	"judge":             {"os", "net", "syscall", "time", "context", "fmt", "math/rand", "math/rand/v2"},
	"candidate":         {"os/exec", "net", "context", "math/rand"},
	"orchestrator/plan": {"os/exec", "net", "context", "math/rand"},
	"worktree/patch":    {"os/exec", "net", "context", "math/rand"},

	"orchestrator/compare/normalform": {"os/exec", "net", "context", "math/rand"},

	"orchestrator/schedule":        {"os/exec", "net", "context", "math/rand"},
	"orchestrator/schedule/export": {"os/exec", "net", "context", "math/rand"},
	"orchestrator/schedule/report": {"os/exec", "net", "context", "math/rand"},

	"internal/testreport":         {"os/exec", "net", "context", "math/rand"},
	"orchestrator/batch/task":     {"os/exec", "net", "context", "math/rand"},
	"orchestrator/batch/report":   {"os/exec", "net"},
	"orchestrator/batch/progress": {"os/exec", "net", "context"},
}

type listed struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func below(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }

// room is the key of rooms that covers a package.
func room(name string) string {
	for f := name; f != "."; f = path.Dir(f) {
		if _, ok := rooms[f]; ok {
			return f
		}
	}
	return ""
}

func TestImportsFollowTheRooms(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if name == "" {
			continue
		}
		own := room(name)
		if own == "" {
			t.Errorf("%s is in no room: add it to the table and to docs/architecture.md", name)
			continue
		}
		for _, imp := range p.Imports {
			other, ours := strings.CutPrefix(imp, module+"/")
			if !ours {
				continue
			}
			allowed := slices.ContainsFunc(append(slices.Clone(rooms[own]), own), func(f string) bool { return below(other, f) })
			// A parent does not vouch for a room of its own inside it.
			if inner := room(other); allowed && inner != own && below(inner, own) && !slices.Contains(rooms[own], inner) && own != "orchestrator" && own != "cmd" && own != "internal" {
				allowed = false
			}
			if !allowed {
				t.Errorf("%s imports %s: %s may import only %v", name, other, own, rooms[own])
			}
		}
	}
}

func TestModulesStayWithTheirRooms(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, imp := range p.Imports {
			for mod, folders := range third {
				if below(imp, mod) && !slices.ContainsFunc(folders, func(f string) bool { return below(name, f) }) {
					t.Errorf("%s imports %s, which only %v may", name, imp, folders)
				}
			}
		}
	}
}

func TestPurePackagesDoNoIO(t *testing.T) {
	byName := map[string]listed{}
	for _, p := range packages(t) {
		byName[strings.TrimPrefix(p.ImportPath, module+"/")] = p
	}
	for name, forbidden := range pure {
		p, ok := byName[name]
		if !ok {
			t.Errorf("%s is not a package any more: mend this table", name)
		}
		for _, f := range forbidden {
			if slices.Contains(p.Deps, f) {
				t.Errorf("%s reaches %s", name, f)
			}
		}
	}
}

// hostile are the attacks of candidates. No part of the product has them.
const hostile = "candidate/sandbox/hostile"

func TestNothingOfTheProductIsHostile(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if slices.Contains(p.Imports, module+"/"+hostile) && !below(name, hostile) {
			t.Errorf("%s imports %s", name, hostile)
		}
	}
}

// TestGitRunsInOnePlace proves that nothing but worktree's gitexec could run
// git: it alone names the program.
func TestGitRunsInOnePlace(t *testing.T) {
	out, err := exec.Command("grep", "-rlE", `exec\.(Command|CommandContext|LookPath)\([^)]*"git"`, "--include=*.go", "--exclude=*_test.go", ".").Output()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		t.Fatal(err)
	}
	for _, file := range strings.Fields(string(out)) {
		// What a hostile candidate runs, it runs in its sandbox.
		if !strings.HasPrefix(file, "./worktree/internal/gitexec/") && !strings.HasPrefix(file, "./"+hostile+"/") {
			t.Errorf("%s runs git", file)
		}
	}
	if len(out) == 0 {
		t.Error("no file runs git: the pattern does not match any more")
	}
}
