#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Records what long runs have shown in doc/results, and writes it into README.md and doc/*.md.

A document holds blocks of Markdown that are made from a results file:

  <!-- figures: NAME -->
  ...
  <!-- end of figures -->

FILES lists the results files and their blocks. A results file keeps only what a block shows, so `--write` removes the
rest. A row names the commit that was tested. Its mark says how many commits since then have changed code. Only
`--write` renews the marks, so a later commit makes no document wrong.

usage: results.py              checks the documents and the results files; prints the differences

       results.py --write      renews the marks and the documents, and removes what no document shows

       results.py --self-test  shows that the checks can fail

tools/run_tests.py records the rows of long runs and matrices.
"""

import collections.abc
import contextlib
import datetime
import difflib
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import xml.etree.ElementTree
from typing import NamedTuple

import compilers

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Results depend on no document, lint, licence or generator of documents.
NO_CODE = "doc", "*.md", "tools", ".github", "scripts/docs", "scripts/release", "LICENSES", ".reuse"
CODE = ["--", ".", *(f":(exclude){path}" for path in NO_CODE)]


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


# --- Results files


def load(path):
    try:
        return json.loads((ROOT / path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def compact(content, indent=""):
    """JSON in which each object or list that fits has one line, and each row."""
    line = json.dumps(content)
    is_row = isinstance(content, dict) and not any(isinstance(value, (dict, list)) for value in content.values())
    if len(indent) + len(line) <= 118 or is_row or not isinstance(content, (dict, list)):
        return line
    deeper = indent + " "
    if isinstance(content, list):
        return "[\n" + ",\n".join(deeper + compact(each, deeper) for each in content) + f"\n{indent}]"
    members = (f"{deeper}{json.dumps(name)}: {compact(value, deeper)}" for name, value in content.items())
    return "{\n" + ",\n".join(members) + f"\n{indent}}}"


def save(path, content):
    """Replaces the file in one step: a run that is stopped leaves the old results or the new ones."""
    path = ROOT / path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(compact(content) + "\n")
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def rows_in(content):
    return content["steps"] if "steps" in content else content


def keep(table, name, row):
    """Puts one row into the file of the table. All other rows stay."""
    path = FILES[table].path
    content = load(path) or ({"steps": {}} if table == "long" else {})
    rows_in(content)[name] = row
    save(path, content)


def is_named(row):
    """Whether it is one of a list of rows, which are found by name."""
    return isinstance(row, dict) and bool({"test", "workload"} & row.keys())


class Read(collections.abc.Mapping):
    """An object of a results file that knows which members were read."""

    NAMES = "test", "workload", "system", "contenders", "limit", "rate", "on"  # what a row of a list is found by

    def __init__(self, content):
        self.content, self.children, self.asked = content, {}, set()

    def __getitem__(self, name):
        value = self.content[name]
        if name not in self.children:
            if isinstance(value, dict):
                value = Read(value)
            elif isinstance(value, list) and all(map(is_named, value)):
                value = list(map(Read, value))
            self.children[name] = value
        return self.children[name]

    def __contains__(self, name):
        self.asked.add(name)
        return name in self.content

    def __iter__(self):
        return iter(self.content)

    def __len__(self):
        return len(self.content)

    def is_used(self):
        return not self.children.keys() <= set(self.NAMES)

    def used(self, is_row=False):
        kept = {*self.children, *self.asked, *(self.NAMES if is_row else ())}
        found = {name: self.children.get(name, value) for name, value in self.content.items() if name in kept}
        for name, child in found.items():
            if isinstance(child, Read):
                found[name] = child.used()
            elif isinstance(child, list) and child and isinstance(child[0], Read):
                found[name] = [row.used(True) for row in child if row.is_used()]
        return found


# --- Commits


def begin():
    """The commit of a run that begins now."""
    no_documents = "--", ".", ":(exclude)doc", ":(exclude)*.md"
    changed = output_of("git", "status", "--porcelain", "--untracked-files=all", *no_documents).splitlines()
    if changed:
        sys.exit("The results would name a commit without these changes: " + ", ".join(each[3:] for each in changed))
    return output_of("git", "rev-parse", "--short", "HEAD").strip()


def mark_of(commit):
    """Why a row of this commit is not current. Empty if it is."""
    known = subprocess.run(["git", "merge-base", "--is-ancestor", commit, "HEAD"], cwd=ROOT, stderr=subprocess.DEVNULL)
    if known.returncode != 0:
        return "unknown commit"
    since = output_of("git", "rev-list", "--count", f"{commit}..HEAD", *CODE).strip()
    return f"older, commits since: {since}" if since != "0" else ""


def mark(file):
    content = load(file.path)
    for row in rows_in(content).values():
        row.pop("mark", None)
        why = mark_of(row["commit"])
        if why:
            row["mark"] = why
    return content


def has_passed(table, name):
    """True if all tests of this row have passed at this code."""
    row = rows_in(load(FILES[table].path)).get(name)
    return bool(row) and FILES[table].is_good(row) and not mark_of(row["commit"])


def shown_commit(row):
    return row["commit"] + (f" ({row['mark']})" if row.get("mark") else "")


# --- What tests have written


def cases_of(text):
    return xml.etree.ElementTree.fromstring(text).findall(".//testcase")


def read_ctest(path):
    """How many tests CTest's JUnit XML has, and the names of those that did not run and pass, also of those never started."""
    try:
        tests = cases_of(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, xml.etree.ElementTree.ParseError):
        return 1, ["running the tests"]
    if not tests:
        return 1, ["finding tests"]
    return len(tests), [test.get("name") for test in tests if test.get("status") != "run"]


