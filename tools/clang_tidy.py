#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Runs clang-tidy with the checks of .clang-tidy on the C++ files that have changed.

A file has changed if it differs from the commit at which its checks last passed, which doc/results/long.json names. If
there is no such commit, the parent commit counts. A changed header is checked by one source that includes it.

usage: clang_tidy.py [--build FOLDER] [--seconds N]   scratch files go into FOLDER (build/clang-tidy). It begins no file
                                             after N seconds, and names the files that are left.

       clang_tidy.py --all [--build FOLDER]  checks all files

       clang_tidy.py --find                  prints the path of the newest clang-tidy here; fails if that is too old

       clang_tidy.py --self-test             shows that it is able to fail

A file that was clean is not checked again until it, its includes or the settings change.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OLDEST = 16  # older versions have no checks for coroutines
JOBS = 2
# Only the library keeps these rules. Elsewhere a lambda must outlive its coroutine, which lint_coroutines.py checks.
# Tests need the same random numbers each time. Code that runs once need not be fast.
LIBRARY_ONLY = (
    "cppcoreguidelines-avoid-capturing-lambda-coroutines",
    "bugprone-random-generator-seed",
    "performance-inefficient-string-concatenation",
    "performance-inefficient-vector-operation",
)
SECONDS_MAX = 900  # of processor time, for one translation unit
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
FINDING = re.compile(r"^(?=\S[^\n]*?:\d+:\d+: (?:error|warning): )", re.MULTILINE)

# A source, and the compiler's flags for it.
Unit = collections.namedtuple("Unit", "file flags")


def find_program():
    found = {}
    for folder in os.get_exec_path():
        for path in pathlib.Path(folder).glob("clang-tidy*"):
            if re.fullmatch(r"clang-tidy(-\d+)?", path.name):
                version = subprocess.run([path, "--version"], stdout=subprocess.PIPE, text=True).stdout
                match = re.search(r"version (\d+)", version)
                found.setdefault(int(match[1]) if match else 0, path)
    newest = max(found, default=0)
    if newest < OLDEST:
        sys.exit(f"there is no clang-tidy {OLDEST} or later on PATH: scripts/setup installs one")
    return found[newest]


def text_of(path):
    return path.read_text(encoding="utf-8")


class Project:
    def __init__(self, root):
        self.root = root
        self.reached = {}

    def git(self, *words):
        run = subprocess.run(["git", "-C", self.root, *words], capture_output=True, text=True)
        return run.stdout if run.returncode == 0 else None

    def base(self):
        """The commit to compare with; None without a history."""
        results = self.root / "doc/results/long.json"
        if results.exists():
            tidy = json.loads(text_of(results))["steps"].get("tidy")
            commit = tidy and tidy["commit"]
            if commit and self.git("merge-base", "--is-ancestor", commit, "HEAD") is not None:
                return commit
        parent = self.git("rev-parse", "--verify", "--quiet", "HEAD^")
        return parent and parent.strip()

    def changed(self, base):
        # Only the flags of a test that must not compile lead to other_boost.
        kinds = ["*.cpp", "*.hpp", ":!test/package/other_boost"]
        names = self.git("diff", "--name-only", "--diff-filter=d", base, "--", *kinds)
        names += self.git("ls-files", "--others", "--exclude-standard", "--", *kinds)
        return sorted({self.root / name for name in names.split()})

    def files(self, suffix):
        folders = ("src", "include", "example", "bench", "test")
        return [path for folder in folders for path in sorted((self.root / folder).rglob("*" + suffix))]

    def includes(self, path):
        if path not in self.reached:
            roots = [path.parent] + [self.root / name for name in ("include", "src", "test", "example", "bench")]
            named = ([(folder / name).resolve() for folder in roots] for name in INCLUDE.findall(text_of(path)))
            self.reached[path] = {next((p for p in paths if p.is_file()), None) for paths in named} - {None}
        return self.reached[path]

    def closure(self, path):
        """The files that a file includes, directly or through other files."""
        seen, left = set(), [path]
        while left:
            new = self.includes(left.pop()) - seen
            seen |= new
            left += new
        return seen

    def sources_to_look_at(self, changed):
        """The changed sources, and one for each header that none of these includes."""
        chosen = [path for path in changed if path.suffix == ".cpp"]
        covered = set().union(*map(self.closure, chosen))
        for header in changed:
            if header.suffix == ".hpp" and header not in covered:
                users = [path for path in self.files(".cpp") if header in self.closure(path)]
                if not users:
                    sys.exit(f"{header}: no source includes it")
                # The header's own source is best; otherwise the source with the fewest includes.
                best = min(users, key=lambda path: (path.stem != header.stem, len(self.closure(path))))
                chosen.append(best)
                covered |= self.closure(best)
        return sorted(chosen)

    def units(self, build):
        """The sources and flags with which CMake compiles the project, each source once. Unity builds are off, because
        the analyzer does not see into the files that a unity file includes."""
        options = ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_CXX_COMPILER_LAUNCHER="]
        options += ["-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DHOLDFAST_BUILD_BENCHMARKS=ON", "-DCMAKE_UNITY_BUILD=OFF"]
        options += ["-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON", "-DHOLDFAST_RABBITMQ=ON"]
        run = subprocess.run(
            ["cmake", "-S", self.root, "-B", build, "-G", "Ninja", *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if run.returncode != 0:
            sys.exit(f"cmake failed:\n{run.stdout}")
        flags = {}
        for entry in json.loads(text_of(build / "compile_commands.json")):
            flags.setdefault(pathlib.Path(entry["file"]), self.flags(entry))
        # Files that are built in other ways (fuzz targets, programs of users) get the flags of the tests. But users may
        # use deprecated functions.
        otherwise = flags[self.root / "test/support/main.cpp"]
        for path in self.files(".cpp"):
            flags.setdefault(path, otherwise)
            if path.is_relative_to(self.root / "test/package"):
                flags[path] = [flag for flag in flags[path] if flag != "-DBOOST_ASIO_NO_DEPRECATED"]
        return [Unit(path, flags[path]) for path in self.files(".cpp")]

    def fingerprint(self, unit, setting):
        """A hash of a source, its flags, the settings and all files that it includes, without the system's headers."""
        made_of = sorted({unit.file} | self.closure(unit.file))
        return hashlib.sha256(repr((setting, unit.flags, [(str(p), text_of(p)) for p in made_of])).encode()).hexdigest()

    @staticmethod
    def flags(entry):
        words = shlex.split(entry["command"])[1:]
        at = words.index("-o")
        del words[at : at + 2]
        return [word for word in words if word not in ("-c", entry["file"])]


def bound_time():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_MAX, SECONDS_MAX))


