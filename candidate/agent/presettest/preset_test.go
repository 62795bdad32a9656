// Package presettest runs the real programs of the presets, at the versions
// that .ci/npm pins, against a model server of its own on loopback. It needs no
// key and no internet.
package presettest

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/agent"
)

// A program is a preset, and what an operator does to send it to a server of
// their own.
type program struct {
	name   string
	env    func(url, key string) []string     // the operator's environment
	args   func(url string) []string          // added to the preset's command
	hidden bool                               // where the model is shows in no variable
	pass   []string                           // added to what it takes from that environment
	set    func(url string) map[string]string // added to what it sets
	shell  call                               // runs lookAround
	edit   []call                             // make the file right
	files  map[string]string                  // of the operator, in $BESTOF_HOME
}

// lookAround prints where the program is and all that it was told, the key
// included, and leaves a process that nobody waits for.
const lookAround = `printf 'PWD=%s\n' "$PWD"; env; setsid sleep 600 >/dev/null 2>&1 </dev/null &`

var programs = []program{
	{
		name: "claude",
		env: func(url, key string) []string {
			return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=" + key}
		},
		shell: call{tool: "Bash", input: object{"command": lookAround, "description": "Look around"}},
		edit: []call{
			{tool: "Read", input: object{"file_path": "{dir}/value"}},
			{tool: "Edit", input: object{"file_path": "{dir}/value", "old_string": "wrong", "new_string": "right"}},
		},
	},
	{
		name: "codex", hidden: true,
		args:  func(url string) []string { return []string{"-c", `openai_base_url="` + url + `/v1"`} },
		env:   func(_, key string) []string { return []string{"CODEX_API_KEY=" + key} },
		shell: call{tool: "exec", script: "text(await tools.exec_command(" + must(object{"cmd": lookAround}) + "))"},
		edit: []call{{tool: "exec", script: "text(await tools.apply_patch(" +
			must("*** Begin Patch\n*** Update File: value\n@@\n-wrong\n+right\n*** End Patch\n") + "))"}},
	},
	{
		name: "gemini",
		env: func(url, key string) []string {
			return []string{"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=" + key}
		},
		shell: call{tool: "run_shell_command", input: object{"command": lookAround, "description": "Look around"}},
		edit:  []call{{tool: "replace", input: object{"file_path": "{dir}/value", "old_string": "wrong", "new_string": "right", "instruction": "Make it right."}}},
	},
	{
		name: "opencode", hidden: true,
		set: func(url string) map[string]string {
			return map[string]string{"OPENCODE_CONFIG_CONTENT": must(object{
				"permission": object{"*": "allow"}, "share": "disabled", "autoupdate": false, "model": "mine/m",
				"provider": object{"mine": object{
					"npm": "@ai-sdk/anthropic", "options": object{"baseURL": url + "/v1", "apiKey": "{env:ANTHROPIC_API_KEY}"},
					"models": object{"m": object{}},
				}},
			})}
		},
		env:   func(_, key string) []string { return []string{"ANTHROPIC_API_KEY=" + key} },
		shell: call{tool: "bash", input: object{"command": lookAround, "description": "Look around"}},
		edit: []call{
			{tool: "read", input: object{"filePath": "{dir}/value"}},
			{tool: "edit", input: object{"filePath": "{dir}/value", "oldString": "wrong", "newString": "right"}},
		},
	},
	{
		name: "pi",
		args: func(string) []string { return []string{"--model", "azure-openai-responses/gpt-5.4"} },
		pass: []string{"AZURE_OPENAI_API_KEY", "AZURE_OPENAI_BASE_URL"},
		env: func(url, key string) []string {
			return []string{"AZURE_OPENAI_BASE_URL=" + url + "/v1", "AZURE_OPENAI_API_KEY=" + key}
		},
		shell: call{tool: "bash", input: object{"command": lookAround}},
		edit:  []call{{tool: "edit", input: object{"path": "value", "edits": []any{object{"oldText": "wrong", "newText": "right"}}}}},
	},
}

// settings is the operator's config.toml.
func (p program) settings(t *testing.T, url string) string {
	if !slices.ContainsFunc(agent.Presets(), func(d agent.Definition) bool { return d.Name == p.name }) {
		t.Fatalf("no preset is called %s", p.name)
	}
	var s strings.Builder
	fmt.Fprintf(&s, "[agents.%s]\n", p.name)
	if p.args != nil {
		fmt.Fprintf(&s, "args = %s\n", must(p.args(url)))
	}
	if p.pass != nil {
		fmt.Fprintf(&s, "env = %s\n", must(p.pass))
	}
	if p.hidden { // no variable says where the model is
		fmt.Fprintf(&s, "hosts = [%q]\n", strings.TrimPrefix(url, "http://"))
	}
	if p.set != nil {
		fmt.Fprintf(&s, "[agents.%s.set]\n", p.name)
		for name, value := range p.set(url) {
			fmt.Fprintf(&s, "%s = %q\n", name, value)
		}
	}
	return s.String()
}

