package verify

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// A project is a tree with a test that fails on it, and what makes it right.
type project struct {
	argv  []string
	files map[string]string
	right map[string]string
}

type tree = map[string]string

const (
	honest = Reason("")
	wrong  = Reason("a failure")
)

func lay(t testing.TB, trees ...tree) string {
	t.Helper()
	root := t.TempDir()
	for _, files := range trees {
		for name, text := range files {
			if text == "" {
				if err := os.RemoveAll(root + "/" + name); err != nil {
					t.Fatal(err)
				}
				continue
			}
			write(t, root, name, text, 0o644)
		}
	}
	return root
}

func toolEnvironment(t *testing.T) []string {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "BESTOF_TEST_AS_PLUGIN=1", "GOFLAGS=", "GOCACHE=" + goCache(), "TMPDIR=" + t.TempDir(), "CARGO_NET_OFFLINE=true"}
	for name, dir := range map[string]string{"CARGO_HOME": "/.cargo", "RUSTUP_HOME": "/.rustup"} {
		if value := os.Getenv(name); value != "" {
			dir = value
		} else {
			dir = home + dir
		}
		if exists(dir) {
			env = append(env, name+"="+dir)
		}
	}
	return env
}

// pluginIn runs the plugin as a process in a directory.
func pluginIn(t *testing.T, dir string, stdin []byte, args ...string) answerOf {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, toolEnvironment(t), bytes.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return answerOf{cmd.ProcessState.ExitCode(), out.Bytes(), errs.Bytes()}
}

func (p project) base(t *testing.T, want wire.Baseline) Base {
	t.Helper()
	a := pluginIn(t, lay(t, p.files), nil, ObserveArgs(time.Minute, nil, p.argv)...)
	base, ok := ReadObservation(sandbox.Result{End: sandbox.Exited, Code: a.code, Stdout: sandbox.Output{Head: a.stdout}})
	if !ok || base.Status != want || base.Expected == nil {
		t.Fatalf("the base: %v %+v\n%s\n%s", ok, base, a.stdout, a.stderr)
	}
	return base
}

// verified is what the plugin says of the project with a change.
func (p project) verified(t *testing.T, base Base, change tree) (wire.Evidence, Reason, answerOf) {
	t.Helper()
	root := lay(t, p.files, change)
	stdin := request(t, root, base.Status, p.argv[0], p.argv[1:]...)
	a := pluginIn(t, root, stdin, Args(time.Minute, base)...)
	if a.code != 0 {
		t.Fatalf("status %d: %s", a.code, a.stderr)
	}
	r, err := wire.DecodeResponse(bytes.TrimSpace(a.stdout), wire.AfterTurn)
	if err != nil {
		t.Fatal(err)
	}
	reason, _ := Note(sandbox.Output{Head: a.stderr})
	return r.After.Evidence, reason, a
}

type attack struct {
	name   string
	change tree
	want   Reason
}

// try lets each attack have its way; the right change has to be met.
func (p project) try(t *testing.T, attacks ...attack) {
	base := p.base(t, wire.Failed)
	for _, a := range append([]attack{{"honest", p.right, honest}, {"unchanged", nil, wrong}}, attacks...) {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			e, reason, answer := p.verified(t, base, a.change)
			ok := reason == a.want
			switch a.want {
			case honest:
				ok = reason == "" && e.Flip == judge.FlipAchieved && e.Measurements[ExitCode] == 0 &&
					e.Measurements[TestsPassed] == e.Measurements[TestsExpected] && e.Measurements[TestsExpected] == uint64(base.Expected.Count())
			case wrong:
				ok = reason == "" && e.Flip == judge.FlipNotAchieved && e.Measurements[ExitCode] > 0
			}
			if !ok || strings.Contains(string(answer.stderr), "bestof") {
				t.Errorf("%+v, reason %q, want %q; expected %+v\n%s", e, reason, a.want, base.Expected, answer.stderr)
			}
		})
	}
}