def tidy(program, unit, project_folder):
    """Returns clang-tidy's findings in a translation unit, and the processor time that it took.

    Findings in others' headers are left out: the analyzer takes objects of Asio's awaiters for uninitialized.
    """
    command = [program, f"--config-file={ROOT / '.clang-tidy'}", "--quiet"]
    if unit.file.relative_to(project_folder).parts[0] != "src":
        command.append("--checks=" + ",".join("-" + check for check in LIBRARY_ONLY))
    command += [unit.file, "--", *unit.flags]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(command, stdout=out, stderr=err, preexec_fn=bound_time)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        # The text before the first finding is not about a place in a file.
        _, *findings = FINDING.split("\n" + out.read())
        if child.returncode != 0 and not findings:
            findings = [f"{unit.file}: clang-tidy ended with {child.returncode}\n{err.read()}"]
    ours = [each for each in findings if each.startswith(f"{project_folder}/") or "clang-diagnostic-error" in each]
    return ours, usage.ru_utime + usage.ru_stime


def look_at(project, units, clean, seconds_max=None):
    """Prints the findings in these files. `clean` is a folder for the fingerprints of files without findings."""
    program = find_program()
    setting = str(program), text_of(ROOT / ".clang-tidy")
    clean.mkdir(parents=True, exist_ok=True)
    marks = {unit.file: clean / project.fingerprint(unit, setting) for unit in units}
    left = [unit for unit in units if not marks[unit.file].exists()]
    print(f"{len(units)} files, {len(units) - len(left)} of them as they were when they were clean", flush=True)
    seen, taken, begun = set(), 0.0, time.monotonic()

    def in_time(unit):
        late = seconds_max is not None and time.monotonic() > begun + seconds_max
        return None if late else tidy(program, unit, project.root)

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        runs = {pool.submit(in_time, unit): unit.file for unit in left}
        for count, run in enumerate(concurrent.futures.as_completed(runs), 1):
            if run.result() is None:
                print(f"[{count:3}/{len(left)}] left to --all: {runs[run].relative_to(project.root)}", flush=True)
                continue
            findings, seconds = run.result()
            taken += seconds
            print(f"[{count:3}/{len(left)}] {seconds:4.0f} s  {runs[run].relative_to(project.root)}", flush=True)
            if not findings:
                marks[runs[run]].touch()
            for finding in findings:
                if finding not in seen:
                    seen.add(finding)
                    print(finding.rstrip(), flush=True)
    print(f"{len(seen)} findings, in {time.monotonic() - begun:.0f} s ({taken:.0f} s of processor time)")
    return 1 if seen else 0