def is_bad(case):
    return any(case.find(what) is not None for what in ("failure", "error", "skipped"))


def counted(suite, text, only_portable=()):
    """How many test cases of the suite have passed, how many there are in this build, and how many only the portable
    build has. Boost.Test lists the latter as skipped, and also all cases of other suites."""
    cases = [case for case in cases_of(text) if case.get("classname").split(".")[0] == suite]
    others = [case for case in cases if case.get("name") in only_portable and case.find("skipped") is not None]
    return sum(not is_bad(case) for case in cases), len(cases) - len(others), len(others)


def only_portable():
    """The names of the test cases that are disabled in all builds but the portable one."""
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "test/unit").rglob("*.cpp"))
    return {name for text in sources for name in re.findall(r"_TEST_CASE\((\w+),[^{]*\*only_portable\b", text)}


def counted_named(file, ending=""):
    """How many test cases have passed, and how many there are. Only names with this ending count."""
    if not file.exists():
        return 0, 0
    cases = cases_of(file.read_text(encoding="utf-8", errors="replace"))
    cases = [case for case in cases if case.get("name").endswith(ending)]
    return sum(not is_bad(case) for case in cases), len(cases)


def counted_lines(text, test):
    """How many lines of the test's output begin with "passed", and how many with that or with "FAILED"."""
    output = "\n".join(case.findtext("system-out") or "" for case in cases_of(text) if case.get("name") == test)
    good, bad = (len(re.findall(rf"^{word} ", output, re.MULTILINE)) for word in ("passed", "FAILED"))
    return good, good + bad


def all_passed(row):
    """True if all tests have passed, and if each kind of test has been run. A suite that ended early has fewer cases,
    which may all have passed, but CTest counts it as failed."""
    return not row["failed"] and all(good == cases > 0 for good, cases in row["cases"].values())


def first_line(*command):
    try:
        return output_of(*command).splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def step_row(text, build, tests, failed, seconds, built):
    """A step of `scripts/test --long` that has passed. A step that fails leaves its old result."""
    outputs = (test.findtext("system-out") or "" for test in cases_of(text))
    lines = [line for output in outputs for line in re.findall(r"^(?:\d+: )?figures: (\{.*\})$", output, re.MULTILINE)]
    return {
        "date": datetime.date.today().isoformat(), "cores": len(os.sched_getaffinity(0)),
        "compilers": [first_line("g++", "--version"), first_line("clang++", "--version")],
        "consul": first_line(first_line(ROOT / "scripts/consul"), "version"),
        "tests": tests, "seconds": seconds, "build_seconds": built, "figures": [json.loads(line) for line in lines],
    }  # fmt: skip


# The columns of the table of Consul's versions, and the beginnings of the files' names for each. A file counts for the
# first column that it fits.
OF_CONSUL = {"conformance": "conformance.", "differential": "differential.", "interop": "integration.interop",
             "integration": "integration.", "cluster": "cluster."}
OF_RABBITMQ = "facts", "conformance", "link and semaphore", "faults"


def consul_row(text, build, tests, failed, seconds, built):
    cases = {column: [0, 0] for column in OF_CONSUL}
    for path in (build / "junit").glob("*.xml"):
        column = next((column for column, begins in OF_CONSUL.items() if path.name.startswith(begins)), None)
        if column:
            found = counted(path.stem.partition(".")[2], path.read_text(encoding="utf-8", errors="replace"))
            cases[column] = [a + b for a, b in zip(cases[column], found)]
    return {"seconds": seconds, "tests": tests, "failed": len(failed), "cases": cases}


