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

// TestHazardsExitBeforeTests: code that ends the run with status 0 before its
// tests ran, skips them, or hides them, is not a pass.
func TestHazardsExitBeforeTests(t *testing.T) {
	python := map[string]string{"code.py": "def add(a, b): return a - b\n", "test_code.py": "import unittest\nfrom code import add\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(add(1, 2), 3)\n    def test_b(self): pass\n"}
	golang := map[string]string{"go.mod": "module x\n\ngo 1.24\n", "x.go": "package x\n\nfunc Add(a, b int) int { return a - b }\n", "x_test.go": "package x\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { if Add(1, 2) != 3 { t.Fail() } }\nfunc TestB(t *testing.T) {}\n"}
	node := map[string]string{"x.js": "exports.add = (a, b) => a - b\n", "x.test.js": "const test = require('node:test'), {add} = require('./x.js')\ntest('a', () => { if (add(1, 2) !== 3) throw 1 })\ntest('b', () => {})\n"}
	for _, c := range []struct {
		name, argv string
		files      map[string]string
		change     map[string]string
		flip       judge.Flip
		reason     Reason
	}{
		{"python, honest", "python3 -m unittest test_code", python, map[string]string{"code.py": "def add(a, b): return a + b\n"}, judge.FlipAchieved, ""},
		{"python exits", "python3 -m unittest test_code", python, map[string]string{"code.py": "import os\nos._exit(0)\n"}, judge.FlipUnobservable, FewerTests},
		{"python skips", "python3 -m unittest test_code", python, map[string]string{"code.py": "import unittest\ndef add(a, b): raise unittest.SkipTest('no')\n"}, judge.FlipUnobservable, FewerTests},
		{"python skips all", "python3 -m unittest", python, map[string]string{"code.py": "import unittest\nraise unittest.SkipTest('no')\n"}, judge.FlipUnobservable, NoTests},
		{"python shadows the runner", "python3 -m unittest test_code", python, map[string]string{"unittest.py": "print('OK')\n"}, judge.FlipUnobservable, FewerTests},
		{"go, honest", "go test -v ./...", golang, map[string]string{"x.go": "package x\n\nfunc Add(a, b int) int { return a + b }\n"}, judge.FlipAchieved, ""},
		{"go exits", "go test -v ./...", golang, map[string]string{"x.go": "package x\n\nimport \"os\"\n\nfunc init() { os.Exit(0) }\n\nfunc Add(a, b int) int { return 0 }\n"}, judge.FlipUnobservable, FewerTests},
		{"go exits in a test", "go test -v ./...", golang, map[string]string{"x.go": "package x\n\nimport \"syscall\"\n\nfunc Add(a, b int) int { syscall.Exit(0); return 0 }\n"}, judge.FlipUnobservable, NoTests},
		{"go hides its tests", "go test ./...", golang, map[string]string{"x_test.go": "//go:build never\n\npackage x\n"}, judge.FlipUnobservable, NoTests},
		{"node, honest", "node --test x.test.js", node, map[string]string{"x.js": "exports.add = (a, b) => a + b\n"}, judge.FlipAchieved, ""},
		{"node exits", "node --test x.test.js", node, map[string]string{"x.js": "process.exit(0)\n"}, judge.FlipUnobservable, FewerTests},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range c.files {
				write(t, root, name, text, 0o644)
			}
			argv := strings.Fields(c.argv)
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "GOFLAGS=", "PYTHONDONTWRITEBYTECODE=1")
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
				t.Fatal(err)
			}
			base := Baseline(sandbox.Result{End: sandbox.Exited, Code: cmd.ProcessState.ExitCode(), Stdout: sandbox.Output{Head: out.Bytes()}, Stderr: sandbox.Output{Head: errs.Bytes()}})
			if base.Status != wire.Failed {
				t.Fatalf("the base does not fail: %+v\n%s%s", base, out.Bytes(), errs.Bytes())
			}
			for name, text := range c.change {
				write(t, root, name, text, 0o644)
			}
			e, reason, a := ask(t, request(t, root, base.Status, argv[0], argv[1:]...), Args(time.Minute, base)...)
			if e.Flip != c.flip || reason != c.reason || (e.Measurements != nil) != (c.reason == "") {
				t.Errorf("base %+v; %+v, reason %q\n%s", base.Tests, e, reason, a.stderr)
			}
		})
	}
}
