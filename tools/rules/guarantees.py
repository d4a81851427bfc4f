# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that doc/explanation/guarantees.md and the checkers of the tests speak of the same guarantees, and that each is
checked.

A guarantee is checked where code calls `object(guarantee::NAME, ...)`, or `object(promise::NAME, ...)` for those of the
semaphore on RabbitMQ. Comments, strings, lists of names, comparisons and printing are no checks. Each test `SUITE/CASE`
that the document names must exist."""

import pathlib
import re

import sources

# The enumeration of the guarantees, the letter before their numbers in the document, and the enumeration's file.
KINDS = [("guarantee", "G", "test/support/guarantee.hpp"), ("promise", "R", "test/sim/support/broker_model.hpp")]


def checked_in(files, enum):
    """The names of the guarantees that the code of these files checks."""
    call = re.compile(rf"\bobject\(\s*{enum}::(\w+)\s*,")
    return {name for text in files.values() for name in call.findall(sources.without_noise(text))}


def enumerators(header, enum):
    """The names of the guarantees by their numbers."""
    body = re.search(rf"enum class {enum} \{{(.*?)\}};", header, re.DOTALL)
    return {number: name for name, number in re.findall(r"(\w+) = (\d+)", body[1] if body else "")}


def problems_of(document, header, checked, enum, letter):
    promised = set(re.findall(rf"^\| \*\*{letter}(\d+)\*\* \|", document, re.MULTILINE))
    named = enumerators(header, enum)
    if not named:
        yield f"enum class {enum} names none"
    for number in sorted(promised ^ set(named), key=int):
        yield f"{letter}{number} is only in " + ("the document" if number in promised else f"enum class {enum}")
    for number, name in named.items():
        if name not in checked:
            yield f"{letter}{number} is checked nowhere: no object({enum}::{name}, ...)"


def missing_tests(document, files):
    """The tests `SUITE/CASE` that the document names, and that no file SUITE.cpp has."""
    for suite, case in re.findall(r"`(\w+)/(\w+)`", document):
        pattern = re.compile(rf"TEST_CASE\({case}[,)]")
        if not any(pattern.search(text) for file, text in files.items() if pathlib.Path(file).name == f"{suite}.cpp"):
            yield f"there is no test {suite}/{case}"


def problems(files):
    document = files["doc/explanation/guarantees.md"]
    tests = {path: text for path, text in files.items() if re.match(r"test/.*\.[ch]pp$", path)}
    yield from missing_tests(document, tests)
    for enum, letter, file in KINDS:
        yield from problems_of(document, files[file], checked_in(tests, enum), enum, letter)


CHECK = "judge.object(guarantee::order,\n what);"
GOOD = {
    "doc/explanation/guarantees.md": "| **G1** | text |\n| **R1** | text |\n`a/b_c` `a/d`",
    "test/support/guarantee.hpp": "enum class guarantee {\n  order = 1,\n};\n",
    "test/sim/support/broker_model.hpp": "enum class promise {\n  order = 1,\n};\n",
    "test/a.cpp": f"quote = '\"'; {CHECK} if (late) return object(promise::order, what);\n"
                  "ASYNC_TEST_CASE(b_c, 2s) BOOST_AUTO_TEST_CASE(d)",
    "test/b.cpp": "TEST_CASE(other)",
}
PLANTED = [
    ("doc/explanation/guarantees.md", "| **G1** | text |", "", "G1 is only in enum class guarantee"),
    ("test/support/guarantee.hpp", "order = 1,", "", "enum class guarantee names none"),
    ("test/support/guarantee.hpp", "order", "orders", "G1 is checked nowhere"),
    ("test/a.cpp", "promise::order", "guarantee::order", "R1 is checked nowhere"),
    ("test/a.cpp", "(b_c", "(b_cd", "there is no test a/b_c"),
    ("doc/explanation/guarantees.md", "a/d", "a/other", "there is no test a/other"),
    *(("test/a.cpp", CHECK, no_check, "G1 is checked nowhere") for no_check in [
        "",
        "object(guarantee::orders, what);",
        "// object(guarantee::order, what);\n",
        "/* object(guarantee::order,\n what); */",
        'log("object(guarantee::order, what)");',
        'log(R"(object(guarantee::order, what))");',
        "constexpr guarantee all[] = {guarantee::order, guarantee::limit};",
        "if (which == guarantee::order) return;",
        "print(guarantee::order);",
        "excuse(guarantee::order, until);",
        "no_object(guarantee::order, what);",
        "void object(guarantee g, const std::string& what);",
    ]),
]
