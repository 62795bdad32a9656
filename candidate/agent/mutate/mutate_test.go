package mutate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	candidateagent "github.com/bestof-dev/bestof/candidate/agent"
	"github.com/bestof-dev/bestof/internal/demo"
)

// The test binary is the agent when asked to be: the search needs a process
// whose working directory and signals are its own.
func TestMain(m *testing.M) {
	if os.Getenv("MUTATE_TEST_AGENT") == "1" {
		os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
	}
	os.Exit(m.Run())
}

// A bug is a small repository with a failing test. Its archive begins with the
// test command and has a line "-- NAME --" before each file.
type bug struct {
	name  string
	test  []string
	files map[string]string
}

func bugs(t testing.TB) []bug {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no bugs: %v", err)
	}
	var all []bug
	for _, n := range names {
		text, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(string(text), "\n-- ")
		b := bug{strings.TrimSuffix(filepath.Base(n), ".txtar"), strings.Fields(parts[0]), map[string]string{}}
		for _, part := range parts[1:] {
			name, content, ok := strings.Cut(part, " --\n")
			if !ok {
				t.Fatalf("%s: %q", n, part)
			}
			b.files[name] = content + "\n"
		}
		all = append(all, b)
	}
	return all
}

func (b bug) unpack(t testing.TB) string {
	dir := t.TempDir()
	for f, content := range b.files {
		name := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// command prepares the agent as a child process in dir.
func command(t testing.TB, dir string, job candidateagent.Job) (*exec.Cmd, *bytes.Buffer) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	job.Root = dir
	in, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "MUTATE_TEST_AGENT=1", "TMPDIR="+t.TempDir())
	cmd.Stdin = bytes.NewReader(in)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

// repair lets one candidate work and reports whether it found an edit.
func repair(t testing.TB, b bug, dir string, candidate, of int, limit time.Duration) (bool, string) {
	cmd, out := command(t, dir, candidateagent.Job{Candidate: candidate, Candidates: of, Test: b.test, Timeout: limit.String()})
	err := cmd.Run()
	return err == nil, out.String()
}

// snapshot is every path of dir with its mode and content.
func snapshot(t testing.TB, dir string) map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			content = string(b)
		}
		all[p] = info.Mode().String() + content
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func find(t testing.TB, name string) bug {
	for _, b := range bugs(t) {
		if b.name == name {
			return b
		}
	}
	t.Fatalf("no bug %s", name)
	return bug{}
}

// Each language, and the kinds of test command there are.
func TestRepairs(t *testing.T) {
	for _, name := range []string{
		"py-binary-search", "py-null-guard", "py-script", "js-off-by-one", "js-operand", "go-logic", "java-comparison", "c-off-by-one", "c-bits",
	} {
		t.Run(name, func(t *testing.T) {
			b := find(t, name)
			dir := b.unpack(t)
			before := snapshot(t, dir)
			ok, out := repair(t, b, dir, 1, 1, 5*time.Minute)
			if !ok {
				t.Fatalf("no edit found:\n%s", out)
			}
			changed := 0
			for p, was := range before {
				if now := snapshot(t, dir)[p]; now != was {
					changed++
				}
			}
			if now := snapshot(t, dir); changed != 1 || len(now) != len(before) {
				t.Errorf("%d files differ, %d → %d paths; want one file changed and nothing left behind:\n%s", changed, len(before), len(now), out)
			}
			for _, want := range []string{"the test passes, twice", "edits tried", "  - ", "  + "} {
				if !strings.Contains(out, want) {
					t.Errorf("the report lacks %q:\n%s", want, out)
				}
			}
		})
	}
}

// The bundled demos are solved in seconds by one of two candidates, and the first
// of them, which most people see, by both: nobody waits for one that finds nothing.
func TestSolvesDemos(t *testing.T) {
	for _, programs := range [][]string{{"python3"}, {"node"}, {"go"}, {"cc", "make"}} {
		d, err := demo.Pick(func(p string) bool { return slices.Contains(programs, p) })
		if err != nil {
			t.Fatal(err)
		}
		t.Run(d.Name, func(t *testing.T) {
			b := bug{name: d.Name, test: d.Test, files: map[string]string{}}
			for p, content := range d.Files {
				b.files[p] = string(content)
			}
			solved := 0
			for c := 1; c <= 2; c++ {
				// Bounded by tries, not by a clock that depends on what else runs here.
				ok, out := repairWithin(t, b, b.unpack(t), c, 2, 25)
				if ok {
					solved++
				}
				t.Logf("candidate %d:\n%s", c, out)
			}
			if solved == 0 || d.Name == "python" && solved < 2 {
				t.Errorf("%d of two candidates found an edit in 25 tries", solved)
			}
		})
	}
}

// repairWithin is repair, but stops the agent when it has made so many tries.
func repairWithin(t testing.TB, b bug, dir string, candidate, of, tries int) (bool, string) {
	cmd, out := command(t, dir, candidateagent.Job{Candidate: candidate, Candidates: of, Test: b.test, Timeout: "5m", Tries: tries})
	err := cmd.Run()
	return err == nil, out.String()
}

