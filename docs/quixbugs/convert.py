"""Makes a batch of QuixBugs: python3 convert.py QUIXBUGS OUT

QUIXBUGS is a clone of the benchmark. OUT, which must not exist, gets one
repository for each of its Python programs (the program with its bug, its test,
each part of which fails after two seconds, and the test's data, and nothing of
the correct versions) and tasks.toml, which
`bestof batch run OUT/tasks.toml --repos OUT/repos` reads.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

STATEMENT = "python_programs/{name}.py is wrong in one line. Its tests fail; mend it."

# Some of the bugs never end, which would be the end of the whole test and tell
# nothing about the other ones.
LIMIT = """

import signal

import pytest


def too_long(*_):
    pytest.fail("it takes longer than 2 s")


@pytest.fixture(autouse=True)
def limited():
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(2)
    yield
    signal.alarm(0)
"""


def git(repo, *args):
    identity = ["-c", "user.name=QuixBugs", "-c", "user.email=quixbugs@example.org"]
    subprocess.run(["git", *identity, "-C", repo, *args], check=True, stdout=subprocess.DEVNULL)


def imported(source, folder):
    """The other programs of the folder that a source imports, such as node."""
    names = re.findall(r"^\s*(?:from|import)\s+(?:\w*\.)?(\w+)", source, re.M)
    return sorted({name for name in names if (folder / (name + ".py")).is_file()})


def convert(quixbugs, out):
    programs, tests = quixbugs / "python_programs", quixbugs / "python_testcases"
    correct = {path.stem for path in (quixbugs / "correct_python_programs").glob("*.py")}
    names = sorted(p.stem for p in programs.glob("*.py") if p.stem in correct and (tests / f"test_{p.stem}.py").is_file())
    tasks = []
    for name in names:
        repo = out / "repos" / name
        (repo / "python_programs").mkdir(parents=True)
        shutil.copytree(tests, repo / "python_testcases", ignore=lambda _, all: [f for f in all if f.startswith("test_") and f != f"test_{name}.py" or f == "__pycache__"])
        (repo / "conftest.py").write_text((quixbugs / "conftest.py").read_text() + LIMIT)
        source = (programs / f"{name}.py").read_text()
        for file in [name, *imported(source, programs)]:
            shutil.copy(programs / f"{file}.py", repo / "python_programs")
        data = quixbugs / "json_testcases" / f"{name}.json"
        if data.is_file():
            (repo / "json_testcases").mkdir()
            shutil.copy(data, repo / "json_testcases")
        git(repo, "init", "-q", "-b", "main")
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "-m", "The program with its bug")
        tasks.append({"id": name, "repo": name, "statement": STATEMENT.format(name=name), "test": f"pytest -q -p no:cacheprovider python_testcases/test_{name}.py"})
    with open(out / "tasks.toml", "w", encoding="utf-8") as f:
        for task in tasks:
            f.write("[[task]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in task.items()) + "\n")
    return len(tasks)


if __name__ == "__main__":
    if len(sys.argv) != 3 or pathlib.Path(sys.argv[2]).exists():
        sys.exit(__doc__)
    made = convert(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    print(made, "task" if made == 1 else "tasks")
