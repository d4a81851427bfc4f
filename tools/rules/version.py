# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that all files have the same versions: the library's, as in include/holdfast/version.hpp, and CMake's least
version, as in CMakeLists.txt. That version of CMake must know the format of the presets."""

import json
import pathlib
import re

LIBRARY = "CMakeLists.txt", r"project\(holdfast VERSION ([\d.]+)"
FULL = {
    "packaging/vcpkg/holdfast/vcpkg.json": r'"version": "([\d.]+)"',
    "doc/reference/packages.md": r"\nholdfast/([\d.]+)\n",
}
MINOR = {
    "doc/reference/packages.md": r"find_package\(holdfast ([\d.]+)",
    "README.md": r"find_package\(holdfast ([\d.]+)",
    "example/test_your_code/CMakeLists.txt": r"find_package\(holdfast ([\d.]+)",
    "test/package/CMakeLists.txt": r"find_package\(holdfast ([\d.]+)",
    "test/package/examples/CMakeLists.txt": r"find_package\(holdfast ([\d.]+)",
}
HEADER = "include/holdfast/version.hpp"
CMAKE = [
    ("CMakeLists.txt", r"cmake_minimum_required\(VERSION ([\d.]+)"),
    ("README.md", r"CMake (\d[\d.]*\d)"),
    ("README.md", r"cmake_minimum_required\(VERSION ([\d.]+)"),
    ("CHANGELOG.md", r"CMake ([\d.]+) or later"),
    ("scripts/setup", r"at_least ([\d.]+) \"\$\(cmake --version"),
    ("example/test_your_code/CMakeLists.txt", r"cmake_minimum_required\(VERSION ([\d.]+)"),
    ("test/package/CMakeLists.txt", r"cmake_minimum_required\(VERSION ([\d.]+)"),
]
PRESETS = "CMakePresets.json"
KNOWS_PRESETS = {2: "3.20", 3: "3.21", 4: "3.23", 5: "3.24", 6: "3.25"}  # cmake-presets(7)


def problems(files):
    def said(file, pattern):
        found = re.search(pattern, files[file])
        return found[1] if found else "nothing"

    library, cmake = said(*LIBRARY), said(*CMAKE[0])
    numbers = [said(HEADER, rf"#define HOLDFAST_VERSION_{part} (\d+)") for part in ("MAJOR", "MINOR", "PATCH")]
    claims = [(HEADER, ".".join(numbers), library)]
    claims.append((HEADER, said(HEADER, r'#define HOLDFAST_VERSION_STRING "(.*)"'), library))
    claims += [(file, said(file, pattern), library) for file, pattern in FULL.items()]
    claims += [(file, said(file, pattern), library.rpartition(".")[0]) for file, pattern in MINOR.items()]
    claims += [(file, said(file, pattern), cmake) for file, pattern in CMAKE[1:]]
    claims.append((PRESETS, KNOWS_PRESETS.get(json.loads(files[PRESETS])["version"], "an unknown version"), cmake))
    return [f"{file} says {claim}, CMakeLists.txt says {right}" for file, claim, right in claims if claim != right]


def planted(files):
    """Each number that is checked, changed in its file."""
    changes = [(HEADER, r"_MAJOR (\d)"), (HEADER, r"\d(?=[\d.]*\"\n)"), (PRESETS, r'(?<="version": )\d')]
    changes += [(file, pattern) for file, pattern in [*FULL.items(), *MINOR.items(), *CMAKE, LIBRARY]]
    for file, pattern in changes:
        found = re.search(pattern, files[file], re.MULTILINE)
        start, end = found.span(1) if found.re.groups else found.span()
        yield file, "", files[file][:start] + "7" + files[file][end:], " says "