def rabbitmq_row(text, build, tests, failed, seconds, built):
    file = build / "rabbitmq_faults.json"  # the run begins without it, so it has one version
    faults = next(iter(json.loads(file.read_text(encoding="utf-8")).values()), {}) if file.exists() else {}
    cases = dict(zip(OF_RABBITMQ, (
        counted_lines(text, "rabbitmq.facts"),
        counted_named(build / "junit/rabbitmq.conformance_on_a_broker.xml", "_on_broker"),
        counted_named(build / "junit/rabbitmq.on_a_broker.xml"),
        (sum("failed" not in row for row in faults.values()), len(faults)),
    )))  # fmt: skip
    return {"seconds": seconds, "tests": tests, "failed": len(failed), "cases": cases, "faults": faults}


def add(table, name, commit, ctest, tests, failed, seconds, built):
    """Keeps the row of a run whose JUnit XML of CTest is in the file `ctest`."""
    text = ctest.read_text(encoding="utf-8", errors="replace")
    row = FILES[table].row(text, ctest.parent, tests, failed, int(seconds), int(built))
    keep(table, name, {"commit": commit, **row})


# --- Blocks of `scripts/test --long`

WORLDS = {
    "worlds/no_guarantee_is_broken": "semaphores",
    "worlds/no_guarantee_is_broken_with_a_mutex": "mutexes",
    "worlds/no_guarantee_is_broken_with_an_election": "elections",
    "worlds/no_guarantee_is_broken_with_a_mutex_set": "mutex sets",
    "broker_worlds/no_promise_is_broken": "semaphores on RabbitMQ",
    "worlds/a_long_day_loses_no_slot": "a day of renewals, on clocks that are wrong by two percent",
}


RUN_BY = {"release": "each run of the tests", "worlds": "`--long`"}


def markdown(header, rows, line="| --- "):
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in [header, *rows]]
    lines.insert(1, line * len(header) + "|")
    return "\n".join(lines)


def printed(results, step, begins=""):
    figures = results["steps"].get(step, {}).get("figures", [])
    return [line for line in figures if line["test"].startswith(begins)]


def one(results, begins, has):
    """The figures of the test whose name begins with `begins`: the line that has the member `has`."""
    lines = (line for step in ("clusters", "worlds", "release") for line in printed(results, step, begins))
    return next(line for line in lines if has in line)


def seconds(number):
    return f"{number:.2f} s" if number < 0.95 else f"{number:.1f} s"


def words_of(test):
    suite, _, case = test.rpartition("/")
    return f"{suite.replace('_', ' ')}: {case.replace('_', ' ')}"


def provenance(results, *names):
    """Where and when these steps were run. There is one sentence for all steps that were run alike."""
    runs = {}
    for name in names:
        of = results["steps"][name]
        programs = "; ".join([of["consul"], *of["compilers"]])
        words = f"commit {of['commit']}, {of['date']}; {of['cores']} cores; {programs}"
        runs.setdefault(words, []).append(f"`{name}`")
    if len(runs) == 1:
        return f"C{next(iter(runs))[1:]}."
    return " ".join(f"Step {', '.join(which)}: {words}." for words, which in runs.items())


def steps(results):
    rows = [[f"`{name}`", shown_commit(of), of["tests"], 0, f"{of['build_seconds']} s", f"{of['seconds']} s"]
            for name, of in results["steps"].items()]
    header = ["step", "last passed at commit", "tests passed", "failed", "built in", "tested in"]
    whole = markdown(header, [*rows, ["all", "", sum(row[2] for row in rows), 0, "", ""]])
    return f"`scripts/test --long`.\n\n{whole}"


def worlds(results):
    rows = []
    for step, command in RUN_BY.items():
        for test, what in WORLDS.items():
            lines = [line for line in printed(results, step) if line["test"] == test]
            if not lines:
                continue
            total = {name: sum(line.get(name, 0) for line in lines)
                     for name in ("worlds", "steps", "grants", "faults", "losses", "proclaims", "news")}
            more = f"; {total['proclaims']:,} proclaims, {total['news']:,} times news" if total["news"] else ""
            rows.append([what, command, f"{total['worlds']:,}", f"{total['steps']:,}", f"{total['grants']:,}{more}",
                         f"{total['faults']:,}", f"{total['losses']:,}"])
    header = ["worlds of", "run by", "worlds", "steps", "grants", "faults", "slots lost"]
    return f"Nothing was broken. {provenance(results, 'release', 'worlds')}\n\n{markdown(header, rows)}"


def bugs_table(what, line):
    rows = [[f"`{bug}`", line["found_by"][bug], f"{steps:,}"] for bug, steps in sorted(line["steps"].items())]
    soon = sum(steps <= 10_000 for steps in line["steps"].values())
    table = markdown(["", "found by", "after steps"], rows)
    return f"{len(rows)} {what}: {soon} of them within 10,000 steps.\n\n{table}"


