#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Measures which lines and branches of include/ and src/ the tests reach. It runs the unit tests, some simulated worlds
and the thread tests of a build with HOLDFAST_COVERAGE, and prints the numbers as a line of figures for results.py.

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


def tool(name):
    """The program of the same version of LLVM as clang++, whose counters it must be able to read."""
    version = subprocess.run(["clang++", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    major = re.search(r"version (\d+)", version)[1]
    for candidate in (f"{name}-{major}", name):
        if shutil.which(candidate):
            return candidate
    sys.exit(f"{name} of LLVM {major} is missing: scripts/setup installs it")


def run(build):
    """Runs the programs. Returns one profile of all their processes, also of children."""
    profiles = build / "profiles"
    shutil.rmtree(profiles, ignore_errors=True)
    profiles.mkdir()
    environment = os.environ | {"LLVM_PROFILE_FILE": str(profiles / "%p.profraw"), "HOLDFAST_WORLDS": str(WORLDS)}
    for name, words in PROGRAMS.items():
        subprocess.run([build / "test" / name, *words, "--color_output=no", "--report_level=short"], env=environment,
                       cwd=profiles, check=True)
    # A child that a test kills may leave an empty or partial file, which does not count.
    files = sorted(str(file) for file in profiles.glob("*.profraw") if file.stat().st_size)
    (profiles / "files").write_text("\n".join(files))
    subprocess.run([tool("llvm-profdata"), "merge", "--sparse", "--failure-mode=all", "-f", profiles / "files",
                    "-o", profiles / "all.profdata"], check=True)
    return profiles / "all.profdata"


def export(build, profile, *words):
    """Returns llvm-cov's report of include/ and src/. The build names files by paths that begin in its folder."""
    objects = [word for name in PROGRAMS for word in ("-object", build / "test" / name)]
    ours = [os.path.relpath(ROOT / folder, build) for folder in ("include", "src")]
    command = [tool("llvm-cov"), "export", *words, f"-instr-profile={profile}", *objects[1:], *ours]
    return subprocess.run(command, cwd=build, stdout=subprocess.PIPE, text=True, check=True).stdout


def figures(summary):
    totals = json.loads(summary)["data"][0]["totals"]
    found = {"test": "coverage"}
    for kind in ("lines", "branches"):
        found |= {kind: totals[kind]["count"], f"{kind}_reached": totals[kind]["covered"]}
    return found


def missed(lcov):
    """The places that no test reaches, of a report in the format of lcov: a line of text for each."""
    for line in lcov.splitlines():
        if line.startswith("SF:"):
            path = re.search(r"(?:include|src)/(?!.*\.\./).*", line)[0]
        elif found := re.fullmatch(r"(DA|BRDA):(\d+),(?:\d+,(\d+),)?0", line):
            which = "the line" if found[1] == "DA" else f"branch {found[3]}"
            yield f"{path}:{found[2]}: {which} is not reached"


def self_test():
    totals = {"lines": {"count": 10, "covered": 8}, "branches": {"count": 4, "covered": 1}}
    expected = {"test": "coverage", "lines": 10, "lines_reached": 8, "branches": 4, "branches_reached": 1}
    assert figures(json.dumps({"data": [{"totals": totals}]})) == expected
    lcov = "SF:/p/src/../b/src/a.cpp\nDA:3,0\nDA:4,10\nBRDA:5,0,0,2\nBRDA:5,0,1,0\nBRDA:6,0,0,-\nend_of_record\n"
    assert list(missed(lcov)) == ["src/a.cpp:3: the line is not reached", "src/a.cpp:5: branch 1 is not reached"]


def main():
    words = sys.argv[1:]
    if words == ["--self-test"]:
        return self_test()
    if len(words) not in (1, 3) or words[0].startswith("-") or words[1:2] not in ([], ["--missed"]):
        print(__doc__.strip())
        return 0 if words in (["-h"], ["--help"]) else 2
    build = pathlib.Path(words[0]).resolve()
    profile = run(build)
    print("figures:", json.dumps(figures(export(build, profile, "-summary-only"))))
    if words[1:]:
        text = "".join(line + "\n" for line in missed(export(build, profile, "-format=lcov")))
        pathlib.Path(words[2]).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
