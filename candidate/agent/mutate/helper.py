# Runs a Python test command many times without starting Python each time: the
# test framework is loaded once and every run is a fork. One JSON object a line
# in, one a line out.
import ast
import json
import os
import runpy
import select
import signal
import sys
import time

replies = os.fdopen(os.dup(1), "w")
requests = os.fdopen(os.dup(0), "r")
null = os.open(os.devnull, os.O_RDWR)
os.dup2(null, 0)
os.dup2(null, 1)
seen = set()
running = 0


def stop(signum, frame):
    if running:
        try:
            os.killpg(running, signal.SIGKILL)
        except OSError:
            pass
    os._exit(1)


class Tracer:
    """Records which lines ran in which test, and which tests failed."""

    def __init__(self, root, out):
        self.root, self.out = os.path.join(root, ""), out
        self.tests, self.current, self.stack = [], None, []
        self.wanted = {}

    def local(self, frame, event, arg):
        if event == "line" and self.current is not None:
            self.current["lines"].setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
        return self.local

    def trace(self, frame, event, arg):
        name = frame.f_code.co_filename
        want = self.wanted.get(name)
        if want is None:
            want = self.wanted[name] = os.path.abspath(name).startswith(self.root)
        return self.local if want else None

    def begin(self):
        self.current = {"failed": False, "lines": {}}
        self.tests.append(self.current)

    def end(self, failed):
        if self.current is not None:
            self.current["failed"] = failed
        self.current = None

    def start(self):
        import unittest
        inner = unittest.TestCase.run
        tracer = self

        def run(case, result=None):
            if result is None or tracer.current is not None:
                return inner(case, result)
            bad = len(result.failures) + len(result.errors)
            tracer.begin()
            try:
                return inner(case, result)
            finally:
                tracer.end(len(result.failures) + len(result.errors) > bad)

        unittest.TestCase.run = run
        if "pytest" in sys.modules:
            self.hook_pytest(sys.modules["pytest"])
        sys.settrace(self.trace)

    def hook_pytest(self, pytest):
        from _pytest import runner
        inner = runner.runtestprotocol
        tracer = self

        def runtestprotocol(*args, **kwargs):
            tracer.begin()
            reports = []
            try:
                reports = inner(*args, **kwargs)
                return reports
            finally:
                tracer.end(any(r.failed for r in reports))

        runner.runtestprotocol = runtestprotocol

    def write(self, *ignored):
        sys.settrace(None)
        tests = [{"failed": t["failed"], "lines": {f: sorted(l) for f, l in t["lines"].items()}} for t in self.tests]
        with open(self.out, "w") as f:
            json.dump({"tests": tests, "stack": self.stack, "modules": sorted(sys.modules)}, f)

    def hung(self, signum, frame):
        self.end(True)
        while frame is not None:
            self.stack.append([frame.f_code.co_filename, frame.f_lineno])
            frame = frame.f_back
        self.write()
        os._exit(1)


def stop_at_first_failure():
    """Ends the process when a test fails: later ones cannot change the verdict."""
    import unittest

    def fail(*ignored):
        os._exit(1)

    for name in ("addFailure", "addError", "addUnexpectedSuccess"):
        setattr(unittest.TestResult, name, fail)


def child(request):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setpgid(0, 0)
    os.dup2(null, 2)
    try:
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    except Exception:
        pass
    argv = request["argv"]
    tracer = None
    if request.get("coverage"):
        tracer = Tracer(request["root"], request["coverage"])
        if argv[:2] == ["-m", "pytest"]:
            import pytest  # noqa: F401
        signal.signal(signal.SIGALRM, tracer.hung)
        signal.setitimer(signal.ITIMER_REAL, request["limit"] * 0.8)
        tracer.start()
    if request.get("brief"):
        stop_at_first_failure()
        if argv[:2] == ["-m", "pytest"]:
            argv = argv[:2] + ["-x", "--tb=no"] + argv[2:]
    code = 1
    try:
        if argv[0] == "-m":
            sys.argv = argv[1:]
            sys.path[0] = os.getcwd()
            runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = argv[:]
            sys.path[0] = os.path.dirname(os.path.abspath(argv[0]))
            runpy.run_path(argv[0], run_name="__main__")
        code = 0
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
    except BaseException:
        import traceback
        traceback.print_exc()
    if tracer is not None:
        tracer.write()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            code = code or 1
    os._exit(code & 255)


def wait(pid, limit):
    """Returns the exit status, or None when the limit passed."""
    end = time.monotonic() + limit
    if hasattr(os, "pidfd_open"):
        fd = os.pidfd_open(pid)
        try:
            ready, _, _ = select.select([fd], [], [], limit)
        finally:
            os.close(fd)
        return os.waitpid(pid, 0)[1] if ready else None
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.001)
    return None


def serve(request):
    global running
    path = request.get("check")
    if path:
        with open(path, "rb") as f:
            try:
                form = ast.dump(ast.parse(f.read()))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return {"skip": True}
        if form in seen:
            return {"skip": True}
        seen.add(form)
    for name in request.get("preload", []):
        try:
            __import__(name)
        except Exception:
            if name == request.get("need"):
                return {"code": 1}
    if not request.get("argv"):
        return {}
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        try:
            child(request)
        finally:
            os._exit(1)
    try:
        os.setpgid(pid, pid)
    except OSError:
        pass
    running = pid
    status = wait(pid, request["limit"])
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    running = 0
    if status is None:
        os.waitpid(pid, 0)
        return {"hung": True, "seconds": time.monotonic() - began}
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    return {"code": code, "seconds": time.monotonic() - began}


signal.signal(signal.SIGTERM, stop)
for line in requests:
    answer = serve(json.loads(line))
    replies.write(json.dumps(answer) + "\n")
    replies.flush()
