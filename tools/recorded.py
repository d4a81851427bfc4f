#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""The files in doc/results that keep rows of runs which take hours, and the commits that these rows name.

A run writes each row when the row is done. So a run can be interrupted and continued. A row is current while nothing
but documents (doc/ and *.md), comments and NO_CODE has changed since its commit. The table marks the other rows.
`tools/figures.py --write` puts the marks into the results file, because a mark depends on the newest commit: if the
table were made from the history of git, each commit would make the document wrong.

usage: recorded.py begin        prints the commit; fails if there are changes that are not committed
       recorded.py --self-test
"""

import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import sources

ROOT = pathlib.Path(__file__).resolve().parent.parent


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def is_document(path):
    return path.startswith("doc/") or path.endswith(".md")


NO_CODE = "tools/", ".github/", "scripts/docs", "scripts/release", "LICENSES/", ".reuse/"


def is_code(path):
    """Whether results may depend on the file. Lints, licences and generators of documents change no result."""
    return not is_document(path) and not path.startswith(NO_CODE)


_token_hashes = {}  # by blob and path


def code_hash(commit="HEAD"):
    """A hash of the tokens of all files (sources.py). Comments and documents do not change it."""
    files = [line for line in output_of("git", "ls-tree", "-r", commit).splitlines()
             if is_code(line.partition("\t")[2])]
    files = [(line.split()[0], line.split()[2], line.partition("\t")[2]) for line in files]
    read_blobs([(blob, path) for _, blob, path in files if (blob, path) not in _token_hashes])
    lines = [f"{mode} {_token_hashes[blob, path]} {path}" for mode, blob, path in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def read_blobs(blobs):
    """Adds the hashes of the blobs' tokens to `_token_hashes`."""
    asked = "".join(f"{blob}\n" for blob, _ in blobs).encode()
    answer = subprocess.run(["git", "cat-file", "--batch"], cwd=ROOT, input=asked, stdout=subprocess.PIPE, check=True).stdout
    at = 0
    for blob, path in blobs:
        head, at = answer[at:answer.index(b"\n", at)].split(), answer.index(b"\n", at) + 1
        content, at = answer[at:at + int(head[2])], at + int(head[2]) + 1
        try:
            read = "\0".join(sources.tokens(path, content.decode("utf-8"))).encode()
        except (UnicodeDecodeError, SyntaxError):
            read = content
        _token_hashes[blob, path] = hashlib.sha256(read).hexdigest()[:16]


def begin():
    """The commit of a run that begins now."""
    changed = [line[3:] for line in output_of("git", "status", "--porcelain", "--untracked-files=all").splitlines()]
    changed = [path for path in changed if not is_document(path)]
    if changed:
        sys.exit("The results would name a commit that has not these changes: " + ", ".join(changed))
    return output_of("git", "rev-parse", "--short", "HEAD").strip()