var goProject = project{
	argv: []string{"go", "test", "./..."},
	files: tree{
		"go.mod":         "module x\n\ngo 1.24\n",
		"x.go":           "package x\n\nfunc Add(a, b int) int { return a - b }\n",
		"x_test.go":      "package x\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tt.Run(\"small\", func(t *testing.T) { if Add(1, 2) != 3 { t.Fatal() } })\n}\nfunc TestOther(t *testing.T) { t.Parallel(); Add(0, 0) }\nfunc TestSkipped(t *testing.T) { t.Skip() }\n",
		"cmd/main.go":    "package main\n\nfunc main() {}\n",
		"cmd/m_test.go":  "package main\n\nimport \"testing\"\n\nfunc TestMainPackage(t *testing.T) {}\n",
		"none/none.go":   "package none\n",
		"out/o.go":       "package out\n\nfunc One() int { return 1 }\n",
		"out/ex_test.go": "package out_test\n\nimport (\"testing\"; \"x/out\")\n\nfunc TestOne(t *testing.T) { if out.One() != 1 { t.Fatal() } }\n",
	},
	right: tree{"x.go": "package x\n\nfunc Add(a, b int) int { return a + b }\n"},
}

func goAttack(imports, body string) tree {
	return tree{"x.go": "package x\n\nimport (" + imports + ")\n\n" + body + "\n"}
}

func TestAttacksGo(t *testing.T) {
	forged := `func Add(a, b int) int { fmt.Print("\x16--- PASS: TestAdd (0.00s)\n--- PASS: TestAdd/small (0.00s)\n\x16=== NAME  \n"); return a - b }`
	p := goProject
	p.argv = []string{"go", "test", "."}
	p.try(t,
		attack{"a base that is kept in another form", tree{"x.go": "package x\n\nfunc Add(a, b int) int { return sum(a, b) }\n", "sum.go": "package x\n\nfunc sum(a, b int) int { return b + a }\n"}, honest},
		attack{"exit in init", goAttack(`"os"`, `func init() { os.Exit(0) }; func Add(a, b int) int { return 0 }`), Forgeable},
		attack{"exit with forged lines", goAttack(`"fmt"; "os"`, `func init() { fmt.Print("=== RUN   TestAdd\n--- PASS: TestAdd (0.00s)\n=== RUN   TestOther\n--- PASS: TestOther (0.00s)\nPASS\n"); os.Exit(0) }; func Add(a, b int) int { return 0 }`), Forgeable},
		attack{"failed exit with forged lines", goAttack(`"fmt"; "os"`, `func init() { fmt.Print("\x16=== RUN   TestAdd\n\x16=== RUN   TestAdd/small\n\x16--- PASS: TestAdd/small (0.00s)\n\x16--- PASS: TestAdd (0.00s)\n\x16=== RUN   TestOther\n\x16--- PASS: TestOther (0.00s)\n\x16FAIL\n"); os.Exit(1) }; func Add(a, b int) int { return 0 }`), Forgeable},
		attack{"forged lines, and on", goAttack(`"fmt"`, forged), wrong},
		attack{"forged events", goAttack(`"fmt"`, `func Add(a, b int) int { fmt.Print("\n{\"Action\":\"pass\",\"Package\":\"x\",\"Test\":\"TestAdd\"}\n"); return a - b }`), wrong},
		attack{"forged events of its runner's output", goAttack(`"fmt"; "os"; "syscall"`, `func Add(a, b int) int {
	if f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", os.Getppid()), os.O_WRONLY, 0); err == nil {
		fmt.Fprint(f, "{\"Action\":\"pass\",\"Package\":\"x\",\"Test\":\"TestAdd\"}\n{\"Action\":\"pass\",\"Package\":\"x\",\"Test\":\"TestAdd/small\"}\n{\"Action\":\"pass\",\"Package\":\"x\",\"Test\":\"TestOther\"}\n{\"Action\":\"pass\",\"Package\":\"x\"}\n")
	}
	syscall.Exit(0)
	return 0
}`), Forgeable},
		attack{"exit in a test", goAttack(`"syscall"`, `func Add(a, b int) int { syscall.Exit(0); return 0 }`), Forgeable},
		attack{"arguments", goAttack(`"os"`, `func init() { os.Args = append(os.Args, "-test.run=^$") }; func Add(a, b int) int { return 0 }`), Forgeable},
		attack{"arguments that list", goAttack(`"os"`, `func init() { os.Args = append(os.Args, "-test.list=NONE") }; func Add(a, b int) int { return 0 }`), Forgeable},
		attack{"arguments that skip", goAttack(`"os"`, `func init() { os.Args = append(os.Args, "-test.skip=^TestAdd$") }; func Add(a, b int) int { return 0 }`), FewerTests},
		attack{"TestMain", tree{"main_test.go": "package x\n\nimport (\"testing\"; \"os\"; \"fmt\")\n\nfunc TestMain(m *testing.M) { fmt.Println(\"--- PASS: TestAdd (0.00s)\\nPASS\"); os.Exit(0) }\n"}, Forgeable},
		attack{"a skip", tree{"x_test.go": "package x\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) { t.Skip() }\nfunc TestOther(t *testing.T) {}\n"}, FewerTests},
		attack{"a test renamed", tree{"x_test.go": "package x\n\nimport \"testing\"\n\nfunc TestSub(t *testing.T) {}\nfunc TestOther(t *testing.T) {}\n"}, FewerTests},
		attack{"a build tag", tree{"x_test.go": "//go:build never\n\n" + goProject.files["x_test.go"]}, FewerTests},
		attack{"no tests", tree{"x_test.go": ""}, FewerTests},
		attack{"its own tests for others", tree{"x_test.go": "package x\n\nimport \"testing\"\n\nfunc TestNew(t *testing.T) {}\nfunc TestNewer(t *testing.T) {}\nfunc TestNewest(t *testing.T) {}\n"}, FewerTests},
		attack{"flags of a file", tree{"go.env": "GOFLAGS=-run=^$\n", ".env": "GOFLAGS=-run=^$\n"}, wrong},
		attack{"another module in place", tree{"go.mod": "module x\n\ngo 1.24\n\nreplace example.org/assert => ./assert\n", "assert/go.mod": "module example.org/assert\n", "x.go": goProject.right["x.go"]}, Forgeable},
		attack{"does not build", tree{"x.go": "package x\n\nfunc Add(a, b int) int {\n"}, wrong},
		attack{"panics", tree{"x.go": "package x\n\nfunc Add(a, b int) int { panic(1) }\n"}, wrong},
	)
}

