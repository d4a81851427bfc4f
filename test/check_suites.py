#!/usr/bin/env python3
"""Fails if a test program holds tests that CTest does not run, or lacks a suite that CTest names.

usage: check_suites.py PROGRAM SUITE...
"""

import subprocess
import sys


def top_level_units(program):
    listing = subprocess.run(
        [program, "--list_content=HRF"], capture_output=True, text=True, check=True
    )
    names = set()
    for line in (listing.stdout + listing.stderr).splitlines():
        if line and not line[0].isspace():
            names.add(line.split(":")[0].rstrip(" *"))
    return names


def main():
    program, *suites = sys.argv[1:]
    found = top_level_units(program)
    problems = [f"no suite {name}" for name in sorted(set(suites) - found)]
    problems += [
        f"{name} is not in a suite named like its file, so CTest does not run it"
        for name in sorted(found - set(suites))
    ]
    for problem in problems:
        print(f"{program}: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
