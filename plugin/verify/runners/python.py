"""Runs unittest or pytest so that a parent can believe what it reports.

Started by the verifier as `python3 -I FILE SETTINGS`, from outside of the
tested tree, so that the runner's own modules are imported before anything of
the tree can stand in for them. SETTINGS is a JSON file with:
  mode    "unittest" or "pytest"
  report  the file that the report is written to
  token   what begins each line of the report, and what the canary says
  nonce   what names the canary
  args    the arguments of the command
  path    what the command itself puts first on sys.path: "cwd", or ""
  user    whether the command sees the user's own site-packages
  patched the names that are known to be replaced on the base
  base    whether this is the base, of which as much as can be is to be known
All these files are gone before a line of the tree runs.
"""
import ast
import json
import os
import sys

sys.dont_write_bytecode = True  # beside tests, where it would differ each time

_settings = sys.argv[1]
with open(_settings, encoding="utf-8") as f:
    S = json.load(f)
_fd = os.open(S["report"], os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
for _path in (_settings, S["report"], __file__):
    os.unlink(_path)


import site  # noqa: E402
if S["user"] and os.path.isdir(site.getusersitepackages()):
    site.addsitedir(site.getusersitepackages())  # of the HOME, which -I leaves out


def reporter(fd, token, write=os.write, dumps=json.dumps, owner=os.getpid(), getpid=os.getpid):
    def report(kind, *what):
        if getpid() == owner:  # and not a fork of the tests
            write(fd, (token + dumps([kind, *what]) + "\n").encode("utf-8", "backslashreplace"))
    return report


report = reporter(_fd, S["token"])


plain = (type(lambda: 0), type, staticmethod, classmethod, property)


def callables(module):
    """The functions, and those of classes, with the names they go by."""
    for name, value in list(vars(module).items()):
        if isinstance(value, plain) and not name.startswith("__warning"):
            yield module.__name__ + "." + name, vars(module), name, value
            if isinstance(value, type) and value.__module__ == module.__name__:
                for inner, v in list(vars(value).items()):
                    if isinstance(v, plain):
                        yield value.__module__ + "." + value.__name__ + "." + inner, value, inner, v


def code_of(value):
    value = getattr(value, "__func__", value)
    return getattr(value, "__code__", None), getattr(value, "__defaults__", None)


def integrity(prefixes, known, modules=sys.modules, getattr=getattr, vars=vars, isinstance=isinstance, type=type, code_of=code_of, plain=plain):
    """A function that lists what was replaced of a runner since now."""
    kept, classes = [], {}
    for name, module in list(modules.items()):
        if module is not None and name.split(".")[0] in prefixes:
            for label, holder, key, value in callables(module):
                kept.append((label, holder, key, value, code_of(value)))
                if isinstance(value, type) and value.__module__ == name:
                    classes[value] = label, len(vars(value)), set(vars(value))
    import builtins
    loose = {"open", "print", "input", "exit", "quit", "breakpoint", "__import__", "_"}
    for key, value in list(vars(builtins).items()):
        if key not in loose and callable(value):
            kept.append(("builtins." + key, vars(builtins), key, value, (None, None)))

    def replaced():
        out = []
        for label, holder, key, value, code in kept:
            now = (holder if isinstance(holder, dict_type) else vars(holder)).get(key)
            if (now is not value or code[0] is not None and code_of(value)[0] is not code[0]) and label not in known:
                out.append(label)
        for holder, (label, size, names) in classes.items():
            if len(vars(holder)) != size:  # does something new stand before what it inherits?
                for key in set_type(vars(holder)) - names:
                    value = vars(holder)[key]
                    if (is_callable(value) or isinstance(value, plain)) and any_of(key in vars(c) for c in holder.__mro__[1:]) and label + "." + key not in known:
                        out.append(label + "." + key)
        return out
    dict_type, set_type, any_of, is_callable = dict, set, any, callable
    return replaced


def of_the_tests(path, top):
    """Whether a file, by its place, is no part of what is tested: such files
    below the tree are protected."""
    *folders, name = os.path.relpath(os.path.abspath(path), top).split(os.sep)
    return (folders[:1] == [".."] or {"tests", "test", "site-packages"} & set(folders) or name in ("conftest.py", "tests.py")
            or name.startswith("test_") or name.endswith("_test.py"))


def genuineness(known, compilers, unwrap, open=open, getattr=getattr, of_the_tests=of_the_tests, top=os.getcwd()):
    """A function that tells whether a test's code is what its source says, or
    what it inherits, or was wrapped in, says in a source of the tests."""
    seen = {}

    def codes(code):
        yield code
        for const in code.co_consts:
            if isinstance(const, type(code)):
                yield from codes(const)

    def sources(path):
        if path not in seen:
            seen[path] = set()
            for compiled in compilers:
                try:
                    seen[path].update(codes(compiled(path)))
                except Exception:
                    pass
        return seen[path]

    def inner(function):
        function = unwrap(function)
        function = getattr(getattr(function, "hypothesis", None), "inner_test", function)
        return getattr(function, "__func__", function)

    def genuine(label, function, path):
        name, layers = label.replace(":", ".").split(".")[-1], [inner(function)]
        for layer in layers:  # which grows
            code = getattr(layer, "__code__", None)
            if label in known or code in sources(path):
                return True
            if code is None or len(layers) > 20 or not of_the_tests(code.co_filename, top) or code not in sources(code.co_filename):
                continue
            if code.co_name == name:
                return True
            for cell in layer.__closure__ or ():
                try:
                    layers.append(inner(cell.cell_contents))
                except ValueError:
                    pass  # it is empty
        return False
    return genuine


HELPERS = ("numpy.testing", "pandas.testing", "pandas._testing", "torch.testing", "scipy._lib._testutils", "hamcrest", "assertpy",
           "testfixtures", "absl.testing", "django.test", "nose.tools")


def helping(known, compiled, top, modules=sys.modules, helpers=HELPERS, vars=vars, getattr=getattr, isinstance=isinstance, parse=ast.parse, open=open):
    """A function that lists what is not, in the modules with which tests
    assert, what their own sources say. They are looked at once they are there."""
    seen, kept, count = set(), [], [0]
    functions, function = (ast.FunctionDef, ast.AsyncFunctionDef), type(lambda: 0)

    def helper(name):
        return any_of(name == h or name.startswith(h + ".") for h in helpers)

    def codes(code):
        yield code
        for const in code.co_consts:
            if isinstance(const, type(code)):
                yield from codes(const)

    def within(path):
        return path.startswith(top + os_sep)

    def look(name, module, path):
        with open(path, "rb") as f:
            tree = parse(f.read())
        own, out = set(codes(compiled(path))), []

        def declared(label, holder, node):
            value = vars(holder).get(node.name)
            kept.append((label, holder, node.name, value, code_of(value)[0]))
            code = code_of(value)[0]
            if node.decorator_list:  # which may make anything of it but what the tree has
                if code is not None and within(code.co_filename):
                    out.append(label)
            elif not isinstance(value, function) or code not in own:
                out.append(label)
        last = {n.name: n for n in tree.body if isinstance(n, (*functions, ast.ClassDef))}
        for node in last.values():
            label = name + "." + node.name
            if isinstance(node, functions):
                declared(label, module, node)
            elif isinstance(vars(module).get(node.name), type) and not node.decorator_list:
                for inner in {n.name: n for n in node.body if isinstance(n, functions)}.values():
                    declared(label + "." + inner.name, vars(module)[node.name], inner)
        for node in tree.body:
            if not isinstance(node, ast.ImportFrom):
                continue
            base = name if path.endswith("__init__.py") else name.rpartition(".")[0]
            for _ in range(node.level - 1):
                base = base.rpartition(".")[0]
            origin = ".".join(x for x in (base if node.level else "", node.module) if x)
            if not helper(origin) or modules.get(origin) is None:
                continue
            there = vars(modules[origin])
            names = [(n, n) for n in there if not n.startswith("_")] if node.names[0].name == "*" else [(a.name, a.asname or a.name) for a in node.names]
            for old, new in names:
                if new not in last and isinstance(there.get(old), function) and new in vars(module):
                    kept.append((name + "." + new, module, new, vars(module)[new], code_of(vars(module)[new])[0]))
                    if vars(module)[new] is not there[old]:
                        out.append(name + "." + new)
        return out

    def replaced():
        out = []
        if len(modules) != count[0]:
            for name, module in list_of(modules.items()):
                path = getattr(module, "__file__", None)
                if name in seen or not helper(name) or not isinstance(path, str) or not path.endswith(".py"):
                    continue
                seen.add(name)
                if within(path):  # unless it is what is tested, which the base says
                    kept_here.append(name + " of the tree")
                    continue
                try:
                    out += look(name, module, path)
                except (OSError, SyntaxError, ValueError):
                    pass
            count[0] = len(modules)
        for label, holder, key, value, code in kept:
            now = vars(holder).get(key)
            if now is not value or code is not None and code_of(now)[0] is not code:
                out.append(label)
        return [label for label in out + kept_here if label not in known]
    kept_here = []
    any_of, list_of, os_sep = any, list, os.sep
    return replaced


def plainly(path):
    with open(path, "rb") as f:
        return compile(f.read(), path, "exec", dont_inherit=True)


SKIPS = {"skip", "skipIf", "skipif", "skipUnless", "skipTest", "SkipTest", "importorskip", "xfail", "expectedFailure"}


def mentions(words, *nodes):
    return any((getattr(n, "attr", None) or getattr(n, "id", None)) in words for node in nodes for n in ast.walk(node))


def tests_in(path):
    """The tests that a source declares, as (class or "", function), but for
    those that it says may be skipped, or are expected to fail."""
    try:
        with open(path, "rb") as f:
            tree = ast.parse(f.read())
    except (OSError, SyntaxError, ValueError):
        return
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)

    def marks(body):  # names that are given to such a decorator
        return {t.id for n in body if isinstance(n, ast.Assign) and mentions(SKIPS, n.value) for t in n.targets if isinstance(t, ast.Name)}
    words = SKIPS | marks(tree.body)
    if "pytestmark" in words:
        return
    for node in tree.body:
        if isinstance(node, functions) and node.name.startswith("test") and not mentions(words, node):
            yield "", node.name
        if isinstance(node, ast.ClassDef) and not mentions(words, *node.decorator_list) and "pytestmark" not in marks(node.body):
            for inner in node.body:
                if isinstance(inner, functions) and inner.name.startswith("test") and not mentions(words, inner):
                    yield node.name, inner.name


