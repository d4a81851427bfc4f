#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Shows that a change which is made in its first places only does not go unnoticed.

CHANGES has changes that people make again and again, each in steps. A step inserts lines into a copy of the project.
After each step, its checks must fail, and must report this step. A check is a file to compile, or a program that checks
the sources. The program prints the line that reported the problem. It fails if a check finds nothing.

The lists of enumerations (`loss_reasons`, `errors`, ...) are no steps: they are derived from `to_string`. Changes that
only tools/rules/names.py reports are not here either: its self-test plants them.

usage: half_made.py [TEXT]   only the changes with this text in their names. The environment's CXX is the compiler
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import sources

COMPILER = os.environ.get("CXX", "g++")
RULES = sys.executable + " tools/check.py "
DASHBOARD = sys.executable + " test/monitoring/check_dashboard.py"
SWITCH = r"error:.*added.*not handled in switch"  # g++ and clang++
ASSERTION = r"^src/\S+ error: static.assert(ion)? failed"
LOSSES, ERRORS, LOG, FAULTS, VERBS = ("include/holdfast/loss_reason.hpp", "include/holdfast/error.hpp",
                                      "include/holdfast/log_kind.hpp", "include/holdfast/testing/faults.hpp",
                                      "src/cli/operate.hpp")  # fmt: skip


class Step(NamedTuple):
    what: str
    file: str
    before: str  # the lines are inserted before this text, which the file contains exactly once
    lines: str
    checks: tuple  # pairs: a file to compile or a command, and a regular expression for a line that it prints


def enumerator(file, enum, before, *checks):
    """The steps of a new enumerator: first itself, and then also its text."""
    yield Step("the enumerator", file, f"  {before},", "  added,\n", ((file, SWITCH),))
    yield Step("and its text in to_string", file, f"    case {enum}::{before}:",
               f'    case {enum}::added:\n      return "added";\n', checks)


CHANGES = {
    "a loss reason": [
        *enumerator(LOSSES, "loss_reason", "removed", ("src/protocol/session/session.hpp", SWITCH),
                    (RULES + "names", "added is not in doc/reference/losses.md"),
                    (RULES + "trouble", "no row for `lost: added`")),
        Step("and its case in protects_slot", "src/protocol/session/session.hpp", "    case loss_reason::removed:",
             "    case loss_reason::added:\n", (("src/protocol/mutex_set/lock_names.cpp", SWITCH),))],
    "an error": [
        *enumerator(ERRORS, "error", "too_many_slots", ("src/error.cpp", ASSERTION)),
        Step("and its text in the table", "src/error.cpp", "    {error::too_many_slots,",
             '    {error::added, "it was added", not_applied},\n', ((RULES + "trouble", "no row for `added`"),))],
    "a command of the program": [*enumerator(
        VERBS, "operator_command::kind", "shrink",
        ("src/cli/operate.cpp", SWITCH), ("src/cli/with_rabbitmq.cpp", SWITCH))],
    "an option of an acquire": [Step(
        "the member", "include/holdfast/options.hpp", "  const void* trace_parent", "  bool added = false;\n",
        (("src/runtime/terms_of.hpp", "error:.*(names provided|decomposes into)"),
         (RULES + "names", "added is not in doc/reference/options.md")))],
    "a kind of log line": [
        *enumerator(LOG, "log_kind", "agent_changed", ("src/net/log_event.cpp", ASSERTION)),
        Step("and its text in the table", "src/net/log_event.cpp", "    {log_kind::agent_changed,",
             '    {log_kind::added, severity::info, "something was added"},\n',
             ((RULES + "trouble", "no row for this log line.*something was added"),))],
    "a metric": [
        Step("the line that serves it", "src/runtime/prometheus.cpp", '  counter("holdfast_revocations_total"',
             '  counter("holdfast_added_total", "Added.", [](const lock_statistics& s) { return s.revoked; });\n',
             ((RULES + "metrics", "no row for holdfast_added_total"),)),
        Step("and its row in the reference", "doc/reference/metrics.md", "| `holdfast_revocations_total`",
             "| `holdfast_added_total` | counter | `lock` | Added. |\n", ((DASHBOARD, "holdfast_added_total"),))],
    "a fault of the network": [*enumerator(
        FAULTS, "fault::kind", "trickle",
        ("src/testing/fault_steps.cpp", SWITCH), ("test/unit/testing_faults.cpp", SWITCH))],
}  # fmt: skip


def warnings():
    """The warnings of this project's builds. If a flag there is removed, the changes go unnoticed here, too."""
    text = (sources.ROOT / "cmake/flags.cmake").read_text(encoding="utf-8")
    return re.search(r"PRIVATE (-Wall [^)]*)\)", text)[1].split()


def report(tree, check, expected, flags):
    """The line that reports the half-made change, or None."""
    command = shlex.split(check)
    if len(command) == 1:
        command = [COMPILER, "-std=c++20", "-fsyntax-only", "-Iinclude", "-Isrc", "-Itest", *flags, "-x", "c++", check]
    english = {**os.environ, "LC_ALL": "C.UTF-8"}
    run = subprocess.run(command, cwd=tree, env=english, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = [line for line in run.stdout.splitlines() if re.search(expected, line)]
    return lines[0].replace(f"{tree}/", "") if lines and run.returncode != 0 else None


def copy(tree, paths):
    for path in paths:
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(sources.ROOT / path, tree / path)


def apply(tree, step):
    file = tree / step.file
    text = file.read_text(encoding="utf-8")
    if text.count(step.before) != 1:
        raise SystemExit(f"{step.file}: this must stand exactly once: {step.before}")
    file.write_text(text.replace(step.before, step.lines + step.before), encoding="utf-8")


def unnoticed(tree, name, steps, flags, say=print):
    """Makes one change step by step. Returns the checks that found nothing."""
    found = []
    for step in steps:
        apply(tree, step)
        for check, expected in step.checks:
            line = report(tree, check, expected, flags)
            found += [] if line else [f"{name}, {step.what}: {check} does not report it"]
            tool = check.removeprefix(sys.executable + " ") if " " in check else f"{COMPILER} -fsyntax-only {check}"
            say(f"{name}, {step.what}: {tool}\n    {line or 'NOT NOTICED'}")
    copy(tree, {step.file for step in steps})
    return found


def main():
    is_help = sys.argv[1:] in (["-h"], ["--help"])
    chosen = {name: steps for name, steps in CHANGES.items() if not sys.argv[1:] or sys.argv[1] in name}
    if is_help or len(sys.argv) > 2 or not chosen:
        print(__doc__.strip(), file=sys.stdout if is_help else sys.stderr)
        return 0 if is_help else 2
    begun, flags, failures = time.monotonic(), warnings(), []
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        copy(tree, sources.tracked())
        for name, steps in chosen.items():
            failures += unnoticed(tree, name, steps, flags)
        # This program is able to fail: without the flags that make a forgotten enumerator an error, nothing is noticed.
        mild = [flag for flag in flags if not flag.startswith("-Werror")]
        if not unnoticed(tree, "without -Werror", CHANGES["a loss reason"][:1], mild, lambda _: None):
            failures.append("without -Werror, a forgotten enumerator is reported all the same")
    print(*failures, f"{len(chosen)} changes, {len(failures)} failures, {time.monotonic() - begun:.0f} s", sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
