package verify

import (
	"slices"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// again observes single tests of the project after a change.
func (p project) again(t *testing.T, base Base, change tree) Base {
	t.Helper()
	a := pluginIn(t, lay(t, p.files, change), nil, ObserveArgs(time.Minute, base.Expected, p.argv)...)
	seen, ok := ReadObservation(sandbox.Result{End: sandbox.Exited, Code: a.code, Stdout: sandbox.Output{Head: a.stdout}})
	if !ok || seen.Results == nil {
		t.Fatalf("%v %+v\n%s", ok, seen, a.stderr)
	}
	return seen
}

// TestAttacksOnNamedTests: who reports tests as passed whose process he spoilt
// is not believed, also where he reports another as failed, so that the run
// claims no success.
func TestAttacksOnNamedTests(t *testing.T) {
	pytest := project{
		argv:  []string{"pytest", "-q"},
		files: tree{"calc.py": "def add(a, b):\n    return a - b\n", "test_calc.py": "import calc\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n\ndef test_zero():\n    assert calc.add(0, 0) == 0\n"},
		right: tree{"calc.py": "def add(a, b):\n    return a + b\n"},
	}
	patched := `def add(a, b):
    return a - b


def _own():
    import sys
    m = sys.modules.get("_pytest.reports")
    if m is None:
        return
    old = m.TestReport.from_item_and_call.__func__

    def f(cls, item, call):
        r = old(cls, item, call)
        if "bestof" not in r.nodeid and r.when == "call":
            r.outcome, r.longrepr = "passed", None
        return r
    m.TestReport.from_item_and_call = classmethod(f)


_own()
`
	printed := "package x\n\nimport \"os\"\n\nfunc init() {\n\tos.Stdout.WriteString(\"\\x16=== RUN   TestAdd\\n\\x16--- PASS: TestAdd (0.00s)\\n\\x16=== RUN   TestOther\\n\\x16--- FAIL: TestOther (0.00s)\\n\")\n\tos.Exit(1)\n}\n"
	silent := "package x\n\nimport \"os\"\n\nfunc init() {\n\tos.Stdout.WriteString(\"\\x16=== RUN   TestAdd\\n\\x16--- PASS: TestAdd (0.00s)\\nPASS\\n\")\n\tos.Exit(0)\n}\n"
	for name, c := range map[string]struct {
		p      project
		test   string
		change tree
		passes bool
		forged bool
	}{
		"go, right":                      {goProject, "x.TestAdd", goProject.right, true, false},
		"go, wrong":                      {goProject, "x.TestAdd", nil, false, false},
		"go, one failed, others printed": {goProject, "x.TestAdd", tree{"zz.go": printed}, false, false},
		"go, all printed":                {goProject, "x.TestAdd", tree{"zz.go": silent}, false, true},
		"pytest, right":                  {pytest, "test_calc.py::test_add", pytest.right, true, false},
		"pytest, its reports replaced":   {pytest, "test_calc.py::test_add", tree{"calc.py": patched}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := c.p.again(t, c.p.base(t, wire.Failed), c.change)
			if got := slices.Contains(seen.Results.Passed, c.test); got != c.passes || (seen.Doubt != "") != (!c.passes && c.change != nil) || seen.Forged != c.forged {
				t.Errorf("%+v: %+v", seen, seen.Results)
			}
		})
	}
}