def as_the_command_has_it():
    """sys.path and the bytecode cache as the command would have them."""
    import importlib._bootstrap_external as machinery
    import types
    sys.dont_write_bytecode = True
    top, cached = os.getcwd() + os.sep, machinery.cache_from_source

    def cache_from_source(path, *args, **kwargs):
        if os.path.abspath(path).startswith(top):
            raise NotImplementedError("bytecode of the tree is not used")
        return cached(path, *args, **kwargs)
    machinery.cache_from_source = cache_from_source
    globals()["_kept"] = sys.modules["__main__"]  # or its names would go with it
    sys.modules["__main__"] = types.ModuleType("__main__")
    extra = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    sys.path[0:0] = ([os.getcwd()] if S["path"] == "cwd" else []) + extra


def run_unittest():
    import unittest
    import unittest.async_case  # noqa: F401: loaded late otherwise
    import unittest.mock  # noqa: F401
    import inspect
    name = "test_bestof_" + S["nonce"]
    replaced = integrity({"unittest"}, set(S["patched"]))
    helped = helping(set(S["patched"]), plainly, os.getcwd())

    def canary(self):
        self.assertEqual(1, 2, S["token"])
    Canary = type("Bestof", (unittest.TestCase,), {name: canary, "__module__": "bestof"})

    def check():
        found = replaced() + helped()
        if found:
            report("replaced", found[:20])

    genuine = genuineness(set(S["patched"]), [plainly], inspect.unwrap)

    def source_of(module):
        tail = module.replace(".", os.sep)
        for folder in list(sys.path):
            for path in (os.path.join(folder, tail + ".py"), os.path.join(folder, tail, "__init__.py")):
                if os.path.isfile(path):
                    return path
        return ""

    ids = []

    def flat(suite):
        for test in suite:
            if isinstance(test, unittest.BaseTestSuite):
                flat(test)
            elif test is not None:
                ids.append(test.id())

    class Result(unittest.TextTestResult):
        def tell(self, test, status, words=""):
            if isinstance(test, Canary):
                report("canary", status, words[-2000:] if S["token"] in words else "")
            elif test.__class__.__name__ == "_FailedTest":
                report("broken", test._testMethodName)
                module = sys.modules.get(test._testMethodName)
                path = getattr(module, "__file__", None) or source_of(test._testMethodName)
                for group, function in tests_in(path):
                    if group:
                        report("alike", "%s.%s.%s" % (test._testMethodName, group, function))
            elif test.__class__.__name__ == "_ErrorHolder":  # of what is set up for a class or a module
                if status == "failed":
                    report("broken", test.id())
                    place = test.id().partition("(")[2].rstrip(")") + "."
                    for one in ids:
                        if one.startswith(place):
                            report("alike", one)
            else:
                check()
                report("test", test.id(), status)

        def startTest(self, test):
            if isinstance(test, Canary):
                unittest.TestResult.startTest(self, test)
                return
            super().startTest(test)
            method = getattr(test, "_testMethodName", None)
            function = vars(type(test)).get(method) if method else None
            if function is not None and not isinstance(test, Canary):
                if not genuine(test.id(), function, source_of(type(test).__module__)):
                    report("replaced", [test.id()])

        def addSuccess(self, test):
            if isinstance(test, Canary):
                unittest.TestResult.addSuccess(self, test)
            else:
                super().addSuccess(test)
            self.tell(test, "passed")

        def addFailure(self, test, err):
            if isinstance(test, Canary):
                unittest.TestResult.addFailure(self, test, err)
            else:
                super().addFailure(test, err)
            self.tell(test, "failed", str(err[1]))

        def addError(self, test, err):
            super().addError(test, err)
            self.tell(test, "failed", "")

        def addSkip(self, test, reason):
            super().addSkip(test, reason)
            self.tell(test, "skipped")

        def addExpectedFailure(self, test, err):
            super().addExpectedFailure(test, err)
            self.tell(test, "skipped")

        def addUnexpectedSuccess(self, test):
            super().addUnexpectedSuccess(test)
            self.tell(test, "failed")

        def stopTestRun(self):
            self.failures[:] = [f for f in self.failures if not isinstance(f[0], Canary)]
            self.testsRun -= 1
            super().stopTestRun()

        def addSubTest(self, test, subtest, err):
            super().addSubTest(test, subtest, err)
            if err is not None:
                self.tell(test, "failed")

    class Runner(unittest.TextTestRunner):
        resultclass = Result

        def run(self, test):
            check()  # what was replaced may put itself back when it is used
            flat(test)
            result = super().run(unittest.TestSuite([test, Canary(name)]))
            check()
            report("end", 0)
            return result

    main = unittest.main
    report("ready", "")
    as_the_command_has_it()
    main(module=None, argv=["python -m unittest"] + S["args"], testRunner=Runner)


