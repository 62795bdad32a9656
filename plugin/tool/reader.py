# Reads contracts of one-file tools without executing any of them: files are
# parsed, and literals evaluated by ast.literal_eval. Started with -I -S -E.
#
# Input: one line of JSON with limits and the sizes of the files, then the
# files. Output: for each file a frame of 4 bytes index, 4 bytes length (both
# big-endian) and a JSON object. Each file is parsed in a process of its own,
# so whatever it does to a parser it does to itself alone.

import ast
import codecs
import io
import json
import os
import resource
import select
import signal
import struct
import sys
import time
import tokenize
import warnings


class Refused(Exception):
    def __init__(self, field, line, reason):
        super().__init__(reason)
        self.field, self.line, self.reason = field, line, reason


SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def bindings(module, names):
    """Every place that binds one of names in the module's scope, as (name, node,
    value, direct): value is None where it is not a plain assignment, direct
    says that the statement stands at the top of the module."""
    found = []

    def target(node, value, direct):
        if isinstance(node, ast.Name):
            if node.id in names:
                found.append((node.id, node, value, direct))
        elif isinstance(node, (ast.Tuple, ast.List)):
            parts = node.elts
            plain = (isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(parts)
                     and not any(isinstance(e, ast.Starred) for e in parts + value.elts))
            for i, part in enumerate(parts):
                target(part, value.elts[i] if plain else None, direct)
        elif isinstance(node, ast.Starred):
            target(node.value, None, direct)

    stack = [(s, True) for s in reversed(module.body)]
    while stack:
        node, direct = stack.pop()
        if isinstance(node, ast.Assign):
            for t in node.targets:
                target(t, node.value, direct)
            stack.append((node.value, False))
            continue
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                target(node.target, node.value, direct)
                stack.append((node.value, False))
            continue
        if isinstance(node, SCOPES):
            if not isinstance(node, ast.Lambda) and node.name in names:
                found.append((node.name, node, node, direct))
            # Decorators and defaults are evaluated here; what they bind with :=
            # is bound here.
            inner = list(getattr(node, "decorator_list", []))
            arguments = getattr(node, "args", None)
            if arguments is not None:
                inner += arguments.defaults + [d for d in arguments.kw_defaults if d is not None]
            inner += getattr(node, "bases", []) + [k.value for k in getattr(node, "keywords", [])]
            stack.extend((n, False) for n in inner)
            continue
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, (ast.Store, ast.Del)) and node.id in names:
                found.append((node.id, node, None, False))
            continue
        if isinstance(node, COMPREHENSIONS):
            # Only := leaves a comprehension.
            for inner in ast.walk(node):
                if isinstance(inner, ast.NamedExpr) and inner.target.id in names:
                    found.append((inner.target.id, inner, None, False))
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                if bound in names:
                    found.append((bound, node, node, direct))
            continue
        for name in (getattr(node, "name", None), getattr(node, "rest", None)):  # except … as, case … as, **rest
            if isinstance(name, str) and name in names:
                found.append((name, node, None, False))
        stack.extend((child, False) for child in reversed(list(ast.iter_child_nodes(node))))
    for node in ast.walk(module):  # what an inner scope declares global it binds here
        if isinstance(node, ast.Global):
            found.extend((name, node, None, False) for name in node.names if name in names)
    return found


def literal(module, field, required):
    found = bindings(module, {field})
    if not found:
        if required:
            raise Refused(field, 0, "it is missing: assign it at the top of the file")
        return None, 0
    if len(found) > 1:
        raise Refused(field, found[1][1].lineno, "it is bound a second time: assign it once, as one literal")
    _, node, value, direct = found[0]
    line = node.lineno
    if not direct or value is None or not isinstance(value, ast.expr):
        raise Refused(field, line, "it is not a plain assignment at the top of the file")
    try:
        return ast.literal_eval(value), line
    except RecursionError:
        raise Refused(field, line, "it is nested too deep")
    except (ValueError, TypeError, SyntaxError):
        raise Refused(field, line_of_first_odd(value, line), "it is not a literal: write the value itself, without names, calls, operators and f-strings")


LITERALS = (ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp)


def line_of_first_odd(value, line):
    """The line of the first part, in the order of the source, that is no literal."""
    stack = [value]
    while stack:
        node = stack.pop()
        if not isinstance(node, LITERALS):
            return getattr(node, "lineno", 0) or line
        if isinstance(node, ast.Dict):
            for k, v in reversed(list(zip(node.keys, node.values))):
                stack.append(v)
                if k is None:  # **mapping
                    stack.append(ast.Name(id="", ctx=ast.Load(), lineno=v.lineno))
                else:
                    stack.append(k)
        else:
            stack.extend(c for c in reversed(list(ast.iter_child_nodes(node))) if isinstance(c, ast.expr))
    return line


def plain(value, line, depth, limits):
    """Refuses what JSON has no exact form of."""
    if depth > limits["depth"]:
        raise Refused("SCHEMA", line, "it is nested deeper than %d" % limits["depth"])
    if isinstance(value, dict):
        for k, v in value.items():
            if not isinstance(k, str):
                raise Refused("SCHEMA", line, "the key %.60r is not a string, so it is not JSON" % (k,))
            plain(k, line, depth + 1, limits)
            plain(v, line, depth + 1, limits)
    elif isinstance(value, (list, tuple)):
        for v in value:
            plain(v, line, depth + 1, limits)
    elif isinstance(value, str):
        text(value, "SCHEMA", line)
    elif isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise Refused("SCHEMA", line, "it holds a number that is not finite, so it is not JSON")
    elif value is not None and not isinstance(value, (bool, int)):
        raise Refused("SCHEMA", line, "it holds a %s, so it is not JSON" % type(value).__name__)


