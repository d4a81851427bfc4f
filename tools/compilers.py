#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Builds holdfast by a compiler and with a Boost of some Debian release, in a root of that release (scripts/root), and
runs the unit tests there. Keeps the result in doc/results/compilers.json (tools/results.py).

usage: compilers.py rows         prints the names of the rows

       compilers.py run ROW      The exit status is 0 without a warning or a failure, 3 if the release lacks the row's
                                 packages, and 1 otherwise. CTest writes its count to build/compilers/ROW/ctest.xml.
                                 Refuses to run with uncommitted changes

       compilers.py --self-test
"""

import collections
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# `newest` is the newest version in the release when the row is run. Rows of one release and Boost share a root.
ROWS = """
name            release   compiler      Boost   C++  library    machine
g++-12          bookworm  g++-12        1.81    20   libstdc++  amd64
g++-12-c++23    bookworm  g++-12        1.81    23   libstdc++  amd64
clang-14        bookworm  clang-14      1.81    20   libstdc++  amd64
clang-15        bookworm  clang-15      1.81    20   libstdc++  amd64
clang-16-c++23  bookworm  clang-16      1.81    23   libstdc++  amd64
g++-13          trixie    g++-13        1.83    20   libstdc++  amd64
clang-17        trixie    clang-17      1.83    20   libstdc++  amd64
g++-14-c++23    trixie    g++-14        1.88    23   libstdc++  amd64
clang-18        trixie    clang-18      1.88    20   libstdc++  amd64
clang-19        trixie    clang-19      1.88    23   libstdc++  amd64
clang-19-libc++ trixie    clang-19      1.88    20   libc++     amd64
arm64           trixie    g++-14        1.88    20   libstdc++  arm64
clang-21        sid       clang-21      1.90    20   libstdc++  amd64
g++-15-c++23    sid       g++-15        newest  23   libstdc++  amd64
g++-newest      sid       g++-newest    newest  20   libstdc++  amd64
clang-newest    sid       clang-newest  newest  20   libstdc++  amd64
clang-newest-libc++ sid   clang-newest  newest  23   libc++     amd64
"""

Row = collections.namedtuple("Row", "name release compiler boost standard library machine")
TOOLS = "cmake ninja-build ccache python3 openssl libssl-dev".split()
# Examples need these packages. Some releases lack them. Their libraries need libstdc++.
# The package opentelemetry-cpp-dev of Debian 13 does not name what its configuration for CMake needs.
EXAMPLES_NEED = "libspdlog-dev opentelemetry-cpp-dev libabsl-dev libprotobuf-dev libgrpc++-dev protobuf-compiler-grpc".split()
TARGETS = "holdfast holdfast_testing headers examples unit_tests".split()
NOT_TO_BE_HAD = 3
# The source whose predefined macros tell the versions of the compiler, the standard library and Boost.
PROBE = "#include <version>\n#include <boost/version.hpp>\n"


def rows():
    return {words[0]: Row(*words) for words in (line.split() for line in ROWS.strip().splitlines()[1:])}


class NotToBeHad(Exception):
    """The row cannot be run. The text says why."""


def version_of(text):
    return [int(number) for number in re.findall(r"\d+", text)]


def resolve(row, packages):
    """Returns the row with versions instead of `newest`, the packages of its release that it needs, and the versions of
    Boost."""

    def newest(kind, pattern):
        found = [match[1] for match in (re.fullmatch(pattern, name) for name in packages) if match]
        if not found:
            raise NotToBeHad(f"{row.release} has no {kind}")
        return max(found, key=version_of)

    foreign = row.machine != "amd64"
    cross = {"amd64": "", "arm64": "-aarch64-linux-gnu"}[row.machine]
    family, _, version = row.compiler.rpartition("-")
    if version == "newest":
        version = newest(family, re.escape(family) + r"-(\d+)" + re.escape(cross))
    boost = row.boost
    if boost == "newest":
        boost = newest("Boost", r"libboost-json(\d+\.\d+)-dev")
    needed = [f"{family}-{version}{cross}"]
    if row.library == "libc++":
        needed += [f"libc++-{version}-dev", f"libc++abi-{version}-dev"]
    boosts = [f"libboost{boost}-dev", f"libboost-json{boost}-dev", f"libboost-test{boost}-dev"]
    for name in needed + boosts:
        if name not in packages:
            raise NotToBeHad(f"{row.release} has no {name}")
    if foreign:
        needed.append("qemu-user")
        boosts = [f"{name}:{row.machine}" for name in boosts + ["libssl-dev"]]
    return row._replace(compiler=f"{family}-{version}", boost=boost), needed, boosts


def root_of(row, packages):
    """The call of scripts/root for the root of this row, with the compilers of all rows that use the same root."""
    resolved, _, boosts = resolve(row, packages)
    needed = set()
    for other in rows().values():
        if (other.release, other.machine) == (row.release, row.machine):
            try:
                other, of_other, _ = resolve(other, packages)
            except NotToBeHad:
                continue
            if other.boost == resolved.boost:
                needed.update(of_other)
    name = f"boost{resolved.boost}" + (f"-{row.machine}" if row.machine != "amd64" else "")
    if row.machine == "amd64":
        needed.update(each for each in EXAMPLES_NEED if "opentelemetry-cpp-dev" in packages)
    return resolved, ["scripts/root", row.release, "--name", name, *TOOLS, *boosts, *sorted(needed)]


def flags(row):
    """The compiler's flags for its standard library. libc++ before 20 has std::stop_token only as an experimental
    feature."""
    if row.library == "libstdc++":
        return []
    return ["-stdlib=libc++"] + (["-fexperimental-library"] if version_of(row.compiler)[-1] < 20 else [])


def needs_boost_of_its_own(row):
    """True if Debian's libraries of Boost cannot be linked: they need libstdc++, and trixie's need g++ 14's."""
    return row.library == "libc++" or row.compiler == "g++-13"