def run_pytest():
    import pytest
    import _pytest.unittest  # noqa: F401: loaded late otherwise
    import unittest.async_case  # noqa: F401
    import unittest.mock  # noqa: F401
    import inspect
    import pathlib
    import _pytest.assertion.rewrite as rewrite
    from _pytest.runner import runtestprotocol as protocol
    rewrite._read_pyc = lambda *args, **kwargs: None
    name = "test_bestof_" + S["nonce"]
    source = os.path.join(os.path.dirname(_settings), name + ".py")
    with open(source, "w", encoding="utf-8") as f:
        f.write("def %s():\n    assert 1 == 2, %r\n" % (name, S["token"]))

    import _pytest.config
    import importlib
    for part in _pytest.config.default_plugins:
        importlib.import_module("_pytest." + part)
    known = set(S["patched"])
    replaced = integrity({"_pytest", "pytest", "pluggy", "unittest"}, known)
    helped = helping(known, plainly, os.getcwd())

    class Plugin:
        def __init__(self):
            self.canaries = []
            self.replaced = replaced
            self.genuine = lambda label, function, path: True

        @pytest.hookimpl(tryfirst=True)
        def pytest_collection(self, session):
            def rewritten(path):
                return rewrite._rewrite_test(pathlib.Path(path), session.config)[1]
            self.genuine = genuineness(set(S["patched"]), [plainly, rewritten], inspect.unwrap)

        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, session, config, items):
            self.check()
            for item in items:
                report("listed", item.nodeid)
            places = sorted({os.path.dirname(str(item.path)) for item in items})[:64] or [os.getcwd()]
            for place in places:  # so that what applies to the tests there applies to it
                module = pytest.Module.from_parent(session, path=pathlib.Path(source))
                canary = pytest.Function.from_parent(module, name=name)  # whatever tests are called here
                canary.path = pathlib.Path(place, name + ".py")
                items.append(canary)
                self.canaries.append(canary)
            report("canaries", len(places))
            os.unlink(source)

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_protocol(self, item, nextitem):
            if item not in self.canaries:
                return None
            for r in protocol(item, log=False, nextitem=nextitem):
                if r.when == "call":
                    report("canary", r.outcome, S["token"] if S["token"] in str(r.longrepr) else "")
            return True

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_call(self, item):
            function = getattr(item, "function", None)
            if function is not None and item not in self.canaries:
                label = item.nodeid.split("[")[0]
                if not self.genuine(label, function, str(item.path)):
                    report("replaced", [label])

        def plugins(self, config):
            """What takes part in the session, by names that hold in any directory."""
            for label, plugin in config.pluginmanager.list_name_plugin():
                if plugin is not None and plugin is not self:
                    if label == str(id(plugin)):
                        label = "%s.%s" % (type(plugin).__module__, type(plugin).__qualname__)
                    yield "plugin " + os.path.relpath(label) if os.path.isabs(label) else "plugin " + label

        def check(self):
            found = self.replaced() + helped()
            if found:
                report("replaced", found[:20])

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_makereport(self, item, call):
            self.check()  # before the report is made by what may have been replaced

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logreport(self, report):
            self.tell(report)

        def tell(self, r):
            if r.failed:
                report("test", r.nodeid, "failed")
            elif r.skipped:
                report("test", r.nodeid, "skipped")
            elif r.when == "call":
                report("test", r.nodeid, "passed")

        @pytest.hookimpl(tryfirst=True)
        def pytest_collectreport(self, report):
            self.tell_collected(report)

        def tell_collected(self, r):
            if not r.failed or r.nodeid.endswith(name + ".py"):
                return
            report("broken", r.nodeid)
            for group, function in tests_in(os.path.join(str(self.root), r.nodeid)):
                report("alike", "::".join(x for x in (r.nodeid, group, function) if x))

        def pytest_configure(self, config):
            self.root = getattr(config, "rootpath", None) or config.rootdir
            if S["base"]:  # what can be loaded runs, so that it is known what it does
                config.option.continue_on_collection_errors = True
            if getattr(config.option, "dist", "no") != "no":  # pytest-xdist's, which looks at it last
                config.option.dist = "no"  # or tests run in processes that report elsewhere

        @pytest.hookimpl(trylast=True)
        def pytest_sessionfinish(self, session, exitstatus):
            self.check()
            report("replaced", [p for p in self.plugins(session.config) if p not in known])
            report("end", int(exitstatus))

    main, plugin = pytest.main, Plugin()
    report("ready", "")
    as_the_command_has_it()
    return main(S["args"], plugins=[plugin])


if __name__ == "__main__":
    sys.argv[:] = [S["mode"]] + S["args"]
    sys.exit(run_pytest() if S["mode"] == "pytest" else run_unittest())