def text(value, field, line):
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise Refused(field, line, "it holds half of a surrogate pair, which is no character")


def function(module, field, parameters):
    found = bindings(module, {field, "*"})
    if found and found[-1][0] == "*":
        return  # whether it comes from there is seen when the file is loaded
    if not found:
        raise Refused(field, 0, "it is missing: define a function %s(%s)" % (field, ", ".join(parameters)))
    _, node, value, _ = found[-1]
    line = node.lineno
    if isinstance(node, ast.Global):
        return  # as with a star
    if isinstance(value, ast.AsyncFunctionDef):
        raise Refused(field, line, "it is async: define it with def")
    if isinstance(value, ast.expr):
        try:
            constant = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, RecursionError):
            constant = function
        if constant is not function:
            raise Refused(field, line, "it is a %s and not a function" % type(constant).__name__)
    if isinstance(value, (ast.FunctionDef, ast.Lambda)) and not getattr(value, "decorator_list", []):
        a = value.args
        positional = len(a.posonlyargs) + len(a.args)
        needed = positional - len(a.defaults)
        keyword = [k for k, d in zip(a.kwonlyargs, a.kw_defaults) if d is None]
        count = len(parameters)
        if needed > count or (positional < count and a.vararg is None) or keyword:
            raise Refused(field, line, "it cannot be called with %s: define it as %s(%s)" % (
                "one argument" if count == 1 else "%d arguments" % count, field, ", ".join(parameters)))


def contract(source, kind, limits):
    if len(source) > limits["source"]:
        raise Refused("", 0, "the file is larger than %d bytes" % limits["source"])
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        if codecs.lookup(encoding).name not in ("utf-8", "utf-8-sig"):
            # Another encoding can hide from a reader what Python sees.
            raise Refused("", 0, "it is encoded as %.40s: write it in UTF-8" % encoding)
        source.decode("utf-8")
        module = ast.parse(source)
    except UnicodeDecodeError as e:
        raise Refused("", source.count(b"\n", 0, e.start) + 1, "it is not UTF-8")
    except SyntaxError as e:
        raise Refused("", e.lineno or 0, "it is not Python %d.%d: %.200s" % (sys.version_info[0], sys.version_info[1], e.msg))
    except ValueError as e:
        raise Refused("", 0, "it is not Python: %.200s" % e)

    out = {}
    description, line = literal(module, "DESCRIPTION", kind == "tool")
    if description is not None:
        if not isinstance(description, str):
            raise Refused("DESCRIPTION", line, "it must be a str and is a %s" % type(description).__name__)
        text(description, "DESCRIPTION", line)
        if len(description.encode("utf-8")) > limits["description"]:
            raise Refused("DESCRIPTION", line, "it is longer than %d bytes" % limits["description"])
        out["description"] = description
    if kind == "tool":
        schema, line = literal(module, "SCHEMA", True)
        if not isinstance(schema, dict):
            raise Refused("SCHEMA", line, "it must be a dict and is a %s" % type(schema).__name__)
        plain(schema, line, 0, limits)
        out["schema"], out["line"] = schema, line
        if len(dumped(schema).encode("utf-8")) > limits["schema"]:
            raise Refused("SCHEMA", line, "it is longer than %d bytes" % limits["schema"])
        function(module, "run", ["args"])
    else:
        function(module, "train", ["rows_path", "out_dir"])
        function(module, "evaluate", ["checkpoint", "rows_path"])
    return out


def dumped(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def answer(source, kind, limits):
    try:
        return contract(source, kind, limits)
    except Refused as e:
        return {"field": e.field, "at": e.line, "refused": e.reason}
    except RecursionError:
        return {"field": "", "at": 0, "refused": "it is nested too deep to be read"}
    except MemoryError:
        return {"field": "", "at": 0, "refused": "it takes too much memory to be read"}
    except BaseException as e:
        return {"field": "", "at": 0, "refused": "it cannot be read: %s: %.200s" % (type(e).__name__, e)}


def child(write, source, kind, limits):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (limits["seconds"], limits["seconds"]))
    try:
        resource.setrlimit(resource.RLIMIT_AS, (limits["memory"], limits["memory"]))
    except (ValueError, OSError):
        pass
    said = dumped(answer(source, kind, limits)).encode("utf-8", "backslashreplace")
    while said:
        said = said[os.write(write, said):]
    os._exit(0)


def read(source, kind, limits):
    """What the process of one file says, or None if it does not say it whole."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(r)
            child(w, source, kind, limits)
        finally:
            os._exit(1)
    os.close(w)
    end = time.monotonic() + 2 * limits["seconds"]
    parts, size = [], 0
    while size <= limits["frame"]:
        ready, _, _ = select.select([r], [], [], max(0, end - time.monotonic()))
        if not ready:
            break
        part = os.read(r, 1 << 16)
        if not part:
            break
        parts.append(part)
        size += len(part)
    os.close(r)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    said = b"".join(parts)
    try:
        json.loads(said)
    except (ValueError, RecursionError):
        return None
    return said


def main():
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    request = json.loads(sys.stdin.buffer.readline())
    kind, limits = request["kind"], request["limits"]
    for i, size in enumerate(request["sizes"]):
        source = sys.stdin.buffer.read(size)
        said = read(source, kind, limits)
        if said is None:
            said = dumped({"field": "", "at": 0, "refused": "reading it broke the parser or took too long"}).encode()
        out.write(struct.pack(">II", i, len(said)) + said)
        out.flush()


main()
