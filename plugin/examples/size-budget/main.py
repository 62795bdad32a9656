#!/usr/bin/env python3
"""Measures the artifact in a directory of the candidate. Speaks protocol 2."""

import json
import os
import sys

SPEAKS = 2
KEYS = {
    "body": {"protocol_version", "wrapper", "stage", "round", "goal", "candidate", "turn"},
    "candidate": {"handle", "root", "test"},
    "test": {"program", "args", "baseline", "env", "cwd", "timeout_ms"},
    "turn": {"completed", "answer", "tools", "changed_files"},
}


def evidence(candidate, directory):
    if candidate is None:
        return {
            "flip": "not-attempted",
            "omitted": {"artifact-bytes": "there is no candidate", "artifact-files": "there is no candidate"},
        }
    if not os.path.isdir(candidate["root"]):
        return {"flip": "unobservable", "reason": "the candidate's directory is not there"}
    top = os.path.join(candidate["root"], directory)
    if not os.path.isfile(os.path.join(top, "app.js")):
        return {"flip": "not-attempted", "measurements": {"artifact-files": 0}, "omitted": {"artifact-bytes": "there is no artifact"}}
    sizes = []
    for here, _, names in os.walk(top):  # which follows no link
        for name in names:
            status = os.lstat(os.path.join(here, name))
            sizes.append(status.st_size)
    return {"flip": "not-attempted", "measurements": {"artifact-bytes": sum(sizes), "artifact-files": len(sizes)}}


def refuse(why):
    line = "".join(c if c.isprintable() else "\ufffd" for c in why)
    sys.stderr.buffer.write(f"size-budget: {line}\n".encode("utf-8", "replace"))
    sys.exit(1)


def unique(pairs):
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key is there twice")
    return table


def table(value, kind):
    """Checks an optional object and its keys."""
    if value is None:
        return None
    if not isinstance(value, dict):
        refuse(f"the {kind} is not an object")
    unknown = sorted(set(value) - KEYS[kind])
    if unknown:
        refuse("the request denies unknown fields; got " + ", ".join(unknown))
    return value


def main():
    try:
        request = json.loads(sys.stdin.buffer.read().decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError):
        refuse("stdin was not a single JSON object")
    if isinstance(request, dict) and "event" in request and "point" not in request:
        return  # the hook Stop: what is measured after the turn decides
    if not isinstance(request, dict) or set(request) != {"point", "body"} or request["body"] is None:
        refuse("stdin was not a request")
    if request["point"] != "after_turn":
        refuse("this plugin answers after_turn only")
    body = table(request["body"], "body")
    version = body.get("protocol_version")
    if type(version) is not int or version != SPEAKS:
        refuse(f"this plugin speaks protocol_version {SPEAKS}")
    table(body.get("turn"), "turn")
    candidate = table(body.get("candidate"), "candidate")
    if candidate is not None:
        if not isinstance(candidate.get("root"), str) or not candidate["root"]:
            refuse("the root is not a path")
        test = table(candidate.get("test"), "test")
        if test and not all(isinstance(a, str) for a in test.get("args") or []):
            refuse("the args are not strings")
    answer = {"point": "after_turn", "body": {"protocol_version": SPEAKS, "evidence": evidence(candidate, sys.argv[1])}}
    print(json.dumps(answer))


main()
