# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Runs commands, and reads the command line, for the tests of packages."""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


def run(command, fails=False, **options):
    """Runs a command, and returns its output."""
    begun = time.monotonic()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, **options)
    if time.monotonic() - begun > 5:
        print(f"  {time.monotonic() - begun:.0f} s: {shlex.join(map(str, command))[-100:]}", flush=True)
    expect((done.returncode != 0) == fails,
           f"{shlex.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


def version_of(tree):
    return re.search(r"project\(holdfast VERSION (\S+)", (tree / "CMakeLists.txt").read_text(encoding="utf-8"))[1]


def expect_noticed(what, check, of_interest=r"\S"):
    """Fails unless `check` fails. Prints the last line of its failure in which the pattern is found."""
    try:
        check()
    except Failure as failure:
        lines = [line.strip() for line in str(failure).splitlines() if re.search(of_interest, line)]
        print(f"  noticed: {what}: {lines[-1][-150:] if lines else failure}", flush=True)
        return
    raise Failure(f"not noticed: {what}")


def call(main, about, is_known, needs_root=""):
    """Calls `main` with the arguments of the command line if `is_known` accepts them, and ends the program.

    `needs_root`: why the test needs root. Without root, the exit status is then 77.
    """
    words = sys.argv[1:]
    if words in (["-h"], ["--help"]):
        print(about.strip())
        sys.exit(0)
    if not is_known(words):
        print(about.strip(), file=sys.stderr)
        sys.exit(2)
    if needs_root and os.geteuid() != 0:
        print(f"This test must be run by root, because {needs_root}.")
        sys.exit(77)
    try:
        main(words)
    except Failure as failure:
        print(failure)
        sys.exit(1)


def keeps_packages(words):
    return len(words) == 2 and words[0] == "--packages"
