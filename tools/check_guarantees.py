#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that doc/explanation/guarantees.md and the checkers of the tests speak of the same guarantees, each of which is checked.

A guarantee is checked where code calls `object(guarantee::NAME, ...)`. Comments, strings, lists of names, comparisons
and printing are no checks, nor is code that is switched off by `#if 0` or `if (false)`.

usage: check_guarantees.py              checks the project in the current folder, and says where each is checked
       check_guarantees.py --self-test  shows that it is able to fail
"""

import pathlib
import re
import sys


def code(text):
    """The text without comments, strings and code that is switched off. All lines keep their places."""
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    strings = r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
    text = re.sub(r"//[^\n]*|/\*.*?\*/|" + strings, blank, text, flags=re.DOTALL)
    text = re.sub(r"^#if 0\b.*?^#(?:endif|else|elif)\b", blank, text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\bif (?:constexpr )?\((?:false|0)\)[^;]*;", blank, text)


def checks(text):
    """The guarantees that this code checks, each with its line."""
    text = code(text)
    for match in re.finditer(r"\bobject\(\s*guarantee::(\w+)\s*,", text):
        yield match[1], text.count("\n", 0, match.start()) + 1


def found_in(files):
    """The places at which each guarantee is checked, by its name. `files`: texts by the names of their files."""
    where = {}
    for file, text in sorted(files.items()):
        for name, line in checks(text):
            where.setdefault(name, []).append(f"{file}:{line}")
    return where


def problems(document, header, where):
    promised = set(re.findall(r"^\| \*\*G(\d+)\*\* \|", document, re.MULTILINE))
    named = {number: name for name, number in re.findall(r"^  (\w+) = (\d+),$", header, re.MULTILINE)}
    if not named:
        yield "guarantee.hpp names none"
    for number in sorted(promised ^ set(named), key=int):
        yield f"G{number} is only in " + ("the document" if number in promised else "guarantee.hpp")
    for number, name in named.items():
        if name not in where:
            yield f"G{number} is checked nowhere: no object(guarantee::{name}, ...)"


def self_test():
    row, line = "| **G1** | text |", "  order = 1,\n"
    found = lambda text, document=row, header=line: list(problems(document, header, found_in({"a.cpp": text})))
    assert found_in({"a.cpp": "\n  judge.object(guarantee::order,\n    what);"}) == {"order": ["a.cpp:2"]}
    assert not found("if (late) object(guarantee::order, what);")
    assert not found("quote = '\"'; object(guarantee::order, \"what\");")
    assert not found("if (late) return referee_.object(\n  guarantee::order, what);")
    assert found("object(guarantee::order, what);", document="")
    assert found("object(guarantee::order, what);", header="")
    for no_check in [
        "",
        "object(guarantee::orders, what);",
        "// object(guarantee::order, what);",
        "/* object(guarantee::order,\n what); */",
        'log("object(guarantee::order, what)");',
        'log(R"(object(guarantee::order, what))");',
        "constexpr guarantee all[] = {guarantee::order, guarantee::limit};",
        "if (which == guarantee::order) return;",
        "print(guarantee::order);",
        "excuse(guarantee::order, until);",
        "no_object(guarantee::order, what);",
        "void object(guarantee g, const std::string& what);",
        "#if 0\nobject(guarantee::order, what);\n#endif",
        "if (false) object(guarantee::order, what);",
    ]:
        assert found(no_check), no_check


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    where = found_in({str(path): path.read_text() for path in pathlib.Path("test").rglob("*.[ch]pp")})
    header = pathlib.Path("test/support/guarantee.hpp").read_text()
    found = list(problems(pathlib.Path("doc/explanation/guarantees.md").read_text(), header, where))
    for name in re.findall(r"^  (\w+) = \d+,$", header, re.MULTILINE):
        print(f"{name}: {' '.join(where.get(name, ['nowhere']))}")
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
