# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that a caller can pass a completion token to each operation without passing parameters that have defaults.

No parameter before the token may have a default. test/interface/tokens.cpp must begin the operation as
`of.CLASS.OPERATION(`, or as `OPERATION(` if the operation is no member of a class.

For the headers in rabbitmq/, that file is test/unit/rabbitmq_tokens.cpp."""

import re

TEST = "test/interface/tokens.cpp"
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


def problems(files):
    headers = {path: text for path, text in files.items() if path.startswith("include/") and path.endswith(".hpp")}
    for test in (TEST, RABBITMQ_TEST):
        own = {path: text for path, text in headers.items() if ("/rabbitmq/" in path) == (test == RABBITMQ_TEST)}
        found = [(file, *operation) for file, text in own.items() for operation in operations(text)]
        if not found:
            yield f"include: no operation was found for {test}"
        for file, around, name, line, given in found:
            whole = f"{around}::{name}" if around else name
            if "=" in given.replace(TOKEN, ""):
                yield f"{file}:{line}: {whole}: a default stands before the token"
            call = rf"\bof\.{around}\.{name}\(" if around else rf"(?m)^\s+{name}\("
            if not re.search(call, files[test]):
                yield f"{file}:{line}: {whole} is not begun in {test}"


_HEADER = """
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
GOOD = {
    "include/a.hpp": _HEADER, "include/rabbitmq/b.hpp": _HEADER.replace("door", "gate").replace("knock", "ring"),
    TEST: "  of.door.open(token...);\n  knock(of.door, token...);\n",
    RABBITMQ_TEST: "  of.gate.open(token...);\n  ring(of.gate, token...);\n",
}
PLANTED = [
    ("include/a.hpp", "options how,", "options how = {},", "a default stands before the token"),
    (TEST, "door.open", "gate.open", "door::open is not begun in " + TEST),
    (TEST, "knock", "ring", "knock is not begun in " + TEST),
    (RABBITMQ_TEST, "ring", "knock", "ring is not begun in " + RABBITMQ_TEST),
    ("include/a.hpp", "", "", "no operation was found"),
]
