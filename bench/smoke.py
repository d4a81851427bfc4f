#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that the benchmark works to its end: measurements, table, goals, report.html and the documents' tables.

It runs `run.py --smoke`, which makes all measurements of scripts/bench, each for a moment and with few contenders.
Then it reads the output. Each row must be there, each system must have its name in the charts, and each goal must be
judged or counted as not measured. The figures themselves mean nothing and are not checked.

A row may only be missing if it cannot be measured here. The rows of the Go client need Go and what scripts/setup
fetches. The rows of wrk need wrk, and the rows on a cluster need network namespaces. The end of the output names the
missing rows.

usage: smoke.py --out FOLDER PROGRAM    PROGRAM is holdfast_bench; HOLDFAST_CONSUL names Consul
       smoke.py --self-test             shows that the check is able to fail
"""

import argparse
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import goals
import measurements
import report
import tables
from measurements import CLUSTER, GO, GO_CHANNEL, GO_KEPT, GO_TODAY, TLS, WRK

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
NO_CLUSTER = "there can be no cluster here"
FIGURES = ("ops_per_s", "p50_ms", "p99_ms", "requests_per_op", "bytes_per_op", "bytes_per_waiter",
           "resident_per_waiter", "jain", "connections", "turn_wait_max")
MARK = re.compile(r"^(met|NOT|not measured) {2,}(?:[-\d.,]+(?:x| B)? {2,})?(?=\S)(.*)$", re.MULTILINE)


def identity(m):
    return measurements.identity(vars(m))


def row_of(m):
    """The cells that name the row in the table."""
    rate = f" {m.rate:g}/s" if m.rate else ""
    place = {None: "", CLUSTER: " on a cluster", TLS: " over TLS"}[m.on]
    return m.workload + rate + place, f"{m.contenders:,}", str(m.limit), m.system


def invented(plan):
    """A row for each measurement, with every figure set."""
    figures = {**dict.fromkeys(FIGURES, 1.0), "limit_held": True, "processes": 1, "distribution": [1.0] * 11}
    return [{**dict(zip(measurements.ATTRIBUTES, identity(m))), **figures} for m in plan]


def goals_without_rows(plan, words):
    """Finds goals that no measurement of the plan can judge: the name of their row or of their figure is wrong."""
    for goal in goals.evaluate(measurements.Results(invented(plan))):
        if goal.met is None:
            yield f"{words} has no row for the goal \"{goal.text}\""


def problems(printed, page, rows, left_out):
    """Yields the problems of the output. `left_out` are the measurements that could not be made here."""
    lines = {tuple(cells[i] for i in (0, 1, 2, 4)) for cells in
             (re.split(r" {2,}", line) for line in printed.splitlines()) if len(cells) > 4}
    measured = {measurements.identity(row) for row in rows}
    systems = set()
    for m in measurements.full():
        if m in left_out:
            continue
        systems.add(m.system)
        if identity(m) not in measured:
            yield f"{m}: not in results.json"
        if row_of(m) not in lines:
            yield f"{m}: not in the table"
        workload, contenders, limit, system = (f"<td>{html.escape(cell)}</td>" for cell in row_of(m))
        if not re.search(re.escape(workload + contenders + limit) + "<td>[^<]*</td>" + re.escape(system), page):
            yield f"{m}: not in report.html"
    for system in sorted(systems - {WRK}):  # wrk is in no chart
        if f">{html.escape(report.NAMES.get(system, '?'))}</text>" not in page:
            yield f"{system}: no chart has its name"
        if f".{system}." not in report.STYLE and not system.startswith("floor"):
            yield f"{system}: no colour"

    every = goals.evaluate(measurements.Results(rows))
    marks = {text: mark for mark, text in MARK.findall(printed)}
    if set(marks) != {goal.text for goal in every}:
        yield f"goals that are printed, or that there are, but not both: {set(marks) ^ {goal.text for goal in every}}"
    for goal in every:
        if f">{html.escape(goal.text)}</td>" not in page:
            yield f"report.html does not have the goal \"{goal.text}\""
    met, unknown = (sum(mark == what for mark in marks.values()) for what in ("met", "not measured"))
    short = f"{met} of {len(every)} goals that were set beforehand are met"
    short += f", {unknown} not measured" if unknown else ""
    for where, text in (("the output", printed), ("report.html", page)):
        if not re.search(rf"{short}[.<]", text):
            yield f"{where} does not have the sentence \"{short}\""


def tables_of(results):
    """Checks that the documents' tables can be made, and that the tables of goals count the goals as `goals` does."""
    for name, make in tables.FIGURES.items():
        text = make(results)
        every = goals.evaluate(measurements.Results(results["rows"]))
        if name in ("goals", "cost-in-short") and goals.in_short(every) not in text:
            yield f"the documents' block {name} does not count the goals"