func TestNothingFoundLeavesTheTreeAsItWas(t *testing.T) {
	b := find(t, "c-bits")
	b.files["test_bits.c"] = strings.Replace(b.files["test_bits.c"], "is(0, -1);", `is(0, -1); bad = 1;
    FILE *f = fopen("Makefile", "a"); fputs("# ran\n", f); fclose(f); remove("notes.txt");`, 1) // cannot pass, and makes a mess
	b.files["notes.txt"] = "keep me"
	dir := b.unpack(t)
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, dir)
	ok, out := repairWithin(t, b, dir, 1, 1, 6)
	if ok {
		t.Fatalf("an edit was found:\n%s", out)
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Errorf("the tree changed:\n%s\n%s", diff, out)
	}
}

func TestTermInTheMiddleLeavesTheTreeAsItWas(t *testing.T) {
	for _, name := range []string{"py-two-edits", "js-operand"} {
		t.Run(name, func(t *testing.T) {
			b := find(t, name)
			marker := filepath.Join(t.TempDir(), "runs")
			if name == "js-operand" { // never passes and hangs from its third run on
				b.files["check.js"] = fmt.Sprintf("const fs = require('fs'); fs.appendFileSync(%q, '.');\nif (fs.readFileSync(%q).length > 2) for (;;) {}\nprocess.exit(1);\n", marker, marker)
			} else {
				b.files["test_window.py"] += fmt.Sprintf("\n    def test_never(self):\n        open(%q, 'a').write('.')\n        self.fail()\n", marker)
			}
			dir := b.unpack(t)
			before := snapshot(t, dir)
			cmd, out := command(t, dir, candidateagent.Job{Candidate: 1, Candidates: 1, Test: b.test, Timeout: "5m"})
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
				if info, err := os.Stat(marker); err == nil && info.Size() > 2 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("the search did not begin")
				}
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Errorf("it claims success:\n%s", out)
			}
			if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
				t.Errorf("the tree changed:\n%s", diff)
			}
			if !strings.Contains(out.String(), "edits tried") {
				t.Errorf("no report:\n%s", out)
			}
		})
	}
}

func TestProtectedFilesAreNeverTouched(t *testing.T) {
	b := find(t, "py-script")
	dir := b.unpack(t)
	cmd, out := command(t, dir, candidateagent.Job{Candidate: 1, Candidates: 1, Test: b.test, Protected: []string{"lib/"}, Timeout: "5m"})
	if err := cmd.Run(); err == nil || !strings.Contains(out.String(), "0 edits in 0 files") {
		t.Errorf("want no edits at all, got %v:\n%s", err, out)
	}
}

func TestSameCandidateTriesTheSame(t *testing.T) {
	b := find(t, "py-null-guard")
	passed := 0
	for c := 1; c <= 2; c++ {
		var reports []string
		for range 2 {
			ok, out := repairWithin(t, b, b.unpack(t), c, 2, 60)
			if ok {
				passed++
			}
			reports = append(reports, regexp.MustCompile(`one try takes.*|, \d+ ended.*`).ReplaceAllString(out, ""))
		}
		if reports[0] != reports[1] {
			t.Errorf("two runs of candidate %d differ:\n%s\n%s", c, reports[0], reports[1])
		}
	}
	if passed < 2 {
		t.Error("neither candidate found an edit in 60 tries")
	}
}

// What the failing test printed outlives the change to a quicker command.
func TestPrepareKeepsTheOutput(t *testing.T) {
	for name, want := range map[string]string{"go-logic": "only touch", "py-script": "AssertionError"} {
		b := find(t, name)
		root := b.unpack(t)
		tree, err := remember(root)
		if err != nil {
			t.Fatal(err)
		}
		a := &agent{
			job: candidateagent.Job{Root: root, Test: b.test}, dir: root, env: os.Environ(), plain: os.Environ(), scratch: t.TempDir(),
			deadline: time.Now().Add(5 * time.Minute), tree: tree,
		}
		base := a.run(t.Context(), b.test, a.plain, time.Minute, true)
		a.prepare(t.Context(), &base, time.Minute)
		a.server.close()
		if !strings.Contains(base.output, want) || base.passed() {
			t.Errorf("%s: %+v", name, base)
		}
		if a.scene.cover == nil || len(a.scene.cover.inFailed) == 0 && name == "go-logic" {
			t.Errorf("%s: no coverage", name)
		}
	}
}

// A function that recurses for ever most likely lacks a case that ends it.
func TestSymptomsComeFirst(t *testing.T) {
	b := find(t, "go-missing-case")
	f := parseFile("power.go", b.files["power.go"], languageOf("power.go"))
	suspicion := make([]float64, 40)
	for i := range suspicion {
		suspicion[i] = 1
	}
	rank := func(output string) int {
		return slices.IndexFunc(propose([]place{{f, suspicion}}, diagnose(output)), func(e edit) bool {
			return strings.Contains(e.apply(), "if exponent == 0 {\n\t\treturn 1\n")
		})
	}
	if with, without := rank("fatal error: stack overflow"), rank("FAIL"); with < 0 || with > 8 || without <= with {
		t.Errorf("rank %d with the symptom, %d without", with, without)
	}
}

