package verify

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/plugin/wire"
)

var unittestProject = project{
	argv: []string{"python3", "-m", "unittest", "-v"},
	files: tree{
		"calc.py":      "def add(a, b):\n    return a - b\n\ndef one():\n    return 1\n",
		"test_calc.py": "import unittest\nimport calc\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n\n    def test_one(self):\n        for i in range(2):\n            with self.subTest(i=i):\n                self.assertEqual(calc.one(), 1)\n\n    @unittest.skip('never')\n    def test_skipped(self):\n        pass\n",
	},
	right: tree{"calc.py": "def add(a, b):\n    return a + b\n\ndef one():\n    return 1\n"},
}

var pytestProject = project{
	argv: []string{"/usr/bin/pytest", "-q"},
	files: tree{
		"calc.py":            unittestProject.files["calc.py"],
		"tests/test_calc.py": "import pytest\nimport sys, os\nsys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))\nimport calc\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n\n@pytest.mark.parametrize('n', [1, 2])\ndef test_one(n):\n    assert calc.one() == 1\n\n@pytest.mark.skip\ndef test_skipped():\n    pass\n\n@pytest.mark.xfail\ndef test_known():\n    assert False\n",
		"tests/test_unit.py": "import unittest\n\nclass T(unittest.TestCase):\n    def test_t(self):\n        self.assertTrue(True)\n",
	},
	right: unittestProject.right,
}

// wrongPython is a change of calc.py that runs code when it is imported, or
// when its wrong add is called.
func wrongPython(onImport, onCall string) tree {
	if onCall == "" {
		onCall = "pass"
	}
	return tree{"calc.py": "import os, sys\n" + onImport + "\n\ndef add(a, b):\n    " + strings.ReplaceAll(onCall, "\n", "\n    ") + "\n    return a - b\n\ndef one():\n    return 1\n"}
}

func with(a tree, b tree) tree {
	c := maps.Clone(a)
	maps.Copy(c, b)
	return c
}

func TestAttacksUnittest(t *testing.T) {
	p := unittestProject
	p.try(t,
		attack{"exit on import", wrongPython("os._exit(0)", ""), Forgeable},
		attack{"SystemExit on import", wrongPython("sys.exit(0)", ""), wrong},
		attack{"exit on call", wrongPython("", "os._exit(0)"), Forgeable},
		attack{"exit in a thread", wrongPython("import threading\ndef f():\n    os._exit(0)\n", "threading.Thread(target=f).start()\nimport time\nwhile True: time.sleep(1)"), Forgeable},
		attack{"exit at the end", wrongPython("import atexit\natexit.register(os._exit, 0)", ""), wrong},
		attack{"forged summary", wrongPython("print('Ran 3 tests in 0.1s\\n\\nOK', file=sys.stderr); sys.stderr.flush(); os._exit(0)", ""), Forgeable},
		attack{"its own module for the runner", with(p.files, tree{"unittest.py": "def main(*a, **k): raise SystemExit(0)\n", "json.py": "import os; os._exit(0)\n", "ast.py": "import os; os._exit(0)\n"}), wrong},
		attack{"sitecustomize", tree{"sitecustomize.py": "import os; os._exit(0)\n", "usercustomize.py": "import os; os._exit(0)\n"}, wrong},
		attack{"an assertion replaced", wrongPython("import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None", ""), Forgeable},
		attack{"an assertion replaced for others than the canary", wrongPython("import unittest\nold = unittest.TestCase.assertEqual\nunittest.TestCase.assertEqual = lambda s, a, b, *m: old(s, a, b, *m) if (a, b) == (1, 2) else None", ""), Forgeable},
		attack{"the code of an assertion replaced", wrongPython("import unittest\ndef none(self, first, second, msg=None): pass\nunittest.TestCase.assertEqual.__code__ = none.__code__", ""), Forgeable},
		attack{"a result replaced", wrongPython("import unittest\nunittest.TestResult.wasSuccessful = lambda s: True\nunittest.TestResult.addFailure = lambda *a: None", ""), wrong},
		attack{"loading replaced", wrongPython("import unittest\nunittest.TestLoader.getTestCaseNames = lambda s, c: ['test_one']", ""), Forgeable},
		attack{"an assertion put before the one that is inherited", wrongPython("import unittest\nold = unittest.TestCase.__getattribute__\nunittest.TestCase.__getattribute__ = lambda s, n: (lambda *a, **k: None) if n == 'assertEqual' and type(s).__name__ == 'Calc' else old(s, n)", ""), Forgeable},
		attack{"what mocks assert replaced", with(p.right, tree{"calc.py": "import unittest.mock\nunittest.mock.NonCallableMock.assert_called_with = lambda *a, **k: None\n" + p.right["calc.py"]}), Forgeable},
		attack{"running replaced", wrongPython("import unittest\nunittest.TestCase.run = lambda s, r: (r.startTest(s), r.addSuccess(s), r.stopTest(s))", ""), Forgeable},
		attack{"running replaced, and put back", wrongPython("import unittest\nold = unittest.TestCase.run\ndef run(s, r):\n    if s._testMethodName != 'test_add': return old(s, r)\n    unittest.TestCase.run = old\n    r.startTest(s); r.addSuccess(s); r.stopTest(s)\nunittest.TestCase.run = run", ""), Forgeable},
		attack{"a skip on import", wrongPython("import unittest\nraise unittest.SkipTest('x')", ""), FewerTests},
		attack{"a skip on call", wrongPython("import unittest", "raise unittest.SkipTest('x')"), FewerTests},
		attack{"a report of its own", wrongPython("for fd in range(3, 64):\n    try: os.write(fd, b'[\"test\", \"test_calc.Calc.test_add\", \"passed\"]\\n')\n    except OSError: pass", ""), wrong},
		attack{"descriptors closed", wrongPython("os.closerange(3, 64)", ""), wrong},
		attack{"the reporter of __main__", wrongPython("import __main__\n__main__.report('test', 'test_calc.Calc.test_add', 'passed')", ""), wrong},
		attack{"an interrupt", wrongPython("", "raise KeyboardInterrupt"), Killed},
		attack{"deleted", tree{"test_calc.py": ""}, FewerTests},
		attack{"renamed", tree{"test_calc.py": "import unittest\n\nclass Calc(unittest.TestCase):\n    def test_sub(self): pass\n    def test_one(self): pass\n    def test_more(self): pass\n"}, FewerTests},
		attack{"dies", wrongPython("os.kill(os.getpid(), 9)", ""), Killed},
	)
}

