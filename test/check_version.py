#!/usr/bin/env python3
"""Fails unless include/holdfast/version.hpp says the version that it is given, which is CMake's.

usage: check_version.py MAJOR.MINOR.PATCH      (from the project's folder)
"""

import pathlib
import re
import sys

HEADER = pathlib.Path("include/holdfast/version.hpp")


def main():
    expected = sys.argv[1]
    defined = dict(re.findall(r'#define HOLDFAST_VERSION_(\w+) "?([\d.]+)"?', HEADER.read_text(encoding="utf-8")))
    numbers = ".".join(defined.get(part, "?") for part in ("MAJOR", "MINOR", "PATCH"))
    wrong = [f"{HEADER} says {v}, CMakeLists.txt says {expected}" for v in (numbers, defined.get("STRING")) if v != expected]
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
