# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that the programs in README, the documents and the public headers are the marked parts of examples, which are
compiled and run.

In a document a line `<!-- cut from FILE -->` precedes the C++. In the file `// readme {` and `// } readme` enclose the
lines that are shown. A file with several parts names them: `<!-- cut from FILE: NAME -->` and `// readme NAME {`. In
README and in doc/tutorial all C++ is cut from files. In a header each of these lines begins with `/// `."""

import difflib
import re
import textwrap

EXCERPT = re.compile(r"^<!-- cut from ([^\s:]+)(?:: (\w+))? -->\n```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IN_HEADER = re.compile(r"^/// <!-- cut from ([^\s:]+)(?:: (\w+))? -->\n/// ```cpp\n((?:///.*\n)*?)/// ```$", re.MULTILINE)
PROGRAM = re.compile(r"^```cpp$", re.MULTILINE)


def marked_lines(text, name):
    begin = f"// readme {name} {{" if name else "// readme {"
    taking, taken = False, []
    for line in text.splitlines():
        mark = line.strip()
        if mark == begin:
            taking = True
        elif mark == "// } readme":
            taking = False
        elif taking and not mark.startswith("// readme "):
            taken.append(line + "\n")
    return "".join(taken)


def renewed_text(document, read):
    """The document or header as it should be. `read` gives the text of a file."""

    def excerpt(found, prefix=""):
        lines = marked_lines(read(found[1]), found[2])
        if prefix:
            lines = "".join((prefix + line).rstrip() + "\n" for line in textwrap.dedent(lines).splitlines())
        return found[0][: found.start(3) - found.start()] + lines + prefix + "```"

    return IN_HEADER.sub(lambda found: excerpt(found, "/// "), EXCERPT.sub(excerpt, document))


def shows_only_excerpts(path):
    return path == "README.md" or path.startswith("doc/tutorial/")


def problems_of(path, document, read):
    result, line = [], 0
    for change in difflib.ndiff(document.splitlines(), renewed_text(document, read).splitlines()):
        line += change[0] in " -"
        if change[0] in "-+":
            result.append(f"{path}:{line}: differs from the examples: {change[0]}{change[2:]}")
    excerpts = EXCERPT.findall(document) + IN_HEADER.findall(document)
    if shows_only_excerpts(path) and (len(PROGRAM.findall(document)) != len(excerpts) or not excerpts):
        result.append(f"{path}: C++ that is not cut from a file, or none at all")
    for file, name, _ in excerpts:
        if not marked_lines(read(file), name):
            result.append(f"{file}: no marked lines" + (f" of {name}" if name else ""))
    return result


def documents(files):
    for path, text in sorted(files.items()):
        if path == "README.md" or re.match(r"doc/.*\.md$|include/.*\.hpp$", path):
            yield path, text


def renewed(files):
    return {path: renewed_text(text, files.get) for path, text in documents(files)}


def problems(files):
    for path, text in documents(files):
        yield from problems_of(path, text, files.get)


GOOD = {
    "a.cpp": "no\n// readme {\nyes\n// } readme\nno\n  // readme {\nalso\n// } readme\n", "b.cpp": "no marks\n",
    "c.cpp": "// readme one {\n1\n// } readme\n// readme two {\n2\n// } readme\n",
    "README.md": "text\n<!-- cut from a.cpp -->\n```cpp\nyes\nalso\n```\ntext\n<!-- cut from c.cpp: two -->\n```cpp\n2\n```\n",
    "include/a.hpp": "/// A lock.\n/// <!-- cut from c.cpp: two -->\n/// ```cpp\n/// 2\n/// ```\nclass lock;\n",
    "doc/a.md": "```cpp\nuncut();\n```\n",
}
GOOD["doc/tutorial/a.md"] = GOOD["README.md"]
assert renewed({**GOOD, "README.md": GOOD["README.md"].replace("also\n", "")})["README.md"] == GOOD["README.md"]
assert renewed({**GOOD, "include/a.hpp": GOOD["include/a.hpp"].replace("/// 2\n", "")})["include/a.hpp"] == GOOD["include/a.hpp"]
PLANTED = [
    ("README.md", "also\n", "", "README.md:4: differs from the examples: +also"),
    ("README.md", "yes", "no", "differs from the examples: -no"),
    ("README.md", "text\n<", "```cpp\nuncut();\n```\n<", "C++ that is not cut from a file"),
    ("README.md", "", "no program\n", "or none at all"),
    ("README.md", "", "<!-- cut from b.cpp -->\n```cpp\n```\n", "b.cpp: no marked lines"),
    ("README.md", ": two", ": one", "differs from the examples"),
    ("README.md", ": two", ": three", "no marked lines of three"),
    ("include/a.hpp", "/// 2", "/// 3", "include/a.hpp:4: differs from the examples"),
    ("include/a.hpp", "two", "three", "no marked lines of three"),
    ("doc/tutorial/a.md", "text\n<", "```cpp\nuncut();\n```\n<", "doc/tutorial/a.md: C++ that is not cut"),
]