func TestAttacksPytest(t *testing.T) {
	p := pytestProject
	conftest := func(text string) tree { return tree{"conftest.py": text} }
	p.try(t,
		attack{"exit on import", wrongPython("os._exit(0)", ""), Forgeable},
		attack{"exit on call", wrongPython("", "os._exit(0)"), Forgeable},
		attack{"pytest.exit", wrongPython("import pytest", "pytest.exit('x', returncode=0)"), Forgeable},
		attack{"exit in conftest", conftest("import os; os._exit(0)\n"), Forgeable},
		attack{"sys.exit in conftest", conftest("import sys; sys.exit(0)\n"), Forgeable},
		attack{"exit at the end", wrongPython("import atexit\natexit.register(os._exit, 0)", ""), wrong},
		attack{"makereport", conftest("import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    out = yield\n    out.get_result().outcome = 'passed'\n"), Forgeable},
		attack{"deselected", conftest("def pytest_collection_modifyitems(items):\n    items[:] = [i for i in items if 'add' not in i.name]\n"), Forgeable},
		attack{"skipped", conftest("import pytest\ndef pytest_runtest_setup(item):\n    if 'add' in item.name: pytest.skip()\n"), Forgeable},
		attack{"addopts", tree{"pytest.ini": "[pytest]\naddopts = -k none\n"}, FewerTests},
		attack{"a plugin of its own", tree{"pytest.ini": "[pytest]\naddopts = -p evil\n", "evil.py": "import os; os._exit(0)\n"}, wrong},
		attack{"its own modules for the runner", tree{"_pytest.py": "import os; os._exit(0)\n", "pytest.py": "import os; os._exit(0)\n", "pluggy.py": "import os; os._exit(0)\n"}, wrong},
		attack{"a report replaced", wrongPython("import _pytest.reports\nold = _pytest.reports.TestReport.from_item_and_call\ndef new(item, call):\n    r = old(item, call)\n    if 'test_add' in r.nodeid: r.outcome = 'passed'\n    return r\n_pytest.reports.TestReport.from_item_and_call = new", ""), Forgeable},
		attack{"a report replaced, and put back", wrongPython("import _pytest.reports\nT = _pytest.reports.TestReport\nold = T.__dict__['from_item_and_call']\ndef new(item, call):\n    T.from_item_and_call = old\n    r = T.from_item_and_call(item, call)\n    r.outcome = 'passed'\n    return r", "T.from_item_and_call = new"), Forgeable},
		attack{"what tests ask of pytest replaced", wrongPython("import contextlib, pytest\npytest.raises = lambda *a, **k: contextlib.suppress(BaseException)", "return 5"), Forgeable},
		attack{"a call replaced", wrongPython("import _pytest.python\n_pytest.python.Function.runtest = lambda self: None", ""), Forgeable},
		attack{"a skip on call", wrongPython("import pytest", "pytest.skip('x')"), FewerTests},
		attack{"xfail on call", wrongPython("import pytest", "pytest.xfail('x')"), FewerTests},
		attack{"forged summary", wrongPython("print('3 passed in 0.1s'); sys.stdout.flush(); os._exit(0)", ""), Forgeable},
		attack{"deleted", tree{"tests/test_calc.py": ""}, FewerTests},
		attack{"its own tests for others", tree{"tests/test_calc.py": "def test_1(): pass\ndef test_2(): pass\ndef test_3(): pass\n"}, FewerTests},
		attack{"does not load", tree{"calc.py": "def add(\n"}, wrong},
	)
	p.argv = []string{"/usr/bin/python3", "-m", "pytest", "tests/test_calc.py"}
	p.try(t, attack{"a plugin that is found by its metadata", tree{
		"evil.egg-info/entry_points.txt": "[pytest11]\nevil = evil\n", "evil.egg-info/PKG-INFO": "Metadata-Version: 1.0\nName: evil\nVersion: 1\n",
		"evil.py": "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    out = yield\n    if 'add' in item.name: out.get_result().outcome = 'passed'\n",
	}, Forgeable}, attack{"exit on call", wrongPython("", "os._exit(0)"), Forgeable})
}

