"""Makes a batch of real bug fixes: python3 collect.py OUT COUNT CLONE...

Looks, in each clone of a Go repository, for commits whose message speaks of a
fix and that change both a test and something else. The task is the parent; the
commit's tests are its hidden test patch. A commit is taken when some tests fail
on the parent with those tests and all that the commit made pass do pass, so
that it is known what has to change. Commits after which any test still fails
are left out. At most COUNT of each clone.

OUT, which must not exist, gets tasks.jsonl, repos/ (bare mirrors without the
commits after the parent: a candidate with the whole history could read the fix)
and fixes/ID.patch, the true fixes, for agents that only pretend.
"""
import json
import pathlib
import shutil
import subprocess
import sys

TEST = ["go", "test", "./..."]


def git(repo, *args, data=None):
    return subprocess.run(["git", "-C", repo, *args], check=True, capture_output=True, input=data).stdout


def results(tree):
    """Top-level tests of a tree: name -> passed; None when a package does not build."""
    run = subprocess.run([*TEST[:2], "-json", "-count=1", *TEST[2:]], cwd=tree, capture_output=True, text=True, timeout=300)
    tests = {}
    for line in run.stdout.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            return None
        name = event.get("Test")
        if event.get("Action") == "build-fail" or not name and event["Action"] == "fail" and not any(k.startswith(event["Package"] + ".") for k in tests):
            return None
        if name and "/" not in name and event["Action"] in ("pass", "fail"):
            tests[event["Package"] + "." + name] = event["Action"] == "pass"
    return tests or None


def candidates(clone):
    for line in git(clone, "log", "--no-merges", "-i", "--grep=fix", "--format=%H %P").decode().splitlines():
        commit, *parents = line.split()
        if len(parents) != 1:
            continue
        files = git(clone, "diff", "--name-only", "-z", "--diff-filter=AM", parents[0], commit).decode().split("\0")[:-1]
        tests = [f for f in files if f.endswith("_test.go") or "testdata/" in f]
        code = [f for f in files if f.endswith(".go") and f not in tests]
        if tests and code and len(code) <= 5:
            yield commit, parents[0], tests, code


def look(clone, commit, parent, tests, code):
    """What a commit made pass, what passed before, and both patches."""
    test_patch = git(clone, "diff", "--binary", parent, commit, "--", *tests)
    fix = git(clone, "diff", "--binary", parent, commit, "--", *code)
    tree = pathlib.Path(clone, "..", "tree-of-a-fix").resolve()
    git(clone, "worktree", "add", "-q", "--detach", str(tree), parent)
    try:
        if not (tree / "go.mod").is_file():
            return None
        git(str(tree), "apply", "-", data=test_patch)
        before = results(tree)
        if not before:
            return None
        git(str(tree), "apply", "-", data=fix)
        after = results(tree)
    except (subprocess.SubprocessError, OSError):
        return None
    finally:
        git(clone, "worktree", "remove", "--force", str(tree))
    if not after or not all(after.values()):
        return None
    mended = sorted(t for t in after if before.get(t) is False)
    kept = sorted(t for t in after if before.get(t))
    return (mended, kept, test_patch.decode(), fix) if mended else None


def collect(out, count, clones):
    (out / "fixes").mkdir(parents=True)
    (out / "repos").mkdir()
    total = 0
    with open(out / "tasks.jsonl", "w", encoding="utf-8") as tasks:
        for clone in map(pathlib.Path, clones):
            found = 0
            work = out / "work"
            subprocess.run(["git", "clone", "-q", "--no-checkout", str(clone), str(work)], check=True)
            for commit, parent, tests, code in candidates(work):
                if found == count:
                    break
                seen = look(work, commit, parent, tests, code)
                if seen is None:
                    continue
                found += 1
                name = f"{clone.name}-{commit[:10]}"
                mirror = out / "repos" / name
                subprocess.run(["git", "init", "-q", "--bare", str(mirror)], check=True)
                git(mirror, "fetch", "-q", "--depth=1", "file://" + str(work.resolve()), parent + ":refs/heads/main")
                mended, kept, test_patch, fix = seen
                (out / "fixes" / (name + ".patch")).write_bytes(fix)
                subject = git(work, "log", "-1", "--format=%s", commit).decode().strip()
                tasks.write(json.dumps({
                    "instance_id": name, "repo": name, "base_commit": parent, "problem_statement": f"{name}: {subject}",
                    "test_patch": test_patch, "test": TEST, "FAIL_TO_PASS": mended, "PASS_TO_PASS": kept,
                }) + "\n")
                print(name, subject, len(mended), "to pass,", len(kept), "to keep", flush=True)
            total += found
            shutil.rmtree(work)
    return total


if __name__ == "__main__":
    if len(sys.argv) < 4 or pathlib.Path(sys.argv[1]).exists():
        sys.exit(__doc__)
    made = collect(pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
    print(made, "task" if made == 1 else "tasks")