def configuration(row):
    """CMake's arguments, without the build's folder."""
    compiler = row.compiler.replace("clang-", "clang++-")
    # Optimized as in production, in few translation units.
    words = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=8"]
    words += [f"-DCMAKE_CXX_STANDARD={row.standard}", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
    if row.machine == "arm64":
        compiler = f"aarch64-linux-gnu-{compiler}"
        words += ["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64"]
    if needs_boost_of_its_own(row):
        words += ["-DHOLDFAST_HEADER_ONLY_BOOST=ON", f"-DCMAKE_CXX_FLAGS={' '.join(flags(row))}"]
    return compiler, [*words, f"-DCMAKE_CXX_COMPILER={compiler}"]


def facts(macros):
    """The versions that the macros of the compiler and of the headers tell."""
    of = dict(line.split(" ", 2)[1:] for line in macros.splitlines() if line.count(" ") >= 2)
    if "__clang__" in of:
        compiler = "clang " + ".".join(of[f"__clang_{part}__"] for part in ("major", "minor", "patchlevel"))
    else:
        compiler = "g++ " + ".".join(of[f"__GNUC{part}__"] for part in ("", "_MINOR", "_PATCHLEVEL"))
    if "_LIBCPP_VERSION" in of:
        number = int(of["_LIBCPP_VERSION"])
        library = f"libc++ {number // 10000}.{number // 100 % 100}.{number % 100}"
    else:
        library = "libstdc++ " + of["_GLIBCXX_RELEASE"]
    boost = int(of["BOOST_VERSION"])
    machine = "arm64" if "__aarch64__" in of else "amd64"
    boost = f"{boost // 100000}.{boost // 100 % 1000}.{boost % 100}"
    return {"compiler": compiler, "library": library, "boost": boost, "machine": machine}


def warnings(log):
    return sorted(set(re.findall(r"^\S+:\d+(?::\d+)?: warning: .*", log, re.MULTILINE)))


def say(row, text):
    print(f"{row.name}: {text}", flush=True)


def logged(row, words, log, environment):
    """Runs a command with its output in a file, and prints its progress now and then."""
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(words, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment)
        told = None
        while True:
            try:
                return process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                steps = re.findall(r"^\[\d+/\d+\].{0,100}|^ *\d+/\d+ Test .{0,60}", log.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
                if steps and steps[-1] != told:
                    told = steps[-1]
                    say(row, told)


def run(row):
    import results  # which imports this module

    begun = time.monotonic()
    listed = subprocess.run(["scripts/root", row.release, "--list", row.machine], cwd=ROOT, stdout=subprocess.PIPE,
                            text=True, check=True)
    packages = dict(line.split() for line in listed.stdout.splitlines())
    resolved, root = root_of(row, packages)
    made = subprocess.run([*root, "--"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    roots = pathlib.Path(made.stdout.strip()).parent
    compiler, words = configuration(resolved)
    # No variable of the caller's environment may change the build.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CMAKE_", "CXX", "CCACHE_"))}
    environment["CCACHE_DIR"] = str(roots / "ccache")
    build = ROOT / "build/compilers" / row.name
    (build / "junit").mkdir(parents=True, exist_ok=True)
    (build / "ctest.xml").unlink(missing_ok=True)
    for old in (build / "junit").glob("*.xml"):
        old.unlink()
    standard = {"20": "-std=c++20", "23": "-std=c++2b"}[row.standard]
    probe = subprocess.run([*root, "--", compiler, standard, *flags(resolved), "-x", "c++", "-E", "-dM", "-"],
                           cwd=ROOT, input=PROBE, stdout=subprocess.PIPE, text=True, check=True)
    result = {**facts(probe.stdout), "release": row.release, "standard": row.standard}
    say(row, ", ".join(result.values()))
    log = build / "configure.log"
    jobs = os.environ.get("HOLDFAST_JOBS", "2")
    folder = str(build.relative_to(ROOT))
    ctest = ["ctest", "--test-dir", folder, "--output-on-failure", "-j", jobs]

    def succeeds(*command):
        return logged(row, [*root, "--", *command], log, environment) == 0

    result["built"] = False
    cases = (0, 0, 0)
    if succeeds("cmake", "-S", ".", "-B", folder, *words):
        log = build / "build.log"
        result["built"] = succeeds("cmake", "--build", folder, "-j", jobs, "--target", *TARGETS, "--", "-k", "0")
        built = time.monotonic()
        result["build_seconds"] = round(built - begun)
        warned = warnings(log.read_text(encoding="utf-8", errors="replace"))
        result["warnings"] = len(warned)
        for each in warned:
            say(row, each)
    if result["built"]:
        log = build / "test.log"
        result["tested"] = succeeds(*ctest, "-L", "^(unit|portable)$", "--output-junit", str(build / "ctest.xml"))
        if result["tested"] and (build / "example/opentelemetry").exists():
            log = build / "example.log"
            result["tested"] = succeeds(*ctest, "-R", "^example.opentelemetry")
        counts = [results.counted(path.stem.partition(".")[2], path.read_text(encoding="utf-8"), results.only_portable())
                  for path in (build / "junit").glob("unit.*.xml")]
        cases = tuple(map(sum, zip(cases, *counts)))
        result["test_seconds"] = round(time.monotonic() - built)
        if result["tested"]:
            result["tests"], _ = results.read_ctest(build / "ctest.xml")
    result["cases"], result["only_portable"] = list(cases[:2]), cases[2]
    good = is_good(result)
    if not (result["built"] and result.get("tested")):
        print(log.read_text(encoding="utf-8", errors="replace"), flush=True)
    say(row, f"{'good' if good else 'NOT GOOD'}: {shown(result)}")
    return result, good


def is_good(result):
    return bool(result.get("built") and result["tested"] and not result["warnings"])


def keep_run(row):
    """Runs the row, and keeps its result. Returns the exit status."""
    import results

    at = results.begin()
    try:
        result, good = run(row)
    except NotToBeHad as why:
        say(row, f"not to be had: {why}")
        results.keep("compilers", row.name, {"commit": at, "missing": str(why)})
        return NOT_TO_BE_HAD
    results.keep("compilers", row.name, {"commit": at, **result})
    return 0 if good else 1


def shown_cases(result):
    others = result.get("only_portable")
    return "{}/{}".format(*result["cases"]) + (f", and {others} only in the portable build" if others else "")


def shown(result):
    """The result of a row in a short text."""
    if not result["built"]:
        return "does not build"
    return f"{shown_cases(result)}, {result['warnings']} warnings, {result['build_seconds']} + {result['test_seconds']} s"


def self_test():
    packages = "g++-9 g++-15 g++-16 clang-9 clang-23 clang-tidy-99 libc++-23-dev libc++abi-23-dev g++-15-aarch64-linux-gnu".split()
    for boost in ("1.90", "1.92", "1.100"):
        packages += [f"libboost{boost}-dev", f"libboost-json{boost}-dev", f"libboost-test{boost}-dev"]
    of = rows()
    assert len(of) == len(ROWS.strip().splitlines()) - 1, "two rows have one name"

    def resolved(name):
        return resolve(of[name], packages)

    row, needed, boosts = resolved("g++-newest")
    assert (row.compiler, row.boost) == ("g++-16", "1.100") and needed == ["g++-16"] and len(boosts) == 3, row
    row, needed, _ = resolved("clang-newest-libc++")
    assert needed == ["clang-23", "libc++-23-dev", "libc++abi-23-dev"], needed
    row, needed, boosts = resolve(of["arm64"]._replace(release="sid", compiler="g++-newest", boost="newest"), packages)
    assert row.compiler == "g++-15" and needed == ["g++-15-aarch64-linux-gnu", "qemu-user"], (row, needed)
    assert all(name.endswith(":arm64") for name in boosts), boosts
    try:
        resolved("clang-21")
        raise AssertionError("a compiler that the release lacks")
    except NotToBeHad as why:
        assert "clang-21" in str(why)
    row, root = root_of(of["g++-15-c++23"], packages)
    assert "boost1.100" in root and "g++-15" in root and "g++-16" in root and "clang-9" not in root, root
    assert warnings("a.hpp:1:2: warning: w [-Wx]\na.hpp:1:2: warning: w [-Wx]\nb.cpp:3: warning: v\nnote: warning: n\n") == [
        "a.hpp:1:2: warning: w [-Wx]", "b.cpp:3: warning: v"
    ]  # fmt: skip
    macros = "#define __GNUC__ 4\n#define __GNUC_MINOR__ 2\n#define __GNUC_PATCHLEVEL__ 1\n#define BOOST_VERSION 109200\n"
    gcc = facts(macros + "#define _GLIBCXX_RELEASE 16\n#define __aarch64__ 1\n#define EMPTY \n")
    assert gcc == {"compiler": "g++ 4.2.1", "library": "libstdc++ 16", "boost": "1.92.0", "machine": "arm64"}, gcc
    clang = "#define __clang__ 1\n#define __clang_major__ 23\n#define __clang_minor__ 1\n#define __clang_patchlevel__ 4\n"
    assert facts(macros + clang + "#define _LIBCPP_VERSION 230104\n")["library"] == "libc++ 23.1.4"
    good = {"built": True, "tested": True, "warnings": 0, "build_seconds": 3, "test_seconds": 4, "cases": [7, 7], "only_portable": 2}
    assert shown(good) == "7/7, and 2 only in the portable build, 0 warnings, 3 + 4 s", shown(good)
    assert is_good(good) and not is_good({**good, "warnings": 1}) and not is_good({"missing": "m"})


def main():
    words = sys.argv[1:]
    if words == ["--self-test"]:
        return self_test()
    if words == ["rows"]:
        print(*rows())
        return 0
    if len(words) == 2 and words[0] == "run" and words[1] in rows():
        return keep_run(rows()[words[1]])
    print(__doc__.strip())
    return 0 if words in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main())