def block(header, cells, begins="", has=(), steps=("release", "clusters"), is_left_out=lambda line: False):
    """The block with a row for each line of figures of these steps and tests that has these members."""

    def make(results):
        rows = [cells(line, step) for step in steps for line in printed(results, step, begins)
                if all(name in line for name in has) and not is_left_out(line)]
        return rows and markdown(header, rows)

    return make


def cells_of_a_cluster(line, step):
    waits = "; ".join(f"{seconds(wait['seconds'])} after {wait['after']}" for wait in line["waits"][1:])
    return [words_of(line["test"]), line["limit"], line["believers"], waits or seconds(line["waits"][0]["seconds"])]


clusters = block(
    ["test", "limit", "believers, at most", "longest wait while a slot was free"], cells_of_a_cluster,
    has=("believers", "waits"), is_left_out=lambda line: line["test"].startswith("as_shipped") or line["overlap"] > 0,
)  # fmt: skip


def cells_of_survival(line, step):
    def end(of):
        overlap = f", {seconds(line[of + '_overlap'])} too many" if line[of + "_overlap"] else ""
        return ("lost" if line[of + "_losses"] else "kept") + overlap

    return [line["scene"].replace("-", " "), f"{line['ttl_s']} s", end("own_node"), end("agents_node")]


def cells_of_sharing(line, step):
    times = (seconds(line[name]) for name in ("last_heard_after_s", "grant_seen_after_s", "longest_s"))
    return [line["processes"], line["semaphores_of_each"], line["connections_of_all"], *times]


def fenced(results):
    line = one(results, "fenced/", "paused")
    rows = [["compares tokens", line["fenced_taken"], line["fenced_refused"], 0],
            ["takes everything", line["taken"], 0, line["stale_taken"]]]
    text = f"{line['paused']} holders were paused beyond their lease."
    return f"{text}\n\n{markdown(['store that', 'writes taken', 'refused', 'stale writes taken'], rows)}"


def consul_lock(results):
    ours = one(results, "frozen_agent/", "waits")
    theirs = one(results, "frozen_agent_of_consul_lock/", "waits")
    told = one(results, "frozen_agent_of_consul_lock/", "granted_after_ms")

    def row(name, line, granted):
        too_many = seconds(line["overlap"]) if line["overlap"] else "never"
        return [name, granted, f"{line['believers']} of {line['limit']}", too_many]

    rows = [row("holdfast", ours, seconds(ours["waits"][1]["seconds"])),
            row("`consul lock -n 2`", theirs, seconds(told["granted_after_ms"] / 1000))]
    watched = f"too many, in {told['watched_ms'] // 1000} s"
    return markdown(["", "waiters granted after", "believers, at most", watched], rows)


def fuzzing(results):
    rows = [["fuzz target `" + line["test"].partition("/")[2] + "`", f"{line['inputs']:,} inputs"]
            for line in printed(results, "fuzz-long", "fuzz/")]
    line = one(results, "random_operations/", "operations")
    compared = "{operations:,} operations in {sequences:,} sequences, {wakes:,} wake-ups compared".format_map(line)
    rows.append(["model of Consul and a real agent", compared])
    return markdown(["what", "nothing broken in"], rows)


def coverage(results):
    if "coverage" not in results["steps"]:
        return None
    line = printed(results, "coverage", "coverage")[0]
    of = {kind: (line[kind], line[f"{kind}_reached"]) for kind in ("lines", "branches")}
    rows = [[kind, f"{every:,}", f"{reached:,}", f"{100 * reached / every:.1f} %"]
            for kind, (every, reached) in of.items()]
    return f"{provenance(results, 'coverage')}\n\n{markdown(['of the library', 'all', 'reached', 'share'], rows)}"


LONG = {
    "coverage": coverage, "long-steps": steps, "worlds": worlds, "fuzzing": fuzzing, "fenced": fenced,
    "consul-lock": consul_lock,
    "exhaustive": block(["every order of", "run by", "states", "runs, nothing broken"], lambda line, step: [
        words_of(line["test"]).partition(": ")[2], RUN_BY[step], f"{line['states']:,}", f"{line['runs']:,}"
    ], "exhaustive/", ["states"], RUN_BY),
    "clusters": lambda results: f"{provenance(results, 'release', 'clusters')}\n\n{clusters(results)}",
    "survival": block(["what happens", "TTL", "with a node of its own", "with the agent's node"], cells_of_survival,
                      "as_shipped", ["scene"]),
    "sharing": block(["processes", "semaphores of each, contended", "connections the agent accepts",
                      "the last to come is answered after", "a slot is taken after (median)", "at the longest"],
                     cells_of_sharing, "many_processes/", steps=["release", "agent"]),
    "seeded-bugs": lambda results: bugs_table("wrong variants of the core, or of what it relies on, were each found",
                                              one(results, "seeded_bugs/", "found_by")),
    "mutants": lambda results: bugs_table("changed lines of the core's own source were each found",
                                          one(results, "mutants", "found_by")),
}  # fmt: skip


