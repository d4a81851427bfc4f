# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that the rows of the table "Where a change goes" in CONTRIBUTING.md are short.

A long explanation is a comment at the place where somebody makes the change."""

import re

PAGE = "CONTRIBUTING.md"
LENGTH_MAX = 300
SECTION = re.compile(r"^## Where a change goes\n(.*?)^## ", re.MULTILINE | re.DOTALL)


def problems(files):
    section = SECTION.search(files[PAGE])
    rows = re.findall(r"^\|.*", section[1], re.MULTILINE) if section else []
    if not rows:
        yield f"{PAGE}: no table of changes was found"
    for row in rows:
        if len(row) > LENGTH_MAX:
            line = files[PAGE][: files[PAGE].index(row)].count("\n") + 1
            yield f"{PAGE}:{line}: the row has {len(row)} characters, more than {LENGTH_MAX}"


GOOD = {PAGE: f"## Rules\n| {'r' * 400} |\n## Where a change goes\n| a |\n| {'m' * 296} |\n## Layout\n| {'l' * 400} |\n"}
PLANTED = [
    (PAGE, "m |", "mm |", "CONTRIBUTING.md:5: the row has 301 characters"),
    (PAGE, "| a |", f"| {'a' * 150} | {'a' * 150} |", "CONTRIBUTING.md:4: the row has 307 characters"),
    (PAGE, "| a |\n| " + "m" * 296 + " |\n", "", "no table"),
    (PAGE, "## Where a change goes", "## Elsewhere", "no table"),
]
