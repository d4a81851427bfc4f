#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that the programs in README, the documents and the public headers are the marked parts of examples, which are
compiled and run.

In a document a line `<!-- cut from FILE -->` precedes the C++. In the file `// readme {` and `// } readme` enclose the
lines that are shown. A file with several parts names them: `<!-- cut from FILE: NAME -->` and `// readme NAME {`. In
README and in doc/tutorial all C++ is cut from files. In a header each of these lines begins with `/// `.

usage: readme.py              checks; prints the difference
       readme.py --write      puts the examples' lines into the documents and headers
       readme.py --self-test  shows that the check is able to fail
"""

import difflib
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
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


def renewed(document, read):
    """The document or header as it should be. `read` gives the text of a file."""

    def excerpt(found, prefix=""):
        lines = marked_lines(read(found[1]), found[2])
        if prefix:
            lines = "".join((prefix + line).rstrip() + "\n" for line in textwrap.dedent(lines).splitlines())
        return found[0][: found.start(3) - found.start()] + lines + prefix + "```"

    return IN_HEADER.sub(lambda found: excerpt(found, "/// "), EXCERPT.sub(excerpt, document))


def shows_only_excerpts(path):
    return path == "README.md" or path.startswith("doc/tutorial/")


def problems(path, document, read):
    right = renewed(document, read)
    result = list(difflib.unified_diff(right.splitlines(), document.splitlines(), "examples", path, lineterm=""))
    excerpts = EXCERPT.findall(document) + IN_HEADER.findall(document)
    if shows_only_excerpts(path) and (len(PROGRAM.findall(document)) != len(excerpts) or not excerpts):
        result.append(f"{path}: C++ that is not cut from a file, or none at all")
    for file, name, _ in excerpts:
        if not marked_lines(read(file), name):
            result.append(f"{file}: no marked lines" + (f" of {name}" if name else ""))
    return result


def self_test():
    files = {"a.cpp": "no\n// readme {\nyes\n// } readme\nno\n  // readme {\nalso\n// } readme\n", "b.cpp": "no marks\n",
             "c.cpp": "// readme one {\n1\n// } readme\n// readme two {\n2\n// } readme\n"}
    good = "text\n<!-- cut from a.cpp -->\n```cpp\nyes\nalso\n```\ntext\n"
    named = good + "<!-- cut from c.cpp: two -->\n```cpp\n2\n```\n"
    bad = [
        good.replace("also\n", ""),
        good.replace("yes", "no"),
        good + "```cpp\nuncut();\n```\n",
        "no program\n",
        "<!-- cut from b.cpp -->\n```cpp\n```\n",
        named.replace(": two", ": one"),
        named.replace(": two", ": three"),
    ]
    for each in (good, named):
        assert not problems("README.md", each, files.get), problems("README.md", each, files.get)
    assert renewed(bad[0], files.get) == good and renewed(bad[1], files.get) == good
    header = "/// A lock.\n/// <!-- cut from c.cpp: two -->\n/// ```cpp\n/// 2\n/// ```\nclass lock;\n"
    assert not problems("a.hpp", header, files.get)
    assert renewed(header.replace("/// 2\n", ""), files.get) == header
    for each in (header.replace("/// 2", "/// 3"), header.replace("two", "three")):
        assert problems("a.hpp", each, files.get), each
    for each in bad:
        assert problems("README.md", each, files.get), each
    assert not problems("doc/a.md", bad[2], files.get) and problems("doc/a.md", bad[0], files.get)
    assert problems("doc/tutorial/a.md", bad[2], files.get)


def main():
    def read(file):
        return (ROOT / file).read_text(encoding="utf-8")

    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    found = []
    others = [*(ROOT / "doc").rglob("*.md"), *(ROOT / "include").rglob("*.hpp")]
    for path in ["README.md", *sorted(str(path.relative_to(ROOT)) for path in others)]:
        document = read(path)
        if sys.argv[1:] == ["--write"]:
            document = renewed(document, read)
            (ROOT / path).write_text(document, encoding="utf-8")
        found += problems(path, document, read)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