# --- Blocks of the versions of Consul and RabbitMQ, and of the compilers


def in_order(versions):
    return sorted(versions, key=lambda text: [int(part) for part in text.split(".")])


def table_of_versions(server, what, columns):
    def table(results):
        rows = []
        known = output_of(ROOT / f"scripts/{server.lower()}", "--versions").split()
        for version in in_order({*known, *results}):
            if version not in results:
                rows.append([version, "not run", *[""] * (len(columns) + 2)])
                continue
            row = results[version]
            cells = ["{}/{}".format(*row["cases"][name]) if row["cases"][name][1] else "not run" for name in columns]
            suites = f"{row['tests'] - row['failed']}/{row['tests']}"
            rows.append([version, *cells, suites, row["seconds"], shown_commit(row)])
        header = [server, *columns, "suites", "seconds to test", "commit"]
        table = markdown(header, rows, "|---")
        return f"{what} passed, of all, by `scripts/test --matrix {server.lower()}`:\n\n{table}"

    return table


def faults_block(table):
    """The block of a table of faults, which is made of the figures of each scene for each version."""
    return lambda results: table({version: results[version]["faults"] for version in results})


def table_of_faults(by_version):
    figures = {"holder believes": lambda row: row["believed"], "held slot nobody's": lambda row: row["held"]["nobodys"],
               "busy slots nobody's": lambda row: row["busy"]["nobodys"]}

    def cell(row, figure):
        if row is None or "failed" in row:
            return "not run" if row is None else "failed"
        return "kept" if figure(row) is None else f"{figure(row):.1f}"

    known = in_order(by_version)
    # The scenes of clusters.py and the other two have other figures.
    names = dict.fromkeys(name for version in known for name in by_version[version]
                          if name not in ("overlap", "mixed_for_a_minute") and not name.startswith("cluster_"))
    rows = [[name.replace("_", " "), *(cell(by_version[version].get(name), figure)
                                       for figure in figures.values() for version in known)] for name in names]
    return markdown(["fault", *(f"{what}, {version}" for what in figures for version in known)], rows, "|---")


def table_of_overlaps(by_version):
    rows = [[version, event.replace("_", " "), *(f"{of[kind]:.1f}" for kind in ("seed", "hasty", "ours"))]
            for version in in_order(by_version)
            for event, of in by_version[version].get("overlap", {}).items() if event != "failed"]
    return markdown(["RabbitMQ", "fault", "seed clients", "without rule 3", "ours"], rows, "|---")


def table_of_mixed(by_version):
    found = {version: by_version[version].get("mixed_for_a_minute", {}) for version in in_order(by_version)}
    rows = [[version, row["killed"], row["slots"], row["granted"]["ours"], row["granted"]["seed"],
             f"{row['overlap']:.1f}"] for version, row in found.items() if "granted" in row]
    header = ["RabbitMQ", "killed", "slots used", "granted to ours", "granted to seed clients", "two on a slot, s"]
    return markdown(header, rows, "|---")


def row_of_a_crew(crew):
    """The cells that are not the same for all crews of a scene."""

    def seconds_or(text, figure):
        return text if figure is None else f"{figure:.1f}"

    home = "copies on all" if crew["mirrored"] else {1: "holder's", 2: "others'"}[crew["home"]]
    lease = f"{crew['lease']} + {crew['extra']}" if crew["extra"] else str(crew["lease"])
    healed = ", ".join(f"{what.replace('_', ' ')}: {count}" for what, count in crew["healed"].items())
    return (home, lease, f"{crew['overlap']:.1f}", f"{crew['nobodys']:.1f}", seconds_or("kept", crew["lost"]),
            seconds_or("never", crew["granted"]), healed or "nothing")


def table_of_clusters(by_version):
    rows = []
    for version in in_order(by_version):
        for name, scene in by_version[version].items():
            if not name.startswith("cluster_") or "failed" in scene:
                continue
            handling = scene["settings"].get("cluster_partition_handling", "")
            store = ", ".join(each for each in (scene["store"], handling and f"`{handling}`") if each)
            tick = scene["settings"]["net_ticktime"]
            rows += [[version, store, tick, *row_of_a_crew(crew)] for crew in scene["crews"].values()]
    return markdown(["RabbitMQ", "metadata, partition handling", "tick time", "node of A and F", "lease",
                     "two believed", "nobody believed", "holder lost it", "another got it", "lost after the mending"],
                    rows, "|---")


