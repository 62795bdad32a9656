package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bestof-dev/bestof/mcp/mcptest"

	"github.com/bestof-dev/bestof/candidate/sandbox/inside"
	"github.com/bestof-dev/bestof/worktree"
)

func TestMain(m *testing.M) {
	if worktree.HoldMounts() {
		return
	}
	inside.Main(os.Args)
	testscript.Main(withShipped{m}, map[string]func(){
		"bestof": func() {
			code := Main(context.Background(), os.Args, Process{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(), Self: os.Getenv(staticVariable)})
			if len(os.Args) > 1 && os.Args[1] == "internal" {
				// What runs in a sandbox has no say about the race detector,
				// which makes os.Exit wait for a second.
				syscall.Exit(code)
			}
			os.Exit(code)
		},
	})
}

// withShipped runs tests with the program as it is shipped first on the PATH: it is
// what people have, and costs a part of what it does under the race detector.
type withShipped struct{ m *testing.M }

// racedProgram is the other one.
var racedProgram string

func (w withShipped) Run() int {
	dir, err := os.MkdirTemp("", "shipped-")
	if err == nil {
		defer os.RemoveAll(dir)
		racedProgram, err = exec.LookPath("bestof")
	}
	file := os.Getenv(staticVariable)
	if file == "" {
		file = filepath.Join(dir, "bestof")
		err = errors.Join(err, os.Chmod(dir, 0o755), static(file), os.Setenv(staticVariable, file))
	}
	if err = errors.Join(err, os.Setenv("PATH", filepath.Dir(file)+string(os.PathListSeparator)+os.Getenv("PATH"))); err != nil {
		fmt.Fprintln(os.Stderr, "the program as it is shipped:", err)
		return 1
	}
	return w.m.Run()
}

// raced are the names of scripts whose commands run under the race detector, all
// but what they run of themselves in sandboxes: the tests of sandboxes, of the
// built-in agent and of the built-in plugin look at that.
var raced = regexp.MustCompile(`^(run_winner|run_budget|limits|interrupt_twice|p1_untouched|p7_kill|red_gate|escaped|docker_run|docker_warm` +
	`|batch_run|batch_stop|batch_tools|job_batch|job_results|job_watched|machine_limit|telemetry_run` +
	`|plugin_turn|candidate_tools|mcp_share|mcp_serve|tool_door|network|view_adopt)$`)