// TestBaseThatDoesNotLoad: the tests of a file that cannot be imported are
// read off it.
func TestBaseThatDoesNotLoad(t *testing.T) {
	for _, argv := range [][]string{{"python3", "-m", "unittest"}, {"/usr/bin/pytest"}} {
		p := project{
			argv: argv,
			files: tree{
				"calc.py":      "def one():\n    return 1\n",
				"test_calc.py": "import unittest\nfrom calc import add\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n    def test_one(self):\n        pass\n",
				"test_more.py": "import unittest\n\nclass More(unittest.TestCase):\n    def test_more(self):\n        pass\n",
			},
			right: unittestProject.right,
		}
		p.try(t,
			attack{"exit", wrongPython("os._exit(0)", ""), Forgeable},
			attack{"skips", wrongPython("import unittest", "raise unittest.SkipTest()"), FewerTests},
			attack{"wrong", unittestProject.files, wrong},
			attack{"a test put in another's place", tree{"calc.py": "import sys, unittest\n\ndef add(a, b):\n    sys.modules['test_calc'].Calc.test_one = unittest.TestCase.tearDown\n    return a + b\n\ndef one():\n    return 2\n"}, Forgeable},
			attack{"a test kept quiet", tree{"calc.py": "import sys\n\ndef add(a, b):\n    calc = sys.modules['test_calc'].Calc\n    old = calc.test_one\n    def test_one(self):\n        try: old(self)\n        except AssertionError: pass\n    calc.test_one = test_one\n    return a + b\n"}, Forgeable},
		)
		if base := p.base(t, wire.Failed); base.Expected.Count() != 3 {
			t.Errorf("%+v", base.Expected)
		}
	}
}

// TestRunnerThatIsNotThere: what cannot be observed is not a failed base.
func TestRunnerThatIsNotThere(t *testing.T) {
	for _, argv := range [][]string{{"python3", "-S", "-m", "unittest"}, {"python3", "-m", "pytest"}} {
		if argv[1] == "-m" && exec.Command(argv[0], "-c", "import pytest").Run() == nil {
			continue // it is there
		}
		a := pluginIn(t, lay(t, unittestProject.files), nil, ObserveArgs(time.Minute, nil, argv)...)
		base, ok := ReadObservation(sandbox.Result{End: sandbox.Exited, Code: a.code, Stdout: sandbox.Output{Head: a.stdout}})
		if ok || base.Expected != nil || base.Weak == "" {
			t.Errorf("%v: %+v\n%s%s", argv, base, a.stdout, a.stderr)
		}
	}
}

// TestReplacedTests: a test that earlier ones replace is not the one that the
// base has.
func TestReplacedTests(t *testing.T) {
	p := unittestProject
	p.files = with(p.files, tree{"test_calc.py": strings.ReplaceAll(p.files["test_calc.py"], "test_add", "test_zero")})
	evil := tree{"calc.py": "import sys\n\ndef add(a, b): return a - b\n\ndef one():\n    sys.modules['test_calc'].Calc.test_zero = lambda self: None\n    return 1\n"}
	p.try(t, attack{"replaced", evil, Forgeable})
	q := pytestProject
	q.files = with(q.files, tree{"tests/test_calc.py": "import sys\nsys.path.insert(0, '.')\nimport calc\n\ndef test_a():\n    assert calc.one() == 1\n\ndef test_b():\n    assert calc.add(2, 3) == 5\n"})
	evil = tree{"calc.py": "import sys\n\ndef add(a, b): return a - b\n\ndef one():\n    def t(): pass\n    sys.modules['test_calc'].test_b.__code__ = t.__code__\n    return 1\n"}
	q.try(t, attack{"replaced", evil, Forgeable})
}

