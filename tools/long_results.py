#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Keeps what came of the steps of `scripts/test --long` in doc/results/long.json, and makes doc/explanation/proof.md's figures
of it (tools/figures.py writes them there).

All steps together take so long that a machine may not be available for all of them. So the file has the commit at which
each step last passed. A step is not run again while nothing but documents, comments and the like (recorded.NO_CODE) has
changed since that commit. A step that fails leaves its old result.

usage: long_results.py passed STEP                 prints how many tests of the step have passed at this code. The exit
                                                     status is 1 if it was not run at this code.

       long_results.py add STEP RESULTS SECONDS BUILT    adds a result. RESULTS is CTest's JUnit XML. SECONDS and BUILT
                                                     are the times that the tests and the build took.

       long_results.py --self-test
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

import recorded
from recorded import code_hash, output_of

RESULTS = "doc/results/long.json"
COMMAND = "scripts/test --long"
ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURES_LINE = re.compile(r"^(?:\d+: )?figures: (\{.*\})$", re.MULTILINE)


def first_line(*command):
    try:
        return output_of(*command).splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def load():
    return recorded.load(RESULTS, {"steps": {}})


def about_this_run():
    return {
        "commit": output_of("git", "rev-parse", "--short", "HEAD").strip(),
        "code": code_hash(),
        "date": datetime.date.today().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "compilers": [first_line("g++", "--version"), first_line("clang++", "--version")],
        "consul": first_line(first_line(ROOT / "scripts/consul"), "version"),
    }


def read_junit(text):
    """How many tests there were, the names of those that did not run and pass, and the figures that they printed."""
    tests = xml.etree.ElementTree.fromstring(text).findall(".//testcase")
    printed = [line for test in tests for line in FIGURES_LINE.findall(test.findtext("system-out") or "")]
    return *recorded.read_ctest(text), [json.loads(line) for line in printed]


def add(step, path, seconds, built):
    tests, failed, figures = read_junit(pathlib.Path(path).read_text(encoding="utf-8", errors="replace"))
    if failed or not tests:
        sys.exit(f"The results of {step} were not written, for there were failures: {', '.join(failed)}")
    results = load()
    results["steps"][step] = about_this_run() | {
        "tests": tests, "seconds": int(seconds), "build_seconds": int(built), "figures": figures}
    recorded.save(RESULTS, results)


def passed(step):
    of_step = load()["steps"].get(step)
    if not of_step or of_step["code"] != code_hash():
        return 1
    print(of_step["tests"])
    return 0


# --- The figures for documents.

WORLDS = {
    "worlds/no_guarantee_is_broken": "semaphores",
    "worlds/no_guarantee_is_broken_with_a_mutex": "mutexes",
    "worlds/no_guarantee_is_broken_with_an_election": "elections",
    "worlds/no_guarantee_is_broken_with_a_mutex_set": "mutex sets",
    "broker_worlds/no_promise_is_broken": "semaphores on RabbitMQ",
    "worlds/a_long_day_loses_no_slot": "a day of renewals, on clocks that are wrong by two percent",
}


def printed(results, step, begins=""):
    return [line for line in results["steps"][step]["figures"] if line["test"].startswith(begins)]


def one(results, begins, has):
    """The figures of the test whose name begins with `begins`: the line that has the member `has`."""
    return next(line for step in ("clusters", "worlds", "release") for line in printed(results, step, begins) if has in line)


def table(header, rows):
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in [header, ["---"] * len(header), *rows]]
    return "\n".join(lines)


def thousands(number):
    return f"{number:,}"


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
        words = (f"commit {of['commit']}, {of['date']}; {of['cores']} cores; {of['consul']}; "
                 f"{'; '.join(of['compilers'])}")
        runs.setdefault(words, []).append(f"`{name}`")
    if len(runs) == 1:
        return f"C{next(iter(runs))[1:]}."
    return " ".join(f"Step {', '.join(which)}: {words}." for words, which in runs.items())


