#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Installs the library and builds programs with it, by the commands of README's section "Use it".

The section's first sh commands build and install. The commands after its CMakeLists.txt are run beside that file, with
README's first program as main.cpp. DESTDIR keeps the system as it is.

usage: readme_install.py                      runs all of README's commands in this checkout; prints the time of each

       readme_install.py --build FOLDER       installs from that build folder, and runs README's other commands

       readme_install.py --add-subdirectory   README's second way, with this checkout

The first two also check the installed libraries. The second builds test/package with them, too. It has a program whose
warnings are errors, and programs whose Boost or macros differ from the library's, which must not link. The environment's
CXX is the compiler.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(sh|cmake)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MACRO = re.compile(r"^(?: *X\(|void )(\w+?)(?:_is\(\);.*|\).*)$", re.MULTILINE)
MISMATCH = re.compile(r"^mismatch\((\w+)", re.MULTILINE)
PROGRESS = re.compile(r"\[\d+/\d+\] ")  # of Ninja
OUTPUT = "working, with fencing token"


class Failure(Exception):
    pass


def read(file):
    return (ROOT / file).read_text(encoding="utf-8")


def expect(condition, what):
    if not condition:
        raise Failure(what)


def read_readme(text):
    """Parts of README: commands to install, a CMakeLists.txt, commands to use it, lines for FetchContent, a program."""
    section = re.search(r"^## Use it$(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    blocks = BLOCK.findall(section[1]) if section else []
    kinds = [kind for kind, _ in blocks]
    expect(kinds == ["sh", "cmake", "sh", "cmake"], f'README, "Use it": not the blocks sh, cmake, sh, cmake, but {kinds}')
    program = PROGRAM.search(text)
    expect(program and "int main(" in program[1], "README's first C++ is not a program")
    return *(lines for _, lines in blocks), program[1]


def without_consul(environment):
    """The environment without Consul's variables, because README's program brings a fake Consul of its own."""
    return {name: value for name, value in environment.items() if not name.startswith("CONSUL_")}


def run(command, folder, environment=None, fails=False):
    """Runs a command as a shell does, and returns its output."""
    print(f"$ {command}", flush=True)
    begun = time.monotonic()
    process = subprocess.Popen(
        ["sh", "-c", command],
        cwd=folder,
        env={"CMAKE_BUILD_PARALLEL_LEVEL": "2", **without_consul(os.environ), **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output = ""
    for line in process.stdout:
        output += line
        if PROGRESS.match(line):
            print(line, end="", flush=True)
    status = process.wait()
    print(f"  {time.monotonic() - begun:.1f} s", flush=True)
    expect((status != 0) == fails, f"{command}\nended with {status}:\n{output[-5000:]}")
    return output


def run_all(commands, folder, environment=None):
    for command in commands.splitlines():
        output = run(command, folder, environment)
    return output


def prefix_in(folder):
    found = list(pathlib.Path(folder).glob("**/cmake/holdfast/holdfastConfig.cmake"))
    expect(len(found) == 1, f"installed {len(found)} packages")
    return found[0].parents[3]


def use(readme, folder, prefix=None, source=None):
    """Builds and runs README's program by README's CMakeLists.txt, with the installed library or the source folder."""
    _, cmake, commands, _, program = readme
    if source:
        cmake, changed = re.subn(r"^find_package.*# or: (.*)$", r"\1", cmake, flags=re.MULTILINE)
        expect(changed == 1, 'README\'s CMakeLists.txt does not say "find_package(...)  # or: add_subdirectory(...)"')
        # Without this line the library's files are compiled one by one, which takes three times as long. Other tests
        # do that: scripts/test --long, in the step `worlds`, and the packages.
        cmake = cmake.replace("add_subdirectory(", "set(CMAKE_UNITY_BUILD ON)\nadd_subdirectory(", 1)
        (folder / "holdfast").symlink_to(source)
    (folder / "CMakeLists.txt").write_text(cmake, encoding="utf-8")
    (folder / "main.cpp").write_text(program, encoding="utf-8")
    output = run_all(commands, folder, {"CMAKE_PREFIX_PATH": str(prefix)} if prefix else None)
    expect(OUTPUT in output, f'README\'s program did not print "{OUTPUT}":\n{output}')


def version():
    return re.search(r"project\(holdfast VERSION (\S+)", read("CMakeLists.txt"))[1]


def has_rabbitmq(prefix):
    """True if the library was built with HOLDFAST_RABBITMQ=ON."""
    return any(prefix.glob("lib*/**/holdfastRabbitmq*Targets.cmake"))


def check_libraries(prefix):
    libraries = [each for each in prefix.glob("lib*/**/libholdfast*") if each.suffix in (".a", ".so")]
    expected = ["libholdfast", "libholdfast_testing"]
    if has_rabbitmq(prefix):
        expected[1:1] = ["libholdfast_rabbitmq", "libholdfast_rabbitmq_testing"]
    expect(sorted(each.stem for each in libraries) == expected, f"installed {libraries}")
    for library in libraries:
        if library.suffix == ".so":
            said = re.search(r"soname: \[(.*)\]", run(f"readelf -d {library}", prefix))
            right = f"{library.name}.{version().rpartition('.')[0]}"
            expect(said and said[1] == right, f"{library.name}: its SONAME is {said and said[1]}, not {right}")
        # Programs without BOOST_ASIO_NO_DEPRECATED have and call other functions of the same names.
        defined = run(f"nm -C --defined-only {library}", prefix)
        hooks = re.findall(r"boost::asio::asio_handler_(?:de)?allocate\(\w.*", defined)
        expect(not hooks, f"{library.name} defines {hooks}")


def check_consumers(prefix, folder):
    build = folder / "consumer"
    options = " -DCONSUMER_RABBITMQ=ON" if has_rabbitmq(prefix) else ""
    run(f"cmake -S {ROOT}/test/package -B {build} -G Ninja -DCMAKE_PREFIX_PATH={prefix}{options}", folder)
    run(f"cmake --build {build}", folder)
    run(f"{build}/consumer {version()}", folder)

    programs = {f"{macro}_is" for macro in MACRO.findall(read("include/holdfast/detail/build.hpp"))}
    programs |= set(MISMATCH.findall(read("test/package/CMakeLists.txt")))
    programs |= {f"BOOST_ASIO_HAS_THREADS_is_{way}" for way in ("plain", "sections", "lto")}
    said = run(f"cmake --build {build} --target mismatches -- -k 0", folder, fails=True)
    failed = dict(re.findall(r"^FAILED: (\S+)(.*?)(?=^\[|^FAILED: |^ninja: |\Z)", said, re.MULTILINE | re.DOTALL))
    expect(set(failed) == programs, f"should not be linked: {programs}\nare not: {set(failed)}\n{said}")
    for program, lines in failed.items():
        missing = f"holdfast::was_built_with::{program[: program.index('_is')]}_is<"
        expect(re.search(f"undefined reference to .*{missing}", lines), f"the linker does not name {missing}:\n{lines}")
    print(f"  {len(failed)} programs are not linked, and the linker says why")


def main():
    way, *rest = sys.argv[1:] or ["all"]
    if (way, len(rest)) not in [("all", 0), ("--add-subdirectory", 0), ("--build", 1)]:
        print(__doc__.strip())
        return 2
    readme = read_readme(read("README.md"))
    with tempfile.TemporaryDirectory(prefix="holdfast-") as name:
        folder = pathlib.Path(name)
        (folder / "my_program").mkdir()
        if way == "--add-subdirectory":
            use(readme, folder / "my_program", source=ROOT)
            return 0
        installed = folder / "installed"
        if way == "all":
            run_all(readme[0], ROOT, {"DESTDIR": str(installed)})
        else:
            run(f"cmake --install {pathlib.Path(rest[0]).resolve()} --prefix {installed}", folder)
        prefix = prefix_in(installed)
        check_libraries(prefix)
        use(readme, folder / "my_program", prefix)
        if way == "--build":
            check_consumers(prefix, folder)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(failure)
        sys.exit(1)
