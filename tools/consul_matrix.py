#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Keeps how many tests have passed on which version of Consul in doc/results/consul.json, and makes the table of
doc/reference/compatibility.md of it (tools/figures.py writes it there).

usage: consul_matrix.py passed VERSION    prints how many tests have passed on that version at this code. The exit
                                          status is 1 if it was not run at this code, or if a test failed

       consul_matrix.py add VERSION COMMIT SECONDS RESULTS FOLDER
                                          adds a result. RESULTS is CTest's JUnit XML, and FOLDER has the JUnit XML of
                                          the suites. COMMIT is the output of `tools/recorded.py begin`.

       consul_matrix.py --self-test
"""

import pathlib
import subprocess
import sys
import tempfile

import recorded

RESULTS = "doc/results/consul.json"
COMMAND = "scripts/test --matrix consul"
ROOT = pathlib.Path(__file__).resolve().parent.parent
# The beginnings of the files' names for each column of the table. A file counts for the first column that it fits.
COLUMNS = {
    "conformance": "conformance.",
    "differential": "differential.",
    "interop": "integration.interop",
    "integration": "integration.",
    "cluster": "cluster.",
}


def versions():
    return subprocess.run([ROOT / "scripts/consul", "--versions"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()


def column_of(name):
    return next((column for column, begin in COLUMNS.items() if name.startswith(begin)), None)


def sums(files):
    """The sums of each column. `files`: pairs of a file's name and its text."""
    of_version = {column: [0, 0] for column in COLUMNS}
    for name, text in files:
        column = column_of(name)
        if column:
            passed, tests = recorded.counted(name.removesuffix(".xml").partition(".")[2], text)
            of_version[column][0] += passed
            of_version[column][1] += tests
    return of_version


def add(version, commit, seconds, results, folder):
    files = [(path.name, path.read_text(encoding="utf-8", errors="replace")) for path in pathlib.Path(folder).glob("*.xml")]
    tests, failed = recorded.read_ctest(pathlib.Path(results).read_text(encoding="utf-8", errors="replace"))
    result = {"seconds": int(seconds), "tests": tests, "failed": len(failed), "cases": sums(files)}
    recorded.keep(RESULTS, version, commit, result)


def is_good(result):
    """True if all tests have passed. A suite that ended early has fewer cases, which may all have passed, but CTest
    counts it as failed."""
    return not result["failed"] and all(passed == cases > 0 for passed, cases in result["cases"].values())


def passed(version):
    return recorded.passed(RESULTS, version, is_good)


def mark():
    recorded.mark(RESULTS)


def table(results):
    lines = []
    for version in sorted({*versions(), *results}, key=lambda text: [int(part) for part in text.split(".")]):
        if version not in results:
            lines.append(f"| {version} | not run |" + " |" * (len(COLUMNS) + 2))
            continue
        result = results[version]
        cells = [f"{passed}/{cases}" if cases else "not run" for passed, cases in (result["cases"][name] for name in COLUMNS)]
        cells.append(f"{result['tests'] - result['failed']}/{result['tests']}")
        lines.append(f"| {version} | {' | '.join(cells)} | {result['seconds']} | {recorded.shown_commit(result)} |")
    return (
        f"Test cases and whole suites passed, of all, by `{COMMAND}`:\n\n"
        f"| Consul | {' | '.join(COLUMNS)} | suites | seconds to test | commit |\n" + "|---" * (len(COLUMNS) + 4) + "|\n" + "\n".join(lines)
    )


FIGURES = {"consul-versions": table}


def self_test():
    junit = """<testsuite><testcase classname="SUITE" name="a"/><testcase classname="SUITE" name="b"><failure/></testcase>
<testcase classname="SUITE.in" name="c"><skipped/></testcase><testcase classname="other" name="d"><skipped/></testcase>
<testcase classname="SUITE" name="e"><system-out>failure</system-out></testcase></testsuite>"""
    assert column_of("integration.interop.xml") == "interop" and column_of("integration.pool.xml") == "integration"
    assert column_of("unit.plan.xml") is None
    files = [(f"{kind}.{suite}.xml", junit.replace("SUITE", suite))
             for kind, suite in (("conformance", "kv"), ("conformance", "locks"), ("unit", "plan"))]
    of_version = sums(files)
    assert of_version["conformance"] == [4, 8] and of_version["interop"] == [0, 0], of_version
    shown = table({"1.9.2": {"commit": "c", "mark": "m", "seconds": 5, "tests": 9, "failed": 2, "cases": of_version}})
    assert "| 1.9.2 | 4/8 | not run | not run | not run | not run | 7/9 | 5 | c (m) |" in shown, shown
    assert "1.8.7 | not run |" in shown and shown.index("1.8.7") < shown.index("1.9.2") < shown.index("1.10"), shown

    def run(version, at, ctest="run", case="", columns=COLUMNS.values()):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "ctest"
            results.write_text(f'<testsuite><testcase name="a" status="{ctest}"/></testsuite>', encoding="utf-8")
            for begin in columns:
                name = begin + ("s" if begin.endswith(".") else "")
                text = f'<testsuite><testcase classname="{name.partition(".")[2]}">{case}</testcase></testsuite>'
                (pathlib.Path(folder) / f"{name}.xml").write_text(text, encoding="utf-8")
            add(version, at, "7", results, folder)

    with recorded.scratch() as (write, commit):
        write("src/a.cpp", "1")
        first = commit()
        assert passed("1.8.7") == 1, "it was never run"
        run("1.8.7", first)
        run("1.10.12", first, ctest="fail")
        run("1.12.9", first, case="<failure/>")
        run("1.15.3", first, columns=["conformance."])
        assert list(recorded.load(RESULTS)) == ["1.8.7", "1.10.12", "1.12.9", "1.15.3"], "a run forgets other versions"
        assert passed("1.8.7") == 0, "an interrupted run begins anew"
        for version in ("1.10.12", "1.12.9", "1.15.3"):
            assert passed(version) == 1, f"{version} has not passed fully"
        write("src/a.cpp", "2")
        second = commit()
        assert passed("1.8.7") == 1, "its code is older"
        run("1.10.12", second)
        assert passed("1.10.12") == 0, "it was run again"
        mark()
        shown = table(recorded.load(RESULTS))
        assert f"| {first} (older, commits since: 1) |" in shown and f"| {second} |" in shown, shown


def main():
    words = sys.argv[1:]
    if words == ["--self-test"]:
        return self_test()
    if len(words) == 2 and words[0] == "passed":
        return passed(words[1])
    if len(words) == 6 and words[0] == "add":
        return add(*words[1:])
    print(__doc__.strip())
    return 0 if words in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main())
