#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that a caller can pass a completion token to each operation without passing parameters that have defaults.

No parameter before the token may have a default. test/unit/tokens.cpp must begin the operation as
`of.CLASS.OPERATION(`, or as `OPERATION(` if the operation is no member of a class.

For the headers in rabbitmq/, that file is test/unit/rabbitmq_tokens.cpp.

usage: check_tokens.py              checks the project in the current folder
       check_tokens.py --self-test  shows that it is able to fail
"""

import pathlib
import re
import sys

TEST = "test/unit/tokens.cpp"
RABBITMQ_TEST = "test/unit/rabbitmq_tokens.cpp"
TOKEN = "Token&& token = {}"


def parameters(text, at):
    """The text between the parenthesis that opens just before `at` and the one that closes it."""
    depth, end = 1, at
    while depth and end < len(text):
        depth += (text[end] == "(") - (text[end] == ")")
        end += 1
    return text[at : end - 1]


def operations(text):
    """The class ("" for none), name, line and parameters of each operation in a header."""
    text = re.sub(r"//[^\n]*", "", text)
    begins = [(m.start(), m[1]) for m in re.finditer(r"^class (?:HOLDFAST_EXPORT )?(\w+)[^;{]*\{", text, re.MULTILINE)]
    begins += [(m.start(), "") for m in re.finditer(r"^\};", text, re.MULTILINE)]
    for match in re.finditer(r"\bauto (\w+)\(", text):
        given = parameters(text, match.end())
        if TOKEN in given:
            around = max((b for b in begins if b[0] < match.start()), default=(0, ""))[1]
            yield around, match[1], text.count("\n", 0, match.start()) + 1, given


def problems(headers, test, name_of_test=TEST):
    """`headers`: texts by the names of their files."""
    count = 0
    for file, text in sorted(headers.items()):
        for around, name, line, given in operations(text):
            count += 1
            whole = f"{around}::{name}" if around else name
            if "=" in given.replace(TOKEN, ""):
                yield f"{file}:{line}: {whole}: a default stands before the token"
            call = rf"\bof\.{around}\.{name}\(" if around else rf"(?m)^\s+{name}\("
            if not re.search(call, test):
                yield f"{file}:{line}: {whole} is not begun in {name_of_test}"
    if count == 0:
        yield "no operation was found"


def self_test():
    good = """
class door : public thing {
public:
  /// Opens it (to all).
  template <class Token = asio::deferred_t>
  auto open(Token&& token = {}) {
  }
  template <class Token = asio::deferred_t>
  auto open(options how, std::function<void()> then, Token&& token = {}) const {
  }
private:
  auto begin(int how = 1, Token&& token) {
  }
};

template <class Token = asio::deferred_t>
auto knock(const door& at, Token&& token = {}) {
}
"""
    test = "  of.door.open(token...);\n  knock(of.door, token...);\n"
    cases = [
        ("all is well", good, test, 0),
        ("a default before the token", good.replace("options how,", "options how = {},"), test, 1),
        ("an operation of a class is not tested", good, test.replace("door.open", "gate.open"), 2),
        ("a free operation is not tested", good, test.replace("knock", "ring"), 1),
        ("there is no operation", "", test, 1),
    ]
    failures = [what for what, header, calls, wanted in cases if len(list(problems({"a": header}, calls))) != wanted]
    for each in failures:
        print(f"wrong: {each}")
    print(f"{len(cases)} cases, {len(failures)} failures")
    return 1 if failures else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:]:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    headers = {str(path): path.read_text(encoding="utf-8") for path in pathlib.Path("include").rglob("*.hpp")}
    rabbitmq = {path: text for path, text in headers.items() if "/rabbitmq/" in path}
    others = {path: text for path, text in headers.items() if path not in rabbitmq}
    found = []
    for part, test in ((others, TEST), (rabbitmq, RABBITMQ_TEST)):
        found += problems(part, pathlib.Path(test).read_text(encoding="utf-8"), test)
    for line in found:
        print(line)
    count = sum(len(list(operations(text))) for text in headers.values())
    print(f"{count} operations with a token, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
