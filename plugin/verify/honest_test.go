package verify

import (
	"testing"

	"github.com/bestof-dev/bestof/plugin/wire"
)

// honestly holds the right change against a base whose tests fail.
func (p project) honestly(t *testing.T) {
	base := p.base(t, wire.Failed)
	e, reason, a := p.verified(t, base, p.right)
	if reason != "" || e.Measurements[ExitCode] != 0 {
		t.Errorf("%+v, %q; expected %+v\n%s", e, reason, base.Expected, a.stderr)
	}
}

// TestHonest: what ordinary repositories do costs a right change nothing.
func TestHonest(t *testing.T) {
	for name, p := range map[string]project{
		"go: base does not build, a test that skips": {
			argv:  []string{"go", "test", "."},
			files: tree{"go.mod": "module x\n\ngo 1.24\n", "x.go": "package x\n", "x_test.go": "package x\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) { if Add(1, 2) != 3 { t.Fatal() } }\nfunc TestDocker(t *testing.T) { t.Skip(\"no docker\") }\n"},
			right: goProject.right,
		},
		"go: -skip": {
			argv:  []string{"go", "test", "-skip", "TestSlow", "."},
			files: tree{"go.mod": "module x\n\ngo 1.24\n", "x.go": "package x\n", "x_test.go": "package x\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) { if Add(1, 2) != 3 { t.Fatal() } }\nfunc TestSlow(t *testing.T) { t.Fatal() }\n"},
			right: goProject.right,
		},
		"go: -failfast": {
			argv:  []string{"go", "test", "-failfast", "-p=1", "./..."},
			files: goProject.files,
			right: goProject.right,
		},
		"go: a subtest with a path in its name": {
			argv:  []string{"go", "test", "."},
			files: tree{"go.mod": "module x\n\ngo 1.24\n", "x.go": "package x\n\nfunc Add(a, b int) int { return 0 }\n", "x_test.go": "package x\n\nimport (\"testing\"; \"os\")\n\nfunc TestAdd(t *testing.T) { d, _ := os.Getwd(); t.Run(d+\"/case\", func(t *testing.T) { if Add(1, 2) != 3 { t.Fatal() } }) }\n"},
			right: goProject.right,
		},
		"pytest: base cannot be imported, others skip": {
			argv: []string{"/usr/bin/pytest", "-q"},
			files: tree{"calc.py": "\n", "conftest.py": "\n", "test_new.py": "import pytest\nfrom calc import add\n\ndef test_add():\n    assert add(1, 2) == 3\n\n@pytest.mark.skip\ndef test_never(): pass\n",
				"test_old.py": "import pytest\n\ndef test_old(): pass\n\n@pytest.mark.skip\ndef test_skipped(): pass\n\n@pytest.mark.xfail\ndef test_known(): assert False\n\ndef test_here():\n    pytest.importorskip('nothing_like_it')\n"},
			right: tree{"calc.py": "def add(a, b):\n    return a + b\n"},
		},
		"pytest: paths as parameters": {
			argv:  []string{"/usr/bin/pytest", "-q"},
			files: tree{"calc.py": "def add(a, b):\n    return 0\n", "conftest.py": "\n", "test_new.py": "import pytest, os, glob\nfrom calc import add\n\n@pytest.mark.parametrize('path', glob.glob(os.path.dirname(os.path.abspath(__file__)) + '/c*.py'))\ndef test_add(path):\n    assert add(1, 2) == 3\n"},
			right: tree{"calc.py": "def add(a, b):\n    return a + b\n"},
		},
		"pytest: inherited and wrapped tests of a base that cannot be imported": {
			argv:  []string{"/usr/bin/pytest", "-q"},
			files: tree{"calc.py": "\n", "conftest.py": "\n", "tests/common.py": "class Common:\n    def test_common(self):\n        assert self.add(1, 2) == 3\n", "tests/test_new.py": "from calc import add\nfrom common import Common\n\ndef loud(f):\n    def call():\n        return f()\n    return call\n\nclass TestAdd(Common):\n    def add(self, a, b): return add(a, b)\n\n@loud\ndef test_loud():\n    assert add(1, 2) == 3\n"},
			right: tree{"calc.py": "def add(a, b):\n    return a + b\n"},
		},
		"pytest: tests that would run in other processes, as pytest-xdist has it": {
			argv: []string{"/usr/bin/pytest", "-x"},
			files: tree{
				"calc.py":     "def add(a, b):\n    return 0\n",
				"conftest.py": "import pytest\n\ndef pytest_addoption(parser):\n    parser.addoption('--dist', default='load')\n\nclass Elsewhere:\n    def pytest_collection(self): return True\n\n@pytest.hookimpl(trylast=True)\ndef pytest_configure(config):\n    if config.option.dist != 'no':\n        config.pluginmanager.register(Elsewhere(), 'dsession')\n",
				"a/test_a.py": "from calc import add\n\ndef test_add():\n    assert add(1, 2) == 3\n", "b/test_b.py": "def test_b(): pass\n",
			},
			right: tree{"calc.py": "def add(a, b):\n    return a + b\n"},
		},
		"unittest: setUpClass fails on the base": {
			argv:  []string{"python3", "-m", "unittest"},
			files: tree{"calc.py": "\n", "test_new.py": "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): cls.three = calc.add(1, 2)\n    def test_add(self): self.assertEqual(self.three, 3)\n"},
			right: tree{"calc.py": "def add(a, b):\n    return a + b\n"},
		},
		"unittest: a folder of tests that cannot be imported": {
			argv:  []string{"python3", "-m", "unittest", "discover", "-s", "tests", "-t", "."},
			files: tree{"calc.py": "\n", "tests/__init__.py": "\n", "tests/test_new.py": "import unittest\nfrom calc import add\n\nclass T(unittest.TestCase):\n    def test_add(self): self.assertEqual(add(1, 2), 3)\n    @unittest.skip('x')\n    def test_skip(self): pass\n    def test_here(self): self.skipTest('x')\n"},
			right: tree{"calc.py": "def add(a, b):\n    return a + b\n"},
		},
		"unittest: a flat folder of tests that cannot be imported": {
			argv:  []string{"python3", "-m", "unittest", "discover", "-s", "tests"},
			files: tree{"calc.py": "\n", "tests/test_new.py": "import unittest\nfrom calc import add\n\nclass T(unittest.TestCase):\n    def test_add(self): self.assertEqual(add(1, 2), 3)\n"},
			right: tree{"calc.py": "def add(a, b):\n    return a + b\n"},
		},
		"pytest: doctests and other ways to import": {
			argv: []string{"/usr/bin/pytest", "--doctest-modules", "--import-mode=importlib", "-p", "no:cacheprovider", "--strict-markers", "-W", "error"},
			files: tree{
				"calc.py":         "def add(a,b):\n    '''\n    >>> add(1, 2)\n    3\n    '''\n    return 0\n",
				"conftest.py":     "import sys, os\nsys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))\n",
				"tests/test_a.py": "import asyncio, unittest\nfrom calc import add\ndef test_a(tmp_path, capsys, monkeypatch):\n    monkeypatch.setattr('builtins.input', lambda *a: '1')\n    assert add(1,2)==3\nclass TestX(unittest.IsolatedAsyncioTestCase):\n    async def test_y(self):\n        self.assertEqual(add(1,2),3)\n",
			},
			right: tree{"calc.py": "def add(a,b):\n    '''\n    >>> add(1, 2)\n    3\n    '''\n    return a+b\n"},
		},
		"pytest: names and settings of its own": {
			argv: []string{"/usr/bin/pytest", "-c", "cfg/pytest.ini", "--rootdir=."},
			files: tree{
				"calc.py":        "def add(a,b):\n    return 0\n",
				"cfg/pytest.ini": "[pytest]\npython_files = check_*.py\npython_functions = it_*\nfilterwarnings = error\nxfail_strict = true\npythonpath = ..\ntestpaths = ../t\n",
				"t/check_a.py":   "import pytest\nfrom calc import add\n@pytest.fixture(params=[1,2], scope='module')\ndef one(request):\n    yield request.param\ndef it_adds(one):\n    assert add(one,2)==one+2\n@pytest.mark.xfail(reason='x')\ndef it_x(): assert 0\n",
			},
			right: tree{"calc.py": "def add(a, b):\n    return a + b\n"},
		},
		"node: a module that cannot be linked on the base": {
			argv: []string{"node", "--test"},
			files: tree{
				"package.json":   "{\"type\":\"module\"}\n",
				"calc.js":        "export const one = 1\n",
				"test/a.test.js": "import {describe,it,before,after,mock} from 'node:test'\nimport assert from 'node:assert/strict'\nimport {add} from '../calc.js'\ndescribe('s', () => { before(()=>{}); describe('n', () => { it('adds', () => assert.equal(add(1,2),3)); it.skip('no', ()=>{}); it.todo('later') }) })\n",
				"test/b.test.js": "import test from 'node:test'\ntest('b', async (t) => { await t.test('sub', () => {}) })\ntest('todo', {todo:true}, () => { throw 1 })\n",
			},
			right: tree{"calc.js": "export const add = (a,b) => a+b\n"},
		},
		"node: tests that fork and start threads": {
			argv: []string{"node", "--test", "a.test.js"},
			files: tree{
				"calc.js":   "exports.add = () => 0\n",
				"child.js":  "process.send(1); process.disconnect()\n",
				"w.js":      "require('worker_threads').parentPort.postMessage(1)\n",
				"a.test.js": "const {test} = require('node:test'), assert = require('assert'), {fork} = require('child_process'), {Worker} = require('worker_threads'), {add} = require('./calc.js')\ntest('f', (t, done) => { fork(__dirname+'/child.js').on('exit', (c) => { assert.equal(c, 0); assert.equal(add(1,2),3); done() }) })\ntest('w', (t, done) => { new Worker(__dirname+'/w.js').on('exit', (c) => { assert.equal(c, 0); done() }) })\n",
			},
			right: tree{"calc.js": "exports.add = (a,b) => a+b\n"},
		},
		"node: a file that cannot be loaded on the base": {
			argv: []string{"node", "--test"},
			files: tree{
				"calc.js":   "exports.add = () => 0\n",
				"a.test.js": "const {test} = require('node:test'), assert = require('assert'), {add} = require('./new.js')\ntest('f', () => { assert.equal(add(1,2),3) })\n",
				"b.test.js": "require('node:test')('b', () => {})\n",
			},
			right: tree{"new.js": "exports.add = (a,b) => a+b\n"},
		},
		"node: mocks, and tests of the same name": {
			argv: []string{"node", "--test"},
			files: tree{
				"calc.js":   "exports.add = () => 0\n",
				"a.test.js": "const {test,mock} = require('node:test'), assert = require('assert'), {add} = require('./calc.js')\ntest('m', (t) => { const o = {f(){return 1}}; t.mock.method(o,'f',()=>2); assert.equal(o.f(),2); assert.equal(add(1,2),3) })\ntest('same', ()=>{})\ntest('same', ()=>{})\n",
			},
			right: tree{"calc.js": "exports.add = (a,b) => a+b\n"},
		},
		"unittest: names, mixins and what is loaded by hand": {
			argv: []string{"python3", "-m", "unittest", "-f", "-b", "test_a.T", "test_b"},
			files: tree{
				"calc.py":   "def add(a,b):\n    return 0\n",
				"test_a.py": "import unittest\nfrom unittest import mock\nimport calc\ndef setUpModule(): pass\nclass Base:\n    def test_base(self): self.assertEqual(calc.add(1,2),3)\nclass T(Base, unittest.TestCase):\n    @mock.patch('calc.x', create=True)\n    def test_p(self, m): m(1); m.assert_called_with(1)\n    @unittest.expectedFailure\n    def test_e(self): self.fail()\n",
				"test_b.py": "import unittest\ndef load_tests(loader, tests, pattern):\n    return tests\nfor i in range(2):\n    pass\nclass D(unittest.TestCase): pass\nfor i in range(2):\n    setattr(D, 'test_%d' % i, lambda self: None)\n",
			},
			right: tree{"calc.py": "def add(a, b):\n    return a + b\n"},
		},
		"go: flags, examples, fuzz targets, modules below": {
			argv: []string{"go", "test", "-short", "-cover", "-shuffle=on", "-cpu=1,2", "-count=2", "-timeout=30s", "./..."},
			files: tree{
				"go.mod":            "module x\n\ngo 1.24\n",
				"x.go":              "package x\n\nfunc Add(a, b int) int { return 0 }\n",
				"x_test.go":         "package x\n\nimport (\"testing\";\"os\";\"fmt\")\nfunc TestMain(m *testing.M) { fmt.Print(\"begin\"); os.Exit(m.Run()) }\nfunc ExampleAdd() {\n\tfmt.Println(Add(1,2))\n\t// Output: 3\n}\nfunc FuzzAdd(f *testing.F) { f.Add(1); f.Fuzz(func(t *testing.T, a int) { Add(a,a) }) }\nfunc BenchmarkAdd(b *testing.B) {}\nfunc TestT(t *testing.T) { for _, c := range []int{1,2} { t.Run(\"\", func(t *testing.T) { t.Parallel(); fmt.Print(\"no newline\"); if Add(c,c) != 2*c { t.Fatal() } }) } }\n",
				"only/only_test.go": "package only_test\n\nimport \"testing\"\nfunc TestOnly(t *testing.T) {}\n",
				"int/i.go":          "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"x\") }\n",
				"tag/t_test.go":     "//go:build slow\n\npackage tag\n",
				"tag/t.go":          "package tag\n",
				"nested/go.mod":     "module nested\n\ngo 1.24\n",
				"nested/n_test.go":  "package nested\n\nfunc x() {\n",
			},
			right: goProject.right,
		},
		"cargo: an ignored test of a base that does not build": {
			argv: []string{"cargo", "test"},
			files: tree{
				"Cargo.toml":    "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
				"src/lib.rs":    "pub fn one() -> i32 { 1 }\n",
				"tests/calc.rs": "#[test]\nfn adds() { assert_eq!(calc::add(1, 2), 3); }\n\n#[ignore]\n#[test]\nfn slow() {}\n\n#[test]\n#[ignore = \"slow\"]\nfn slower() {}\n",
			},
			right: tree{"src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 { a + b }\n"},
		},
	} {
		t.Run(name, p.honestly)
	}
}
