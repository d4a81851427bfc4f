#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Counts what a handoff between coroutines costs: instructions, accesses, and misses of simulated caches.

Each argument is a build/release/bench/holdfast_handoff_cost, for example those of two commits. The counts do not depend
on the machine, and show a change of 1 %, where times differ by 10 % from run to run. The caches are of a usual size:
32 KB, 8 ways. The code of a handoff nearly fills one, so its misses tell more than the number of its instructions. A
handoff among 16 coroutines with 4 slots on a local store is an acquire that waits, a grant, and a release. The cost of
the start is not counted. Needs valgrind.

usage: run.py PROGRAM...
"""

import pathlib
import subprocess
import sys
import tempfile

FEW, MANY = 3_000, 15_000
COLUMNS = {"Ir": "instructions", "Dr": "reads", "Dw": "writes"} | {
    "I1mr": "code misses", "D1mr": "read misses", "D1mw": "write misses"}


def counts(program, handoffs, folder):
    """Runs the program under callgrind. Returns the counts by their names."""
    out = pathlib.Path(folder) / "counts"
    command = ["valgrind", "--tool=callgrind", "--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64",
               f"--callgrind-out-file={out}", program, str(handoffs)]
    done = subprocess.run(command, timeout=300, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{program}: status {done.returncode}\n{done.stdout}")
    lines = dict(each.split(":", 1) for each in out.read_text().splitlines() if each.startswith(("events:", "totals:")))
    return dict(zip(lines["events"].split(), map(int, lines["totals"].split())))


def cost(program):
    with tempfile.TemporaryDirectory() as folder:
        few, many = (counts(program, handoffs, folder) for handoffs in (FEW, MANY))
    return [(many[name] - few[name]) / (MANY - FEW) for name in COLUMNS]


def main(programs):
    if not programs or programs[0].startswith("-"):
        print(__doc__, file=sys.stdout if programs == ["--help"] else sys.stderr)
        return 0 if programs == ["--help"] else 2
    print("".join(f"{column:>14}" for column in COLUMNS.values()))
    for program in programs:
        print("".join(f"{each:14,.1f}" for each in cost(program)), "", program, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
