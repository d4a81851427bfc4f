#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks the alert rules of doc/monitoring with promtool, and runs their tests. Each alert must have a test in which it
fires and one in which it does not. Each metric in a rule, and in the pages that explain the rules, must be in the list of
metrics.py.

usage: check_alerts.py PROMETHEUS              PROMETHEUS is the folder that scripts/prometheus prints
       check_alerts.py --self-test PROMETHEUS  shows that the tests notice a wrong rule: for each alert, one that never
                                               fires, one without its threshold, and one that does not wait
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import metrics

FOLDER = metrics.ROOT / "doc/monitoring"
PAGES = ("doc/trouble.md", "doc/how_to/watch.md")
RULE = re.compile(r"^ *- alert: (\w+)\n((?: {8,}.*\n)+)", re.MULTILINE)
EXPRESSION = re.compile(r"^ {8}expr:(?: \|-)?\s+((?:(?! {8}\w).*\n)+)", re.MULTILINE)
TEST = re.compile(r"^ *- alertname: (\w+)\n *eval_time: \w+\n *exp_alerts:(.*)", re.MULTILINE)


def rules(text):
    """{alert: (its text, its expression)}"""
    return {found[1]: (found[0], EXPRESSION.search(found[2])[1].rstrip("\n")) for found in RULE.finditer(text)}


def promtool(folder, *words):
    run = subprocess.run([pathlib.Path(folder) / "promtool", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, timeout=60)  # fmt: skip
    return run.returncode, run.stdout


def problems(folder, alerts, tests):
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        (place / "alerts.yml").write_text(alerts, encoding="utf-8")
        (place / "alerts_test.yml").write_text(tests, encoding="utf-8")
        for words in (("check", "rules", place / "alerts.yml"), ("test", "rules", place / "alerts_test.yml")):
            status, output = promtool(folder, *words)
            if status:
                yield f"promtool {' '.join(words[:2])}: status {status}\n{output}"
    known = rules(alerts)
    if not known or len(known) != alerts.count("alert:"):
        yield f"{len(known)} of {alerts.count('alert:')} rules can be read"
    for name, (_, expression) in known.items():
        fires = {not ending.strip() for alert, ending in TEST.findall(tests) if alert == name}
        if fires != {True, False}:
            yield f"{name}: no test in which it {'does not fire' if True in fires else 'fires'}"
        for each in metrics.unknown_in(expression):
            yield f"{name}: {each} is no metric of the list"


def unknown_in_pages(pages):
    """`pages`: {path: text}"""
    for path, text in pages.items():
        for each in set(metrics.unknown_in(text)) - set(metrics.METRICS):  # a page may name a histogram itself
            yield f"{path}: {each} is no metric of the list"


def read_pages():
    return {path: (metrics.ROOT / path).read_text(encoding="utf-8") for path in PAGES}


def self_test(folder):
    alerts, tests = ((FOLDER / name).read_text(encoding="utf-8") for name in ("alerts.yml", "alerts_test.yml"))
    assert not list(problems(folder, alerts, tests)), list(problems(folder, alerts, tests))
    head, *groups = re.split(r"(?m)^(?=  - name: )", tests)
    missed = []
    for name, (text, expression) in rules(alerts).items():
        group = next(each for each in groups if f"- name: {name}\n" in each)
        above = r"\s+(?:>|<|==) (?!.*(?:>|<|==) ).*$"
        wrong = {"never fires": text.replace(expression, "vector(1) == 2"),
                 "no threshold": text.replace(expression, re.sub(above, "", expression, flags=re.DOTALL))}
        if "for:" in text:
            wrong["no wait"] = re.sub(r" +for: .*\n", "", text)
        for why, changed in wrong.items():
            assert changed != text, (name, why)
            if not any("promtool test" in each for each in problems(folder, alerts.replace(text, changed), head + group)):
                missed.append(f"{name}, {why}")
    assert not missed, f"the tests notice nothing: {missed}"
    first = next(iter(rules(alerts)))
    for old, new, why in (("exp_alerts: []", "exp_alerts:", "does not fire"), ("exp_alerts:\n", "exp_alerts: []\n", "fires")):
        found = list(problems(folder, alerts, head + groups[0].replace(old, new)))
        assert any(f"{first}: no test in which it {why}" in each for each in found), found
    assert not list(unknown_in_pages(read_pages()))
    assert list(unknown_in_pages({"a.md": "`holdfast_acquires_total` `holdfast_acquires`"})) == [
        "a.md: holdfast_acquires is no metric of the list"]
    found = list(problems(folder, alerts.replace("holdfast_suspect_holds", "holdfast_doubts"), tests))
    assert any("holdfast_doubts is no metric" in each for each in found), found
    found = list(problems(folder, alerts.replace("> 2\n", "> \n"), tests))
    assert any("promtool check" in each for each in found), found
    return 0


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--self-test"] and len(arguments) == 2:
        return self_test(arguments[1])
    if len(arguments) != 1 or arguments[0].startswith("-"):
        asked = arguments in (["-h"], ["--help"])
        print(__doc__.strip(), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    if not (pathlib.Path(arguments[0]) / "promtool").is_file():
        sys.exit(f"there is no promtool in {arguments[0]!r}: run scripts/prometheus")
    alerts, tests = ((FOLDER / name).read_text(encoding="utf-8") for name in ("alerts.yml", "alerts_test.yml"))
    found = [*problems(arguments[0], alerts, tests), *unknown_in_pages(read_pages())]
    print(*found, f"{len(rules(alerts))} alerts, {len(TEST.findall(tests))} tests, {len(found)} problems", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
