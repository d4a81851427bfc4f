#!/usr/bin/env python3
"""Checks that doc/guarantees.md and the checkers of the tests speak of the same guarantees, each of which is checked.

usage: check_guarantees.py              checks the project in the current folder
       check_guarantees.py --self-test  shows that it is able to fail
"""

import pathlib
import re
import sys


def problems(document, header, tests):
    promised = set(re.findall(r"^\| \*\*G(\d+)\*\* \|", document, re.MULTILINE))
    named = {number: name for name, number in re.findall(r"^  (\w+) = (\d+),$", header, re.MULTILINE)}
    for number in sorted(promised ^ set(named), key=int):
        yield f"G{number} is only in " + ("the document" if number in promised else "guarantee.hpp")
    for number, name in named.items():
        if f"guarantee::{name}" not in tests:
            yield f"G{number} is checked nowhere: guarantee::{name}"


def self_test():
    row, line = "| **G1** | text |", "  limit = 1,\n"
    assert not list(problems(row, line, "object(guarantee::limit"))
    assert list(problems("", line, "object(guarantee::limit"))
    assert list(problems(row, "", ""))
    assert list(problems(row, line, ""))


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    tests = "".join(path.read_text() for path in pathlib.Path("test").rglob("*.cpp"))
    found = list(
        problems(
            pathlib.Path("doc/guarantees.md").read_text(),
            pathlib.Path("test/support/guarantee.hpp").read_text(),
            tests,
        )
    )
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
