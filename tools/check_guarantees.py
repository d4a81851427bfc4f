#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that doc/explanation/guarantees.md and the checkers of the tests speak of the same guarantees, each of which is checked.

A guarantee is checked where code calls `object(guarantee::NAME, ...)`, or `object(promise::NAME, ...)` for those of the
semaphore on RabbitMQ. Comments, strings, lists of names, comparisons and printing are no checks, nor is code that is
switched off by `#if 0` or `if (false)`. Each test `SUITE/CASE` that the document names must exist.

usage: check_guarantees.py              checks the project in the current folder, and says where each is checked
       check_guarantees.py --self-test  shows that it is able to fail
"""

import pathlib
import re
import sys

# The enumeration of the guarantees, the letter before their numbers in the document, and the enumeration's file.
KINDS = [("guarantee", "G", "test/support/guarantee.hpp"), ("promise", "R", "test/sim/support/broker_model.hpp")]


def code(text):
    """The text without comments, strings and code that is switched off. All lines keep their places."""
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    strings = r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
    text = re.sub(r"//[^\n]*|/\*.*?\*/|" + strings, blank, text, flags=re.DOTALL)
    text = re.sub(r"^#if 0\b.*?^#(?:endif|else|elif)\b", blank, text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\bif (?:constexpr )?\((?:false|0)\)[^;]*;", blank, text)


def checks(text, enum):
    """The guarantees that this code checks, each with its line."""
    text = code(text)
    for match in re.finditer(rf"\bobject\(\s*{enum}::(\w+)\s*,", text):
        yield match[1], text.count("\n", 0, match.start()) + 1


def found_in(files, enum="guarantee"):
    """The places at which each guarantee is checked, by its name. `files`: texts by the names of their files."""
    where = {}
    for file, text in sorted(files.items()):
        for name, line in checks(text, enum):
            where.setdefault(name, []).append(f"{file}:{line}")
    return where


def enumerators(header, enum):
    """The names of the guarantees by their numbers."""
    body = re.search(rf"enum class {enum} \{{(.*?)\}};", header, re.DOTALL)
    return {number: name for name, number in re.findall(r"(\w+) = (\d+)", body[1] if body else "")}


def problems(document, header, where, enum="guarantee", letter="G"):
    promised = set(re.findall(rf"^\| \*\*{letter}(\d+)\*\* \|", document, re.MULTILINE))
    named = enumerators(header, enum)
    if not named:
        yield f"enum class {enum} names none"
    for number in sorted(promised ^ set(named), key=int):
        yield f"{letter}{number} is only in " + ("the document" if number in promised else f"enum class {enum}")
    for number, name in named.items():
        if name not in where:
            yield f"{letter}{number} is checked nowhere: no object({enum}::{name}, ...)"


def missing_tests(document, files):
    """The tests `SUITE/CASE` that the document names, and that no file SUITE.cpp has."""
    for suite, case in re.findall(r"`(\w+)/(\w+)`", document):
        pattern = re.compile(rf"TEST_CASE\({case}[,)]")
        if not any(pattern.search(text) for file, text in files.items() if pathlib.Path(file).name == f"{suite}.cpp"):
            yield f"there is no test {suite}/{case}"


def self_test():
    row, line = "| **G1** | text |", "enum class guarantee {\n  order = 1,\n};\n"
    found = lambda text, document=row, header=line: list(problems(document, header, found_in({"a.cpp": text})))
    assert found_in({"a.cpp": "\n  judge.object(guarantee::order,\n    what);"}) == {"order": ["a.cpp:2"]}
    assert not found("if (late) object(guarantee::order, what);")
    assert not found("quote = '\"'; object(guarantee::order, \"what\");")
    assert not found("if (late) return referee_.object(\n  guarantee::order, what);")
    assert found("object(guarantee::order, what);", document="")
    assert found("object(guarantee::order, what);", header="")
    others = line.replace("guarantee", "promise")
    on_rabbitmq = lambda text: list(problems(row.replace("G", "R"), others, found_in({"a.cpp": text}, "promise"), "promise", "R"))
    assert not on_rabbitmq("object(promise::order, what);")
    assert on_rabbitmq("object(guarantee::order, what);")
    named = lambda text: list(missing_tests("`a/b_c`", {"x/a.cpp": text, "b.cpp": "TEST_CASE(b_c)"}))
    assert not named("ASYNC_TEST_CASE(b_c, 2s)") and not named("BOOST_AUTO_TEST_CASE(b_c)")
    assert named("BOOST_AUTO_TEST_CASE(b_cd)") and named("")
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
    files = {str(path): path.read_text() for path in pathlib.Path("test").rglob("*.[ch]pp")}
    document = pathlib.Path("doc/explanation/guarantees.md").read_text()
    found = list(missing_tests(document, files))
    for enum, letter, file in KINDS:
        where, header = found_in(files, enum), files[file]
        found += problems(document, header, where, enum, letter)
        for number, name in enumerators(header, enum).items():
            print(f"{letter}{number} {name}: {' '.join(where.get(name, ['nowhere']))}")
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