def self_test():
    plan = list(measurements.full())
    rows = invented(plan)

    def found(change=lambda text: text, rows=rows, left_out=()):
        results = measurements.Results(rows)
        every = goals.evaluate(results)
        printed, page = report.printed(results, every, 1, True), report.html(results, every, 1, True)
        return list(problems(change(printed), change(page), rows, left_out))

    assert not found(), found()
    over_tls = [m for m in plan if m.on == TLS]
    plain = [m for m in plan if m.on != TLS]
    assert not found(rows=invented(plain), left_out=over_tls)
    assert len(found(rows=invented(plain))) == 3 * len(over_tls)
    assert len(list(goals_without_rows(plain, "a plan"))) == 2
    goal = goals.evaluate(measurements.Results(rows))[0].text
    bad = {
        "no row in the table": ("cycle-idle", "cycle_idle"),
        "a chart's name": (">Go client, today<", ">consul-go-today<"),
        "a row over TLS": ("over TLS", "on a TLS"),
        "a goal": (html.escape(goal), "another goal"),
        "a count": (" goals that were set beforehand", " goals"),
    }
    for what, (old, new) in bad.items():
        assert found(lambda text: text.replace(old, new)), what
    name = report.NAMES.pop(GO_TODAY)
    try:
        found()
    except KeyError:
        report.NAMES[GO_TODAY] = name
    assert GO_TODAY in report.NAMES, "a system without a name"


def peers():
    """The environment that names the peers' programs, and the systems without a program."""
    environment, missing = dict(os.environ), set()
    for variable, systems, words in (("BENCH_GO", {GO, GO_CHANNEL, GO_KEPT}, []),
                                     ("BENCH_GO_TODAY", {GO_TODAY}, ["--today"])):
        environment.pop(variable, None)
        if subprocess.run([ROOT / "scripts/go-program", "--check", *words], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0:
            built = subprocess.run([HERE / "peers/build", *words], stdout=subprocess.PIPE, text=True, check=True)
            environment[variable] = built.stdout.strip()
        else:
            missing |= systems
    environment["BENCH_WRK"] = shutil.which("wrk") or ""
    return environment, missing | (set() if environment["BENCH_WRK"] else {WRK})


def main():
    parser = argparse.ArgumentParser(usage=__doc__, allow_abbrev=False)
    parser.add_argument("program", nargs="?")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if not options.self_test and not (options.program and options.out):
        parser.error("which program, and where to?")
    found = [*goals_without_rows(measurements.full(), "scripts/bench"),
             *goals_without_rows(measurements.quick(), "scripts/bench --quick")]
    if found:
        print("\n".join(found))
        return 1
    self_test()
    if options.self_test:
        return 0
    for name in ("results.json", "report.html"):
        (options.out / name).unlink(missing_ok=True)
    environment, missing = peers()
    command = [sys.executable, HERE / "run.py", "--smoke", "--out", options.out, options.program]
    run = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    printed = ""
    for line in run.stdout:
        print(line, end="", flush=True)
        printed += line
    if run.wait() != 0:
        found.append(f"run.py ended with status {run.returncode}")
    no_cluster = NO_CLUSTER in printed
    about = subprocess.run([options.program, "--about"], stdout=subprocess.PIPE, text=True, check=True).stdout
    boost = json.loads(about)["boost"]
    left_out = [m for m in measurements.full() if m.system in missing or (no_cluster and m.on == CLUSTER)
                or not measurements.has_boost_for(m, boost)]
    try:
        results = json.loads((options.out / "results.json").read_text())
        page = (options.out / "report.html").read_text()
    except OSError as why:
        found.append(str(why))
    else:
        found += [*problems(printed, page, results["rows"], left_out), *tables_of(results)]
    for m in left_out:
        print(f"left out: {m}")
    for problem in found:
        print(f"FAILED: {problem}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
