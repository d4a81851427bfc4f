#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks the tutorial's commands and the output that its pages show.

A line `<!-- run by tools/tutorial.py -->` precedes a block of commands. The commands that build the library or install
it are left to README's test. All others are run in the build folder, and what a page shows as output must come.

usage: tutorial.py FOLDER       FOLDER: a build folder with the examples
       tutorial.py --self-test  shows that the check is able to fail
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUN = re.compile(r"^<!-- run by tools/tutorial.py -->\n```sh\n(.*?)^```$(?:\n\nIt prints:\n\n```\n(.*?)^```$)?",
                 re.MULTILINE | re.DOTALL)
BUILD_FOLDER = "build/release/"
TARGET = re.compile(r"--target (\w+)")
NEVER_ENDS = {"tutorial_server"}
DEADLINE = 60  # seconds


def problems(page, text, cmake, run):
    """Returns lines about what is wrong on a page. `cmake` is the text of the examples' CMakeLists.txt; `run` gives a program's output."""
    found = []
    blocks = RUN.findall(text)
    if not blocks:
        found.append(f"{page}: no commands")
    for commands, shown in blocks:
        programs = [line.removeprefix(BUILD_FOLDER) for line in commands.splitlines() if line.startswith(BUILD_FOLDER)]
        for target in TARGET.findall(commands):
            if f"add_custom_target({target})" not in cmake:
                found.append(f"{page}: there is no target {target}")
        for program in programs:
            output = run(program)
            if output is None:
                found.append(f"{page}: {program} does not exist, or does not end with status 0")
            elif shown and sorted(output.splitlines()) != sorted(shown.splitlines()):
                found.append(f"{page}: {program} prints\n{output}and not\n{shown}")
    return found


def self_test():
    good = "<!-- run by tools/tutorial.py -->\n```sh\nx --target all\nbuild/release/a\n```\n\nIt prints:\n\n```\nb\na\n```\n"
    cmake = "add_custom_target(all)"
    outputs = {"a": "a\nb\n"}
    assert not problems("page", good, cmake, outputs.get)
    for bad in (good.replace("--target all", "--target none"), good.replace("b\na", "a\nc"),
                good.replace("build/release/a", "build/release/c"), good.replace("<!--", "")):
        assert problems("page", bad, cmake, outputs.get), bad


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip())
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    folder = pathlib.Path(sys.argv[1])

    def run(program):
        path = folder / program
        if path.name in NEVER_ENDS:
            return "" if path.exists() else None
        try:
            done = subprocess.run([path], stdout=subprocess.PIPE, text=True, timeout=DEADLINE,
                                  env={"PATH": "/usr/bin:/bin"})
        except FileNotFoundError:
            return None
        return done.stdout if done.returncode == 0 else None

    cmake = (ROOT / "example" / "CMakeLists.txt").read_text(encoding="utf-8")
    found = []
    for page in sorted((ROOT / "doc" / "tutorial").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if page.name == "tests.md":
            text = text.replace("build/report_service_test", "build/release/example/test_your_code/report_service_test")
        found += problems(page.relative_to(ROOT), text, cmake, run)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