def steps(results):
    rows = [[f"`{name}`", of["commit"], of["tests"], 0, f"{of['build_seconds']} s", f"{of['seconds']} s"]
            for name, of in results["steps"].items()]
    header = ["step", "last passed at commit", "tests passed", "failed", "built in", "tested in"]
    whole = table(header, [*rows, ["all", "", sum(row[2] for row in rows), 0, "", ""]])
    return f"`scripts/test --long`.\n\n{whole}"


def worlds(results):
    rows = []
    for command, step in (("each run of the tests", "release"), ("`--long`", "worlds")):
        for test, what in WORLDS.items():
            lines = [line for line in printed(results, step) if line["test"] == test]
            if not lines:
                continue
            total = {name: sum(line.get(name, 0) for line in lines)
                     for name in ("worlds", "steps", "grants", "faults", "losses", "proclaims", "news")}
            more = f"; {thousands(total['proclaims'])} proclaims, {thousands(total['news'])} times news" if total[
                "news"] else ""
            rows.append([what, command, *(thousands(total[name]) for name in ("worlds", "steps")),
                         thousands(total["grants"]) + more, thousands(total["faults"]), thousands(total["losses"])])
    header = ["worlds of", "run by", "worlds", "steps", "grants", "faults", "slots lost"]
    return f"Nothing was broken. {provenance(results, 'release', 'worlds')}\n\n{table(header, rows)}"


def exhaustive(results):
    rows = []
    for command, step in (("each run of the tests", "release"), ("`--long`", "worlds")):
        for line in printed(results, step, "exhaustive/"):
            if "states" in line:
                rows.append([words_of(line["test"]).partition(": ")[2], command, thousands(line["states"]),
                             thousands(line["runs"])])
    return table(["every order of", "run by", "states", "runs, nothing broken"], rows)


def bugs_table(what, line):
    rows = [[f"`{bug}`", line["found_by"][bug], thousands(steps)] for bug, steps in sorted(line["steps"].items())]
    soon = sum(steps <= 10_000 for steps in line["steps"].values())
    return f"{len(rows)} {what}: {soon} of them within 10,000 steps.\n\n{table(['', 'found by', 'after steps'], rows)}"


def seeded_bugs(results):
    return bugs_table("wrong variants of the core, or of what it relies on, were each found",
                      one(results, "seeded_bugs/", "found_by"))


def mutants(results):
    return bugs_table("changed lines of the core's own source were each found", one(results, "mutants", "found_by"))


def clusters(results):
    rows = []
    for step in ("release", "clusters"):
        for line in printed(results, step):
            if "believers" not in line or "waits" not in line or line["overlap"] > 0 or line["test"].startswith("as_shipped"):
                continue
            waits = "; ".join(f"{seconds(wait['seconds'])} after {wait['after']}" for wait in line["waits"][1:])
            rows.append([words_of(line["test"]), line["limit"], line["believers"],
                         waits or seconds(line["waits"][0]["seconds"])])
    header = ["test", "limit", "believers, at most", "longest wait while a slot was free"]
    return f"{provenance(results, 'release', 'clusters')}\n\n{table(header, rows)}"


def survival(results):
    def end(line, of):
        overlap = f", {seconds(line[of + '_overlap'])} too many" if line[of + "_overlap"] else ""
        return ("lost" if line[of + "_losses"] else "kept") + overlap

    scenes = [line for step in ("release", "clusters") for line in printed(results, step, "as_shipped") if "scene" in line]
    if not scenes:
        return f"Not measured yet: `{COMMAND}` writes this."
    rows = [[line["scene"].replace("-", " "), f"{line['ttl_s']} s", end(line, "own_node"), end(line, "agents_node")]
            for line in scenes]
    return table(["what happens", "TTL", "with a node of its own", "with the agent's node"], rows)