// TestScripts runs every script of testdata/script: each is one promise or one
// thing that a user does, through the real command line on real repositories.
//
// Those in which much happens at once are raced.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Values[worldKey{}] = &worlds{}
			e.Values[readerKey{}] = &reader{}
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("BESTOF_HOME", filepath.Join(home, ".bestof"))
			// Without the first, every command takes a second longer under the
			// race detector; the second tells of races also where nobody looks.
			e.Setenv("GORACE", "atexit_sleep_ms=0 log_path="+filepath.Join(e.WorkDir, raceLog))
			e.Defer(func() { tellRaces(e) })
			e.Setenv("NO_COLOR", "1")
			program, err := exec.LookPath("bestof")
			if err != nil {
				return err
			}
			if raced.MatchString(strings.TrimPrefix(filepath.Base(e.WorkDir), "script-")) {
				program = racedProgram
				e.Setenv("PATH", filepath.Dir(program)+string(os.PathListSeparator)+e.Getenv("PATH"))
			}
			e.Setenv("BESTOF", program)
			e.Setenv(staticVariable, os.Getenv(staticVariable))
			examples, err := filepath.Abs("../../../plugin/examples")
			if err != nil {
				return err
			}
			e.Setenv("EXAMPLES", examples)
			e.Setenv("LANG", "C.UTF-8")
			e.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			if cache, err := os.UserCacheDir(); err == nil { // what a script itself builds is not built from nothing
				e.Setenv("GOCACHE", filepath.Join(cache, "go-build"))
			}
			for _, name := range []string{"BESTOF_TEST_PLAIN", "PYENV_ROOT", "GOFLAGS", "GOCACHE", "GOMODCACHE"} {
				if v, ok := os.LookupEnv(name); ok {
					e.Setenv(name, v)
				}
			}
			if err := os.MkdirAll(filepath.Join(home, ".bestof"), 0o700); err != nil {
				return err
			}
			gitconfig := "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n"
			return os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(gitconfig), 0o644)
		},
		Condition: func(cond string) (bool, error) {
			if cond != "root" {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			return os.Geteuid() == 0, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   cmdExits,
			"repo":    cmdRepo,
			"picture": cmdPicture,
			"json":    cmdJSON,
			"until":   cmdUntil,
			"nothing": cmdNothing,
			"mounted": cmdMounted,

			"web":      cmdWeb,
			"registry": cmdRegistry,
			"members":  cmdMembers,
			"stalled":  cmdStalled,
			"browse":   cmdBrowse,

			"enter": cmdEnter,
			"open":  cmdOpen,
			"press": cmdPress,

			"programs":   func(ts *testscript.TestScript, _ bool, _ []string) { cmdPrograms(t, ts) },
			"images":     func(ts *testscript.TestScript, _ bool, args []string) { cmdImages(t, ts, args) },
			"volumes":    func(ts *testscript.TestScript, _ bool, args []string) { cmdVolumes(t, ts, args) },
			"containers": func(ts *testscript.TestScript, _ bool, args []string) { cmdContainers(t, ts, args) },

			"candidate": cmdCandidate,
			"uses":      cmdUses,
			"choices":   cmdChoices,
		},
	})
}

// raceLog begins the names of the files in which the race detector tells what it
// saw in the commands of a script.
const raceLog = ".race-log"

// tellRaces fails a script in which a command raced, also one that nobody
// waited for: a daemon's invocations write into the logs of their runs.
func tellRaces(e *testscript.Env) {
	for _, pattern := range []string{raceLog + ".*", "home/.bestof/jobs/runs/*/log"} {
		files, _ := filepath.Glob(filepath.Join(e.WorkDir, pattern))
		for _, file := range files {
			if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte("DATA RACE")) {
				e.T().Fatal(fmt.Sprintf("%s:\n%s", file, b))
			}
		}
	}
}

// programs names in MCP_PROGRAMS where the pinned MCP servers are.
func cmdPrograms(t *testing.T, ts *testscript.TestScript) {
	ts.Setenv("MCP_PROGRAMS", filepath.Join(mcptest.Modules(t), ".bin"))
}

// exits CODE PROGRAM ARG… runs a program that must end with exactly CODE.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%s ended with status %d, not %d", args[1], got, want)
	}
}

// repo DIR makes DIR, whose files the script wrote, a repository with one
// commit.
func cmdRepo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: repo DIR")
	}
	dir := ts.MkAbs(args[0])
	for _, argv := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "--allow-empty", "-m", "First"}} {
		ts.Check(ts.Exec("git", append([]string{"-C", dir}, argv...)...))
	}
}

// picture FILE DIR writes every byte that a user could miss in the repository
// DIR: all files with modes and links, refs, index, stash, config and status,
// but not .bestof itself. Two equal pictures mean an untouched repository.
func cmdPicture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: picture FILE DIR")
	}
	dir := ts.MkAbs(args[1])
	var lines []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if rel == ".bestof" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%q %s", rel, info.Mode())
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(b)
			line += " " + hex.EncodeToString(sum[:])
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" -> %q", target)
		}
		lines = append(lines, line)
		return nil
	})
	ts.Check(err)
	status := exec.Command("git", "--no-optional-locks", "-C", dir, "status", "--porcelain=v2", "--branch", "--show-stash", "-z")
	status.Env = append(os.Environ(), "HOME="+ts.Getenv("HOME"))
	out, err := status.Output()
	ts.Check(err)
	lines = append(lines, fmt.Sprintf("status %q", out))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Join(lines, "\n")+"\n"), 0o644))
}

