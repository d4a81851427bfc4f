#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Keeps what the tests on each version of RabbitMQ have shown, in doc/results/rabbitmq.json, and makes tables of it
(tools/figures.py writes them into the documents).

usage: rabbitmq_matrix.py passed VERSION  prints how many tests have passed on that version at this code. The exit
                                          status is 1 if it was not run at this code, or if a test failed

       rabbitmq_matrix.py add VERSION COMMIT SECONDS RESULTS BUILD
                                          adds a result. RESULTS is CTest's JUnit XML. BUILD is the build folder, which
                                          has the JUnit XML of the suites and the figures of the faults. COMMIT is the
                                          output of `tools/recorded.py begin`.

       rabbitmq_matrix.py show FILE       prints the tables of the faults in a file that faults.py or clusters.py has
                                          written

       rabbitmq_matrix.py --self-test
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import recorded

RESULTS = "doc/results/rabbitmq.json"
COMMAND = "scripts/test --matrix rabbitmq"
ROOT = pathlib.Path(__file__).resolve().parent.parent
FAULTS = "rabbitmq_faults.json"
COLUMNS = "facts", "conformance", "link and semaphore", "faults"
OTHERS = "overlap", "mixed_for_a_minute"  # scenes that have other figures
OF_CLUSTERS = "cluster_"  # how the scenes of clusters.py begin
# The figures of one fault: the heading, and the member of the row.
FIGURES_OF_A_FAULT = (
    ("holder believes", lambda row: row["believed"]),
    ("held slot nobody's", lambda row: row["held"]["nobodys"]),
    ("busy slots nobody's", lambda row: row["busy"]["nobodys"]),
)