// TestExpectPass: a base that passes is one, and a change that breaks it is
// not achieved.
func TestExpectPass(t *testing.T) {
	p := unittestProject
	p.files = with(p.files, p.right)
	base := p.base(t, wire.Passed)
	if base.ExitCode == nil || *base.ExitCode != 0 {
		t.Errorf("%+v", base)
	}
	e, reason, a := p.verified(t, base, nil)
	if reason != "" || e.Measurements[ExitCode] != 0 {
		t.Errorf("%+v, %q\n%s", e, reason, a.stderr)
	}
	e, reason, a = p.verified(t, base, unittestProject.files)
	if reason != "" || e.Measurements[ExitCode] == 0 {
		t.Errorf("%+v, %q\n%s", e, reason, a.stderr)
	}
}

// helperLibrary is a stand-in for a library with which tests assert, which is
// none of the tree's.
func helperLibrary(t *testing.T) string {
	t.Helper()
	return lay(t, tree{
		"numpy/__init__.py":                  "",
		"numpy/testing/__init__.py":          "from ._private.utils import *\nfrom ._private import utils\n",
		"numpy/testing/_private/__init__.py": "#\n",
		"numpy/testing/_private/utils.py": "import contextlib, functools\n\ndef loud(f):\n    @functools.wraps(f)\n    def inner(*a, **k): return f(*a, **k)\n    return inner\n\n" +
			"def assert_equal(a, b):\n    if a != b: raise AssertionError((a, b))\n\n@loud\ndef assert_close(a, b):\n    assert_equal(a, b)\n\n@contextlib.contextmanager\ndef suppress():\n    yield\n\nclass Case:\n    def same(self, a, b): assert_equal(a, b)\n",
	})
}

// TestAttacksOnHelpers: the functions of libraries with which tests assert are
// those of their own sources.
func TestAttacksOnHelpers(t *testing.T) {
	library := helperLibrary(t)
	uses := "import numpy.testing\n"
	// How functions are compared is one thing for both runners, so all ways to
	// replace one are tried with the one that starts faster.
	attacks := []attack{
		{"wrong", unittestProject.files, wrong},
		{"one replaced by what has no code", wrongPython(uses+"numpy.testing.assert_equal = print", ""), Forgeable},
		{"one replaced where it is declared", wrongPython(uses+"numpy.testing._private.utils.assert_equal = numpy.testing.assert_equal = lambda a, b: None", ""), Forgeable},
		{"its code replaced", wrongPython(uses+"numpy.testing.assert_equal.__code__ = (lambda a, b: None).__code__", ""), Forgeable},
		{"in sitecustomize", tree{"sitecustomize.py": uses + "numpy.testing.assert_equal = lambda a, b: None\n", "evil.pth": "import os; os._exit(0)\n"}, wrong},
		{"in a module of its name", tree{"numpy/__init__.py": "#\n", "numpy/testing.py": "assert_equal = assert_close = lambda a, b: None\n"}, Forgeable},
	}
	conftest := tree{"conftest.py": uses + "numpy.testing.assert_equal = lambda a, b: None\n"}
	each := []attack{
		{"one replaced", wrongPython(uses+"numpy.testing.assert_equal = lambda a, b: None", ""), Forgeable},
		{"replaced when called", wrongPython(uses, "numpy.testing.assert_close = lambda a, b: None\nreturn 5"), Forgeable},
	}
	project{
		argv: []string{"env", "PYTHONPATH=" + library, "python3", "-m", "unittest"},
		files: with(unittestProject.files, tree{"test_calc.py": "import unittest\n" + uses +
			"import calc\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        numpy.testing.assert_equal(calc.add(2, 3), 5)\n        numpy.testing.assert_close(calc.one(), 1)\n"}),
		right: unittestProject.right,
	}.try(t, slices.Concat(attacks, each, []attack{{"in conftest", conftest, wrong}})...)
	project{
		argv: []string{"env", "PYTHONPATH=" + library, "/usr/bin/python3", "-m", "pytest", "-q"},
		files: with(unittestProject.files, tree{"test_calc.py": uses +
			"import calc\n\ndef test_add():\n    numpy.testing.assert_equal(calc.add(2, 3), 5)\n    numpy.testing.assert_close(calc.one(), 1)\n"}),
		right: unittestProject.right,
	}.try(t, append(each, attack{"in conftest", conftest, Forgeable})...)
}
