package verify

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/plugin/wire"
)

func tallied(output string) Tests {
	t := &tally{}
	t.Write([]byte(output))
	got := tests(t)
	got.said = false
	return got
}

func TestTally(t *testing.T) {
	known := func(n int) Tests { return Tests{Known: true, Ran: n, None: n == 0} }
	none := Tests{None: true}
	for output, want := range map[string]Tests{
		"":               {},
		"all is well":    {},
		"5 apples in 3s": {},

		"===== 1 failed, 2 passed, 3 skipped, 1 warning in 0.12s =====": known(3),
		"1 failed, 2 passed in 75.32s (0:01:15)":                        known(3),
		"\x1b[32m=== \x1b[32m2 passed\x1b[0m in 0.01s ===\x1b[0m\r\n":   known(2),
		"1 passed, 1 xfailed, 1 xpassed, 1 error in 0.1s":               known(3),
		"3 skipped in 0.01s":                 known(0),
		"2 deselected in 0.01s":              known(0),
		"no tests ran in 0.00s":              known(0),
		"1 passed in 0.1s\n2 passed in 0.1s": known(3),

		"Ran 3 tests in 0.001s\n\nFAILED (failures=1, skipped=1)\n": known(2),
		"Ran 1 test in 0.001s\n\nOK":                                known(1),
		"Ran 0 tests in 0.000s\n\nOK\n":                             known(0),
		"Ran 2 tests in 0.000s\n\nOK (skipped=2)\n":                 known(0),

		"1..3\n# tests 3\n# suites 0\n# pass 1\n# fail 1\n# cancelled 0\n# skipped 1\n": known(2),
		"ℹ tests 0\nℹ pass 0\nℹ fail 0":                                                 known(0),

		"test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.27s\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out": known(5),
		"Tests:       1 failed, 1 skipped, 2 passed, 4 total": known(3),
		"      Tests  1 failed | 2 passed (3)":                known(3),
		"  2 passing (5ms)\n  1 pending\n  1 failing\n":       known(3),
		"[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 1, Time elapsed: 0.1 s -- in A\n[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 1": known(2),
		"100% tests passed, 0 tests failed out of 3": known(3),
		"No tests found, exiting with code 1":        none,

		"ok  \tx\t0.002s": {},
		"ok  \tx\t0.002s\n?   \ty\t[no test files]":          {},
		"ok  \tx\t0.002s [no tests to run]":                  none,
		"?   \tx\t[no test files]\n?   \ty\t[no test files]": none,
		"go: warning: \"./...\" matched no packages":         none,
		"=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n=== RUN   TestB/s\n--- PASS: TestB (0.00s)\n    --- PASS: TestB/s (0.00s)\nPASS\nok  \tx\t0.1s": known(2),
		"=== RUN   TestA\nprinted--- FAIL: TestA (0.00s)\nFAIL\tx":      known(1),
		"=== RUN   TestA\n--- SKIP: TestA (0.00s)\nPASS\nok  \tx\t0.1s": known(0),
		"=== RUN   TestA\nok  \tx\t0.1s":                                known(0),
		"--- FAIL: TestD (0.00s)\nFAIL\tx\t0.003s":                      {},
		`{"Action":"run","Package":"x","Test":"TestA"}` + "\n" +
			`{"Action":"output","Package":"x","Test":"TestA","Output":"=== RUN   TestA\n"}` + "\n" +
			`{"Action":"output","Package":"x","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}` + "\n" +
			`{"Action":"output","Package":"x","Output":"ok  \tx\t0.01s\n"}`: known(1),
		`{"Action":"output","Package":"x","Output":"?   \tx\t[no test files]\n"}`: none,
	} {
		if got := tallied(output); got != want {
			t.Errorf("%q: %+v, want %+v", output, got, want)
		}
	}
}

// TestTallyOfRealRunners reads what the runners on this machine really print.
func TestTallyOfRealRunners(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module x\n\ngo 1.24\n", 0o644)
	write(t, dir, "x_test.go", "package x\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Run(\"s\", func(*testing.T) {}) }\nfunc TestB(t *testing.T) { t.Skip() }\nfunc TestC(t *testing.T) { t.Fail() }\n", 0o644)
	write(t, dir, "e/e.go", "package e\n", 0o644)
	write(t, dir, "test_x.py", "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n    @unittest.skip('x')\n    def test_b(self): pass\n    def test_c(self): self.fail()\n", 0o644)
	write(t, dir, "x.test.js", "const test = require('node:test');\ntest('a', () => {});\ntest('b', {skip: true}, () => {});\ntest('c', () => { throw 1 });\n", 0o644)
	for _, c := range []struct {
		argv   string
		tests  Tests
		status wire.Baseline
	}{
		{"go test -v .", Tests{Known: true, Ran: 2}, wire.Failed},
		{"go test -json .", Tests{Known: true, Ran: 2}, wire.Failed},
		{"go test .", Tests{}, wire.Failed},
		{"go test -run TestA .", Tests{}, wire.Passed},
		{"go test -run Nothing ./...", Tests{None: true}, wire.Unobserved},
		{"go test -v -run TestB .", Tests{Known: true, None: true}, wire.Unobserved},
		{"go test ./e", Tests{None: true}, wire.Unobserved},
		{"python3 -m unittest", Tests{Known: true, Ran: 2}, wire.Failed},
		{"python3 -m unittest discover -p none*", Tests{Known: true, None: true}, wire.Unobserved},
		{"node --test x.test.js", Tests{Known: true, Ran: 2}, wire.Failed},
		{"node --test --test-name-pattern=a x.test.js", Tests{Known: true, Ran: 1}, wire.Passed},
	} {
		argv := strings.Fields(c.argv)
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = dir
		cmd.Env = append(cmd.Environ(), "GOFLAGS=", "GOWORK=off")
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatalf("%s: %v", c.argv, err)
		}
		b := Baseline(sandbox.Result{End: sandbox.Exited, Code: cmd.ProcessState.ExitCode(), Stdout: sandbox.Output{Head: out.Bytes()}, Stderr: sandbox.Output{Head: errs.Bytes()}})
		b.Tests.said = false
		if b.Tests != c.tests || b.Status != c.status || (b.Status == wire.Unobserved) != (b.Reason != "") {
			t.Errorf("%s: %+v\n%s%s", c.argv, b, out.Bytes(), errs.Bytes())
		}
	}
}

