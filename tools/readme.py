#!/usr/bin/env python3
"""Checks that README's programs are the marked parts of examples, which are compiled and run.

In README a line `<!-- cut from FILE -->` precedes the C++. In that file `// readme {` and `// } readme` enclose the
lines that README shows.

usage: readme.py              checks; prints the difference
       readme.py --write      puts the examples' lines into README.md
       readme.py --self-test  shows that the check is able to fail
"""

import difflib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
EXCERPT = re.compile(r"^<!-- cut from (\S+) -->\n```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"^```cpp$", re.MULTILINE)


def marked_lines(text):
    taking, taken = False, []
    for line in text.splitlines():
        mark = line.strip()
        if mark == "// readme {":
            taking = True
        elif mark == "// } readme":
            taking = False
        elif taking:
            taken.append(line + "\n")
    return "".join(taken)


def renewed(readme, read):
    """The README as it should be. `read` gives the text of a file."""

    def excerpt(found):
        return found[0][: found.start(2) - found.start()] + marked_lines(read(found[1])) + "```"

    return EXCERPT.sub(excerpt, readme)


def problems(readme, read):
    right = renewed(readme, read)
    result = list(difflib.unified_diff(right.splitlines(), readme.splitlines(), "examples", "README.md", lineterm=""))
    if len(PROGRAM.findall(readme)) != len(EXCERPT.findall(readme)) or not EXCERPT.search(readme):
        result.append("README.md: C++ that is not cut from a file, or none at all")
    for file, _ in EXCERPT.findall(readme):
        if not marked_lines(read(file)):
            result.append(f"{file}: no marked lines")
    return result


def self_test():
    files = {"a.cpp": "no\n// readme {\nyes\n// } readme\nno\n  // readme {\nalso\n// } readme\n", "b.cpp": "no marks\n"}
    good = "text\n<!-- cut from a.cpp -->\n```cpp\nyes\nalso\n```\ntext\n"
    bad = [
        good.replace("also\n", ""),
        good.replace("yes", "no"),
        good + "```cpp\nuncut();\n```\n",
        "no program\n",
        "<!-- cut from b.cpp -->\n```cpp\n```\n",
    ]
    assert not problems(good, files.get), problems(good, files.get)
    assert renewed(bad[0], files.get) == good and renewed(bad[1], files.get) == good
    for each in bad:
        assert problems(each, files.get), each


def main():
    def read(file):
        return (ROOT / file).read_text(encoding="utf-8")

    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    readme = README.read_text(encoding="utf-8")
    if sys.argv[1:] == ["--write"]:
        readme = renewed(readme, read)
        README.write_text(readme, encoding="utf-8")
    found = problems(readme, read)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
