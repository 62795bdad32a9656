package hostile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox/hostile"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// TestProcess and its siblings run every attack in a sandbox of that name.
func TestProcess(t *testing.T) { attack(t, hostile.Process) }

func TestBwrap(t *testing.T) { attack(t, hostile.Bwrap) }

// TestDocker needs an engine: the one of DOCKER_HOST, or what CI started.
func TestDocker(t *testing.T) { attack(t, hostile.Docker) }

// TestAsUser runs again, as one who is nobody special, what depends on who one
// is: what agents try, and what is tried alone.
func TestAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("the tests themselves have run as such a user")
		return
	}
	asUser(t, 12346, "TestProcess", "TestBwrap")
}

// asUser runs tests of this binary as another user.
func asUser(t *testing.T, uid uint32, tests ...string) {
	// Neither the build directory nor a test's own is open to that user.
	dir := must(os.MkdirTemp("/tmp", "hostile-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	exe, built, tmp := filepath.Join(dir, "hostile.test"), filepath.Join(dir, "built"), filepath.Join(dir, "tmp")
	if err := errors.Join(
		os.Chmod(dir, 0o755), os.Mkdir(built, 0o755), os.Mkdir(tmp, 0o700), os.Chown(tmp, int(uid), int(uid)),
		os.WriteFile(exe, must(os.ReadFile("/proc/self/exe"))(t), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	build(t, built)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run", "^("+strings.Join(tests, "|")+")$/^(agent|solo)", "-test.v")
	cmd.Dir = tmp
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=" + tmp, "HOME=" + tmp, builtVariable + "=" + built}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	for _, test := range tests {
		if err != nil || !bytes.Contains(out, []byte("--- PASS: "+test)) {
			t.Fatalf("as user %d: %v\n%s", uid, err, withoutProgress(out))
		}
	}
}

// withoutProgress is a verbose test's output without the lines that only say
// which test is at work or has passed, so that a failure is not lost among them.
func withoutProgress(out []byte) string {
	kept := strings.Builder{}
	for line := range strings.Lines(string(out)) {
		if text := strings.TrimSpace(line); !strings.HasPrefix(text, "=== ") && !strings.HasPrefix(text, "--- PASS") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// A batch is one run: attacks of the same phase.
type batch struct {
	name   string
	phases []hostile.Phase
	flags  []string
}

// attack runs all batches in one sandbox.
func attack(t *testing.T, sandbox string) {
	alone := []string{"-j", "1"}
	for _, b := range []batch{
		{"agent", []hostile.Phase{hostile.InAgent}, nil},
		{"test", []hostile.Phase{hostile.InTest}, nil},
		{"held", []hostile.Phase{hostile.Held}, []string{"--holds", "1"}},
		{"slow", []hostile.Phase{hostile.Slow}, []string{"-j", "6", "--timeout", "3s"}},
		{"cheats", []hostile.Phase{hostile.ByPython}, []string{"--test", "python3 -m unittest -v test_calc", "--test-timeout", "20s"}},
		{"tools", []hostile.Phase{hostile.ByTools}, nil},
		{"solo", []hostile.Phase{hostile.Solo, hostile.SoloTest}, alone},
		{"poison", []hostile.Phase{hostile.Poison}, alone},
	} {
		var attacks []hostile.Attack
		for _, a := range hostile.Attacks() {
			if slices.Contains(b.phases, a.Phase) && a.Want(sandbox).Not == "" {
				attacks = append(attacks, a)
			}
		}
		part := 0
		for some := range slices.Chunk(shared(sandbox, attacks), atOnce) {
			part++
			t.Run(fmt.Sprint(b.name, part), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				flags := slices.Clone(b.flags)
				if sandbox == hostile.Docker {
					flags = append(flags, w.engine()...)
				}
				if b.name == "tools" {
					w.offerTools()
				}
				e := w.run(sandbox, some, flags...)
				w.judge(sandbox, some, e)
				w.harmless(sandbox, slices.Concat(some...))
			})
		}
	}
}

// atOnce is how many candidates share a run, and quietly how many quiet attacks
// share a candidate.
const atOnce, quietly = 58, 6

// shared says which attacks each candidate makes.
func shared(sandbox string, attacks []hostile.Attack) (candidates [][]hostile.Attack) {
	var quiet []hostile.Attack
	for _, a := range attacks {
		if a.Quiet(sandbox) {
			quiet = append(quiet, a)
		} else {
			candidates = append(candidates, []hostile.Attack{a})
		}
	}
	return slices.AppendSeq(candidates, slices.Chunk(quiet, quietly))
}

// offerTools declares two servers, of which candidates may reach one.
func (w *world) offerTools() {
	text := ""
	for _, name := range []string{"shared", "kept"} {
		text += fmt.Sprintf("[servers.%s]\ntransport = \"stdio\"\ncmd = %q\nargs = [\"-serve\"]\ncandidate_safe = %v\n", name, w.targets.Program, name == "shared")
	}
	if err := os.WriteFile(filepath.Join(w.targets.Own, "mcp.toml"), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	for _, name := range []string{"shared", "kept"} {
		out, errs, status := w.bestof("mcp", "grant", name, "--yes")
		if found := deceptive(out + errs); status != 0 || found != "" {
			w.t.Fatalf("grant %s: %d: %s%s%s", name, status, out, errs, found)
		}
	}
}

// judge compares the record with what was right.
func (w *world) judge(sandbox string, candidates [][]hostile.Attack, e ended) {
	t, all := w.t, e.doc.Candidates
	if len(all) != len(candidates)+2 {
		t.Fatalf("%d candidates, want %d: status %d: %s\n%s", len(all), len(candidates)+2, e.status, e.doc.Reason, e.stderr+e.stdout)
	}
	first, last := all[0], all[len(all)-1]
	if first.Outcome != candidate.Met || e.doc.Winner == nil || *e.doc.Winner != first.Number {
		t.Errorf("the honest candidate ended %s (%s) and did not win: %s", first.Outcome, first.Detail, e.doc.Reason)
	}
	poisoned := slices.ContainsFunc(slices.Concat(candidates...), func(a hostile.Attack) bool { return a.Phase >= hostile.Poison }) && sandbox == hostile.Process
	if !poisoned && (last.Outcome != candidate.Met || last.Change.Tree != first.Change.Tree) {
		t.Errorf("the honest candidate after all attacks ended %s (%s)", last.Outcome, last.Detail)
	}
	for i, attacks := range candidates {
		for _, a := range attacks {
			t.Run(a.Name, func(t *testing.T) { w.of(t, a, sandbox, all[i+1]) })
		}
	}
	w.readable(e)
}

// of compares what became of an attack with what was right.
func (w *world) of(t *testing.T, a hostile.Attack, sandbox string, c record.Candidate) {
	want, said := a.Want(sandbox), w.said(c)
	if !want.Allows(c.Outcome) {
		t.Errorf("ended %s (%s), want %v; it said: %.600q", c.Outcome, c.Detail, want.Outcomes, said)
	}
	if c.Outcome != candidate.Met && c.Detail == "" {
		t.Error("the record does not say why")
	}
	if text := string(must(json.Marshal(c))(t)); !strings.Contains(text, want.Says) {
		t.Errorf("the record does not say %q: %s", want.Says, text)
	}
	line := regexp.MustCompile(`(?:^|[^a-z0-9-])` + regexp.QuoteMeta(a.Name) + " (reached|refused: )") // no longer name that ends with this one
	reached, refused := false, false
	for _, found := range line.FindAllStringSubmatch(said, -1) {
		reached, refused = reached || found[1] == "reached", refused || found[1] != "reached"
	}
	switch {
	case want.Reach == hostile.Can && !reached:
		t.Errorf("it did not get what it was after, and docs/sandboxes.md says that it can: %.600q", said)
	case want.Reach == hostile.Cannot && (reached || !refused):
		t.Errorf("it got what it was after: %.600q", said)
	}
}

// said is what a candidate and its test printed.
func (w *world) said(c record.Candidate) string {
	found, _ := filepath.Glob(filepath.Join(w.targets.Checkout, ".bestof/runs/*/candidates", candidate.Number(c.Number).ID(), "*.log"))
	var all []byte
	for _, f := range found {
		all = append(all, must(os.ReadFile(f))(w.t)...)
	}
	return string(all)
}

// readable looks at everything that is printed of a run.
func (w *world) readable(e ended) {
	if found := deceptive(e.stderr); found != "" {
		w.t.Errorf("the progress shows %s", found)
	}
	commands := [][]string{{"show", "last"}, {"compare", "last"}, {"runs"}, {"show", "last", "--json"}, {"diff", "last"}, {"mcp", "usage"}, {"mcp", "list"}}
	for _, c := range e.doc.Candidates {
		if c.Change != nil && (strings.HasPrefix(c.Agent, "name-") || strings.HasPrefix(c.Agent, "text-") || c.Agent == "tree-line") {
			commands = append(commands, []string{"diff", "last", candidate.Number(c.Number).ID()})
		}
	}
	for _, args := range commands {
		out := w.onTerminal(args...)
		if found := deceptive(out); found != "" {
			w.t.Errorf("%v shows %s", args, found)
		}
		if out == "" {
			w.t.Errorf("%v shows nothing", args)
		}
	}
}

// harmless looks for harm on the machine.
func (w *world) harmless(sandbox string, attacks []hostile.Attack) {
	plain := sandbox == hostile.Process
	shared := slices.ContainsFunc(attacks, func(a hostile.Attack) bool { return a.Phase >= hostile.Solo })
	allowed := func(path string) bool {
		return plain && (strings.Contains(path, "planted") || shared && strings.HasPrefix(path, w.targets.Checkout+"/"))
	}
	for _, path := range w.changes() {
		if !allowed(path) {
			w.t.Errorf("changed on the operator's machine: %s", path)
		}
	}
	if left := w.leftovers(); len(left) > 0 {
		w.t.Errorf("left on the operator's machine: %v", left[:min(5, len(left))])
	}
}
