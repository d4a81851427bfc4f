# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that each test case expects something. A test without an expectation can only fail by crashing.

An expectation is one of Boost.Test's checks, a static_assert, or a call of a function or macro that contains an
expectation. Such a helper is defined in the same file or in a `support` folder."""

import functools
import re

import sources

# These folders contain tests that fail on purpose.
LEFT_OUT = ("test/victims/",)
EXPECTATION = re.compile(r"\b(?:BOOST_(?:TEST|TEST_REQUIRE|CHECK\w*|REQUIRE\w*|ERROR|FAIL)|static_assert)\s*\(")
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(((?:[^\\\n]|\\.|\\\n)*)", re.MULTILINE)
NAME = re.compile(r"\b(\w+)\s*(?:<[^<>;(){}]*>\s*)?\(")
CASES = {"BOOST_AUTO_TEST_CASE", "BOOST_FIXTURE_TEST_CASE", "BOOST_AUTO_TEST_CASE_TEMPLATE"}
KEYWORDS = {"if", "for", "while", "switch", "catch", "return", "constexpr"}
# In `support`, macros and functions with such names may check. Other names there, such as `start`, would fit anything.
CHECKS = re.compile(r"check|expect|EXPECT|require|judge")
# The text that may stand between the parameters of a function and its body.
BEFORE_BODY = re.compile(r"\s*(?:const\b|noexcept\b|override\b|final\b|->\s*[\w:<>,&* ]+?|\s)*(?=\{)")


def closing(text, at):
    """The position behind the bracket that closes the one at `at`."""
    pairs = {"(": ")", "{": "}"}
    opens, closes, depth = text[at], pairs[text[at]], 0
    for end in range(at, len(text)):
        depth += (text[end] == opens) - (text[end] == closes)
        if depth == 0:
            return end + 1
    return len(text)


def definitions(code):
    """The name of each function (or of each macro that defines a case), where it begins, and where its body is."""
    for match in NAME.finditer(code):
        if match[1] in KEYWORDS:
            continue
        after = closing(code, match.end() - 1)
        body = BEFORE_BODY.match(code, after)
        if body:
            yield match[1], match.start(), body.end(), closing(code, body.end())


@functools.cache
def parsed(text):
    return File(text)


class File:
    def __init__(self, text):
        code = sources.without_noise(text)
        self.macros = {m[1]: m[2] for m in MACRO.finditer(code)}
        self.code = sources.without_directives(code)
        self.functions = list(definitions(self.code))

    def helpers(self, cases):
        """The names and texts of the macros and functions that tests may call."""
        yield from ((name, body) for name, body in self.macros.items() if name not in cases)
        yield from ((name, self.code[begin:end]) for name, _, begin, end in self.functions if name not in cases)


def names_of_cases(files):
    """The macros that define a test case, directly or by another such macro."""
    cases, macros = set(CASES), [each for file in files for each in file.macros.items()]
    while True:
        more = {name for name, body in macros if any(re.search(rf"\b{case}\(", body) for case in cases)} - cases
        if not more:
            return cases
        cases |= more


def expecting(helpers, known=()):
    """The names of the helpers that contain an expectation, or call one that does."""
    found, helpers = set(known), list(helpers)
    while True:
        more = {name for name, body in helpers if expects(body, found)} - found
        if not more:
            return found - set(known)
        found |= more


def expects(body, helpers):
    return EXPECTATION.search(body) or any(name in helpers for name in NAME.findall(body))


def problems(files):
    files = {name: parsed(text) for name, text in sorted(files.items())
             if re.match(r"test/.*\..pp$", name) and not name.startswith(LEFT_OUT)}
    cases = names_of_cases(files.values())
    shared = {name for name in expecting(each for name, file in files.items() if "/support/" in name
                                         for each in file.helpers(cases)) if name.isupper() or CHECKS.match(name)}
    count = 0
    for name, file in files.items():
        helpers = shared | expecting(file.helpers(cases), shared)
        for macro, at, begin, end in file.functions:
            if macro not in cases:
                continue
            count += 1
            if not expects(file.code[begin:end], helpers):
                line = file.code.count("\n", 0, at) + 1
                case = re.match(r"\w+\(\s*(\w+)", file.code[at:])[1]
                yield f"{name}:{line}: {case} expects nothing"
    if count == 0:
        yield "test: no test case was found"


_SUPPORT = """void check_all(const thing& it) {
  BOOST_TEST(it.all());
}
#define SEE(it) \\
  check_all(it)
struct thing {
  void start() const { BOOST_REQUIRE(ok); }
};
#define MY_TEST(name) \\
  static void name##_body(); \\
  BOOST_AUTO_TEST_CASE(name) { run(name##_body); } \\
  static void name##_body()
"""
_HEAD = """namespace {
void begin(thing& it) {
  it.start();
}
bool tried(int n) noexcept {
  BOOST_TEST(n == 1);
  return true;
}
}  // namespace
"""
_RIGHT = ["BOOST_TEST(1 == 1);", "BOOST_CHECK_THROW(f(), error);", "if (a) BOOST_FAIL(\"b\");", "check_all(it);", "SEE(it);",
          "f([&] { tried(1); });", "static_assert(sizeof(int) > 1);", "int n = 1'000;\n  BOOST_TEST(n > 0);"]
_WRONG = ["", "it.start();", "begin(it);", "// BOOST_TEST(a);", "say(\"BOOST_TEST(a)\");", "BOOST_TEST_MESSAGE(\"a\");",
          "BOOST_TEST_CONTEXT(\"a\") f();", "say(R\"(check_all(it);)\");", "char c = '\"';\n  f();"]
_KINDS = ["BOOST_AUTO_TEST_CASE(a_case)", "BOOST_FIXTURE_TEST_CASE(a_case, thing)", "MY_TEST(a_case)",
          "BOOST_AUTO_TEST_CASE_TEMPLATE(a_case, Kind, kinds)"]
GOOD = {"test/support/a.hpp": _SUPPORT,
        "test/unit/b.cpp": _HEAD + "".join(f"{kind} {{\n  {body}\n}}\n" for kind in _KINDS for body in _RIGHT)}
PLANTED = [("test/unit/c.cpp", "", f"{_HEAD}\n{kind} {{\n  {body}\n}}\n", "test/unit/c.cpp:11: a_case expects nothing")
           for kind in _KINDS for body in _WRONG]
PLANTED.append(("test/unit/b.cpp", "", "", "no test case"))