def sharing(results):
    lines = printed(results, "release", "many_processes/")
    if not lines:
        return f"Not measured yet: `{COMMAND}` writes this."
    rows = [[line["processes"], line["semaphores_of_each"], line["connections_of_all"], seconds(line["last_heard_after_s"]),
             seconds(line["grant_seen_after_s"]), seconds(line["longest_s"])] for line in lines]
    header = ["processes", "semaphores of each, contended", "connections the agent accepts", "the last to come is answered after",
              "a slot is taken after (median)", "at the longest"]
    return table(header, rows)


def fenced(results):
    line = one(results, "fenced/", "paused")
    rows = [["compares tokens", line["fenced_taken"], line["fenced_refused"], 0],
            ["takes everything", line["taken"], 0, line["stale_taken"]]]
    text = f"{line['paused']} holders were paused beyond their lease."
    return f"{text}\n\n{table(['store that', 'writes taken', 'refused', 'stale writes taken'], rows)}"


def consul_lock(results):
    ours = one(results, "frozen_agent/", "waits")
    theirs = one(results, "frozen_agent_of_consul_lock/", "waits")
    told = one(results, "frozen_agent_of_consul_lock/", "granted_after_ms")

    def row(name, line, granted):
        too_many = seconds(line["overlap"]) if line["overlap"] else "never"
        return [name, granted, f"{line['believers']} of {line['limit']}", too_many]

    rows = [row("holdfast", ours, seconds(ours["waits"][1]["seconds"])),
            row("`consul lock -n 2`", theirs, seconds(told["granted_after_ms"] / 1000))]
    header = ["", "waiters granted after", "believers, at most", f"too many, in {told['watched_ms'] // 1000} s"]
    return table(header, rows)


def fuzzing(results):
    rows = [["fuzz target `" + line["test"].partition("/")[2] + "`", f"{thousands(line['inputs'])} inputs"]
            for line in printed(results, "fuzz-long", "fuzz/")]
    line = one(results, "random_operations/", "operations")
    rows.append(["model of Consul and a real agent", f"{thousands(line['operations'])} operations in "
                 f"{thousands(line['sequences'])} sequences, {thousands(line['wakes'])} wake-ups compared"])
    return table(["what", "nothing broken in"], rows)


def coverage(results):
    if "coverage" not in results["steps"]:
        return f"Not measured yet: `{COMMAND}` writes this."
    line = printed(results, "coverage", "coverage")[0]
    rows = [[kind, thousands(line[kind]), thousands(line[f"{kind}_reached"]),
             f"{100 * line[f'{kind}_reached'] / line[kind]:.1f} %"] for kind in ("lines", "branches")]
    return f"{provenance(results, 'coverage')}\n\n{table(['of the library', 'all', 'reached', 'share'], rows)}"


FIGURES = {"coverage": coverage, "long-steps": steps, "worlds": worlds, "exhaustive": exhaustive, "clusters": clusters, "survival": survival, "sharing": sharing, "fuzzing": fuzzing,
           "fenced": fenced, "consul-lock": consul_lock, "seeded-bugs": seeded_bugs, "mutants": mutants}


def self_test():
    junit = """<testsuite><testcase name="a" status="run"><system-out>x
figures: {"test": "a", "n": 1}
figures: {"test": "a", "n": 2}
</system-out></testcase><testcase name="b" status="fail"><system-out/></testcase><testcase name="c"/></testsuite>"""
    assert read_junit(junit) == (3, ["b", "c"], [{"test": "a", "n": 1}, {"test": "a", "n": 2}]), read_junit(junit)


def main():
    words = sys.argv[1:]
    if words == ["--self-test"]:
        return self_test()
    if len(words) == 2 and words[0] == "passed":
        return passed(words[1])
    if len(words) == 5 and words[0] == "add":
        return add(*words[1:])
    print(__doc__.strip())
    return 0 if words in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main())