// bestof is the program under test.
var bestof string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "presettest")
	if err != nil {
		panic(err)
	}
	bestof = filepath.Join(dir, "bestof")
	build := exec.Command("go", "build", "-trimpath", "-o", bestof, "github.com/bestof-dev/bestof/cmd/bestof")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	code := 1
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build bestof:", err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// programsDir is where `make tools` installed the programs: the rule is that of
// .ci/tools.
func programsDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("BESTOF_CI_AGENTS")
	if dir == "" {
		lock, err := os.ReadFile("../../../.ci/npm/package-lock.json")
		if err != nil {
			t.Fatal(err)
		}
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(lock)
		dir = filepath.Join(cache, "bestof-ci", "npm", hex.EncodeToString(sum[:8]))
	}
	dir = filepath.Join(dir, "node_modules", ".bin")
	for _, p := range programs {
		if _, err := exec.LookPath(filepath.Join(dir, p.name)); err != nil {
			t.Fatalf("the pinned %s is not installed: run `make tools` first (%v)", p.name, err)
		}
	}
	return dir
}

// A run is one `bestof run` by an operator with a home and a repository of
// their own.
type run struct {
	home, state, repo string
	key               string
	document          document
	log               string // of the agent
}

// document is what these tests read of `run --json`.
type document struct {
	Run        string
	Winner     *int
	Reason     string
	Candidates []struct {
		Outcome string
		Detail  string
		Change  *struct {
			Files          []struct{ Path, Status string }
			Added, Deleted int
		}
		Network []struct {
			Host, Reason   string
			Port, Count    int
			Allowed        bool
			Sent, Received int64
		}
		AgentEnd *struct {
			End  string
			Code int
		} `json:"agent_end"`
	}
}

func start(t *testing.T, p program, m *model, sandbox string, status int) run {
	t.Helper()
	dir := t.TempDir()
	r := run{home: filepath.Join(dir, "home"), state: filepath.Join(dir, "state"), repo: filepath.Join(dir, "repo"), key: m.key}
	for name, content := range map[string]string{
		"repo/value":    "wrong\n",
		"repo/check.sh": "test \"$(cat value)\" = right\n",
		// Settings of the operator: a program that read them would stop.
		"home/.claude.json":          "not json",
		"home/.claude/settings.json": "not json",
		"home/.codex/config.toml":    "not = = toml",
		"home/.gemini/settings.json": "not json",
		"home/.pi/agent/models.json": "not json",
	} {
		write(t, filepath.Join(dir, name), content)
	}
	write(t, filepath.Join(r.state, "config.toml"), p.settings(t, m.URL))
	for name, content := range p.files {
		write(t, filepath.Join(r.state, name), content)
	}
	env := []string{
		"PATH=" + programsDir(t) + ":" + os.Getenv("PATH"), "HOME=" + r.home, "BESTOF_HOME=" + r.state, "LANG=C.UTF-8",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org",
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "First"}} {
		git := exec.Command("git", args...)
		git.Dir, git.Env = r.repo, env
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	before := picture(t, r.home)
	c := exec.CommandContext(t.Context(), bestof, "run", "--agents", p.name+":1", "--sandbox", sandbox,
		"--timeout", "2m", "--test", "sh check.sh", "--json", "Make the file value right, so that check.sh passes.")
	c.Dir, c.Env = r.repo, append(env, p.env(m.URL, m.key)...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	logs, _ := filepath.Glob(filepath.Join(r.repo, ".bestof/runs/*/candidates/*/agent.log"))
	for _, l := range logs {
		b, err := os.ReadFile(l)
		if err != nil {
			t.Fatal(err)
		}
		r.log += string(b)
	}
	turns, results, strange := m.said()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the model had %d turns; results: %.2000q\nand refused %q\nthe agent's log:\n%.6000s\nbestof said:\n%s\n%s", turns, results, strange, r.log, errs.String(), out.String())
		}
	})
	if got := c.ProcessState.ExitCode(); got != status {
		t.Fatalf("bestof ended with status %d, want %d", got, status)
	}
	if err := json.Unmarshal(out.Bytes(), &r.document); err != nil {
		t.Fatalf("read the document: %v", err)
	}
	if len(r.document.Candidates) != 1 {
		t.Fatalf("%d candidates, want 1", len(r.document.Candidates))
	}
	if len(strange) > 0 {
		t.Errorf("the model was asked what it should not have been: %q", strange)
	}
	if after := picture(t, r.home); after != before {
		t.Errorf("the operator's home was written to:\nbefore:\n%s\nafter:\n%s", before, after)
	}
	r.noTrace(t)
	return r
}

