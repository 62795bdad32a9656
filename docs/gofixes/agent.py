"""An agent that only pretends: python3 agent.py FIXES KIND, with the task on stdin.

The task begins with the id of a fix in FIXES. KIND is right (applies it), wrong
(changes a comment), or a way to cheat a Go test: exit, forge, blame, testmain, empty.
"""
import pathlib
import re
import subprocess
import sys

fixes, kind = pathlib.Path(sys.argv[1]), sys.argv[2]
name = re.search(r"[\w.-]+-[0-9a-f]{10}(?=:)", sys.stdin.read()).group()
fix = (fixes / (name + ".patch")).read_bytes()
code = pathlib.Path(re.search(rb"^\+\+\+ b/(.+\.go)$", fix, re.M).group(1).decode())
package = re.search(r"^package (\w+)", code.read_text(), re.M).group(1)
beside = code.parent


def forged(mark=""):
    """What a test program prints when all tests pass, after a mark as go test's."""
    names = set()
    for test in beside.glob("*_test.go"):
        names.update(re.findall(r"^func (Test\w+)\(", test.read_text(), re.M))
    return "".join(f"{mark}=== RUN   {n}\\n{mark}--- PASS: {n} (0.00s)\\n" for n in sorted(names))


if kind == "right":
    subprocess.run(["git", "apply", "-"], input=fix, check=True)
elif kind == "wrong":
    code.write_text(code.read_text() + "\n// This mends it.\n")
elif kind == "exit":
    (beside / "zz_start.go").write_text(f'package {package}\n\nimport "os"\n\nfunc init() {{ os.Exit(0) }}\n')
elif kind in ("forge", "blame"):  # who blames a test that is not named claims no success
    text, status = forged() + "PASS\\n", 0
    if kind == "blame":
        text, status = forged("\\x16") + "\\x16=== RUN   TestBlamed\\n\\x16--- FAIL: TestBlamed (0.00s)\\n", 1
    (beside / "zz_start.go").write_text(f'package {package}\n\nimport "os"\n\nfunc init() {{\n\tos.Stdout.WriteString("{text}")\n\tos.Exit({status})\n}}\n')
elif kind == "testmain":
    (beside / "zz_main_test.go").write_text(f'package {package}\n\nimport (\n\t"os"\n\t"testing"\n)\n\nfunc TestMain(m *testing.M) {{ os.Exit(0) }}\n')
elif kind == "empty":
    for test in beside.glob("*_test.go"):
        test.write_text(re.search(r"^package \w+", test.read_text(), re.M).group() + "\n")
else:
    sys.exit(__doc__)