// Where the test hung from the beginning, a pass may take longer than a try
// may at first.
func TestSlowPassIsFound(t *testing.T) {
	b := bug{test: []string{"python3", "check.py"}, files: map[string]string{
		"wait.py":  "def laps(n):\n    while n >= 0:\n        n = n // 2\n    return n\n",
		"check.py": "import time\nfrom wait import laps\nassert laps(4) == 0\ntime.sleep(1.5)\n",
	}}
	ok, out := repair(t, b, b.unpack(t), 1, 1, 30*time.Second)
	if !ok {
		t.Errorf("not found:\n%s", out)
	}
}

func TestWorksInASubdirectory(t *testing.T) {
	b := find(t, "py-binary-search")
	for p, content := range b.files {
		delete(b.files, p)
		b.files["tool/"+p] = content
	}
	dir := b.unpack(t)
	cmd, out := command(t, dir, candidateagent.Job{Candidate: 1, Candidates: 1, Test: b.test, Timeout: "5m"})
	cmd.Dir = filepath.Join(dir, "tool")
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "tool/search.py:4") {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestRefusals(t *testing.T) {
	job := func(change func(*candidateagent.Job)) string {
		j := candidateagent.Job{Candidate: 1, Candidates: 1, Root: t.TempDir(), Test: []string{"true"}, Timeout: "1m"}
		change(&j)
		b, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, c := range map[string]struct {
		args []string
		in   string
		code int
		want string
	}{
		"arguments":       {args: []string{"x"}, in: job(func(*candidateagent.Job) {}), code: exitUsage, want: "no arguments"},
		"no job":          {in: "", code: exitUsage, want: "read the job"},
		"unknown key":     {in: `{"candidate":1,"candidates":1,"root":"/","timeout":"1s","seed":3}`, code: exitUsage, want: "seed"},
		"no test":         {in: job(func(j *candidateagent.Job) { j.Test = nil }), code: exitUsage, want: "no test"},
		"no such program": {in: job(func(j *candidateagent.Job) { j.Test = []string{"no-such-program-here"} }), code: exitNothing, want: "no-such-program-here"},
		"passes already":  {in: job(func(*candidateagent.Job) {}), code: exitNothing, want: "passes already"},
		"nothing to edit": {in: job(func(j *candidateagent.Job) { j.Test = []string{"false"} }), code: exitNothing, want: "no edit made"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			code := Main(t.Context(), c.args, strings.NewReader(c.in), &out, &out, os.Environ())
			if code != c.code || !strings.Contains(out.String(), c.want) {
				t.Errorf("exit %d, want %d with %q:\n%s", code, c.code, c.want, out.String())
			}
		})
	}
}

// BenchmarkRepair measures how many of the bugs are repaired by N candidates,
// two at a time, that stop when one is done:
//
//	go test -run '^$' -bench Repair -benchtime 1x -timeout 0 ./candidate/agent/mutate
func BenchmarkRepair(b *testing.B) {
	for _, seconds := range []int{30, 60} {
		for _, n := range []int{1, 2, 4, 8} {
			b.Run(fmt.Sprintf("%ds/n=%d", seconds, n), func(b *testing.B) {
				for b.Loop() {
					repaired, all := 0, bugs(b)
					for _, bug := range all {
						ok, by := race(b, bug, n, time.Duration(seconds)*time.Second)
						if ok {
							repaired++
						}
						b.Logf("%-24s %v %s", bug.name, ok, by.Round(100*time.Millisecond))
					}
					b.ReportMetric(float64(repaired), "repaired")
					b.ReportMetric(float64(len(all)), "bugs")
				}
			})
		}
	}
}

func race(b *testing.B, x bug, n int, limit time.Duration) (bool, time.Duration) {
	began := time.Now()
	var found atomic.Bool
	var running errgroup.Group
	running.SetLimit(2)
	for c := 1; c <= n; c++ {
		running.Go(func() error {
			if found.Load() {
				return nil
			}
			cmd, _ := command(b, x.unpack(b), candidateagent.Job{Candidate: c, Candidates: n, Test: x.test, Timeout: limit.String()})
			if err := cmd.Start(); err != nil {
				return err
			}
			done := make(chan struct{})
			go func() {
				for {
					select {
					case <-done:
						return
					case <-time.After(100 * time.Millisecond):
						if found.Load() {
							_ = cmd.Process.Signal(syscall.SIGTERM)
						}
					}
				}
			}()
			if cmd.Wait() == nil {
				found.Store(true)
			}
			close(done)
			return nil
		})
	}
	if err := running.Wait(); err != nil {
		b.Fatal(err)
	}
	return found.Load(), time.Since(began)
}