OF_FAULTS = {"faults": table_of_faults, "overlap": table_of_overlaps, "mixed": table_of_mixed,
             "clusters": table_of_clusters}


def table_of_compilers(results):
    def cells(row, result):
        if result is None:
            return [*row[1:], "not run", "", "", ""]
        if "missing" in result:
            return [*row[1:], f"not to be had: {result['missing']}", "", "", shown_commit(result)]
        what = [result[name] for name in ("release", "compiler", "boost", "standard", "library", "machine")]
        if not result["built"]:
            return [*what, "does not build", result.get("warnings", ""), "", shown_commit(result)]
        return [*what, compilers.shown_cases(result), result["warnings"],
                f"{result['build_seconds']} + {result['test_seconds']}", shown_commit(result)]

    header = ["Debian", "compiler", "Boost", "C++", "library", "machine", "test cases passed, of all in this build",
              "warnings", "seconds to build, to test", "commit"]
    return ("By `scripts/test --matrix compilers`: library, examples and unit tests built (-O3, the tests -O0), and "
            "the unit tests run; arm64 is cross-compiled, and run by an emulator. The portable build "
            "(`HOLDFAST_PORTABLE`) has test cases that these builds skip, and that are counted apart.\n\n"
            + markdown(header, [cells(row, results.get(name)) for name, row in compilers.rows().items()], "|---"))


# --- Documents


def module(path):
    """Loads a module of the benchmarks."""
    spec = importlib.util.spec_from_file_location(path.replace("/", "_").removesuffix(".py"), ROOT / path)
    loaded = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(ROOT / "bench"))
    spec.loader.exec_module(loaded)
    return loaded


class File(NamedTuple):
    path: str
    command: str  # that writes the file
    figures: dict  # makes each block's Markdown from the file's content
    row: object = None  # makes a row of what the tests have written
    is_good: object = None  # whether all tests of the row have passed; None if there are no such rows


sys.dont_write_bytecode = True
tables, broker, dead = map(module, ("bench/tables.py", "bench/rabbitmq/results.py", "bench/dead_process/results.py"))
NEWER_CONSUL = "HOLDFAST_CONSUL=$(scripts/consul --version 1.22.7)"
FILES = {
    "bench": File("doc/results/bench.json", "scripts/bench --publish", tables.FIGURES),
    "bench-newer": File("doc/results/bench-1.22.7.json", f"{NEWER_CONSUL} scripts/bench --publish",
                        {"cost-newer": tables.cost, "goals-newer": tables.reached}),
    "bench-rabbitmq": File("doc/results/bench_rabbitmq.json", "scripts/bench --rabbitmq --publish", broker.FIGURES),
    "dead-process": File("doc/results/dead_process.json", "bench/dead_process/results.py", dead.FIGURES),
    "long": File("doc/results/long.json", "scripts/test --long", LONG, step_row, lambda row: True),
    "consul": File("doc/results/consul.json", "scripts/test --matrix consul", {
        "consul-versions": table_of_versions("Consul", "Test cases and whole suites", OF_CONSUL),
    }, consul_row, all_passed),
    "rabbitmq": File("doc/results/rabbitmq.json", "scripts/test --matrix rabbitmq", {
        "rabbitmq-versions": table_of_versions("RabbitMQ", "Facts, test cases, scenes and whole suites", OF_RABBITMQ),
        **{f"rabbitmq-{name}": faults_block(table) for name, table in OF_FAULTS.items()}}, rabbitmq_row, all_passed),
    "compilers": File("doc/results/compilers.json", "scripts/test --matrix compilers", {
        "compilers": table_of_compilers}, None, compilers.is_good),
}  # fmt: skip

BEGIN, END = "<!-- figures: ", "<!-- end of figures -->"
BLOCK = re.compile(rf"^( *){BEGIN}(\S+) -->\n(.*?)^ *{END}$", re.MULTILINE | re.DOTALL)  # indented in a list
# Figures that are measured. In README, and where a document is about the benchmark, they must be in a block.
MEASURED = re.compile(r"\d[\d,.]*\s*(?:/s|[KM]B|bytes|requests)(?!\w)")


def rendered(file, content):
    """The Markdown of each block of the file."""
    missing = f"Not measured yet: `{file.command}` writes this."
    return {name: content and figure(content) or missing for name, figure in file.figures.items()}


def what_is_shown(file, content):
    """The file's content without what no block shows, and `passed` does not need."""
    content = Read(content)
    rendered(file, content)
    if file.is_good:
        for row in rows_in(content).values():
            file.is_good(row), row.get("tests")
    return content.used()


