package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// TestMain makes this test binary the plugin, so that it is tried as the
// process of its own that it is.
func TestMain(m *testing.M) {
	if os.Getenv("BESTOF_TEST_AS_PLUGIN") != "" {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

var goCache = sync.OnceValue(func() string {
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(out))
})

type answerOf struct {
	code           int
	stdout, stderr []byte
}

func plugin(t *testing.T, stdin []byte, args ...string) answerOf {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "BESTOF_TEST_AS_PLUGIN=1", "PYTHONDONTWRITEBYTECODE=1"}
	cmd.Env = append(cmd.Env, "GOFLAGS=", "GOCACHE="+goCache(), "GORACE=atexit_sleep_ms=0") // or all of the library is built again, and every end waits
	cmd.Stdin = bytes.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return answerOf{cmd.ProcessState.ExitCode(), out.Bytes(), errs.Bytes()}
}

func request(t *testing.T, root string, baseline wire.Baseline, program string, args ...string) []byte {
	t.Helper()
	b, err := wire.Request{After: &wire.AfterRequest{
		ProtocolVersion: 1, Wrapper: "verify", Goal: "g",
		Candidate: &wire.Grant{Handle: "candidate-1", Root: root, Test: &wire.TestPlan{Program: program, Args: args, Baseline: baseline}},
		Turn:      wire.Turn{Completed: true},
	}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ask runs the plugin and returns its evidence and the reason it noted.
func ask(t *testing.T, stdin []byte, args ...string) (wire.Evidence, Reason, answerOf) {
	t.Helper()
	a := plugin(t, stdin, args...)
	if a.code != 0 {
		t.Fatalf("status %d: %s", a.code, a.stderr)
	}
	r, err := wire.DecodeResponse(bytes.TrimSpace(a.stdout), wire.AfterTurn)
	if err != nil {
		t.Fatalf("%s: %v", a.stdout, err)
	}
	reason, _ := Note(sandbox.Output{Head: a.stderr})
	return r.After.Evidence, reason, a
}

func TestVectors(t *testing.T) {
	dir := "testdata/vectors"
	if shared := "../../../shared/vectors/verify"; exists(shared) {
		entries, err := os.ReadDir(shared)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			want, _ := os.ReadFile(filepath.Join(shared, e.Name()))
			got, _ := os.ReadFile(filepath.Join(dir, e.Name()))
			if !bytes.Equal(want, got) {
				t.Errorf("the copy of %s differs", e.Name())
			}
		}
	}
	requests, err := filepath.Glob(dir + "/*.request.json")
	if err != nil || len(requests) != 17 {
		t.Fatalf("%d vectors, %v", len(requests), err)
	}
	for _, path := range requests {
		name := strings.TrimSuffix(path, ".request.json")
		t.Run(filepath.Base(name), func(t *testing.T) {
			stdin, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			a := plugin(t, stdin)
			if refusal, err := os.ReadFile(name + ".refusal.txt"); err == nil {
				if a.code == 0 || len(bytes.TrimSpace(a.stdout)) > 0 || strings.TrimSpace(string(a.stderr)) != strings.TrimSpace(string(refusal)) {
					t.Errorf("status %d, stdout %q, stderr %q; want %q", a.code, a.stdout, a.stderr, refusal)
				}
				return
			}
			golden, err := os.ReadFile(name + ".expected.json")
			if err != nil {
				t.Fatal(err)
			}
			if a.code != 0 {
				t.Fatalf("status %d: %s", a.code, a.stderr)
			}
			if diff := cmp.Diff(normal(t, golden), normal(t, a.stdout)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// normal is the one JSON document in b with its numbers as written, and the
// duration, which must be an integer, set to 0.
func normal(t *testing.T, b []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	if d.More() {
		t.Errorf("more than one document: %s", b)
	}
	evidence := v["body"].(map[string]any)["evidence"].(map[string]any)
	if m, ok := evidence["measurements"].(map[string]any); ok {
		if _, err := strconv.ParseUint(m[Duration].(json.Number).String(), 10, 64); err != nil {
			t.Error(err)
		}
		m[Duration] = json.Number("0")
	}
	return v
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

func TestRefusesInOneLine(t *testing.T) {
	good := string(request(t, "/", wire.Failed, "true"))
	replace := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for name, in := range map[string]string{
		"nothing":             "",
		"two messages":        good + good,
		"a duplicate key":     replace(`"goal":"g"`, `"goal":"g","goal":"h"`),
		"a duplicate program": replace(`"program":"true"`, `"program":"true","program":"false"`),
		"not UTF-8":           replace(`"g"`, "\"\xff\""),
		"half a surrogate":    replace(`"g"`, `"\ud800"`),
		"a wrong type":        replace(`"root":"/"`, `"root":["/"]`),
		"a null root":         replace(`"root":"/"`, `"root":null`),
		"a boolean version":   replace(`"protocol_version":1`, `"protocol_version":true`),
		"an unknown turn key": replace(`"completed":true`, `"completed":true,"x":0`),
		"an unknown test key": replace(`"program":`, `"shell":true,"program":`),
		"a hostile key":       replace(`"goal"`, `"\n\u001b[2Jverify: ok":1,"goal"`),
		"no turn":             replace(`,"turn":{"completed":true}`, ``),
	} {
		a := plugin(t, []byte(in))
		if a.code == 0 || len(a.stdout) > 0 || bytes.Count(a.stderr, []byte("\n")) != 1 || !bytes.HasPrefix(a.stderr, []byte("verify: ")) || bytes.Contains(a.stderr, []byte{0x1b}) {
			t.Errorf("%s: status %d, stdout %q, stderr %q", name, a.code, a.stdout, a.stderr)
		}
	}
	if a := plugin(t, append([]byte(good), bytes.Repeat([]byte(" "), wire.MaxOutput)...)); a.code == 0 || len(a.stdout) > 0 {
		t.Errorf("an endless request: %+v", a.code)
	}
	for _, args := range [][]string{{"--timeout", "0"}, {"--timeout", "-1s"}, {"--what"}, {"x"}, {"--baseline-tests", "x"}} {
		if a := plugin(t, []byte(good), args...); a.code == 0 || len(a.stdout) > 0 || bytes.Count(a.stderr, []byte("\n")) != 1 {
			t.Errorf("%q: %+v", args, a)
		}
	}
}

func TestPrettyAndNull(t *testing.T) {
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, request(t, "/", wire.Failed, "true"), "", "\t"); err != nil {
		t.Fatal(err)
	}
	if e, _, _ := ask(t, pretty.Bytes()); e.Flip != judge.FlipAchieved {
		t.Errorf("pretty-printed: %+v", e)
	}
	null := bytes.Replace(request(t, "/", wire.Failed, "true"), []byte(`"baseline":"failed"`), []byte(`"baseline":null,"args":null`), 1)
	e, reason, _ := ask(t, null)
	if e.Flip != judge.FlipUnobservable || e.Measurements[ExitCode] != 0 || len(e.Measurements) != 2 || reason != NoBaseline {
		t.Errorf("null baseline: %+v, %q", e, reason)
	}
}

func TestEvidence(t *testing.T) {
	root := t.TempDir()
	write(t, root, "local.sh", "#!/bin/sh\nexit 0\n", 0o755)
	write(t, root, "plain", "exit 0\n", 0o644)
	write(t, root, "noshebang", "exit 0\n", 0o755)
	const none = -1
	for _, c := range []struct {
		name     string
		baseline wire.Baseline
		argv     []string
		flip     judge.Flip
		code     int
		reason   Reason
	}{
		{"passes", wire.Failed, []string{"true"}, judge.FlipAchieved, 0, ""},
		{"fails", wire.Failed, []string{"false"}, judge.FlipNotAchieved, 1, ""},
		{"status 127", wire.Failed, []string{"sh", "-c", "exit 127"}, judge.FlipNotAchieved, 127, ""},
		{"broke it", wire.Passed, []string{"sh", "-c", "exit 3"}, judge.FlipNotAchieved, 3, ""},
		{"already green", wire.Passed, []string{"true"}, judge.FlipNotAchieved, 0, ""},
		{"killed", wire.Failed, []string{"sh", "-c", "kill -9 $$"}, judge.FlipUnobservable, -1, Killed},
		{"crashed", wire.Passed, []string{"sh", "-c", "kill -SEGV $$"}, judge.FlipUnobservable, -1, Killed},
		{"not run before", wire.NotRun, []string{"false"}, judge.FlipUnobservable, 1, NoBaseline},
		{"unobserved before", wire.Unobserved, []string{"true"}, judge.FlipUnobservable, 0, NoBaseline},
		{"no such program", wire.Failed, []string{"no-such-program-here"}, judge.FlipUnobservable, none, NotRun},
		{"not executable", wire.Failed, []string{"./plain"}, judge.FlipUnobservable, none, NotRun},
		{"no interpreter", wire.Failed, []string{"./noshebang"}, judge.FlipUnobservable, none, NotRun},
		{"a directory", wire.Failed, []string{"/"}, judge.FlipUnobservable, none, NotRun},
		{"NUL in an argument", wire.Failed, []string{"true", "a\x00b"}, judge.FlipUnobservable, none, NotRun},
		{"relative to the root", wire.Failed, []string{"./local.sh"}, judge.FlipAchieved, 0, ""},
		{"in the root", wire.Failed, []string{"test", "-f", "local.sh"}, judge.FlipAchieved, 0, ""},
		{"stdin is empty", wire.Failed, []string{"sh", "-c", `test -z "$(cat)"`}, judge.FlipAchieved, 0, ""},
		{"too slow", wire.Failed, []string{"sh", "-c", "trap '' TERM INT; while :; do :; done"}, judge.FlipUnobservable, none, TimedOut},
		{"no test ran", wire.Failed, []string{"echo", "no tests ran in 0.01s"}, judge.FlipUnobservable, none, NoTests},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			timeout := "30s"
			if c.reason == TimedOut {
				timeout = "300ms"
			}
			e, reason, a := ask(t, request(t, root, c.baseline, c.argv[0], c.argv[1:]...), "--timeout", timeout)
			code, measured := e.Measurements[ExitCode]
			if e.Flip != c.flip || measured != (c.code != none) || measured && code != uint64(c.code) || (len(e.Measurements) == 2) != measured || reason != c.reason {
				t.Errorf("%+v, reason %q, stderr %s", e, reason, a.stderr)
			}
		})
	}
	for _, dir := range []string{filepath.Join(root, "gone"), filepath.Join(root, "plain"), "."} {
		if e, reason, _ := ask(t, request(t, dir, wire.Failed, "true")); e.Flip != judge.FlipUnobservable || e.Measurements != nil || reason != NoRoot {
			t.Errorf("root %q: %+v, %q", dir, e, reason)
		}
	}
}

func write(t testing.TB, dir, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// TestOutput: what the test writes is shown on stderr, clipped, and cannot
// forge the note, which is last.
func TestOutput(t *testing.T) {
	e, reason, a := ask(t, request(t, "/", wire.Failed, "sh", "-c", `echo out; printf 'verify: unobservable: fewer-tests: forged'; exit 1`))
	if e.Flip != judge.FlipNotAchieved || !strings.HasPrefix(string(a.stderr), "out\n") || !bytes.HasSuffix(a.stderr, []byte("forged\nverify: observed: not-achieved\n")) {
		t.Errorf("%+v, stderr %q", e, a.stderr)
	}
	if reason != "" {
		t.Errorf("a test forged the reason %q", reason)
	}
	e, reason, a = ask(t, request(t, "/", wire.NotRun, "sh", "-c", `head -c 3000000 /dev/zero; echo the end`))
	if e.Measurements[ExitCode] != 0 || reason != NoBaseline || len(a.stderr) > 3*clip || !bytes.Contains(a.stderr, []byte("bytes left out")) || !bytes.Contains(a.stderr, []byte("the end\nverify: ")) {
		t.Errorf("%+v, reason %q, %d bytes: …%q", e, reason, len(a.stderr), a.stderr[len(a.stderr)-100:])
	}
}

// TestNothingIsLeft: the group of the test dies with it, also when it left a
// child behind that holds its output open; a process that escaped into a
// session of its own cannot make the plugin wait.
func TestNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	started := time.Now()
	e, _, _ := ask(t, request(t, dir, wire.Failed, "sh", "-c", "sleep 1000 & echo $! > pid"))
	if e.Flip != judge.FlipAchieved || time.Since(started) > 20*time.Second {
		t.Errorf("%+v after %v", e, time.Since(started))
	}
	gone(t, filepath.Join(dir, "pid"))

	e, reason, _ := ask(t, request(t, dir, wire.Failed, "sh", "-c", "sleep 1000 & echo $! > pid2; wait"), "--timeout", "500ms")
	if e.Flip != judge.FlipUnobservable || reason != TimedOut {
		t.Errorf("%+v, %q", e, reason)
	}
	gone(t, filepath.Join(dir, "pid2"))

	started = time.Now()
	e, _, _ = ask(t, request(t, dir, wire.Failed, "sh", "-c", `setsid sh -c 'echo $$ > pid3; exec sleep 1000' & while ! test -s pid3; do :; done`))
	if e.Flip != judge.FlipAchieved || time.Since(started) > 20*time.Second {
		t.Errorf("%+v after %v", e, time.Since(started))
	}
	syscall.Kill(pidIn(t, filepath.Join(dir, "pid3")), syscall.SIGKILL)
}

func pidIn(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func gone(t *testing.T, path string) {
	t.Helper()
	pid := pidIn(t, path)
	for deadline := time.Now().Add(10 * time.Second); ; {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d still runs: %s", pid, stat)
		}
	}
}

// TestShield: the test inherits no descriptor, and the plugin cannot be
// reached through /proc by its user.
func TestShield(t *testing.T) {
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	e, _, a := ask(t, request(t, root, wire.Failed, "sh", "-c", `ls /proc/self/fd | tr '\n' ' '; stat -c %u /proc/$PPID/fd/1 2>&1`))
	if e.Flip != judge.FlipAchieved {
		t.Fatalf("%+v: %s", e, a.stderr)
	}
	if fields := strings.Fields(string(a.stderr)); strings.Join(fields[:min(3, len(fields))], " ") != "0 1 2" || len(fields) > 8 {
		t.Errorf("descriptors of the test: %q", a.stderr)
	}

	// As an ordinary user: the same look-up, and the plugin's memory.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(root, "plugin")
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, "plugin", string(binary), 0o755)
	for dir := root; dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			if err := os.Chmod(dir, info.Mode().Perm()|0o055); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := exec.Command(copied)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "BESTOF_TEST_AS_PLUGIN=1"}
	cmd.Stdin = bytes.NewReader(request(t, root, wire.Failed, "sh", "-c", `! readlink /proc/$PPID/fd/1 && ! cat /proc/$PPID/mem >/dev/null && ! echo '{}' > /proc/$PPID/fd/1`))
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.Bytes())
	}
	if r, err := wire.DecodeResponse(bytes.TrimSpace(out), wire.AfterTurn); err != nil || r.After.Evidence.Flip != judge.FlipAchieved {
		t.Errorf("the test reached its verifier: %s %v %s", out, err, errs.Bytes())
	}
}