// json PATH VALUE compares a value of the last JSON on stdout; PATH is like
// candidates.0.outcome, VALUE is JSON or a bare word.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: json PATH VALUE")
	}
	var v any
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	dec.UseNumber()
	ts.Check(dec.Decode(&v))
	for _, part := range strings.Split(args[0], ".") {
		switch x := v.(type) {
		case map[string]any:
			value, ok := x[part]
			if !ok {
				ts.Fatalf("%s: there is no %q", args[0], part)
			}
			v = value
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(x) {
				ts.Fatalf("%s: no element %q of %d", args[0], part, len(x))
			}
			v = x[i]
		default:
			ts.Fatalf("%s: %v has no %q", args[0], v, part)
		}
	}
	b, err := json.Marshal(v)
	ts.Check(err)
	got := string(b)
	if s, ok := v.(string); ok && !strings.HasPrefix(args[1], `"`) {
		got = s
	}
	if (got == args[1]) == neg {
		ts.Fatalf("%s is %s, want %s (negated: %v)", args[0], got, args[1], neg)
	}
}

// until FILE TEXT waits until a file that matches the pattern FILE holds TEXT.
func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: until FILE TEXT")
	}
	deadline := time.Now().Add(5 * time.Minute)
	for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
		names, err := filepath.Glob(ts.MkAbs(args[0]))
		ts.Check(err)
		for _, name := range names {
			if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), args[1]) {
				return
			}
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no file %s holds %q after five minutes", args[0], args[1])
		}
	}
}

// nothing WORD waits until no process has WORD in its command line, and fails
// if one still has after ten seconds. With ! it waits until one has.
func cmdNothing(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: nothing WORD")
	}
	deadline := time.Now().Add(10 * time.Second)
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		found := processesWith(args[0])
		if (len(found) == 0) != neg {
			return
		}
		if time.Now().After(deadline) {
			for _, pid := range found {
				_ = syscall.Kill(pid, syscall.SIGKILL) // leave no mess for the next test
			}
			ts.Fatalf("after ten seconds the processes with %q in their command lines are %v", args[0], found)
		}
	}
}

// mounted DIR waits until a process sees a mount below DIR. With ! it waits
// until none does, and fails if one still does after ten seconds.
func cmdMounted(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: mounted DIR")
	}
	dir := ts.MkAbs(args[0])
	if neg {
		if found := unmounted(dir); len(found) > 0 {
			ts.Fatalf("after ten seconds the processes %v see mounts below %s", found, dir)
		}
		return
	}
	deadline := time.Now().Add(10 * time.Second)
	for tick := time.NewTicker(10 * time.Millisecond); len(mountedFor(dir)) == 0; <-tick.C {
		if time.Now().After(deadline) {
			ts.Fatalf("after ten seconds nobody sees a mount below %s", dir)
		}
	}
}

// unmounted waits until no process sees a mount below dir, for ten seconds at
// most, and returns those that still do.
func unmounted(dir string) []int {
	deadline := time.Now().Add(10 * time.Second)
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		if found := mountedFor(dir); len(found) == 0 || time.Now().After(deadline) {
			return found
		}
	}
}

// mountedFor lists the processes that see a mount below dir, in whatever
// namespace.
func mountedFor(dir string) []int {
	var found []int
	names, _ := filepath.Glob("/proc/[0-9]*/mountinfo")
	for _, name := range names {
		b, err := os.ReadFile(name)
		if pid, aerr := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && aerr == nil && strings.Contains(string(b), " "+dir+"/") {
			found = append(found, pid)
		}
	}
	return found
}

func processesWith(word string) []int {
	var found []int
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		b, err := os.ReadFile(name)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && pid != os.Getpid() && slices.Contains(strings.Split(string(b), "\x00"), word) {
			found = append(found, pid)
		}
	}
	return found
}
