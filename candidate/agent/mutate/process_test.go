package mutate

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func gone(t *testing.T, pidFile string) {
	t.Helper()
	b, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d still runs", pid)
		}
	}
}

func TestRunEndsTheGroup(t *testing.T) {
	dir := t.TempDir()
	r := run(t.Context(), dir, os.Environ(), []string{"sh", "-c", "sleep 600 & echo $! >pid; echo out; exit 3"}, time.Minute, true)
	if r.code != 3 || r.hung || r.output != "out\n" || r.took > 30*time.Second {
		t.Errorf("%+v", r)
	}
	gone(t, filepath.Join(dir, "pid"))

	r = run(t.Context(), dir, os.Environ(), []string{"sh", "-c", "trap 'echo here; exit' TERM; echo $$ >pid; while :; do :; done"}, 300*time.Millisecond, true, syscall.SIGTERM)
	if !r.hung || r.passed() || r.output != "here\n" {
		t.Errorf("a test that hangs: %+v", r)
	}
	gone(t, filepath.Join(dir, "pid"))

	if r := run(t.Context(), dir, nil, []string{"no-such-program-here"}, time.Minute, true); r.code != 127 || r.passed() {
		t.Errorf("no program: %+v", r)
	}
}

func TestServerRunsEndsAndForks(t *testing.T) {
	dir := t.TempDir()
	script := `import os, sys, subprocess
mode = open("mode").read()
if mode == "hang":
    child = subprocess.Popen(["sleep", "600"])
    open("pid", "w").write(str(child.pid))
    while True:
        pass
if mode == "exit":
    os._exit(7)
if mode == "raise":
    raise ValueError
print(sys.argv)
sys.exit(0 if __name__ == "__main__" and sys.argv == ["check.py", "x"] else 9)
`
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("check.py", script)
	s := startServer(t.Context(), dir, os.Environ(), []string{"python3", "check.py", "x"})
	if s == nil {
		t.Fatal("no server")
	}
	defer s.close()
	for _, c := range []struct {
		mode string
		code int
		hung bool
	}{{"pass", 0, false}, {"exit", 7, false}, {"raise", 1, false}, {"hang", 0, true}, {"pass", 0, false}} {
		write("mode", c.mode)
		r, skipped, err := s.run(t.Context(), false, "", time.Second)
		if err != nil || skipped || r.code != c.code || r.hung != c.hung || r.passed() != (c.mode == "pass") {
			t.Errorf("%s: %+v, %v, %v", c.mode, r, skipped, err)
		}
	}
	gone(t, filepath.Join(dir, "pid"))

	write("edit.py", "a = 1\n")
	write("mode", "pass")
	for i, c := range []struct {
		text string
		skip bool
	}{{"a = 1\n", false}, {"a   =   1  # the same\n", true}, {"a = = 1\n", true}, {"a = 2\n", false}} {
		write("edit.py", c.text)
		if _, skipped, err := s.run(t.Context(), true, filepath.Join(dir, "edit.py"), time.Second); err != nil || skipped != c.skip {
			t.Errorf("%d: skipped %v, %v", i, skipped, err)
		}
	}
}

// TestServerOfPytest: pytest is run by the Python that its own first line names,
// and a Python without it makes no server.
func TestServerOfPytest(t *testing.T) {
	for first, want := range map[string][]string{
		"#!/opt/tools/bin/python3.11": {"/opt/tools/bin/python3.11"}, "#!/usr/bin/env python3": {"/usr/bin/env", "python3"}, "#!/bin/sh": nil, "": nil,
	} {
		program := filepath.Join(t.TempDir(), "pytest")
		if err := os.WriteFile(program, []byte(first+"\nimport pytest\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		interpreter, rest, ok := pythonCommand([]string{program, "-q"})
		if ok != (want != nil) || ok && (!slices.Equal(interpreter, want) || !slices.Equal(rest, []string{"-m", "pytest", "-q"})) {
			t.Errorf("%q: %q %q %v", first, interpreter, rest, ok)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pytest.py"), []byte("raise ImportError\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "PYTHONPATH="+dir)
	if s := startServer(t.Context(), dir, env, []string{"pytest", "-q"}); s != nil {
		s.close()
		t.Error("a Python that has no pytest serves it")
	}
}