def renewed(text, blocks):
    """The document as it should be. A block that cannot be rendered stays."""

    def block(found):
        if found[2] not in blocks:
            return found[0]
        return textwrap.indent(f"{BEGIN}{found[2]} -->\n{blocks[found[2]].strip()}\n{END}", found[1])

    return BLOCK.sub(block, text)


def problems(documents, blocks):
    """Yields the problems of the documents, {path: text}. `blocks` are those that must exist, {name: Markdown}."""
    used = set()
    for path, text in documents.items():
        right = renewed(text, blocks).splitlines()
        yield from difflib.unified_diff(right, text.splitlines(), "results", path, lineterm="")
        found = [name for _, name, _ in BLOCK.findall(text)]
        used.update(found)
        if not len(found) == text.count(BEGIN) == text.count(END):
            yield f"{path}: a block of figures that does not begin or end"
        for name in sorted({*found} - {*blocks}):
            yield f"{path}: {name}: this block cannot be rendered"
        for paragraph in re.split(r"\n\s*\n", BLOCK.sub("\n\n", text)):
            measured = MEASURED.search(paragraph)
            if measured and (path == "README.md" or "scripts/bench" in paragraph):
                yield f"{path}: a measured figure outside of a block: {measured[0]}"
    for name in sorted({*blocks} - used):
        yield f"{name}: no document has this block"


def check(write):
    for file in FILES.values() if write else ():
        old = load(file.path)
        if old:
            save(file.path, what_is_shown(file, mark(file) if file.is_good else old))
    blocks, found = {}, []
    for file in FILES.values():
        content = load(file.path)
        try:
            blocks |= rendered(file, content)
            if what_is_shown(file, content) != content:
                found.append(f"{file.path} has members that no document shows. `tools/results.py --write` removes them")
        except (KeyError, StopIteration, TypeError) as why:
            found.append(f"{file.path}: a block cannot be rendered: {why!r}")
    paths = [ROOT / "README.md", *sorted((ROOT / "doc").rglob("*.md"))]
    documents = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    if write:
        documents = {path: renewed(text, blocks) for path, text in documents.items()}
        for path, text in documents.items():
            (ROOT / path).write_text(text, encoding="utf-8")
    found += problems(documents, blocks)
    print("\n".join(found))
    return 1 if found else 0


# --- Self-test


@contextlib.contextmanager
def scratch():
    """For self-tests: makes ROOT an empty repository. Yields a function that writes a file, and one that commits."""
    global ROOT
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]  # a hook of git has the path of its own repository here
    before = ROOT

    def write(path, text):
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, encoding="utf-8")

    def commit():
        output_of("git", "add", "--all")
        settings = "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"
        output_of("git", *settings, "commit", "-q", "-m", "m")
        return begin()

    with tempfile.TemporaryDirectory() as folder:
        ROOT = pathlib.Path(folder)
        try:
            output_of("git", "init", "-q")
            yield write, commit
        finally:
            ROOT = before


def refused(call):
    """For self-tests: whether the call ends the program."""
    try:
        call()
    except SystemExit as why:
        return bool(why.code)
    return False


def test_documents():
    def found(text, path="README.md"):
        return list(problems({path: text}, {"speed": "| 7 /s |\n"}))

    good = "text\n\n<!-- figures: speed -->\n| 7 /s |\n<!-- end of figures -->\ntext, 15 s\n"
    assert not found(good) and not found(textwrap.indent(good, "  ")), found(good)
    for bad in (good.replace("7", "8"), good.replace("| 7 /s |\n", "")):
        assert found(bad) and renewed(bad, {"speed": "| 7 /s |"}) == good, found(bad)
    for text in (good + good.replace("speed", "other"), good + "<!-- figures: speed -->\n", good + f"{END}\n", "text\n",
                 good + "It does 1,234 /s.\n", good + "| ours | 2.1 requests each |\n"):
        assert found(text), text
    assert found(good + "`scripts/bench` says 12 KB.\n", "doc/a.md") and not found(good + "12 KB\n", "doc/a.md")
    file = File("none.json", "scripts/none", {
        "a": lambda of: of["x"]["y"] + "".join(row["z"] for row in of["l"] if row["test"] == "t")})  # fmt: skip
    assert rendered(file, {}) == {"a": "Not measured yet: `scripts/none` writes this."}
    shown = {"x": {"y": "1"}, "l": [{"test": "t", "z": "2"}]}
    more = {"x": {"y": "1", "raw": [1]}, "l": [{"test": "s", "z": "3"}, {"test": "t", "z": "2", "n": 1}], "m": 1}
    assert what_is_shown(file, more) == what_is_shown(file, shown) == shown, what_is_shown(file, more)
    tables.self_test()
    dead.self_test()


