# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Compares the table of doc/reference/metrics.md with the metrics of the library: their names, types and help texts.

A family of metrics begins in src/runtime/prometheus.cpp with its name, its type and its help text. The check compares
these three, and does not read the labels."""

import re

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


def problems(files):
    code, page = of_code(files[CODE]), of_page(files[PAGE])
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


GOOD = {
    CODE: 'counter("holdfast_a_total", "A.", f); of_status(\n"holdfast_b",\n "B.", f); family("holdfast_c", "histogram", "C.")',
    PAGE: "| `holdfast_a_total` | counter | `lock` | A. |\n| `holdfast_b` | gauge | `lock` | B. |\n"
          "| `holdfast_c` | histogram | | C. |\n",
}
PLANTED = [
    (PAGE, "B.", "B!", "holdfast_b is ('gauge', 'B.') in the code"),
    (PAGE, "| gauge", "| counter", "holdfast_b is ('gauge', 'B.') in the code"),
    (PAGE, "| `holdfast_c` | histogram | | C. |\n", "", "no row for holdfast_c"),
    (CODE, "holdfast_c", "holdfast_d", "holdfast_c is not a metric"),
    (CODE, "a_total", "a", "the name of a counter"),
    (CODE, "b", "b_total", "the name of a counter"),
    (CODE, "C.", "C", "the help is no sentence"),
    (CODE, "", "", "holdfast_a_total is not a metric"),
]