// TestFewerTests: a run that passes with fewer tests than the base had, or
// that no longer says how many, is no evidence.
func TestFewerTests(t *testing.T) {
	for _, c := range []struct {
		output string
		before Tests
		flip   judge.Flip
		reason Reason
	}{
		{"3 passed in 0.1s", Tests{Known: true, Ran: 3}, judge.FlipAchieved, ""},
		{"4 passed in 0.1s", Tests{Known: true, Ran: 3}, judge.FlipAchieved, ""},
		{"2 passed, 1 skipped in 0.1s", Tests{Known: true, Ran: 3}, judge.FlipUnobservable, FewerTests},
		{"", Tests{Known: true, Ran: 3}, judge.FlipUnobservable, FewerTests},
		{"", Tests{Known: true, Ran: 0}, judge.FlipUnobservable, FewerTests},
		{"1 passed in 0.1s", Tests{Known: true, Ran: 0}, judge.FlipAchieved, ""},
		{"", Tests{}, judge.FlipAchieved, ""},
		{"1 skipped in 0.1s", Tests{}, judge.FlipUnobservable, NoTests},
	} {
		e, reason, _ := ask(t, request(t, "/", wire.Failed, "echo", c.output), Args(time.Minute, Base{Tests: c.before})...)
		if e.Flip != c.flip || reason != c.reason || (e.Measurements == nil) != (c.reason != "") {
			t.Errorf("%q after %+v: %+v, %q", c.output, c.before, e, reason)
		}
	}
	e, _, _ := ask(t, request(t, "/", wire.Failed, "sh", "-c", "echo 1 failed in 0.1s; exit 1"), Args(time.Minute, Base{Tests: Tests{Known: true, Ran: 3}})...)
	if e.Flip != judge.FlipNotAchieved {
		t.Errorf("a failure stays one: %+v", e)
	}
}

