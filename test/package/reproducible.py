#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Builds the present commit twice, in two folders and at two times, and compares the bytes of what is made.

The folders have paths of different lengths, and the builds have different time zones. The first build has ended before
the second begins. No compiler cache is used. The libraries, shared and static, and the Debian packages must be equal.
The checksums of both builds are printed. Changes that are not committed are not built.

usage: reproducible.py            compares the packages that scripts/packages makes, and the libraries in its build folder.
                                  It takes some twenty minutes. The exit status is 77 if this system is no Debian.

       reproducible.py --library  compares only libholdfast, as a release build makes it

       reproducible.py --self-test FOLDER    shows that it notices a difference in the libraries of that folder
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("a", "a_path_that_is_longer/than_the_other/by_three_folders")
ZONES = ("UTC", "Pacific/Chatham")
PACKAGES = ("scripts/packages made",)
LIBRARY = (
    "cmake -S . -B build/debian -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DBUILD_SHARED_LIBS=ON"
    " -DHOLDFAST_BOTH_KINDS=ON -DHOLDFAST_TESTING=OFF -DHOLDFAST_BUILD_TESTS=OFF -DHOLDFAST_BUILD_EXAMPLES=OFF"
    " -DHOLDFAST_BUILD_PROGRAM=OFF",
    "cmake --build build/debian --parallel ${HOLDFAST_JOBS:-2}",
)


def run(command, folder, zone):
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("CMAKE_CXX_COMPILER_LAUNCHER", "SOURCE_DATE_EPOCH")}
    environment |= {"CCACHE_DISABLE": "1", "TZ": zone}
    done = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command}\nended with {done.returncode}:\n{done.stdout[-5000:]}")


def files_of(clone):
    """The checksums of the libraries and packages, by their names."""
    found = {}
    for pattern in ("build/debian/lib*.so.*.*.*", "build/debian/lib*.a", "build/debian/static/lib*.a", "made/*.deb"):
        for file in sorted(clone.glob(pattern)):
            found[file.relative_to(clone).as_posix()] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def differing(one, other):
    """The files that differ, or that only one build has."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def report(one, other):
    for name in sorted(one.keys() | other.keys()):
        print(f"{one.get(name, 'missing')}  {name}\n{other.get(name, 'missing')}  the same, in the other folder")
    found = differing(one, other)
    print(f"{len(one)} files, {len(found)} differ" + "".join(f"\n  {name}" for name in found), flush=True)
    return not found and bool(one)


def build(work, commands):
    made = []
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    for name, zone in zip(FOLDERS, ZONES):
        clone, begun = work / name, time.time()
        clone.parent.mkdir(parents=True, exist_ok=True)
        run(f"git clone -q '{ROOT}' '{clone}' && git -C '{clone}' checkout -q --detach {commit}", work, zone)
        for command in commands:
            run(command, clone, zone)
        made.append(files_of(clone))
        print(f"built in {clone} from {time.strftime('%H:%M:%S', time.gmtime(begun))} UTC, in {time.time() - begun:.0f} s",
              flush=True)
    return made


def self_test(libraries):
    """Copies the libraries into two folders, and changes one byte, or removes a file."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as name:
        clones = [pathlib.Path(name) / each for each in ("one", "two")]
        for clone in clones:
            (clone / "build/debian").mkdir(parents=True)
            for file in (*libraries.glob("lib*.so.*.*.*"), *libraries.glob("lib*.a")):
                shutil.copy(file, clone / "build/debian")
        assert report(*map(files_of, clones)), "equal files differ, or there are none"
        changed = next((clones[1] / "build/debian").iterdir())
        content = bytearray(changed.read_bytes())
        content[len(content) // 2] ^= 1
        changed.write_bytes(content)
        assert not report(*map(files_of, clones)), "a changed byte is not noticed"
        changed.unlink()
        assert not report(*map(files_of, clones)), "a missing file is not noticed"
    print("a changed byte and a missing file are noticed")


def main():
    words = sys.argv[1:]
    if len(words) == 2 and words[0] == "--self-test":
        self_test(pathlib.Path(words[1]))
        return 0
    if words not in ([], ["--library"]):
        asked = words in (["-h"], ["--help"])
        print(__doc__.strip(), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    if not words and not pathlib.Path("/etc/debian_version").exists():
        print("Packages can be made on Debian only.")
        return 77
    with tempfile.TemporaryDirectory(prefix="holdfast-twice-") as work:
        one, other = build(pathlib.Path(work), LIBRARY if words else PACKAGES)
    return 0 if report(one, other) else 1


if __name__ == "__main__":
    sys.exit(main())