def versions():
    command = [ROOT / "scripts/rabbitmq", "--versions"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()


def in_order(all_versions):
    return sorted(all_versions, key=lambda text: [int(part) for part in text.split(".")])


def counted_lines(text, test):
    """How many lines of the test's output begin with "passed", and how many with that or with "FAILED"."""
    cases = [case for case in xml.etree.ElementTree.fromstring(text).findall(".//testcase") if case.get("name") == test]
    output = "\n".join(case.findtext("system-out") or "" for case in cases)
    good, bad = (len(re.findall(rf"^{word} ", output, re.MULTILINE)) for word in ("passed", "FAILED"))
    return good, good + bad


def counted_cases(file, ending=""):
    """How many test cases of the suites have passed, and how many there are. Only names with this ending count."""
    if not file.exists():
        return 0, 0
    cases = xml.etree.ElementTree.fromstring(file.read_text(encoding="utf-8", errors="replace")).findall(".//testcase")
    cases = [case for case in cases if case.get("name").endswith(ending)]
    bad = [case for case in cases if any(case.find(what) is not None for what in ("failure", "error", "skipped"))]
    return len(cases) - len(bad), len(cases)


def counted_faults(faults):
    return sum("failed" not in row for row in faults.values()), len(faults)


def faults_of(build, version):
    """The figures of all scenes. Only one version is in the file, because each run begins with none."""
    file = build / FAULTS
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found.get(version) or next(iter(found.values()), {})


def add(version, commit, seconds, results, build):
    build = pathlib.Path(build)
    text = pathlib.Path(results).read_text(encoding="utf-8", errors="replace")
    tests, failed = recorded.read_ctest(text)
    faults = faults_of(build, version)
    counts = (
        counted_lines(text, "rabbitmq.facts"),
        counted_cases(build / "junit/rabbitmq.conformance_on_a_broker.xml", "_on_broker"),
        counted_cases(build / "junit/rabbitmq.on_a_broker.xml"),
        counted_faults(faults),
    )
    result = {"seconds": int(seconds), "tests": tests, "failed": len(failed), "cases": dict(zip(COLUMNS, counts)), "faults": faults}
    recorded.keep(RESULTS, version, commit, result)


def is_good(result):
    """True if all tests have passed, and if each kind of test has been run."""
    return not result["failed"] and all(passed == cases > 0 for passed, cases in result["cases"].values())


def passed(version):
    return recorded.passed(RESULTS, version, is_good)


def mark():
    recorded.mark(RESULTS)


def table_of_versions(results):
    lines = []
    for version in in_order({*versions(), *results}):
        if version not in results:
            lines.append(f"| {version} | not run |" + " |" * (len(COLUMNS) + 2))
            continue
        result = results[version]
        cells = [f"{good}/{cases}" if cases else "not run" for good, cases in (result["cases"][name] for name in COLUMNS)]
        cells.append(f"{result['tests'] - result['failed']}/{result['tests']}")
        lines.append(f"| {version} | {' | '.join(cells)} | {result['seconds']} | {recorded.shown_commit(result)} |")
    return (
        f"Facts, test cases, scenes and whole suites passed, of all, by `{COMMAND}`:\n\n"
        f"| RabbitMQ | {' | '.join(COLUMNS)} | suites | seconds to test | commit |\n" + "|---" * (len(COLUMNS) + 4) + "|\n" + "\n".join(lines)
    )


def cell(row, figure):
    if row is None:
        return "not run"
    if "failed" in row:
        return "failed"
    seconds = figure(row)
    return "kept" if seconds is None else f"{seconds:.1f}"


def table_of_faults(by_version):
    """`by_version`: the figures of the scenes, for each version."""
    known = in_order(by_version)
    names = dict.fromkeys(name for version in known for name in by_version[version] if name not in OTHERS and not name.startswith(OF_CLUSTERS))
    head = [f"{what}, {version}" for what, _ in FIGURES_OF_A_FAULT for version in known]
    lines = [f"| fault | {' | '.join(head)} |", "|---" * (len(head) + 1) + "|"]
    for name in names:
        cells = [cell(by_version[version].get(name), figure) for _, figure in FIGURES_OF_A_FAULT for version in known]
        lines.append(f"| {name.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def table_of_overlaps(by_version):
    lines = ["| RabbitMQ | fault | seed clients | without rule 3 | ours |", "|---|---|---|---|---|"]
    for version in in_order(by_version):
        for event, seconds in by_version[version].get("overlap", {}).items():
            if event != "failed":
                cells = " | ".join(f"{seconds[kind]:.1f}" for kind in ("seed", "hasty", "ours"))
                lines.append(f"| {version} | {event.replace('_', ' ')} | {cells} |")
    return "\n".join(lines)


def table_of_mixed(by_version):
    lines = ["| RabbitMQ | killed | slots used | granted to ours | granted to seed clients | two on a slot, s |",
             "|---" * 6 + "|"]
    for version in in_order(by_version):
        row = by_version[version].get("mixed_for_a_minute", {})
        if "granted" in row:
            cells = row["killed"], row["slots"], row["granted"]["ours"], row["granted"]["seed"], f"{row['overlap']:.1f}"
            lines.append(f"| {version} | {' | '.join(str(each) for each in cells)} |")
    return "\n".join(lines)


def seconds_or(text, figure):
    return text if figure is None else f"{figure:.1f}"


def row_of_a_crew(crew):
    """The cells that are not the same for all crews of a scene."""
    place = {1: "holder's", 2: "others'"}[crew["home"]]
    home = "copies on all" if crew["mirrored"] else place
    lease = f"{crew['lease']} + {crew['extra']}" if crew["extra"] else str(crew["lease"])
    healed = ", ".join(f"{what.replace('_', ' ')}: {count}" for what, count in crew["healed"].items())
    return (home, lease, f"{crew['overlap']:.1f}", f"{crew['nobodys']:.1f}", seconds_or("kept", crew["lost"]),
            seconds_or("never", crew["granted"]), healed or "nothing")


def table_of_clusters(by_version):
    lines = ["| RabbitMQ | metadata, partition handling | tick time | node of A and F | lease | two believed | nobody believed "
             "| holder lost it | another got it | lost after the mending |", "|---" * 10 + "|"]
    for version in in_order(by_version):
        for name, scene in by_version[version].items():
            if not name.startswith(OF_CLUSTERS) or "failed" in scene:
                continue
            handling = scene["settings"].get("cluster_partition_handling", "")
            store = ", ".join(each for each in (scene["store"], handling and f"`{handling}`") if each)
            for crew in scene["crews"].values():
                cells = version, store, str(scene["settings"]["net_ticktime"]), *row_of_a_crew(crew)
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def faults_in(results):
    return {version: row["faults"] for version, row in results.items()}


FIGURES = {
    "rabbitmq-versions": table_of_versions,
    "rabbitmq-faults": lambda results: table_of_faults(faults_in(results)),
    "rabbitmq-overlap": lambda results: table_of_overlaps(faults_in(results)),
    "rabbitmq-mixed": lambda results: table_of_mixed(faults_in(results)),
    "rabbitmq-clusters": lambda results: table_of_clusters(faults_in(results)),
}


def self_test():
    row = {"believed": 1.68, "held": {"nobodys": 3}, "busy": {"nobodys": 0.04}}
    faults = {"a_fault": row, "b": {**row, "believed": None}, "c": {"failed": "why"},
              "overlap": {"restart": {"seed": 20.0, "hasty": 15.38, "ours": 0.0}}}
    shown = table_of_faults({"4.3.6": {"a_fault": row}, "3.10.8": faults})
    assert "| a fault | 1.7 | 1.7 | 3.0 | 3.0 | 0.0 | 0.0 |" in shown, shown
    assert "| b | kept | not run |" in shown and "| c | failed | not run |" in shown and "overlap" not in shown, shown
    assert "| 3.10.8 | restart | 20.0 | 15.4 | 0.0 |" in table_of_overlaps({"3.10.8": faults})
    assert counted_faults(faults) == (3, 4)
    mixed = {"mixed_for_a_minute": {"overlap": 0.0, "killed": 9, "slots": 4, "granted": {"ours": 80, "seed": 70}}}
    assert "| 4.3.6 | 9 | 4 | 80 | 70 | 0.0 |" in table_of_mixed({"4.3.6": mixed, "3.10.8": faults})
    crew = {"home": 1, "lease": 2, "extra": 5, "mirrored": True, "overlap": 3.14, "nobodys": 0.0, "lost": None, "granted": 6,
            "healed": {"rival removed": 2}}
    scene = {"store": "mnesia", "settings": {"net_ticktime": 4, "cluster_partition_handling": "ignore"},
             "crews": {"both": crew, "far": {**crew, "home": 2, "extra": 0, "mirrored": False, "lost": 1.56, "healed": {}}}}
    clusters = {"cluster_a": scene, "cluster_b": {"failed": "why"}}
    shown = table_of_clusters({"3.10.8": {**faults, **clusters}})
    assert "| 3.10.8 | mnesia, `ignore` | 4 | copies on all | 2 + 5 | 3.1 | 0.0 | kept | 6.0 | rival removed: 2 |" in shown, shown
    assert "| others' | 2 | 3.1 | 0.0 | 1.6 | 6.0 | nothing |" in shown and len(shown.splitlines()) == 4, shown
    assert "cluster" not in table_of_faults({"3.10.8": {**faults, **clusters}})
    junit = ('<testsuite><testcase name="rabbitmq.facts" status="{}"><system-out>passed  0.01 s  a\nFAILED  1.0 s  b: no'
             '</system-out></testcase><testcase name="t" status="run"><system-out>passed x</system-out></testcase></testsuite>')
    assert counted_lines(junit, "rabbitmq.facts") == (1, 2)

    def run(version, at, ctest="run", found=None):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            (build / "junit").mkdir()
            case = '<testsuite><testcase name="a_on_broker"/><testcase name="a_on_model">{}</testcase></testsuite>'
            (build / "junit/rabbitmq.conformance_on_a_broker.xml").write_text(case.format("<skipped/>"), encoding="utf-8")
            (build / "junit/rabbitmq.on_a_broker.xml").write_text(case.format(""), encoding="utf-8")
            (build / FAULTS).write_text(json.dumps({version: found or {"a_fault": row}}), encoding="utf-8")
            (build / "ctest").write_text(junit.replace("FAILED", "passed").format(ctest), encoding="utf-8")
            add(version, at, "7", build / "ctest", build)

    with recorded.scratch() as (write, commit):
        write("src/a.cpp", "1")
        first = commit()
        assert passed("3.10.8") == 1, "it was never run"
        run("3.10.8", first)
        run("4.0.5", first, ctest="fail")
        run("4.3.6", first, found=faults)
        assert passed("3.10.8") == 0, "an interrupted run begins anew"
        assert passed("4.0.5") == passed("4.3.6") == 1, "a failed one counts"
        shown = table_of_versions(recorded.load(RESULTS))
        assert f"| 3.10.8 | 2/2 | 1/1 | 2/2 | 1/1 | 2/2 | 7 | {first} |" in shown, shown
        assert f"| 4.3.6 | 2/2 | 1/1 | 2/2 | 3/4 | 2/2 | 7 | {first} |" in shown, shown
        write("src/a.cpp", "2")
        commit()
        assert passed("3.10.8") == 1, "its code is older"
        mark()
        assert "(older, commits since: 1)" in table_of_versions(recorded.load(RESULTS))


def main():
    words = sys.argv[1:]
    if words == ["--self-test"]:
        return self_test()
    if len(words) == 2 and words[0] == "passed":
        return passed(words[1])
    if len(words) == 2 and words[0] == "show":
        by_version = json.loads(pathlib.Path(words[1]).read_text(encoding="utf-8"))
        print("\n\n".join(each(by_version) for each in (table_of_faults, table_of_overlaps, table_of_mixed, table_of_clusters)))
        return 0
    if len(words) == 6 and words[0] == "add":
        return add(*words[1:])
    print(__doc__.strip())
    return 0 if words in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main())
