#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Measures which lines and branches of include/ and src/ the tests reach. It runs the unit tests, some simulated worlds
and the thread tests of a build with HOLDFAST_COVERAGE, and prints the numbers as a line of figures for long_results.py.

A line or branch that a test reaches is not checked for that reason. But one that no test reaches is certainly unchecked.

usage: coverage.py BUILD [--missed FILE]   writes the lines and branches that no test reaches into FILE
       coverage.py --self-test
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

WORLDS = 300
PROGRAMS = {"unit": [], "sim": ["--run_test=worlds"], "threads": []}
ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = ("include/", "src/")


def tool(name):
    """The program of the same version of LLVM as clang++, whose counters it must be able to read."""
    version = subprocess.run(["clang++", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    major = re.search(r"version (\d+)", version)[1]
    for candidate in (f"{name}-{major}", name):
        if shutil.which(candidate):
            return candidate
    sys.exit(f"{name} of LLVM {major} is missing: scripts/setup installs it")


def run(build, profiles):
    """Runs the programs. Each process, also a child, leaves a profile."""
    for old in profiles.glob("*.profraw"):
        old.unlink()
    for name, words in PROGRAMS.items():
        environment = os.environ | {"LLVM_PROFILE_FILE": str(profiles / f"{name}-%p.profraw"), "HOLDFAST_WORLDS": str(WORLDS)}
        program = build / "test" / name
        subprocess.run([program, *words, "--color_output=no", "--report_level=short"], env=environment, cwd=profiles,
                       check=True)


def merge(profiles):
    """One profile of all. A child that a test kills may leave an empty or partial file, which does not count."""
    merged = profiles / "all.profdata"
    files = sorted(str(file) for file in profiles.glob("*.profraw") if file.stat().st_size)
    (profiles / "files").write_text("\n".join(files))
    subprocess.run([tool("llvm-profdata"), "merge", "--sparse", "--failure-mode=all", "-f", profiles / "files", "-o", merged],
                   check=True)
    return merged


def export(build, merged, *words):
    programs = [build / "test" / name for name in PROGRAMS]
    objects = [word for program in programs[1:] for word in ("-object", program)]
    command = [tool("llvm-cov"), "export", *words, f"-instr-profile={merged}", programs[0], *objects]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["data"][0]


def ours(files, root=ROOT):
    """The library's own files of an export, by their paths in the project. A compiler cache that shortens paths makes one
    file have two names, with some of the counters each."""
    by_path = {}
    for file in files:
        path = os.path.relpath(file["filename"], root)
        if path.startswith(OURS):
            by_path.setdefault(path, []).append(file)
    return by_path


def totals(files, root=ROOT):
    sums = {}
    for named in ours(files, root).values():
        for kind in ("lines", "branches"):
            for end, name in (("", "count"), ("_reached", "covered")):
                sums[kind + end] = sums.get(kind + end, 0) + max(file["summary"][kind][name] for file in named)
    return sums


def missed_in(file):
    for line in {at[0] for at in file["segments"] if at[2] == 0 and at[3] and at[4] and not at[5]}:
        yield line, 0, "not reached"
    for branch in file["branches"]:
        for taken, way in ((branch[4], "true"), (branch[5], "false")):
            if taken == 0:
                yield branch[0], branch[1], f"never {way}"


def missed(files, root=ROOT):
    """The places that no test reaches: a line of text for each."""
    for path, named in sorted(ours(files, root).items()):
        for line, column, what in sorted(set.intersection(*(set(missed_in(file)) for file in named))):
            yield f"{path}:{line}:{column}: {what}" if column else f"{path}:{line}: {what}"


def self_test():
    summary = {"lines": {"count": 10, "covered": 8}, "branches": {"count": 4, "covered": 1}}
    file = {"summary": summary, "segments": [[3, 1, 0, True, True, False], [4, 1, 2, True, True, False]],
            "branches": [[5, 7, 5, 9, 1, 0, 0, 0, 4]]}
    files = [file | {"filename": name} for name in ("/p/src/a.cpp", "/p/include/a.hpp", "/p/test/a.cpp", "/usr/include/b")]
    assert totals(files, "/p") == {"lines": 20, "lines_reached": 16, "branches": 8, "branches_reached": 2}
    assert list(missed(files[:1], "/p")) == ["src/a.cpp:3: not reached", "src/a.cpp:5:7: never false"]


def main():
    words = sys.argv[1:]
    if words == ["--self-test"]:
        return self_test()
    if len(words) not in (1, 3) or words[0].startswith("-") or words[1:2] not in ([], ["--missed"]):
        print(__doc__.strip())
        return 0 if words in (["-h"], ["--help"]) else 2
    build = pathlib.Path(words[0]).resolve()
    profiles = build / "profiles"
    profiles.mkdir(exist_ok=True)
    run(build, profiles)
    merged = merge(profiles)
    figures = {"test": "coverage"} | totals(export(build, merged, "-summary-only")["files"])
    print("figures:", json.dumps(figures))
    if words[1:]:
        text = "".join(line + "\n" for line in missed(export(build, merged, "-skip-functions")["files"]))
        pathlib.Path(words[2]).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