func TestBaseline(t *testing.T) {
	out := func(code int, s string) sandbox.Result {
		return sandbox.Result{End: sandbox.Exited, Code: code, Stdout: sandbox.Output{Head: []byte(s)}}
	}
	for name, c := range map[string]struct {
		r      sandbox.Result
		status wire.Baseline
	}{
		"passes":               {out(0, ""), wire.Passed},
		"fails":                {out(1, ""), wire.Failed},
		"timeout":              {sandbox.Result{End: sandbox.Deadline}, wire.Unobserved},
		"stopped":              {sandbox.Result{End: sandbox.Stopped}, wire.Unobserved},
		"not run":              {sandbox.Result{End: sandbox.NotRun, Reason: "x\ny"}, wire.Unobserved},
		"nothing known":        {sandbox.Result{}, wire.Unobserved},
		"signal":               {sandbox.Result{End: sandbox.Exited, Signal: 9}, wire.Unobserved},
		"memory":               {sandbox.Result{End: sandbox.Exited, Code: 137, OOM: true}, wire.Unobserved},
		"126":                  {out(126, ""), wire.Unobserved},
		"127":                  {out(127, "1 failed in 0.1s"), wire.Unobserved},
		"pytest 5":             {out(5, "no tests ran in 0.01s"), wire.Unobserved},
		"pytest 5 deselected":  {out(5, "3 deselected in 0.01s"), wire.Unobserved},
		"pytest 4":             {out(4, "no tests ran in 0.01s\nERROR: file or directory not found: x"), wire.Unobserved},
		"pytest 4 in conftest": {out(4, "ImportError while loading conftest"), wire.Failed},
		"pytest 2":             {out(2, "1 error in 0.01s"), wire.Failed},
		"status 5":             {out(5, ""), wire.Failed},
		"unittest setup":       {out(1, "Ran 0 tests in 0.000s\n\nFAILED (errors=1)"), wire.Failed},
		"jest":                 {out(1, "No tests found, exiting with code 1"), wire.Unobserved},
		"build":                {out(1, "?   \tx\t[no test files]\nFAIL\ty [build failed]"), wire.Failed},
		"0 of pytest":          {out(0, "3 skipped in 0.01s"), wire.Unobserved},
	} {
		b := Baseline(c.r)
		if b.Status != c.status || (b.Reason == "") != (c.status != wire.Unobserved) || strings.Contains(b.Reason, "\n") || (b.ExitCode != nil) != (c.r.End == sandbox.Exited && c.r.Signal == 0 && !c.r.OOM) {
			t.Errorf("%s: %+v", name, b)
		}
	}
	clipped := Baseline(sandbox.Result{End: sandbox.Exited, Stdout: sandbox.Output{Head: []byte("2 passed"), Tail: []byte(" in 0.1s\n1 passed in 0.2s"), Dropped: 9}})
	if clipped.Tests.Ran != 1 {
		t.Errorf("a line that is cut in two was read: %+v", clipped.Tests)
	}
}

// TestTallySplit: how output is cut into writes makes no difference.
func TestTallySplit(t *testing.T) {
	lines := []string{"1 failed, 2 passed in 0.1s", "=== RUN   TestA", "--- PASS: TestA (0.00s)", "ok  \tx\t0.1s", strings.Repeat("x", maxLine) + "\n3 passed in 1s", "Ran 2 tests in 0.1s", ""}
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(strings.Join(rapid.SliceOf(rapid.SampledFrom(lines)).Draw(t, "lines"), "\n"))
		whole, parts := &tally{}, &tally{}
		whole.Write(text)
		for rest := text; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			parts.Write(rest[:n])
			rest = rest[n:]
		}
		if a, b := tests(whole), tests(parts); a != b {
			t.Fatalf("%+v, in parts %+v", a, b)
		}
	})
}

func FuzzTally(f *testing.F) {
	f.Add([]byte("1 failed in 0.1s\n{\"Action\":\"output\",\"Output\":\"ok  \\tx\"}"))
	f.Add([]byte("Tests run: 99999999999999999999, Failures: 0, Errors: 0, Skipped: 3"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a := &tally{}
		a.Write(b)
		if r := tests(a); r.Ran < 0 || r.None && r.Ran != 0 {
			t.Fatalf("%+v", r)
		}
	})
}
