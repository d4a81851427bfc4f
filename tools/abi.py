#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Compares the binary interfaces of two commits by abidiff (libabigail): does a program that was built with the older
libraries run with the newer ones?

libholdfast and libholdfast_rabbitmq are built at both commits, shared and with debug information. Types that no public
header defines do not count, nor do the internal symbols that tools/rules/exports.py lists as SHARED. Other names in
namespaces `detail` count, because inline functions of the public headers use them. Added functions are compatible.

usage: abi.py                 compares the last release (a tag "v*") with the present commit. If no release has the same
                              minor version, nothing is promised yet, and it compares nothing.

       abi.py OLD [NEW]       compares these commits

       abi.py --self-test     builds a small library of one of our sources. Changes of its interface must be noticed, and
                              an internal change must not.

The exit status is 1 if the newer libraries are incompatible.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from readme_install import ROOT, Failure, expect
from rules.exports import SHARED

LIBRARIES = ("holdfast", "holdfast_rabbitmq")
OPTIONS = ("-G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG='-g -Og' -DCMAKE_UNITY_BUILD=ON"
           " -DBUILD_SHARED_LIBS=ON -DHOLDFAST_RABBITMQ=ON -DHOLDFAST_TESTING=OFF -DHOLDFAST_BUILD_TESTS=OFF"
           " -DHOLDFAST_BUILD_EXAMPLES=OFF -DHOLDFAST_BUILD_PROGRAM=OFF")


def run(command, folder=ROOT, accepted=(0,)):
    """Runs a command as a shell does. Returns its exit status and its output."""
    done = subprocess.run(["sh", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    expect(done.returncode in accepted, f"{command}\nended with {done.returncode}:\n{done.stdout[-5000:]}")
    return done.returncode, done.stdout


# The symbols that do not count: those of templates of others, of which each program has its own, and internal ones. The
# expressions are about mangled names: 8holdfast3net is holdfast::net. (libabigail 2.2 leaves out all functions if a rule
# for variables has symbol_name_not_regexp.)
IGNORED = (r"^_Z[A-Z]*(St|5boost)", r"8holdfast(8protocol|3net|8lifetime|7runtime)",
           rf"8holdfast.*6detail[0-9]+({'|'.join(sorted(each.rpartition('::')[2] for each in SHARED['holdfast']))})")
SUPPRESSIONS = "".join(f"[suppress_{kind}]\n  symbol_name_regexp = {names}\n\n"
                       for kind in ("function", "variable") for names in IGNORED)


def compare(old, new, work):
    """Each is a library and the folder of its public headers. Returns abidiff's report, which is empty if they are compatible."""
    # Without --drop-private-types, with which abidiff 2.2 aborts on libholdfast.
    rules = work / "suppressions"
    rules.write_text(SUPPRESSIONS, encoding="utf-8")
    status, said = run(f"abidiff --no-added-syms --fail-no-debug-info --suppressions '{rules}'"
                       f" --headers-dir1 '{old[1]}' --headers-dir2 '{new[1]}' '{old[0]}' '{new[0]}'", accepted=range(16))
    expect(not status & 3, f"abidiff ended with {status}:\n{said}")
    return said if status & 12 else ""


def build(commit, folder):
    """Builds the libraries of a commit. Returns the folder of the public headers."""
    run(f"git clone -q '{ROOT}' '{folder}' && git -C '{folder}' checkout -q --detach {commit}")
    run(f"cmake -S . -B build {OPTIONS}", folder)
    run(f"cmake --build build --parallel {os.environ.get('HOLDFAST_JOBS', '2')} --target {' '.join(LIBRARIES)}", folder)
    return folder / "include"


def commit_of(name):
    return run(f"git rev-parse --verify '{name}^{{commit}}'")[1].strip()


def last_release():
    """The last tag of a release before or at the present commit, or None if it has another minor version."""
    tags = run("git tag --merged HEAD --sort=-v:refname --list 'v*'")[1].split()
    version = re.search(r"project\(holdfast VERSION (\d+)\.(\d+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
    same = [tag for tag in tags if tag.startswith(f"v{version[1]}." + (f"{version[2]}." if version[1] == "0" else ""))]
    return same[0] if same else None


# The small library consists of this source. Each change has a name, and is one that abidiff must notice (True) or accept.
# Then come its edits: a file, a part of its text, and the text in its place.
SOURCE = "src/diagnostics.cpp"
CHANGES = [
    ("a member of a struct of the interface is added", True,
     [("include/holdfast/diagnostics.hpp", "  std::string message; ", "  int added = 0;\n  std::string message; ")]),
    ("a function of the interface gets a parameter", True,
     [("include/holdfast/diagnostics.hpp", "std::string to_string() const;", "std::string to_string(int = 0) const;"),
      (SOURCE, "diagnostics::to_string() const {", "diagnostics::to_string(int) const {")]),
    ("a member of an internal struct and a hidden function are added", False,
     [(SOURCE, "  diagnostics why;\n};\n", "  diagnostics why;\n  int added = 0;\n};\nvoid added(outcome&) {}\n")]),
]


def small_library(folder, changes):
    """Builds a library of one source, as CMakeLists.txt does. Returns it and the folder of its headers."""
    shutil.copytree(ROOT / "include", folder / "include")
    (folder / "src").mkdir()
    shutil.copy(ROOT / SOURCE, folder / SOURCE)
    for file, text, other in changes:
        before = (folder / file).read_text(encoding="utf-8")
        expect(before.count(text) == 1, f"{file} does not have {text!r} once")
        (folder / file).write_text(before.replace(text, other), encoding="utf-8")
    run(f"${{CXX:-g++}} -std=c++20 -g -Og -fPIC -shared -fvisibility=hidden -fvisibility-inlines-hidden -I '{folder}/include'"
        f" '{folder / SOURCE}' -o '{folder}/libsmall.so'")
    return folder / "libsmall.so", folder / "include"


def self_test():
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="holdfast-abi-") as name:
        work = pathlib.Path(name)
        old = small_library(work / "old", [])
        for number, (what, is_break, changes) in enumerate(CHANGES):
            said = compare(old, small_library(work / str(number), changes), work)
            right = bool(said) == is_break
            wrong += not right
            print(f"{'right' if right else 'WRONG'}: {what}: {'noticed' if said else 'accepted'}", flush=True)
            if not right:
                print(said)
    print(f"{len(CHANGES)} changes, {wrong} wrong")
    return wrong == 0


def main():
    words = sys.argv[1:]
    if any(word.startswith("-") for word in words if word != "--self-test") or len(words) > 2:
        asked = words in (["-h"], ["--help"])
        print(__doc__.strip(), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    if not shutil.which("abidiff"):
        print("There is no abidiff here (package abigail-tools).")
        return 1
    if words == ["--self-test"]:
        return 0 if self_test() else 1
    old = words[0] if words else last_release()
    if old is None:
        print("No release has the present minor version, so nothing is promised yet.")
        return 0
    with tempfile.TemporaryDirectory(prefix="holdfast-abi-") as name:
        work, found = pathlib.Path(name), 0
        folders = {}
        for side, commit in (("old", old), ("new", words[1] if len(words) == 2 else "HEAD")):
            print(f"building {commit}", flush=True)
            folders[side] = build(commit_of(commit), work / side)
        for library in LIBRARIES:
            said = compare(*((work / side / f"build/lib{library}.so", folders[side]) for side in ("old", "new")), work)
            print(said or f"lib{library}: compatible")
            found += bool(said)
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(failure)
        sys.exit(1)