// noTrace checks that the program is gone and that the record does not hold
// the key.
func (r run) noTrace(t *testing.T) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(all) == 0 {
		t.Fatalf("list the processes: %v", err)
	}
	for _, p := range all {
		environ, _ := os.ReadFile(p + "/environ") // it may be gone by now
		cwd, _ := os.Readlink(p + "/cwd")
		if bytes.Contains(environ, []byte(r.key)) || strings.HasPrefix(cwd, r.state) {
			cmdline, _ := os.ReadFile(p + "/cmdline")
			t.Errorf("process %s is still there: %q", filepath.Base(p), cmdline)
		}
	}
	files := 0
	err = filepath.WalkDir(filepath.Join(r.repo, ".bestof"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(r.key)) {
			t.Errorf("%s holds the operator's key", path)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("search the record: %d files, %v", files, err)
	}
}

// picture is every file below dir with its time and content.
func picture(t *testing.T, dir string) string {
	t.Helper()
	var s strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var content []byte
		if info.Mode().IsRegular() {
			if content, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		fmt.Fprintf(&s, "%s %v %s %q\n", path, info.Mode(), info.ModTime().Format(time.RFC3339Nano), content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.String()
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// TestRepair has the model make the edit.
func TestRepair(t *testing.T) {
	for _, p := range programs {
		for _, sandbox := range []string{"bwrap", "process"} {
			t.Run(p.name+"/"+sandbox, func(t *testing.T) {
				t.Parallel()
				m := newModel(t, rand.Text(), append([]call{p.shell}, p.edit...))
				r := start(t, p, m, sandbox, 0)
				c := r.document.Candidates[0]
				if c.Outcome != "met" || r.document.Winner == nil || *r.document.Winner != 1 {
					t.Errorf("outcome %s (%s), winner %v: %s", c.Outcome, c.Detail, r.document.Winner, r.document.Reason)
				}
				if c.Change == nil || len(c.Change.Files) != 1 || c.Change.Files[0].Path != "value" || c.Change.Added != 1 || c.Change.Deleted != 1 {
					t.Errorf("changed %+v, want one line of value", c.Change)
				}
				// The key was there to be found, and is not in the log.
				if _, results, _ := m.said(); !strings.Contains(strings.Join(results, ""), r.key) {
					t.Errorf("what the shell printed holds no key: %q", results)
				}
			})
		}
	}
}

// TestThroughTheProxy has a model that is not on the candidate's own loopback,
// so that every program has to ask the proxy for it, and is refused others.
func TestThroughTheProxy(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			m := newModelAt(t, "127.0.0.2", rand.Text(), append([]call{p.shell}, p.edit...))
			c := start(t, p, m, "bwrap", 0).document.Candidates[0]
			if c.Outcome != "met" {
				t.Errorf("outcome %s (%s)", c.Outcome, c.Detail)
			}
			reached := 0
			for _, u := range c.Network {
				switch model := u.Host == "127.0.0.2" && m.URL == fmt.Sprintf("http://127.0.0.2:%d", u.Port); {
				case model != u.Allowed:
					t.Errorf("%s:%d was allowed: %v", u.Host, u.Port, u.Allowed)
				case model && u.Sent > 0 && u.Received > 0:
					reached += u.Count
				}
			}
			if reached == 0 {
				t.Errorf("the model was not asked through the proxy: %+v", c.Network)
			}
		})
	}
}

// TestNothingDone has the model say at once that it is done: the program then
// exits 0, and that is worth nothing.
func TestNothingDone(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, rand.Text(), nil)
			r := start(t, p, m, "bwrap", 3)
			c := r.document.Candidates[0]
			if c.Outcome != "empty" || r.document.Winner != nil || c.Change != nil && len(c.Change.Files) > 0 {
				t.Errorf("outcome %s, winner %v, change %+v", c.Outcome, r.document.Winner, c.Change)
			}
			if c.AgentEnd == nil || c.AgentEnd.End != "exited" || c.AgentEnd.Code != 0 {
				t.Errorf("the program ended so: %+v", c.AgentEnd)
			}
			if turns, _, _ := m.said(); turns == 0 {
				t.Error("the model was never asked")
			}
		})
	}
}
