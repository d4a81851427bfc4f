#!/usr/bin/env python3
"""Keeps how many tests have passed on which version of Consul in doc/results/consul.json, and makes the table of
doc/compatibility.md of it (test/figures.py writes it there).

usage: consul_matrix.py begin               forgets what was there, and notes at which commit the run is
       consul_matrix.py add VERSION FOLDER  takes what the suites have written as JUnit's XML into that folder
       consul_matrix.py --self-test
"""

import datetime
import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

RESULTS = "doc/results/consul.json"
COMMAND = "scripts/test --matrix consul"
ROOT = pathlib.Path(__file__).resolve().parent.parent
# A column of the table is of these files; a file counts for the first that it fits.
COLUMNS = {
    "conformance": "conformance.",
    "differential": "differential.",
    "interop": "integration.interop",
    "integration": "integration.",
    "cluster": "cluster.",
}


def column_of(name):
    return next((column for column, begin in COLUMNS.items() if name.startswith(begin)), None)


def counted(text):
    """How many tests of a suite have passed, and how many there are."""
    cases = xml.etree.ElementTree.fromstring(text).findall(".//testcase")
    bad = [case for case in cases if any(case.find(what) is not None for what in ("failure", "error", "skipped"))]
    return len(cases) - len(bad), len(cases)


def load():
    return json.loads((ROOT / RESULTS).read_text(encoding="utf-8"))


def save(results):
    (ROOT / RESULTS).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def begin():
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    save({"commit": commit.stdout.strip(), "date": datetime.date.today().isoformat(), "versions": {}})


def sums(files):
    """Of each column, from pairs of a file's name and its text."""
    of_version = {column: [0, 0] for column in COLUMNS}
    for name, text in files:
        column = column_of(name)
        if column:
            passed, tests = counted(text)
            of_version[column][0] += passed
            of_version[column][1] += tests
    return of_version


def add(version, folder):
    files = [(path.name, path.read_text(encoding="utf-8", errors="replace")) for path in pathlib.Path(folder).glob("*.xml")]
    results = load()
    results["versions"][version] = sums(files)
    save(results)


def table(results):
    lines = ["| Consul | " + " | ".join(COLUMNS) + " |", "| --- |" + " --- |" * len(COLUMNS)]
    for version, of_version in results["versions"].items():
        cells = [f"{passed}/{tests}" if tests else "not run" for passed, tests in (of_version[name] for name in COLUMNS)]
        lines.append(f"| {version} | " + " | ".join(cells) + " |")
    return f"Tests passed, of all, at commit {results['commit']} ({results['date']}), by `{COMMAND}`:\n\n" + "\n".join(lines)


FIGURES = {"consul-versions": table}


def self_test():
    junit = """<testsuite><testcase name="a"/><testcase name="b"><failure/></testcase>
<testcase name="c"><skipped/></testcase><testcase name="d"><system-out>failure</system-out></testcase></testsuite>"""
    assert counted(junit) == (2, 4), counted(junit)
    assert column_of("integration.interop.xml") == "interop" and column_of("integration.pool.xml") == "integration"
    assert column_of("unit.plan.xml") is None
    files = [("conformance.kv.xml", junit), ("conformance.locks.xml", junit), ("unit.plan.xml", junit)]
    of_version = sums(files)
    assert of_version["conformance"] == [4, 8] and of_version["interop"] == [0, 0], of_version
    shown = table({"commit": "c", "date": "d", "versions": {"1.8.7": of_version}})
    assert "| 1.8.7 | 4/8 | not run | not run | not run | not run |" in shown, shown


def main():
    words = sys.argv[1:]
    if words == ["--self-test"]:
        return self_test()
    if words == ["begin"]:
        return begin()
    if len(words) == 3 and words[0] == "add":
        return add(*words[1:])
    print(__doc__.strip())
    return 0 if words in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main())
