#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Fails if a test program holds tests that CTest does not run, or lacks a suite that CTest names.

usage: check_suites.py PROGRAM SUITE...
       check_suites.py --self-test      shows that it is able to fail
"""

import subprocess
import sys


def problems(listing, suites):
    """`listing` is Boost.Test's list of tests: a line for each suite and case, with a star if it is enabled."""
    lines = [line for line in listing.splitlines() if line.strip()]
    found = {line.split(":")[0].rstrip(" *") for line in lines if not line[0].isspace()}
    yield from (f"no suite {name}" for name in sorted(set(suites) - found))
    for name in sorted(found - set(suites)):
        yield f"{name} is not in a suite named like its file, so CTest does not run it"
    for line in lines:
        if not line.split(":")[0].rstrip().endswith("*"):
            yield f"{line.strip()} is switched off"


def self_test():
    good = "one*\n    first*\n    second*: with words\ntwo*\n    third*\n"
    assert not list(problems(good, ["one", "two"]))
    assert list(problems(good, ["one"]))
    assert list(problems(good, ["one", "two", "three"]))
    assert list(problems(good.replace("third*", "third"), ["one", "two"]))
    assert list(problems(good.replace("second*", "second"), ["one", "two"]))


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    program, *suites = sys.argv[1:]
    listing = subprocess.run([program, "--list_content=HRF"], capture_output=True, text=True, check=True)
    found = list(problems(listing.stdout + listing.stderr, suites))
    for problem in found:
        print(f"{program}: {problem}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
