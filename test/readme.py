#!/usr/bin/env python3
"""Checks that the first program in README.md is the marked part of example/quickstart.cpp, which is compiled and run.

usage: readme.py          checks; prints the difference
       readme.py --write  puts the example's lines into README.md
"""

import difflib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
EXAMPLE = ROOT / "example" / "quickstart.cpp"
FIRST_PROGRAM = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def marked_lines(text):
    taking, taken = False, []
    for line in text.splitlines():
        mark = line.strip()
        if mark == "// readme {":
            taking = True
        elif mark == "// } readme":
            taking = False
        elif taking:
            taken.append(line)
    return "\n".join(taken) + "\n"


def main():
    program = marked_lines(EXAMPLE.read_text(encoding="utf-8"))
    readme = README.read_text(encoding="utf-8")
    block = FIRST_PROGRAM.search(readme)
    if "co_await" not in program or not block:
        print("no marked lines in the example, or no C++ in README.md")
        return 1
    if sys.argv[1:] == ["--write"]:
        README.write_text(readme[: block.start(1)] + program + readme[block.end(1) :], encoding="utf-8")
        return 0
    names = ("example/quickstart.cpp", "README.md")
    for line in difflib.unified_diff(program.splitlines(), block[1].splitlines(), *names, lineterm=""):
        print(line)
    return 0 if block[1] == program else 1


if __name__ == "__main__":
    sys.exit(main())
