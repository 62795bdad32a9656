import base64
import importlib.util
import json
import linecache
import sys
import types

DESCRIPTION = "calls the functions of a trainer"
SCHEMA = {"type": "object"}

_given = json.loads(GIVEN)
_trainer = types.ModuleType(_given["name"])
_trainer.__file__ = _given["path"]
sys.modules.setdefault(_given["name"], _trainer)
_source = base64.b64decode(_given["source"])
linecache.cache[_given["path"]] = (0, None, importlib.util.decode_source(_source).splitlines(True), _given["path"])
exec(compile(_source, _given["path"], "exec", dont_inherit=True), _trainer.__dict__)
for _needed in ("train", "evaluate"):
    if not callable(getattr(_trainer, _needed, None)):
        raise TypeError("it has no function " + _needed)


def run(args):
    result = getattr(_trainer, args["call"])(*args["args"])
    if not isinstance(result, dict):
        raise TypeError("%s must return a dict, it returned %s" % (args["call"], type(result).__name__))
    return result