TASK = """
#include <coroutine>
#include <mutex>
#include <string>
#include <utility>
struct task {
  struct promise_type {
    task get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
};
"""
BAD = {
    "bugprone-use-after-move": "std::string f(std::string a) { std::string b = std::move(a); return a + b; }",
    "clang-analyzer-core.NullDereference": "int f(int* p) { if (p == nullptr) return *p; return 0; }",
    "performance-for-range-copy": "void g(const std::string&); void f(const std::string (&all)[2]) { for (auto s : all) g(s); }",
    "cppcoreguidelines-avoid-capturing-lambda-coroutines":
        "task f(int n) { return [n]() -> task { co_await std::suspend_always(); (void)n; }(); }",
    "cppcoreguidelines-no-suspend-with-lock":
        "task f(std::mutex& m) { std::lock_guard<std::mutex> l(m); co_await std::suspend_always(); }",
}  # fmt: skip
GOOD = "task f() { co_await std::suspend_always(); } int g(int* p) { return p == nullptr ? 0 : *p; }"


def self_test():
    program = find_program()
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "src/a.cpp")
        source.parent.mkdir()
        for check, code in {"": GOOD, **BAD}.items():
            source.write_text(TASK + code + "\n", encoding="utf-8")
            findings, _ = tidy(program, Unit(source, ["-std=c++20"]), folder)
            assert bool(findings) == bool(check), (check, findings)
            assert not check or any(f"[{check}," in each for each in findings), (check, findings)
    with tempfile.TemporaryDirectory() as folder:
        self_test_of_changes(Project(pathlib.Path(folder).resolve()))
    print(f"{len(BAD)} bad files are found")
    return 0


def self_test_of_changes(project):
    """Checks which files are checked, with a history of a few files."""

    def write(name, text):
        path = project.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def commit(*names):
        who = ("-c", "user.name=x", "-c", "user.email=x@example.invalid", "-c", "commit.gpgsign=false")
        assert project.git("add", ".") is not None and project.git(*who, "commit", "-m", "x") is not None
        return project.git("rev-parse", "HEAD").strip()

    def looked_at():
        fresh = Project(project.root)
        chosen = fresh.sources_to_look_at(fresh.changed(fresh.base()))
        return [str(path.relative_to(project.root)) for path in chosen]

    project.git("init")
    write("src/a.hpp", "")
    write("src/b.hpp", '#include "a.hpp"\n')
    write("src/a.cpp", '#include "a.hpp"\n')
    write("src/c.cpp", "#include <b.hpp>\n")
    first = commit()
    assert project.base() is None
    write("README.md", "")
    commit()
    assert looked_at() == []
    write("src/a.hpp", "// changed\n")  # the header's own source, though others include it, too
    assert looked_at() == ["src/a.cpp"]
    commit()
    write("src/b.hpp", '#include "a.hpp"\n// changed\n')  # not committed; every source of b.hpp includes a.hpp
    assert looked_at() == ["src/a.cpp", "src/c.cpp"]
    commit()
    assert looked_at() == ["src/c.cpp"]
    write("src/new.cpp", "")
    assert looked_at() == ["src/c.cpp", "src/new.cpp"]
    commit()
    write("doc/results/long.json", json.dumps({"steps": {"tidy": {"commit": first}}}))
    assert looked_at() == ["src/a.cpp", "src/c.cpp", "src/new.cpp"]
    write("doc/results/long.json", json.dumps({"steps": {"tidy": {"commit": "0" * 40}}}))  # of another history
    assert looked_at() == ["src/new.cpp"]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/clang-tidy")
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--find", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.find:
        print(find_program())
        return 0
    if options.self_test:
        return self_test()
    project = Project(ROOT)
    build = options.build.resolve()
    if not options.all:
        base = project.base()
        chosen = project.sources_to_look_at(project.changed(base)) if base else []
        if not chosen:
            print(f"no C++ has changed since {base}" if base else "no history tells what has changed", end="")
            print(": nothing to look at; --all looks at all files")
            return 0
    units = project.units(build)
    if options.all:
        return look_at(project, units, build / "clean")
    return look_at(project, [unit for unit in units if unit.file in chosen], build / "clean", options.seconds)


if __name__ == "__main__":
    sys.exit(main())
