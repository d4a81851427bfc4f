#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Runs a fuzz target on its corpus, then on inputs that libFuzzer makes of it.

usage: run.py PROGRAM --inputs FOLDER --results FOLDER --seconds N [--seed N]

corpus/<name of PROGRAM>/ in the first folder holds the first inputs, <name>.dict words worth trying. In the second,
found/<name>/ gets inputs that reached something new, from which the next run without --seed goes on, and crashes/ those
that broke something. Without --seed each run is another one; with it, it begins like any other of that seed.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

# Limits: seconds for one input, after which it counts as hung, and MiB for all inputs together.
INPUT_SECONDS = 10
MEMORY = 2048
SECONDS_BETWEEN_PROGRESS = 10
LINES_KEPT = 200

PROGRESS = re.compile(r"#(?P<inputs>\d+)\s+\w+\s+cov: (?P<cov>\d+) ft: (?P<ft>\d+) corp: (?P<kept>\d+)/")
STATISTIC = re.compile(r"stat::(\w+):\s+(\d+)")
ARTIFACT = "Test unit written to "


def command_of(asked, name, corpus):
    found = asked.results / "found" / name
    if asked.seed is not None:
        found = asked.results / "found" / f"{name}.{asked.seed}"
        shutil.rmtree(found, ignore_errors=True)
    crashes = asked.results / "crashes"
    for folder in (found, crashes):
        folder.mkdir(parents=True, exist_ok=True)

    options = {
        "max_total_time": asked.seconds,
        "artifact_prefix": f"{crashes}/{name}-",
        "timeout": INPUT_SECONDS,
        "rss_limit_mb": MEMORY,
        "print_final_stats": 1,
        "print_funcs": 0,  # names of new functions cost seconds
        "entropic": 0,  # costs more time here than it saves: half of it, where inputs reach much
    }
    if asked.seed is not None:
        options["seed"] = asked.seed
    dictionary = asked.inputs / f"{name}.dict"
    if dictionary.exists():
        options["dict"] = dictionary
    return [str(asked.program), *(f"-{name}={value}" for name, value in options.items()), str(found), str(corpus)]


class Run:
    """Runs a fuzzer and reads its output."""

    def __init__(self, name, command):
        self.name = name
        self.begun = self.told = time.monotonic()
        self.lines = []
        self.statistics = {}
        self.progress = None
        self.artifact = None
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="backslashreplace"
        ) as fuzzer:
            for line in fuzzer.stdout:
                self.take(line.rstrip("\n"))
        self.status = fuzzer.returncode

    def seconds(self):
        return time.monotonic() - self.begun

    def take(self, line):
        if match := PROGRESS.match(line):
            self.progress = match
            if time.monotonic() - self.told >= SECONDS_BETWEEN_PROGRESS:
                self.told = time.monotonic()
                told = "{inputs} inputs, cov {cov}, ft {ft}".format(**match.groupdict())
                print(f"{self.name}: {self.seconds():.0f} s, {told}", flush=True)
            return
        if match := STATISTIC.match(line):
            self.statistics[match[1]] = int(match[2])
        elif ARTIFACT in line:
            self.artifact = line.partition(ARTIFACT)[2]
        self.lines = self.lines[-LINES_KEPT:] + [line]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--inputs", type=pathlib.Path, required=True)
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--seed", type=int)
    asked = parser.parse_args()

    name = asked.program.name
    corpus = asked.inputs / "corpus" / name
    first = sum(path.is_file() for path in corpus.iterdir())
    if first == 0:
        sys.exit(f"{name}: no inputs in {corpus}")

    run = Run(name, command_of(asked, name, corpus))
    if run.status != 0:
        print("\n".join(run.lines))
        print(f"\n{name}: FAILED after {run.seconds():.1f} s")
        if run.artifact:
            print(f"the input: {run.artifact}\nonce more: {asked.program} {run.artifact}")
        sys.exit(1)
    executed = run.statistics.get("number_of_executed_units", 0)
    if executed < first or run.progress is None:  # on a busy machine there may be no time for more than the corpus
        sys.exit("\n".join(run.lines) + f"\n{name}: {executed} inputs tried, and the corpus has {first}")
    speed = run.statistics["average_exec_per_sec"]
    told = "cov {cov}, ft {ft}, {kept} inputs kept".format(**run.progress.groupdict())
    print(f"{name}: {executed} inputs in {run.seconds():.0f} s ({speed}/s), {told}, {first} in the corpus")
    figures = {"test": f"fuzz/{name}", "inputs": executed, "seconds": round(run.seconds()), "corpus": first}
    print("figures: " + json.dumps(figures))


if __name__ == "__main__":
    main()
