# The program of a kernel: it imports one-file tools and calls them, one request
# at a time, for whoever holds the other end of a private descriptor.
#
#   driver stdio [user-site]   the descriptor is what stdin and stdout were
#   driver SOCKET              it is a unix socket; stdin holds a word that is
#                              said there first
#
# A message is four bytes of length, big end first, and one JSON object. A tool
# runs in this process and can break it; nothing here is a boundary. What can be
# kept apart is: what it prints, what it raises, what it leaves closed.
import sys


def driver():
    import base64
    import contextlib
    import importlib.machinery
    import importlib.util
    import io
    import json
    import linecache
    import os
    import select
    import signal
    import socket
    import struct
    import threading
    import traceback
    import types

    # A tool that replaces one of these has not replaced ours.
    loads, dumps, getpid, fstat = json.loads, json.dumps, os.getpid, os.fstat
    os_read, os_write, os_exit, dup, dup2, os_close = os.read, os.write, os._exit, os.dup, os.dup2, os.close
    format_exception, find_spec = traceback.format_exception, importlib.util.find_spec

    MAX_MESSAGE = 8 << 20  # bytes of a request
    MAX_TEXT = 256 << 10  # bytes of a result
    MAX_PRINTED = 64 << 10  # bytes of what one call printed
    MAX_DESCRIPTION = 64 << 10  # bytes
    TAIL_LINES, TAIL_BYTES = 20, 4 << 10  # of a traceback
    BROKEN = 70  # exit status: the private descriptor is gone

    own_pid = getpid()

    # The private descriptor, and nothing of it where programs look.
    def away(fd):
        import fcntl
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)

    if sys.argv[1] == "stdio":
        wire_in, wire_out = away(0), away(1)
    else:
        word = os_read(0, 256)
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.connect(sys.argv[1])
        s.sendall(word)
        wire_in = wire_out = away(s.fileno())
        s.close()
    null = os.open(os.devnull, os.O_RDONLY)
    dup2(null, 0)
    os_close(null)
    printed_out, printed_in = os.pipe()
    os.set_blocking(printed_out, False)
    keep_out, keep_in = away(printed_out), away(printed_in)
    os_close(printed_out)
    os_close(printed_in)

    def identity(fd):
        st = fstat(fd)
        return st.st_dev, st.st_ino

    wires = {fd: identity(fd) for fd in (wire_in, wire_out)}
    pipe = identity(keep_in)

    def intact(fd):
        try:
            if getpid() == own_pid and wires[fd] == identity(fd):
                return
        except OSError:
            pass
        os_exit(BROKEN if getpid() == own_pid else 0)

    def forked():
        for fd in {wire_in, wire_out}:
            try:
                os_close(fd)
            except OSError:
                pass

    os.register_at_fork(after_in_child=forked)

    importing = False

    def audit(event, args):
        if importing and event in ("os.fork", "os.forkpty"):
            raise RuntimeError("a tool may not fork while it is imported")

    sys.addaudithook(audit)

    # What is printed: read away at once, kept in part.
    class Printed:
        def __init__(self):
            self.lock = threading.Lock()
            self.clear()

        def clear(self):
            self.head, self.tail, self.dropped = bytearray(), bytearray(), 0

        def take_in(self, b):
            half = MAX_PRINTED // 2
            room = half - len(self.head)
            self.head += b[:room] if room > 0 else b""
            self.tail += b[room:] if room > 0 else b
            if len(self.tail) > half:
                self.dropped += len(self.tail) - half
                del self.tail[:-half]

        # Reads what is there now. Somebody may print without end.
        def drain(self, most=64):
            with self.lock:
                for _ in range(most):
                    try:
                        b = os_read(keep_out, 64 << 10)
                    except (BlockingIOError, OSError):
                        return
                    if not b:
                        return
                    self.take_in(b)

        def collect(self):
            self.drain()
            with self.lock:
                head, tail, dropped = bytes(self.head), bytes(self.tail), self.dropped
                self.clear()
            if dropped:
                head += b"\n[%d bytes of output left out]\n" % dropped
            return (head + tail).decode("utf-8", "replace")

    printed = Printed()

    def reader():
        poll = select.poll()
        poll.register(keep_out, select.POLLIN)
        while True:
            try:
                ready = poll.poll()
            except OSError:
                return
            if not ready[0][1] & select.POLLIN:
                return
            printed.drain(1)

    stdout = stderr = None

    # Gives the next request its streams, whatever the last did with its own.
    def streams():
        nonlocal stdout, stderr
        for fd in (1, 2):
            try:
                same = identity(fd) == pipe
            except OSError:
                same = False
            if not same:
                if identity(keep_in) != pipe:
                    os_exit(BROKEN)
                dup2(keep_in, fd)
        if stdout is None or stdout.closed or stderr.closed:
            def stream(fd):
                raw = io.FileIO(fd, "w", closefd=False)
                return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)
            stdout, stderr = stream(1), stream(2)
        sys.stdout, sys.stderr = stdout, stderr

    def flush():
        for f in (sys.stdout, sys.stderr, stdout, stderr):
            try:
                f.flush()
            except BaseException:
                pass

    def clip(text, most):
        b = text.encode("utf-8", "replace")
        if len(b) <= most:
            return b.decode("utf-8")
        half = most // 2
        return "%s\n[%d bytes left out]\n%s" % (
            b[:half].decode("utf-8", "ignore"), len(b) - 2 * half, b[-half:].decode("utf-8", "ignore"))

    def one_line(text, most=400):
        return clip(" ".join(text[: 4 * most].split()), most)

    # How an exception reads; it may itself be hostile to being read.
    def tail(exc):
        try:
            tb = exc.__traceback__
            lines = "".join(format_exception(type(exc), exc, tb.tb_next if tb else None, limit=-TAIL_LINES)).splitlines()[-TAIL_LINES:]
            text = "\n".join(lines).encode("utf-8", "replace")
            return text[-TAIL_BYTES:].decode("utf-8", "ignore")
        except BaseException:
            return "%s (its text cannot be had)" % type(exc).__name__

    def last(exc):
        return one_line(tail(exc).rsplit("\n", 1)[-1]) or type(exc).__name__

    # The registry: what is live, and what a load has made so far.
    live, staged = {}, {}
    shell = None  # IPython's, where a tool uses it
    outside = {}  # stem -> whether it is the name of a module that is not a tool's

    def module_name(stem):
        if stem not in outside:
            try:
                taken = stem in sys.modules or find_spec(stem) is not None
            except BaseException:
                taken = True
            outside[stem] = taken
        return "bestof_tool_" + stem if outside[stem] else stem

    class FromBytes:
        def __init__(self, path, source):
            self.path, self.source = path, source

        def create_module(self, spec):
            return None

        def exec_module(self, module):
            exec(compile(self.source, self.path, "exec", dont_inherit=True), module.__dict__)

        def get_source(self, fullname):
            return importlib.util.decode_source(self.source)

        def get_filename(self, fullname):
            return self.path

    def check(module):
        absent = [n for n in ("DESCRIPTION", "SCHEMA", "run") if not hasattr(module, n)]
        if absent:
            return "it has no " + ", ".join(absent)
        if not isinstance(module.DESCRIPTION, str):
            return "DESCRIPTION must be a str"
        if len(module.DESCRIPTION.encode("utf-8", "replace")) > MAX_DESCRIPTION:
            return "DESCRIPTION is longer than %d bytes" % MAX_DESCRIPTION
        if not isinstance(module.SCHEMA, dict):
            return "SCHEMA must be a dict"
        try:
            dumps(module.SCHEMA, allow_nan=False)
        except BaseException as e:
            return "SCHEMA is not JSON: " + last(e)
        if not callable(module.run):
            return "run must be a function"
        return ""

    def load(q):
        nonlocal importing
        stem, path = q["name"], q["path"]
        name = module_name(stem)
        loader = FromBytes(path, base64.b64decode(q["source"]))
        spec = importlib.machinery.ModuleSpec(name, loader, origin=path)
        module = types.ModuleType(name)
        module.__spec__, module.__loader__, module.__file__, module.__package__ = spec, loader, path, ""
        before = sys.modules.get(name)
        sys.modules[name] = module
        importing, skip = True, ""
        try:
            loader.exec_module(module)
            skip = check(module)
        except BaseException as e:
            skip = "it fails when it is imported: " + last(e)
        finally:
            importing = False
            if before is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = before
        flush()
        text = printed.collect()
        if text and not skip:
            skip = "it prints while it is imported: " + one_line(text, 80)
        if not skip:
            staged[stem] = module
        return {"skip": skip}

    def begin(q):
        staged.clear()
        return {}

    def commit(q):
        for stem in live:
            sys.modules.pop(module_name(stem), None)
        live.clear()
        live.update(staged)
        staged.clear()
        for stem, module in live.items():
            sys.modules[module_name(stem)] = module
            try:
                lines = module.__loader__.get_source(stem).splitlines(True)
                linecache.cache[module.__file__] = (0, None, lines, module.__file__)
            except BaseException:
                pass
            if shell is not None:
                shell.user_ns[stem] = module
        return {}

    def call(q):
        module = live.get(q["name"])
        if module is None:
            return {"error": "there is no such tool in the kernel"}
        try:
            value = module.run(loads(q["args"]))
            text = str.__str__(value) if isinstance(value, str) else dumps(value, ensure_ascii=False, allow_nan=False)
            reply = {"text": clip(text, MAX_TEXT)}
        except BaseException as e:
            reply = {"error": tail(e)}
        flush()
        reply["printed"] = printed.collect()
        return reply

    # IPython lends its shell to tools that import it, where it is installed. It
    # keeps no history. Who does not import it does not wait for it.
    class Interactive:
        busy = False

        def find_spec(self, name, path=None, target=None):
            if name != "IPython" or self.busy:
                return None
            self.busy = True
            spec = find_spec(name)
            if spec is not None and spec.loader is not None:
                spec.loader = WithShell(spec.loader)
            return spec

    class WithShell:
        def __init__(self, loader):
            self.loader = loader

        def __getattr__(self, name):
            return getattr(self.loader, name)

        def create_module(self, spec):
            return self.loader.create_module(spec)

        def exec_module(self, module):
            nonlocal shell
            self.loader.exec_module(module)
            try:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    from IPython.core.interactiveshell import InteractiveShell
                    from traitlets.config import Config

                    c = Config()
                    c.HistoryManager.enabled = False
                    c.HistoryManager.hist_file = ":memory:"
                    c.InteractiveShell.colors = "NoColor"
                    shell = InteractiveShell.instance(config=c)
                    shell.user_ns.update(live)
            except Exception:
                shell = None

    sys.meta_path.insert(0, Interactive())

    def exactly(n):
        parts = []
        while n:
            intact(wire_in)
            b = os_read(wire_in, min(n, 1 << 20))
            if not b:
                os_exit(0)
            parts.append(b)
            n -= len(b)
        return b"".join(parts)

    def say(message):
        b = dumps(message).encode("ascii")
        b = struct.pack(">I", len(b)) + b
        while b:
            intact(wire_out)
            b = b[os_write(wire_out, b):]

    if sys.argv[2:] == ["user-site"]:
        import site
        directory = site.getusersitepackages()
        if os.path.isdir(directory):
            site.addsitedir(directory)
    sys.argv[:] = [""]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    streams()
    threading.Thread(target=reader, daemon=True).start()
    say({"id": 0})
    verbs = {"begin": begin, "load": load, "commit": commit, "call": call}
    while True:
        (length,) = struct.unpack(">I", exactly(4))
        if length > MAX_MESSAGE:
            os_exit(BROKEN)
        request = loads(exactly(length))
        streams()
        printed.collect()
        reply = verbs[request["do"]](request)
        reply["id"] = request["id"]
        say(reply)


try:
    driver()
except BaseException:
    import traceback

    traceback.print_exc()
finally:
    import os

    os._exit(70)  # threads that tools left behind do not keep it
