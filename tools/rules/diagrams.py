# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that the state diagrams in doc/ have the states and the transitions of the code.

In a document a line `<!-- states of FILE: ENUM -->` precedes a mermaid stateDiagram. The diagram's states are the
enumerators of that enum in that file, all of them and no others. The diagram's arrows are the rows of the enum's table
of transitions, all of them and no others; `[*]` is `outside` there. The table is an array of `transition<ENUM>`
(src/protocol/base/transitions.hpp), in the same file. If the table is in another file, the line is
`<!-- states of FILE: ENUM, transitions of FILE -->`."""

import collections
import re

import sources

DIAGRAM = re.compile(r"^<!-- states of (\S+): (\w+)(?:, transitions of (\S+))? -->\n"
                     r"```mermaid\nstateDiagram-v2\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ARROW = re.compile(r"\s*(\w+|\[\*\]) --> (\w+|\[\*\])(?:: .*)?")
ROW = re.compile(r"\{\s*([\w:]+)\s*,\s*([\w:]+)\s*\}\s*(?:,|$)")
COMMENT = re.compile(r"//.*")


def rows(code, name):
    """The rows of the table in the code, as arrows of a diagram; None if there is no table that can be read."""
    tables = re.findall(rf"\btransition<(?:enum )?{name}> \w+\[\] = \{{(.*?)\}};", COMMENT.sub("", code), re.DOTALL)
    if len(tables) != 1 or ROW.sub("", tables[0].strip()).strip():
        return None
    found = []
    for row in ROW.findall(tables[0].strip()):
        ends = [end.rpartition(f"{name}::") for end in row]
        if any(not of and end.rpartition("::")[2] != "outside" for _, of, end in ends):
            return None
        found.append(tuple(state if of else "[*]" for _, of, state in ends))
    return found


def arrows(diagram):
    """The arrows of the diagram; None if it has a line that is not one."""
    found = [ARROW.fullmatch(line) for line in diagram.splitlines() if line.strip()]
    return [arrow.groups() for arrow in found] if all(found) else None


def differences(table, drawn):
    """How the rows of the table and the arrows of the diagram differ."""
    for arrow in sorted(set(table) - set(drawn)):
        yield f"the diagram has no {' --> '.join(arrow)}"
    for arrow in sorted(set(drawn) - set(table)):
        yield f"the table has no {' --> '.join(arrow)}"
    for where, given in (("table", table), ("diagram", drawn)):
        for arrow, times in collections.Counter(given).items():
            if times > 1:
                yield f"the {where} has {' --> '.join(arrow)} {times} times"


def problems(files):
    documents = {path: text for path, text in files.items() if path.startswith("doc/") and "<!-- states of" in text}
    if not documents:
        yield "doc: no document has a diagram"
    for path, text in documents.items():
        if text.count("<!-- states of") != len(DIAGRAM.findall(text)):
            yield f"{path}: a diagram that cannot be read"
        for file, name, table_file, diagram in DIAGRAM.findall(text):
            where = f"{path}: {file}: {name}"
            there = sources.enumerators(files[file], name)
            drawn = arrows(diagram)
            table = rows(files[table_file or file], name)
            if there is None:
                yield f"{path}: {file} has no enum {name}"
            elif drawn is None:
                yield f"{where}: the diagram has a line that is no arrow"
            elif table is None:
                yield f"{where}: {table_file or file} has no table of its transitions that can be read"
            else:
                states = {state for arrow in drawn for state in arrow} - {"[*]"}
                if set(there) != states:
                    yield f"{where} has the states {sorted(there)}, the diagram {sorted(states)}"
                for difference in differences(table, drawn):
                    yield f"{where}: {difference}"


GOOD = {
    "a.hpp": "enum class s {\n  one,  ///< first, two\n  two = 3,\n};\n"
             "constexpr transition<s> t[] = {\n    {outside, s::one},  // {s::two, s::two},\n"
             "    {s::one, s::two}, {x::s::two, p::outside},\n};\n",
    "b.hpp": "enum class s { one, two };\n",
}
for _path, _where in (("doc/a.md", "a.hpp: s"), ("doc/b.md", "b.hpp: s, transitions of a.hpp")):
    GOOD[_path] = (f"<!-- states of {_where} -->\n```mermaid\nstateDiagram-v2\n  [*] --> one\n  one --> two: three\n"
                   "  two --> [*]\n```\n")
PLANTED = [
    *(("doc/a.md", *each) for each in [
        ("two", "four", "has the states ['one', 'two'], the diagram ['four', 'one']"),
        (": s ", ": t ", "has no enum t"),
        ("stateDiagram-v2", "flowchart", "cannot be read"),
        ("  two --> [*]\n", "", "the diagram has no two --> [*]"),
        ("  one --> two: three\n", "", "the diagram has no one --> two"),
        ("  two -->", "  two --> one\n  two -->", "the table has no two --> one"),
        ("one --> two", "two --> one", "the table has no two --> one"),
        ("  two -->", "  one --> two\n  two -->", "the diagram has one --> two 2 times"),
        ("  two -->", "  note left of two\n  two -->", "a line that is no arrow"),
        ("a.hpp", "b.hpp", "b.hpp has no table"),
    ]),
    *(("a.hpp", old, new, f"doc/{document}.md: {document}.hpp: s: {said}") for document in "ab" for old, new, said in [
        ("{s::one, s::two},", "", "the table has no one --> two"),
        ("{s::one, s::two},", "{s::one, s::two}, {s::two, s::one},", "the diagram has no two --> one"),
        ("{s::one, s::two},", "{s::one, s::two}, {s::one, s::two},", "the table has one --> two 2 times"),
        ("{s::one, s::two},", "{s::one, s::two, 3},", "a.hpp has no table"),
        ("{s::one, s::two},", "{s::one, two},", "a.hpp has no table"),
        ("transition<s>", "transition<t>", "a.hpp has no table"),
    ]),
]