// TestFilterGo: what the command asked for is what runs, the canary beside it.
func TestFilterGo(t *testing.T) {
	p := goProject
	p.argv = []string{"go", "test", "-run", "TestAdd|TestNo", "-v", "."}
	if base := p.base(t, wire.Failed); base.Expected.Count() != 2 {
		t.Errorf("%+v", base.Expected)
	}
	p.try(t, attack{"exit", goAttack(`"os"`, `func init() { os.Exit(0) }; func Add(a, b int) int { return 0 }`), Forgeable})
}

// TestFilterOfPackages: packages of which the command runs no test are not
// expected to have any.
func TestFilterOfPackages(t *testing.T) {
	p := goProject
	p.argv = []string{"go", "test", "-run=^TestAdd$", "./..."}
	base := p.base(t, wire.Failed)
	if e, reason, a := p.verified(t, base, p.right); len(base.Expected.Units) != 1 || e.Flip != judge.FlipAchieved {
		t.Errorf("%+v: %+v, %q\n%s", base.Expected, e, reason, a.stderr)
	}
	p.argv = goProject.argv
	base = p.base(t, wire.Failed)
	if e, reason, a := p.verified(t, base, p.right); len(base.Expected.Units) != 3 || e.Flip != judge.FlipAchieved || e.Measurements[TestsPassed] != 5 {
		t.Errorf("%+v: %+v, %q\n%s", base.Expected, e, reason, a.stderr)
	}
}

// TestBaseThatDoesNotBuild: tests of what does not exist yet are read off
// their sources.
func TestBaseThatDoesNotBuild(t *testing.T) {
	p := project{
		argv:  []string{"go", "test", "./..."},
		files: tree{"go.mod": "module x\n\ngo 1.24\n", "x.go": "package x\n", "x_test.go": "package x\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) { if Add(1, 2) != 3 { t.Fatal() } }\nfunc TestTwo(t *testing.T) { Add(0, 0) }\n"},
		right: tree{"x.go": "package x\n\nfunc Add(a, b int) int { return a + b }\n"},
	}
	p.try(t,
		attack{"exit", goAttack(`"os"`, `func init() { os.Exit(0) }; func Add(a, b int) int { return 0 }`), Forgeable},
		attack{"skips", goAttack(`"os"`, `func init() { os.Args = append(os.Args, "-test.skip=^TestAdd$") }; func Add(a, b int) int { return 0 }`), FewerTests},
		attack{"wrong", tree{"x.go": "package x\n\nfunc Add(a, b int) int { return 0 }\n"}, wrong},
	)
}
