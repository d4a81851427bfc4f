# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Finds tests of a program that CTest does not run, and suites that CTest names and the program does not have."""

import subprocess


def read(program, *suites):
    """Boost.Test's list of the program's tests: a line for each suite and case, with a star if it is enabled."""
    listing = subprocess.run([program, "--list_content=HRF"], capture_output=True, text=True, check=True)
    return {"tests": listing.stdout + listing.stderr, "suites": "\n".join(suites)}


def problems(files):
    suites = set(files["suites"].split())
    lines = [line for line in files["tests"].splitlines() if line.strip()]
    found = {line.split(":")[0].rstrip(" *") for line in lines if not line[0].isspace()}
    yield from (f"no suite {name}" for name in sorted(suites - found))
    for name in sorted(found - suites):
        yield f"{name} is not in a suite named like its file, so CTest does not run it"
    for line in lines:
        if not line.split(":")[0].rstrip().endswith("*"):
            yield f"{line.strip()} is switched off"


GOOD = {"tests": "one*\n    first*\n    second*: with words\ntwo*\n    third*\n", "suites": "one\ntwo"}
PLANTED = [
    ("suites", "two", "", "two is not in a suite"),
    ("suites", "two", "two\nthree", "no suite three"),
    ("tests", "third*", "third", "third is switched off"),
    ("tests", "second*", "second", "second: with words is switched off"),
]
