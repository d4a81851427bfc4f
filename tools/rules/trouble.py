# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that doc/trouble.md has a row for each log line of the library, for each error, for each reason of a loss and for
each alert of doc/monitoring/alerts.yml, and no other rows.

The first column of each table there has names in backticks, and nothing else besides <br>:
- an error: the name of its enumerator, and then the text that src/error.cpp gives it;
- a reason of a loss: `lost: REASON`;
- an alert: its name. The row has an anchor, and the `runbook_url` of the alert leads to it;
- a log line: its text, with ... for each variable part. The row may end with one of them and omit the rest.

The table `forms` in src/net/log_event.cpp has the text of each log line. The text that a function `advice_on_expiry`
returns is the end of one."""

import ast
import re

import sources

PAGE = "doc/trouble.md"
ERRORS, TEXTS, REASONS = "include/holdfast/error.hpp", "src/error.cpp", "include/holdfast/loss_reason.hpp"
ALERTS = "doc/monitoring/alerts.yml"
FORMS = "src/net/log_event.cpp"
LITERAL = r'"(?:\\.|[^"\\])*"'
ADVICE = "advice_on_expiry"
# A row with fewer letters could match lines that it does not mean.
LETTERS_MIN = 10
CODE = re.compile(r"(?!src/testing/)(src|include)/.*\.[ch]pp$")


def letters(text):
    return sum(each.isalpha() for each in text)


def text_of(literals):
    """The text of string literals that stand one behind the other, with ... for each field in braces."""
    return re.sub(r"\{\w+\}", "...", "".join(map(ast.literal_eval, re.findall(LITERAL, literals))))


def log_lines(files):
    """{text: path} of all log lines."""
    forms = re.findall(rf'\{{log_kind::\w+,\s*severity::\w+,\s*((?:{LITERAL}\s*)+)\}}', files[FORMS])
    found = {text_of(each): FORMS for each in forms}
    for path, text in files.items():
        for body in re.findall(rf"::{ADVICE}\([^)]*\) const \{{(.*?)\n?\}}\n", text + "\n", re.DOTALL):
            found.update({"..." + text_of(each): path for each in re.findall(r'return (".*?);$', body, re.MULTILINE)})
    return found


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
    lines = log_lines({path: text for path, text in files.items() if CODE.match(path)})
    texts = dict(re.findall(r'\{error::(\w+),\s*"((?:\\.|[^"\\])*)"', files[TEXTS]))
    named = {name: texts.get(name) for name in sources.enumerators(files[ERRORS], "error")}
    reasons = [f"lost: {name}" for name in sources.enumerators(files[REASONS], "loss_reason") if name != "none"]
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


_CODE = {
    ERRORS: "enum class error {\n  one = 1,  ///< a, b\n  two,\n};\n",
    TEXTS: '{error::one, "the first text", 0}, {error::two,\n "the second text", 0}',
    REASONS: "enum class loss_reason {\n  none,\n  gone,\n};\n",
    FORMS: """
        constexpr form forms[] = {
            {log_kind::name, severity::info, "the name {key} has changed to {previous}"},
            {log_kind::away, severity::error,
             "slot of {key} is "
             "away"},
        };""",
    "src/c.cpp": 'std::string c::advice_on_expiry(int x) const {\n  if (!x) return {};\n  return "; a longer time helps";\n}',
}
_PAGE = ("| name | meaning |\n|---|---|\n| `one`<br>`the first text` | a |\n| `two`<br>`the second text` | b |\n"
        "| `lost: gone` | c |\n| `the name ... has changed to ...` | d |\n| `slot of ... is away` | e |\n"
        "| `...; a longer time helps` | f |\n")
_PAGE += '| `TooLate` | <a id="toolate"></a>i |\n'
GOOD = {**_CODE, PAGE: _PAGE, ALERTS: f"  - alert: TooLate\n    annotations:\n      runbook_url: {PAGE}#toolate\n"}
PLANTED = [
    *((PAGE, row + "\n", "", "no row for") for row in _PAGE.splitlines()[2:]),
    *((PAGE, row + "\n", row + "\n" + row + "\n", "a second row for") for row in _PAGE.splitlines()[2:]),
    (PAGE, "the first text", "another text", "the text of `one`"),
    (PAGE, "<br>`the first text`", "", "the text of `one`"),
    (PAGE, "| `lost: gone`", "| lost `lost: gone`", "something else"),
    (PAGE, "| `lost: gone`", "| `three` | x |\n| `lost: gone`", "`three` is no error"),
    (PAGE, "| `lost: gone`", "| `no such line in the code` | x |\n| `lost: gone`", "the code has no log line"),
    (PAGE, "`slot of ... is away`", "`slot of ...`", "too short"),
    (ERRORS, "two", "two, three", "no row for `three`"),
    (REASONS, "gone", "gone, away", "no row for `lost: away`"),
    *((FORMS, old, old.replace("a", "o").replace("l", "k"), said) for old in ("the name ", "slot of", '"away"')
      for said in ("no row for this log line", "the code has no log line")),
    ("src/c.cpp", "a longer time", "a shorter time", "no row for this log line of src/c.cpp"),
    (PAGE, '<a id="toolate"></a>', "", "does not lead to this row"),
    (PAGE, 'id="toolate"', 'id="too-late"', "does not lead to this row"),
    (ALERTS, "#toolate", "#late", "does not lead to this row"),
    (ALERTS, "      runbook_url:", "      url:", "does not lead to this row"),
    (ALERTS, "alert: TooLate", "alert: TooEarly", "no row for `TooEarly`"),
]