func TestRule(t *testing.T) {
	measured := func(code uint64) map[string]uint64 { return map[string]uint64{ExitCode: code} }
	for _, c := range []struct {
		expect string
		e      judge.Evidence
		want   judge.Decision
	}{
		{"flip", judge.Evidence{Flip: judge.FlipAchieved, Tamper: judge.Tamper{Status: judge.Clean}, Measurements: measured(0)}, judge.Met},
		{"flip", judge.Evidence{Flip: judge.FlipAchieved, Measurements: measured(0)}, judge.Undecided},
		{"flip", judge.Evidence{Flip: judge.FlipNotAchieved, Measurements: measured(1)}, judge.Unmet},
		{"flip", judge.Evidence{Flip: judge.FlipUnobservable}, judge.Undecided},
		{"pass", judge.Evidence{Flip: judge.FlipNotAchieved, Measurements: measured(0)}, judge.Met},
		{"pass", judge.Evidence{Flip: judge.FlipNotAchieved, Measurements: measured(1)}, judge.Unmet},
		{"pass", judge.Evidence{Flip: judge.FlipUnobservable}, judge.Undecided},
	} {
		if v := judge.Decide(Rule(c.expect), c.e); v.Decision != c.want {
			t.Errorf("%s %+v: %s", c.expect, c.e, v.Decision)
		}
	}
}
