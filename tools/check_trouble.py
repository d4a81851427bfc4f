#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that doc/trouble.md has a row for each log line of the library, for each error, for each reason of a loss and for
each alert of doc/monitoring/alerts.yml, and no other rows.

The first column of each table there has names in backticks, and nothing else besides <br>:
- an error: the name of its enumerator, and then the text that src/error.cpp gives it;
- a reason of a loss: `lost: REASON`;
- an alert: its name. The row has an anchor, and the `runbook_url` of the alert leads to it;
- a log line: its text, with ... for each variable part. The row may end with one of them and omit the rest.

The log lines are found in the code of src, except src/testing. A log line is the argument of `action::note{...}`, or of
a call of a `std::function<void(std::string)>` or of a function that passes its parameter on to one. The text
that a function `advice_on_expiry` returns is the end of a log line.

usage: check_trouble.py              checks; prints what differs
       check_trouble.py --self-test  shows that the check is able to fail
       check_trouble.py --list       prints the log lines of the code
"""

import ast
import functools
import pathlib
import re
import sys

import sources

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = "doc/trouble.md"
ERRORS, TEXTS, REASONS = "include/holdfast/error.hpp", "src/error.cpp", "include/holdfast/loss_reason.hpp"
ALERTS = "doc/monitoring/alerts.yml"
CLOSING = {"(": ")", "[": "]", "{": "}"}
STRINGS = ("string", "string_view")
ADVICE = "advice_on_expiry"
# A row with fewer letters could match lines that it does not mean.
LETTERS_MIN = 10


def letters(text):
    return sum(each.isalpha() for each in text)


def joined(parts):
    return re.sub(r"(\.\.\.)+", "...", "".join(parts))


class Code:
    """The tokens of one file, and for each bracket the place of its partner."""

    def __init__(self, text):
        self.tokens = sources.cpp_tokens(text)
        self.partner, open_ = {}, []
        for at, token in enumerate(self.tokens):
            if token in CLOSING:
                open_.append(at)
            elif token in CLOSING.values() and open_:
                begin = open_.pop()
                self.partner[begin], self.partner[at] = at, begin

    def inside(self, begin):
        """The range of the last argument in these brackets."""
        end = self.partner[begin]
        commas = [at for at in self.top(begin + 1, end) if self.tokens[at] == ","]
        return max(commas, default=begin) + 1, end

    def top(self, begin, end):
        """The places of the tokens in this range that stand in no inner brackets."""
        at = begin
        while at < end:
            yield at
            at = self.partner.get(at, at) + 1 if self.tokens[at] in CLOSING else at + 1

    def texts(self, begin, end):
        """The texts that this expression may have, with ... for what is variable."""
        tokens = self.tokens
        if begin >= end:
            return ["..."]
        if tokens[begin] == "(" and self.partner.get(begin) == end - 1:
            return self.texts(begin + 1, end - 1)
        is_wrapped = tokens[begin : begin + 3] == ["std", ":", ":"] and tokens[begin + 3] in ("move", *STRINGS)
        if is_wrapped and self.partner.get(begin + 4) == end - 1:
            return self.texts(begin + 5, end - 1)
        top = list(self.top(begin, end))
        question = next((at for at in top if tokens[at] == "?"), None)
        if question is not None:
            colon = next(at for at in top if at > question and tokens[at] == ":" and ":" not in (tokens[at - 1], tokens[at + 1]))
            found = self.texts(question + 1, colon) + self.texts(colon + 1, end)
            return found if any(map(letters, found)) else ["..."]
        plus = next((at for at in top if tokens[at] == "+"), None)
        if plus is not None:
            return [joined((l, r)) for l in self.texts(begin, plus) for r in self.texts(plus + 1, end)]
        if all(each[0] in "\"'" for each in tokens[begin:end]):
            return ["".join(map(ast.literal_eval, tokens[begin:end]))]
        return ["..."]

    def variable(self, begin, end):
        """The name of the variable that this expression passes on."""
        tokens = self.tokens[begin:end]
        if tokens[:4] == ["std", ":", ":", "move"]:
            tokens = tokens[5:-1]
        return ".".join(each for each in tokens if each != ".") if all(re.match(r"\w|\.", each) for each in tokens) else None

    def blocks(self, at):
        """For each block around this place, from the inside: where it begins, and where its header does."""
        while at > 0:
            at -= 1
            if self.tokens[at] in CLOSING.values():
                at = self.partner.get(at, at)
            elif self.tokens[at] == "{":
                header = at
                while header > 0 and self.tokens[header - 1] not in (";", "{", "}", "(", "["):
                    header -= 1
                    if self.tokens[header] in (")", "]"):
                        header = self.partner.get(header, header)
                yield at, header

    def passes_on(self, at, name):
        """If `name` is a parameter of a function around this place, returns the function's name, "" for a lambda without
        one. Otherwise returns None."""
        for begin, header in self.blocks(at):
            tokens = self.tokens[header:begin]
            kinds, _, member = name.partition(".")
            for i in range(2, len(tokens) - 1):
                typed = tokens[i - 2] if tokens[i - 1] == "&" else tokens[i - 1]
                wanted = ("note",) if member else STRINGS
                if tokens[i] == kinds and tokens[i + 1] in (",", ")") and typed in wanted:
                    text = " ".join(tokens)
                    named = re.search(r"(\w+) = \[", text) or (not re.search(r"\] \(", text) and re.search(r"(\w+) \(", text))
                    return named[1] if named else ""
        return None

    def assigned(self, at, name):
        """The texts that the function around this place gives to the variable."""
        body = None
        for begin, header in self.blocks(at):
            if not {"namespace", "class", "struct"} & set(self.tokens[header:begin]):
                body = begin
        if body is None:
            return
        for i in range(body, self.partner[body]):
            if self.tokens[i] != name or self.tokens[i - 1] == ".":
                continue
            end = next((k for k in self.top(i, self.partner[body]) if self.tokens[k] in (";", ",", "]", ")")), i)
            following = self.tokens[i + 1 : i + 3]
            if following[:1] == ["="] and following != ["=", "="]:
                yield from self.texts(i + 2, end)
            elif following == ["+", "="]:
                yield from (joined(("...", text)) for text in self.texts(i + 3, end))
            elif following == [".", "append"]:
                for literal in self.tokens[i:end]:
                    if literal[0] == '"' and letters(literal):
                        yield joined(("...", ast.literal_eval(literal)))


    def advised(self):
        """The texts that functions called ADVICE in this file return, as ends of log lines."""
        if ADVICE not in self.tokens:
            return
        for at, token in enumerate(self.tokens):
            if token != "return" or not any(ADVICE in self.tokens[header:begin] for begin, header in self.blocks(at)):
                continue
            end = self.tokens.index(";", at)
            yield from (joined(("...", text)) for text in self.texts(at + 1, end) if letters(text))


def declared(tokens):
    """The names of variables of type `std::function<void(std::string)>`."""
    return set(re.findall(r"function < void \( (?:const )?std : : (?:string|string_view) (?:& )?\) > (?:& )?(\w+)", " ".join(tokens)))


def log_lines(files):
    """Returns {text: place} of all log lines, and a list of the places that cannot be read. `files`: {path: text}."""
    return log_lines_of(tuple(files.items()))


@functools.lru_cache(maxsize=1)  # the self-test changes the page many times, and the code seldom
def log_lines_of(files):
    codes = {path: Code(text) for path, text in files}
    everywhere = set().union(*(declared(code.tokens) for code in codes.values()))
    found, unread = {}, {}
    for path, code in codes.items():
        if not path.startswith("src/"):
            continue
        found.update((text, path) for text in code.advised())
        sinks, tried = set(everywhere), set()
        while sinks != tried:  # a function that passes its parameter on is one more
            tried = set(sinks)
            unread[path] = []
            for at, token in enumerate(code.tokens[:-1]):
                opens = code.tokens[at + 1]
                if not (opens == "{" and token == "note" or opens == "(" and token in sinks):
                    continue
                before = at - 1
                while code.tokens[before - 1 : before + 1] == [":", ":"]:
                    before -= 3
                if code.tokens[before] in ("void", "struct") or code.tokens[before + 1 : before + 2] == ["std"]:
                    continue
                begin, end = code.inside(at + 1)
                if begin == end or code.tokens[end - 1] in everywhere:  # the function itself is copied
                    continue
                texts = code.texts(begin, end)
                name = code.variable(begin, end)
                if name and code.passes_on(at, name) is not None:
                    sinks.add("." not in name and code.passes_on(at, name) or token)  # notes are found anyway
                    continue
                if name:
                    texts = list(code.assigned(at, name))
                texts = [text for text in texts if letters(text)]
                found.update((text, path) for text in texts)
                if not texts:
                    unread[path].append(f"{path}: a log line that cannot be read: {token}({' '.join(code.tokens[begin:end])})")
    return found, [each for path in unread for each in unread[path]]


def enumerators(text, enum):
    body = re.search(rf"enum class {enum} \{{(.*?)\}};", re.sub(r"//[^\n]*", "", text), re.DOTALL)[1]
    return [each.split("=")[0].strip() for each in body.split(",") if each.strip()]


def rows(page):
    """(line, first cell) of each row of each table."""
    lines = page.split("\n")
    for number, line in enumerate(lines, 1):
        is_head = number < len(lines) and re.match(r"\|[-| :]+\|$", lines[number])
        if line.startswith("|") and not is_head and not re.match(r"\|[-| :]+\|$", line):
            yield number, line.strip("|").split("|")[0].strip()


def alerts(text):
    """{name: where its runbook_url leads to} of each alert."""
    parts = re.split(r"^ *- alert: *", text, flags=re.MULTILINE)[1:]
    found = {part.split("\n")[0].strip(): re.search(r"^ *runbook_url: *(\S+)", part, re.MULTILINE) for part in parts}
    return {name: link and link[1] for name, link in found.items()}


def matches(row, line):
    return row.rstrip(" .") == line.rstrip(" .") or (row.endswith("...") and line.startswith(row))


def problems(files):
    """`files`: {path: text} of the page and of the code."""
    lines, unread = log_lines({path: text for path, text in files.items() if path not in (PAGE, ALERTS)})
    yield from unread
    texts = dict(re.findall(r'\{error::(\w+), "\w+",\s*"((?:\\.|[^"\\])*)"', files[TEXTS]))
    named = {name: texts.get(name) for name in enumerators(files[ERRORS], "error")}
    reasons = [f"lost: {name}" for name in enumerators(files[REASONS], "loss_reason") if name != "none"]
    links = alerts(files[ALERTS])
    seen, patterns = set(), {}
    for number, cell in rows(files[PAGE]):
        names = re.findall(r"`([^`]+)`", cell)
        if not names or re.sub(r"`[^`]+`|<br>|\s", "", cell):
            yield f"{PAGE}:{number}: the first column has something else than names in backticks: {cell}"
        elif names[0] in named:
            if names[1:] != [named[names[0]]]:
                yield f"{PAGE}:{number}: the text of `{names[0]}` is `{named[names[0]]}`"
            names = names[:1]
        for name in names:
            if name in seen:
                yield f"{PAGE}:{number}: a second row for `{name}`"
            seen.add(name)
            if name in links:
                anchor = re.search(r'<a id="([^"]+)">', files[PAGE].split("\n")[number - 1])
                if not anchor or links[name] != f"{PAGE}#{anchor[1]}":
                    yield f"{PAGE}:{number}: the alert `{name}` does not lead to this row, but to {links[name]}"
            if name in named or name in reasons or name in links:
                continue
            if letters(name) < LETTERS_MIN:
                yield f"{PAGE}:{number}: `{name}` is no error, and too short for a log line"
            patterns[name] = number
    for name in [*named, *reasons, *links]:
        if name not in seen:
            yield f"{PAGE}: no row for `{name}`"
    used = set()
    for line, path in lines.items():
        fitting = [row for row in patterns if matches(row, line)]
        if fitting:
            used.add(max(fitting, key=len))
        else:
            yield f"{PAGE}: no row for this log line of {path}: `{line}`"
    for row, number in patterns.items():
        if row not in used:
            yield f"{PAGE}:{number}: the code has no log line `{row}`"


def read_all():
    paths = [PAGE, ALERTS, *(str(path.relative_to(ROOT)) for folder in ("src", "include") for path in ROOT.glob(f"{folder}/**/*.[ch]pp"))]
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in sorted(paths) if not path.startswith("src/testing/")}


def self_test():
    code = {
        ERRORS: "enum class error {\n  one = 1,  ///< a, b\n  two,\n};\n",
        TEXTS: '{error::one, "one", "the first text", 0}, {error::two, "two",\n "the second text", 0}',
        REASONS: "enum class loss_reason {\n  none,\n  gone,\n};\n",
        "include/holdfast/options.hpp": "std::function<void(const std::string&)> log{};",
        "src/a.cpp": '''
            void a::tell(std::string line) const {
              if (log_) post(strand_, [log = log_, line = std::move(line)] { log(line); });
            }
            void a::b(const std::function<void(std::string)>& complain) {
              tell("the name " + x + (y.empty() ? "" : ": " + y) + " has changed");  // tell("no line at all")
              std::string why;
              if (x) why = std::string("this is the reason: ") + e.what();
              why += "; and one more " + x + " reason";
              if (!why.empty()) complain(std::move(why));
              ask([this](std::string line) { tell(std::move(line)); });
              std::log(x);
            }
            void a::perform(action::note& n) { log(std::move(n.text)); }''',
        "src/b.cpp": 'void f() { act(action::note{(x ? "slot of " + y : "lock " + y + \'/\' + z) + " is away: " + a(b)}); }\n'
                     "void tell(int);  void g() { tell(3); }",
        "src/c.cpp": 'std::string c::advice_on_expiry(int x) const { if (!x) return {}; return "; a longer time helps"; }',
    }
    page = ("| name | meaning |\n|---|---|\n| `one`<br>`the first text` | a |\n| `two`<br>`the second text` | b |\n"
            "| `lost: gone` | c |\n| `the name ... has changed` | d |\n| `this is the reason: ...` | e |\n"
            "| `...; and one more ...` | f |\n| `...; a longer time helps` | h |\n| `slot of ... is away: ...`<br>`lock .../... is away: ...` | g |\n")
    page += '| `TooLate` | <a id="toolate"></a>i |\n'
    good = {**code, PAGE: page, ALERTS: f"  - alert: TooLate\n    annotations:\n      runbook_url: {PAGE}#toolate\n"}
    assert not list(problems(good)), list(problems(good))

    def fails(path, old, new, why):
        changed = {**good, path: good[path].replace(old, new)}
        assert changed != good, (path, old)
        found = list(problems(changed))
        assert any(why in each for each in found), (path, old, new, why, found)

    for row in page.splitlines()[2:]:
        fails(PAGE, row + "\n", "", "no row for")
        fails(PAGE, row + "\n", row + "\n" + row + "\n", "a second row for")
    fails(PAGE, "the first text", "another text", "the text of `one`")
    fails(PAGE, "<br>`the first text`", "", "the text of `one`")
    fails(PAGE, "| `lost: gone`", "| lost `lost: gone`", "something else")
    fails(PAGE, "| `lost: gone`", "| `three` | x |\n| `lost: gone`", "`three` is no error")
    fails(PAGE, "| `lost: gone`", "| `no such line in the code` | x |\n| `lost: gone`", "the code has no log line")
    fails(PAGE, "`slot of ... is away: ...`", "`slot of ...`", "too short")
    fails(PAGE, "this is the reason: ...", "this is the ...", "no row for this log line")
    fails(ERRORS, "two", "two, three", "no row for `three`")
    fails(REASONS, "gone", "gone, away", "no row for `lost: away`")
    for old in ("the name ", "this is the reason", "; and one more"):
        fails("src/a.cpp", old, "something else ", "no row for this log line")
        fails("src/a.cpp", old, "something else ", "the code has no log line")
    fails("src/c.cpp", "a longer time", "a shorter time", "no row for this log line of src/c.cpp")
    fails("src/b.cpp", '"lock "', '"the key "', "no row for this log line of src/b.cpp: `the key .../... is away: ...`")
    fails("src/a.cpp", "std::log(x)", 'complain("a new line")', "`a new line`")
    fails("src/a.cpp", "std::log(x)", 'settings_.log("a new line")', "`a new line`")
    fails("src/a.cpp", "std::log(x)", "tell(x.text())", "cannot be read")
    fails("src/b.cpp", "void tell(int);", 'void say(std::string s) { log(s); } void h() { say("a new line"); }', "`a new line`")
    fails(PAGE, '<a id="toolate"></a>', "", "does not lead to this row")
    fails(PAGE, 'id="toolate"', 'id="too-late"', "does not lead to this row")
    fails(ALERTS, "#toolate", "#late", "does not lead to this row")
    fails(ALERTS, "      runbook_url:", "      url:", "does not lead to this row")
    fails(ALERTS, "alert: TooLate", "alert: TooEarly", "no row for `TooEarly`")
    # Each row of the real page is needed, and each log line of the real code is seen.
    real = read_all()
    assert not list(problems(real)), "the page and the code differ already"
    for number, _ in rows(real[PAGE]):
        lines = real[PAGE].split("\n")
        del lines[number - 1]
        assert list(problems({**real, PAGE: "\n".join(lines)})), f"{PAGE}:{number} can be removed"


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:] not in ([], ["--list"]):
        print(__doc__.strip(), file=sys.stdout if sys.argv[1:] in (["-h"], ["--help"]) else sys.stderr)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    files = read_all()
    lines, _ = log_lines({path: text for path, text in files.items() if path not in (PAGE, ALERTS)})
    if sys.argv[1:]:
        print(*(f"{path}: {line}" for line, path in sorted(lines.items(), key=lambda each: each[::-1])), sep="\n")
        return 0
    found = list(problems(files))
    print(*found, f"{len(lines)} log lines, {len(found)} differences to {PAGE}", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
