#!/usr/bin/env python3
"""Runs the test that a candidate's grant names and reports what it observed.

One request on stdin, one response on stdout. What is not understood in full is
refused: status 1, one line on stderr, nothing on stdout. Nothing but the
standard library is used, and `oracle` is the only part that knows about tests.
"""

import json
import os
import signal
import subprocess
import sys
import time

NAME = "verify"
SPEAKS = 1  # as [runtime] protocol says
TEST_SECONDS = 240  # less than [runtime] timeout_secs, so that there is time to say so


class Refusal(Exception):
    """Why a request cannot be answered."""


class Quiet(Exception):
    """A hook's payload: the evidence after the turn decides, so there is nothing to say."""


def oracle(candidate):
    """Looks at a candidate and returns the evidence about it."""
    plan = candidate and candidate.get("test")
    if not plan:
        return unobservable("there is no test to run")
    if not os.path.isdir(candidate["root"]):
        return unobservable("the candidate's directory is not there")
    code, milliseconds, problem = run(plan, candidate["root"])
    if problem:
        return unobservable(problem)
    measurements = {"test-command-exit-code": code, "test-duration-ms": milliseconds}
    baseline = plan.get("baseline", "not-run")
    if baseline not in ("failed", "passed"):
        return unobservable("what the test said before is not known", measurements)
    flip = "achieved" if baseline == "failed" and code == 0 else "not-achieved"
    return {"flip": flip, "measurements": measurements}


def unobservable(reason, measurements=None):
    evidence = {"flip": "unobservable"}
    if SPEAKS == 2:
        evidence["reason"] = reason
    if measurements:
        evidence["measurements"] = measurements
    return evidence


def run(plan, root):
    """Runs the test: its exit status, its time, or why there is neither."""
    seconds = plan.get("timeout_ms", TEST_SECONDS * 1000) / 1000
    started = time.monotonic()
    try:
        # Its output has no way into the response, and it cannot wait for input.
        process = subprocess.Popen(
            [plan["program"], *(plan.get("args") or [])],
            cwd=os.path.join(root, plan.get("cwd") or ""),
            env=plan.get("env"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return 0, 0, f"the test cannot be started: {error}"
    problem = None
    try:
        process.wait(timeout=min(seconds, TEST_SECONDS))
    except subprocess.TimeoutExpired:
        problem = "the test did not end in its time"
    try:
        os.killpg(process.pid, signal.SIGKILL)  # whatever it left behind
    except ProcessLookupError:
        pass
    code = process.wait()
    # A signal has a negative number here, and the wire has none.
    return (code if code >= 0 else 1), int((time.monotonic() - started) * 1000), problem


def read(data):
    """Reads a request strictly and returns the candidate's grant, or None."""
    request = parse(data)
    if "event" in request and "point" not in request:
        raise Quiet
    if set(request) - {"point", "body"}:
        raise Refusal("the request envelope carried a field outside {point, body}")
    if request.get("point") != "after_turn":
        point = json.dumps(request["point"]) if "point" in request else "no point"
        raise Refusal(f"this plugin answers after_turn only; the host asked for {point}")
    body = request.get("body")
    if not isinstance(body, dict):
        raise Refusal("the body of the request is not an object")
    only(body, "protocol_version", "wrapper", "stage", "round", "goal", "candidate", "turn")
    version = body.get("protocol_version")
    if type(version) is not int or version != SPEAKS:
        raise Refusal(f"this plugin speaks wrapper protocol_version {SPEAKS}; the host asked for {json.dumps(version)}")
    turn = optional(body, "turn", dict, "an object")
    if turn is not None:
        only(turn, "completed", "answer", "tools", "changed_files")
    candidate = optional(body, "candidate", dict, "an object")
    if candidate is None:
        return None
    only(candidate, "handle", "root", "test")
    if not optional(candidate, "root", str, "a string"):
        raise Refusal("the request has an empty root")
    plan = optional(candidate, "test", dict, "an object")
    if plan is not None:
        check(plan)
    return candidate


def check(plan):
    more = ("env", "cwd", "timeout_ms") if SPEAKS == 2 else ()
    only(plan, "program", "args", "baseline", *more)
    if not optional(plan, "program", str, "a string"):
        raise Refusal("the request has an empty program")
    for arg in optional(plan, "args", list, "a list") or []:
        if not isinstance(arg, str):
            raise Refusal("the args of the request are not all strings")
    baseline = plan.get("baseline")
    if baseline is None:
        plan["baseline"] = "not-run"
    elif baseline not in ("not-run", "passed", "failed", "unobserved"):
        raise Refusal(f"TestBaseline is a closed set {{not-run, passed, failed, unobserved}}; got {json.dumps(baseline)}")


def only(table, *allowed):
    unknown = sorted(set(table) - set(allowed))
    if unknown:
        raise Refusal("the request denies unknown fields; got " + ", ".join(unknown))


def optional(table, key, kind, name):
    value = table.get(key)
    if value is not None and not isinstance(value, kind):
        raise Refusal(f"the field {key} of the request is not {name}")
    return value


def parse(data):
    try:
        request = json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=constant)
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict):
        raise Refusal("stdin was not a single JSON object")
    return request


def unique(pairs):
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key is there twice")
    return table


def constant(word):
    raise ValueError(word + " is no JSON")


def main():
    try:
        candidate = read(sys.stdin.buffer.read())
    except Quiet:
        return 0
    except Refusal as refusal:
        line = "".join(c if c.isprintable() else "\ufffd" for c in str(refusal))
        sys.stderr.buffer.write(f"{NAME}: {line}\n".encode("utf-8", "replace"))
        return 1
    body = {"protocol_version": SPEAKS, "evidence": oracle(candidate)}
    sys.stdout.write(json.dumps({"point": "after_turn", "body": body}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