def test_counts():
    suite = """<testsuite><testcase classname="s" name="a" status="run"/>
<testcase classname="s.in" name="b" status="fail"><failure/></testcase>
<testcase classname="s" name="p"><skipped/></testcase><testcase classname="s" name="q"><skipped/></testcase>
<testcase classname="t" name="r"><skipped/></testcase></testsuite>"""
    assert counted("s", suite) == (1, 4, 0), counted("s", suite)
    assert counted("s", suite, {"p", "a"}) == (1, 3, 1), "a case that is skipped for another reason is bad"
    assert only_portable(), "the sources name these cases in another way"
    failed = {"3.10.8": {"a": {"failed": "why"}, "cluster_b": {"failed": "why"}}, "4.3.6": {}}
    shown = table_of_faults(failed)
    assert "| a | failed | not run |" in shown and "cluster" not in shown, shown
    row = dict.fromkeys(("release", "compiler", "boost", "standard", "library", "machine"), "x")
    row |= {"commit": "c", "built": True, "cases": [7, 7], "warnings": 0, "build_seconds": 3, "test_seconds": 4}
    missing = {"missing": "none", "commit": "c", "mark": "m"}
    shown = table_of_compilers({"g++-13": row, "clang-21": {**row, "built": False}, "clang-15": missing})
    for part in ("7/7 | 0 | 3 + 4 | c |", "not run |", "does not build | 0 |  | c |",
                 "not to be had: none |  |  | c (m) |"):
        assert part in shown, shown
    lines = '<testsuite><testcase name="f"><system-out>passed  a\nFAILED  b\n</system-out></testcase></testsuite>'
    assert counted_lines(lines, "f") == (1, 2)


def test_rows():
    ok = """<testsuite><testcase name="a" status="run"><system-out>figures: {"test": "a", "n": 1}
</system-out></testcase></testsuite>"""
    row = table_of_versions("Consul", "", OF_CONSUL)
    with scratch() as (write, commit):
        write("src/a.cpp", "1")
        write("scripts/consul", "#!/bin/sh\necho 1.9.2\n")
        (ROOT / "scripts/consul").chmod(0o755)
        assert refused(begin), "a file that git does not know"
        first = commit()
        runs = (("good", OF_CONSUL, "run", ""), ("failed", OF_CONSUL, "fail", ""), ("lacks", ["cluster"], "run", ""),
                ("case", OF_CONSUL, "run", "<failure/>"))
        for number, (folder, columns, status, case) in enumerate(runs):
            for begins in (OF_CONSUL[column] for column in columns):
                name = begins + ("s" if begins.endswith(".") else "")
                cases = f'<testcase classname="{name.partition(".")[2]}">{case}</testcase>'
                write(f"doc/{folder}/junit/{name}.xml", f"<testsuite>{cases}</testsuite>")
            ctest = ROOT / f"doc/{folder}/ctest.xml"
            assert read_ctest(ctest) == (1, ["running the tests"]), "CTest wrote nothing"
            write(ctest, "<testsuite></testsuite>")
            assert read_ctest(ctest) == (1, ["finding tests"])
            write(ctest, ok.replace('"run"', f'"{status}"'))
            add("consul", f"1.{number}.0", first, ctest, *read_ctest(ctest), 7, 0)
            assert has_passed("consul", f"1.{number}.0") == (folder == "good"), folder
        add("long", "s", first, ROOT / "doc/good/ctest.xml", 1, [], 7, 0)
        assert load(FILES["long"].path)["steps"]["s"]["figures"] == [{"test": "a", "n": 1}] and has_passed("long", "s")
        write("tools/a.py", "1")
        assert commit() != first and mark_of(first) == "", "documents and lints are not code"
        write("src/a.cpp", "2")
        assert refused(begin), "a changed file"
        second = commit()
        assert mark_of(first) == "older, commits since: 1" and mark_of(second) == "", mark_of(first)
        assert not has_passed("consul", "1.0.0") and not has_passed("long", "s"), "their code is older"
        assert f"| {first} |" in row(load(FILES["consul"].path)), "nothing is marked until the marks are written"
        save(FILES["consul"].path, mark(FILES["consul"]))
        assert f"| {first} (older, commits since: 1) |" in row(load(FILES["consul"].path))
        output_of("git", "checkout", "-qf", first)
        assert mark_of(second) == mark_of("0000000") == "unknown commit", "this commit is not in the history"


def main(words):
    if words == ["--self-test"]:
        return test_documents() or test_counts() or test_rows()
    if words in ([], ["--write"]):
        return check(words != [])
    print(__doc__.strip())
    return 0 if words in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
