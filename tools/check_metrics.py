#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Compares the table of doc/reference/metrics.md with the metrics of the library: their names, types and help texts.

A family of metrics begins in src/runtime/prometheus.cpp with its name, its type and its help text. The check compares
these three, and does not read the labels.

usage: check_metrics.py              checks; prints what differs
       check_metrics.py --self-test  shows that the check is able to fail
       check_metrics.py --names      prints the names of the code
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE, PAGE = "src/runtime/prometheus.cpp", "doc/reference/metrics.md"
# The first argument of a function that begins a family. Its name tells the type, or the second argument does.
FAMILY = re.compile(r'\b(family|counter|gauge|histogram|of_status|value)\(\s*"(holdfast_\w+)",\s*"([^"]*)"(?:,\s*"([^"]*)")?')
ROW = re.compile(r"^\| `(holdfast_\w+)` \| (counter|gauge|histogram) \|[^|]*\| ([^|]*) \|$", re.M)


def of_code(text):
    found = {}
    for function, name, second, third in FAMILY.findall(text):
        if function in ("family", "value"):
            kind, help_text = second, third
        else:
            kind, help_text = "gauge" if function == "of_status" else function, second
        found[name] = (kind, help_text)
    return found


def of_page(text):
    return {name: (kind, meaning.strip()) for name, kind, meaning in ROW.findall(text)}


def problems(code, page):
    for name in sorted(code.keys() | page.keys()):
        if name not in page:
            yield f"{PAGE}: no row for {name}"
        elif name not in code:
            yield f"{PAGE}: {name} is not a metric"
        elif code[name] != page[name]:
            yield f"{PAGE}: {name} is {code[name]} in the code, and {page[name]} here"
    for name, (kind, help_text) in code.items():
        if (kind == "counter") != name.endswith("_total"):
            yield f"{CODE}: {name}: the name of a counter, and no other, ends with _total"
        if not help_text.endswith("."):
            yield f"{CODE}: {name}: the help is no sentence"


def self_test():
    code = of_code('counter("holdfast_a_total", "A.", f); of_status(\n"holdfast_b",\n "B.", f); family("holdfast_c", "histogram", "C.")')
    assert code == {"holdfast_a_total": ("counter", "A."), "holdfast_b": ("gauge", "B."),
                    "holdfast_c": ("histogram", "C.")}, code
    page = of_page("| `holdfast_a_total` | counter | `lock` | A. |\n| `holdfast_b` | gauge | `lock` | B! |\n"
                   "| `holdfast_d` | gauge | | D. |\n")
    found = list(problems(code, page))
    assert len(found) == 3 and "holdfast_b" in found[0] and "holdfast_c" in found[1] and "holdfast_d" in found[2], found
    assert list(problems({"holdfast_x": ("counter", "X")}, {"holdfast_x": ("counter", "X")})), "no rule of names"
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    code = of_code((ROOT / CODE).read_text())
    if sys.argv[1:] == ["--names"]:
        print("\n".join(code))
        return 0
    if sys.argv[1:]:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    found = list(problems(code, of_page((ROOT / PAGE).read_text())))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found or not code else 0


if __name__ == "__main__":
    sys.exit(main())