def load(path, without=None):
    """The results in the file; `without` if there is no file."""
    try:
        return json.loads((ROOT / path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return without or {}


def save(path, results):
    """Replaces the file in one step: a run that is stopped leaves the old results or the new ones."""
    path = ROOT / path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(json.dumps(results, indent=1) + "\n")
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def read_ctest(text):
    """Reads CTest's JUnit XML. Returns the number of tests, and the names of the tests that did not run and pass."""
    tests = xml.etree.ElementTree.fromstring(text).findall(".//testcase")
    return len(tests), [test.get("name") for test in tests if test.get("status") != "run"]


def counted(suite, text):
    """How many test cases of the suite have passed, and how many there are. Boost.Test also lists cases of other
    suites, as skipped."""
    cases = xml.etree.ElementTree.fromstring(text).findall(".//testcase")
    cases = [case for case in cases if case.get("classname").split(".")[0] == suite]
    bad = [case for case in cases if any(case.find(what) is not None for what in ("failure", "error", "skipped"))]
    return len(cases) - len(bad), len(cases)


def keep(path, name, commit, result):
    """Puts one row into the file. All other rows stay."""
    row = {"commit": commit, "date": datetime.date.today().isoformat(), **result}
    save(path, {**load(path), name: row})


def mark_of(commit):
    """Why a row of this commit is not current. Empty if it is."""
    if commit.endswith("-dirty"):
        return "uncommitted changes"
    known = subprocess.run(["git", "merge-base", "--is-ancestor", commit, "HEAD"], cwd=ROOT, stderr=subprocess.DEVNULL)
    if known.returncode != 0:
        return "unknown commit"
    if code_hash(commit) == code_hash():
        return ""
    return "older, commits since: " + output_of("git", "rev-list", "--count", f"{commit}..HEAD").strip()


def passed(path, name, is_good):
    """For `scripts/test`: prints how many tests of this row have passed at this code. Returns 1 if it must be run."""
    result = load(path).get(name)
    if not result or not is_good(result) or mark_of(result["commit"]):
        return 1
    print(result["tests"])
    return 0


def mark(path):
    """Marks the rows of the file, as of this commit."""
    old = load(path)
    new = {name: {**row, "mark": mark_of(row["commit"])} for name, row in old.items()}
    if new != old:
        save(path, new)


def shown_commit(row):
    """The cell of a table."""
    return row["commit"] + (f" ({row['mark']})" if row.get("mark") else "")


@contextlib.contextmanager
def scratch():
    """For self-tests: makes ROOT an empty repository. Yields a function that writes a file, and one that commits."""
    global ROOT
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]  # a hook of git has the path of its own repository here
    before = ROOT

    def write(path, text):
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, encoding="utf-8")

    def commit():
        output_of("git", "add", "--all")
        output_of("git", "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false", "commit", "-q", "-m", "m")
        return begin()

    with tempfile.TemporaryDirectory() as folder:
        ROOT = pathlib.Path(folder)
        try:
            output_of("git", "init", "-q")
            yield write, commit
        finally:
            ROOT = before


def refused(what):
    """For self-tests: whether the call ends the program."""
    try:
        what()
    except SystemExit as why:
        return bool(why.code)
    return False


def self_test():
    assert is_document("doc/a.svg") and is_document("README.md") and not is_document("src/doc.cpp")
    junit = '<testsuite><testcase name="a" status="run"/><testcase name="b" status="fail"/><testcase name="c"/></testsuite>'
    assert read_ctest(junit) == (3, ["b", "c"]), read_ctest(junit)
    with scratch() as (write, commit):
        write("src/a.cpp", "1")
        assert refused(begin), "a file that git does not know"
        first = commit()
        write("doc/a.md", "1")
        assert begin() == first, "documents are not code"
        commit()
        assert mark_of(first) == "", mark_of(first)
        write("src/a.cpp", "1  // one")
        write("tools/a.py", "1")
        write("scripts/docs", "1")
        assert commit() != first and mark_of(first) == "", "a comment is not code, nor is a lint"
        write("src/a.cpp", "2")
        assert refused(begin), "a changed file"
        second = commit()
        assert mark_of(first) == "older, commits since: 3", mark_of(first)
        assert mark_of(second) == "" and mark_of(second + "-dirty") == "uncommitted changes"
        output_of("git", "checkout", "-q", first)
        assert mark_of(second) == mark_of("0000000") == "unknown commit", "this commit is not in the history"

        keep("doc/results/r.json", "a", first, {"n": 1})
        keep("doc/results/r.json", "b", second, {"n": 2})
        keep("doc/results/r.json", "a", first, {"n": 3})
        rows = load("doc/results/r.json")
        assert [row["n"] for row in rows.values()] == [3, 2], "a row forgets another, or stays old"
        assert shown_commit(rows["b"]) == second, "nothing is marked until the marks are written"
        mark("doc/results/r.json")
        rows = load("doc/results/r.json")
        assert shown_commit(rows["a"]) == first and shown_commit(rows["b"]) == f"{second} (unknown commit)", rows
        output_of("git", "checkout", "-q", second)
        mark("doc/results/r.json")
        rows = load("doc/results/r.json")
        assert shown_commit(rows["b"]) == second and "older" in shown_commit(rows["a"]), "a mark is not renewed"
        keep("doc/results/r.json", "a", second, {"n": 4})
        assert shown_commit(load("doc/results/r.json")["a"]) == second, "a new row has an old mark"
    assert load("doc/results/none.json", {"steps": {}}) == {"steps": {}}


def main():
    words = sys.argv[1:]
    if words == ["--self-test"]:
        return self_test()
    if words == ["begin"]:
        print(begin())
        return 0
    print(__doc__.strip())
    return 0 if words in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main())
