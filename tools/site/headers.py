#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Finds the public names in the text of a header. It does not use Doxygen, so that it notices what Doxygen leaves out.

usage: headers.py HEADER...     prints the names, a line each
       headers.py --self-test
"""

import pathlib
import re
import sys

# Comments, texts and characters. A digit separator is no quote.
IGNORED = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|(?<![0-9a-zA-Z])\'(?:\\.|[^\'\\])\'', re.DOTALL)
MACRO = re.compile(r"^#define (\w+)", re.MULTILINE)
HIDDEN = re.compile(r"\bdetail\b")


def without_brackets(text):
    """Without template arguments and attributes, from inside out."""
    for pattern in (r"<[^<>]*>", r"\[[^\[\]]*\]"):
        while (shorter := re.sub(pattern, "", text)) != text:
            text = shorter
    return text


def name_of(statement):
    """The name that the statement declares. The result is None if it declares no name of ours."""
    statement = re.sub(r"^\s*template <.*?>\s*(?=[a-z:])", "", " ".join(statement.split()))
    statement = re.sub(r"requires ?\(.*", "", statement)
    # The last two repeat a name of another place.
    if not statement or re.match(r"(friend|static_assert|namespace|using [\w:]+$)\b", statement):
        return None
    if found := re.match(r"(?:using (\w+) =|(?:class|struct|enum(?: class)?) (\w+)|concept (\w+))", statement):
        return next(filter(None, found.groups()))
    if re.search(r"\boperator\b", statement):
        return None  # the anchors of operators are numbers
    plain = without_brackets(statement)
    found = re.search(r"(~?\w+) ?\(", plain.partition("=")[0]) or re.search(r"(\w+) ?(?:=.*)?$", plain)
    return found[1] if found else None


def names(text):
    """Names at public places, in the order of the text."""
    found = list(MACRO.findall(text))
    text = re.sub(r"^ *#.*(?:\\\n.*)*$|\bHOLDFAST_EXPORT\b", "", IGNORED.sub(" ", text), flags=re.MULTILINE)
    # Each scope: kind, and whether its names are public.
    scopes, begin, at, depth = [("namespace", True)], 0, 0, 0
    while at < len(text):
        char = text[at]
        kind, is_public = scopes[-1]
        depth += (char in "([") - (char in ")]")
        if kind == "body":
            if char == "{":
                scopes.append(("body", False))
            elif char == "}":
                scopes.pop()
                begin = at + 1
        elif depth == 0 and char == "{":
            head = text[begin:at].strip()
            declared = re.sub(r"^template <.*?>\s*(?=class|struct)", "", " ".join(head.split()))
            opened = re.match(r"(?:inline )?(namespace|class|struct|enum)\b(.*)", declared)
            if opened and opened[1] == "namespace":
                scopes.append(("namespace", is_public and not HIDDEN.search(opened[2])))
            elif opened:
                if is_public and "boost::" not in opened[2]:
                    found.append(name_of(declared))
                inner = opened[1] != "class" and is_public and "boost::" not in opened[2]
                scopes.append(("enum" if opened[1] == "enum" else "class", inner))
            else:
                if is_public:
                    found.append(name_of(head))
                scopes.append(("body", False))
            begin = at + 1
        elif depth == 0 and char == "}":
            if kind == "enum" and is_public and text[begin:at].strip():
                found.append(name_of(text[begin:at]))
            scopes.pop()
            begin = at + 1
        elif depth == 0 and char == ";":
            if is_public:
                forward = r"(?:template <.*> )?(?:class|struct|enum(?: class)?) \w+(?: : \w+)?"
                is_forward = re.fullmatch(forward, text[begin:at].strip())
                found.append(None if is_forward else name_of(text[begin:at]))
            begin = at + 1
        elif depth == 0 and char == "," and kind == "enum":
            if is_public:
                found.append(name_of(text[begin:at]))
            begin = at + 1
        elif access := kind == "class" and re.compile(r"(public|protected|private):").match(text, at):
            owner_is_public = all(each[0] != "body" for each in scopes) and scopes[-2][1]
            scopes[-1] = ("class", access[1] == "public" and owner_is_public)
            at += len(access[0])
            begin = at
            continue
        at += 1
    return list(dict.fromkeys(filter(None, found)))


def self_test():
    text = """
#define MACRO 1
namespace asio = boost::asio;
namespace a { using b::other; enum class opaque : int; namespace detail { struct hidden { int x; }; void also_hidden(); }
class forward;
struct s { int field = 1; std::chrono::seconds time = std::chrono::hours(2); std::map<int, f(int)> pair{}; s() noexcept; ~s(); int call(int a, int b = g(1)) const { int local; } };
class HOLDFAST_EXPORT c : public s { int hidden_field; public: using type = int; explicit c(int); static c make(); private: void hidden_too(); };
enum class e { one, two = 2 };
inline constexpr std::chrono::seconds limit{15'000};
template <class T, class U = f<T>> auto operation(T&& t) { return [] { int inner; }(); }
// struct comment { int no; };
bool operator==(const s&, const s&);
HOLDFAST_EXPORT void exported();
}
"""
    assert names(text) == ["MACRO", "s", "field", "time", "pair", "~s", "call", "c", "type", "make", "e", "one", "two", "limit",
                           "operation", "exported"], names(text)


def main():
    words = sys.argv[1:]
    if words == ["--self-test"]:
        self_test()
    elif not words or words[0].startswith("-"):
        print(__doc__.strip())
        return 0 if words in (["-h"], ["--help"]) else 2
    for file in words if words[0] != "--self-test" else []:
        print("\n".join(names(pathlib.Path(file).read_text(encoding="utf-8"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
