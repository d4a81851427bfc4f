#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Takes holdfast as a subproject, and without its library for tests, in the ways that doc/reference/cmake.md describes.

It needs no network: FETCHCONTENT_SOURCE_DIR_HOLDFAST names this checkout. CPM.cmake is not run. It calls FetchContent
with the same source, and sets options in the way that test/package/parent sets HOLDFAST_INSTALL.

Projects are configured, and single files are compiled without code generation. The libraries that are installed are
empty archives: the files of the package are under test here. tools/readme_install.py builds and links real ones.

usage: subproject.py              the environment's CXX is the compiler
       subproject.py --self-test  shows that each check is able to fail
"""

import json
import pathlib
import re
import shutil
import sys
import tempfile

from readme_install import ROOT, Failure, expect, read, read_readme, run, version

OFFLINE = "-DFETCHCONTENT_FULLY_DISCONNECTED=ON -DFETCHCONTENT_SOURCE_DIR_HOLDFAST="
# The compiler reads a file and writes nothing. The flag belongs to a build type, because CMake's own checks need an
# output.
CHECK_ONLY = "-DCMAKE_BUILD_TYPE=Check -DCMAKE_CXX_FLAGS_CHECK=-fsyntax-only"


def configure(project, build, holdfast, options="", fails=False):
    """Configures, and returns CMake's output, with all of its line breaks as blanks. A second call for the same build
    folder keeps what CMake knows of the compiler. Nothing else that CMake keeps matters."""
    said = run(f"cmake -S {project} -B {build} -G Ninja {OFFLINE}{holdfast} {options}", ROOT, fails=fails)
    return " ".join(said.split())


def cached(build, name):
    found = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(encoding="utf-8"), re.MULTILINE)
    return found and found[1]


def install(build, prefix, *folders):
    """Installs with empty archives in place of the libraries. Each folder is one in which libraries are built."""
    for folder, name in folders:
        (build / folder / f"lib{name}.a").write_bytes(b"!<arch>\n")
    run(f"cmake --install {build} --prefix {prefix}", ROOT)


def find(folder, prefix, package, targets, fails=False):
    options = f'"-DFINDER_PACKAGE={package}" "-DFINDER_TARGETS={targets}" -DCMAKE_PREFIX_PATH={prefix}'
    return configure(ROOT / "test/package/finder", folder / "finder", ROOT, f"-Uholdfast_DIR {options}", fails)


def readme_fetches(folder, holdfast):
    """README's lines for FetchContent, in README's project."""
    _, cmake, _, fetch, program = read_readme(read("README.md"))
    cmake, changed = re.subn(r"^find_package\(.*\n", lambda _: fetch, cmake, flags=re.MULTILINE)
    expect(changed == 1, "README's CMakeLists.txt has no line that begins with find_package(")
    project = folder / "my_program"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(cmake, encoding="utf-8")
    (project / "main.cpp").write_text(program, encoding="utf-8")
    build = project / "build"
    configure(project, build, holdfast, CHECK_ONLY)
    run(f"cmake --build {build} --target CMakeFiles/my_program.dir/main.cpp.o", folder)
    for option in ("INSTALL", "BUILD_TESTS", "BUILD_EXAMPLES", "BUILD_BENCHMARKS"):
        expect(cached(build, f"HOLDFAST_{option}") == "OFF", f"HOLDFAST_{option} is not OFF in a subproject")
    expect(cached(build, "HOLDFAST_TESTING") == "ON", "HOLDFAST_TESTING is not ON in a subproject")


def parent_exports(folder, holdfast):
    """A parent project installs a library that links to ours, and a third project finds that library."""
    project, build, prefix = ROOT / "test/package/parent", folder / "parent", folder / "installed_parent"
    said = configure(project, build, holdfast, CHECK_ONLY, fails=True)
    expect('requires target "holdfast" that is not in any export set' in said, f"another failure was expected: {said}")
    configure(project, build, holdfast, "-DPARENT_INSTALL=ON")
    run(f"cmake --build {build} --target CMakeFiles/parent.dir/parent.cpp.o", folder)
    fetched = "_deps/holdfast-build"
    install(build, prefix, (fetched, "holdfast"), (fetched, "holdfast_testing"), (".", "parent"))
    find(folder, prefix, "parent;REQUIRED", "parent::parent")
    find(folder, prefix, "holdfast;0.1;REQUIRED;COMPONENTS;testing", "holdfast::testing")
    said = find(folder, prefix, "holdfast;REQUIRED;COMPONENTS;other", "holdfast::holdfast", fails=True)
    expect("no component `other`" in said, f"a component that does not exist is not named: {said}")


def boost_is_there(folder, holdfast):
    """The library uses the parent's targets of Boost. find_package(Boost) is forbidden."""
    project, build = ROOT / "test/package/parent", folder / "parent_with_boost"

    def with_boost(kind, fails=False):
        return configure(project, build, holdfast, f"-DPARENT_INSTALL=ON -DPARENT_BOOST={kind} {CHECK_ONLY}", fails)

    def expect_uses(file, wanted, include=""):
        commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
        found = [each["command"] for each in commands if each["file"].endswith(file)]
        expect(len(found) == 1, f"{len(found)} commands compile {file}")
        used = set(re.findall(r"-DSTAND_IN_(\w+)", found[0]))
        expect(used == wanted, f"{file} uses {used} of the parent's Boost, not {wanted}")
        expect(include in found[0], f"{file} is compiled without the include directory {include}")

    with_boost("imported")
    expect_uses("parent/parent.cpp", {"headers"})
    expect_uses("src/error.cpp", {"headers", "json"})
    run(f"cmake --build {build} --target _deps/holdfast-build/CMakeFiles/holdfast.dir/src/error.cpp.o", folder)
    with_boost("modular")
    headers = {"asio", "beast", "config", "intrusive", "system"}
    expect_uses("parent/parent.cpp", headers)
    # One header of Boost.Locale is read. The library of that name is not linked.
    expect_uses("src/error.cpp", {*headers, "json"}, f"{build}/boost/locale")
    config = (build / "_deps/holdfast-build/holdfastConfig.cmake").read_text(encoding="utf-8")
    components = re.search(r"find_dependency\(Boost 1.81 COMPONENTS (.*)\)", config)
    found = components and set(components[1].replace(";", " ").split())
    expect(found == {*headers, "json"}, f"the installed package looks for these components of Boost: {found}")
    said = with_boost("incomplete", fails=True)
    expect("Boost::beast" in said and "BOOST_INCLUDE_LIBRARIES" in said, f"the missing library is not named: {said}")
    said = with_boost("old", fails=True)
    expect("1.80" in said and "1.81" in said, f"Boost 1.80 is not refused: {said}")


def without_testing(folder, holdfast):
    """HOLDFAST_TESTING=OFF: there is no library for tests, and the package says so."""
    build, prefix = folder / "without_testing", folder / "installed_without_testing"
    said = configure(holdfast, build, holdfast, "-DHOLDFAST_TESTING=OFF", fails=True)
    for option in ("TESTS", "EXAMPLES"):
        expect(f"-DHOLDFAST_BUILD_{option}=OFF" in said, f"HOLDFAST_BUILD_{option} is not named: {said}")
    off = "-DHOLDFAST_BUILD_TESTS=OFF -DHOLDFAST_BUILD_EXAMPLES=OFF"
    said = configure(holdfast, build, holdfast, f"{off} -DHOLDFAST_BUILD_BENCHMARKS=ON", fails=True)
    expect("-DHOLDFAST_BUILD_BENCHMARKS=OFF" in said, f"HOLDFAST_BUILD_BENCHMARKS is not named: {said}")
    configure(holdfast, build, holdfast, "-DHOLDFAST_BUILD_BENCHMARKS=OFF")
    expect("testing" not in run(f"cmake --build {build} --target help", folder), "holdfast_testing is still built")
    install(build, prefix, (".", "holdfast"))
    installed = [each.relative_to(prefix).as_posix() for each in prefix.glob("**/*testing*")]
    expect(not installed, f"installed {installed}")
    find(folder, prefix, "holdfast;0.1;REQUIRED;OPTIONAL_COMPONENTS;testing", "holdfast::holdfast")
    said = find(folder, prefix, "holdfast;0.1;REQUIRED;COMPONENTS;testing", "holdfast::holdfast", fails=True)
    expect("HOLDFAST_TESTING=OFF" in said, f"the reason is not said: {said}")


def with_rabbitmq(folder, holdfast):
    """HOLDFAST_RABBITMQ: the library is there if it was built and is asked for. Otherwise rabbitmq-c is not needed."""
    build, prefix = folder / "rabbitmq", folder / "installed_rabbitmq"
    off = "-DHOLDFAST_BUILD_TESTS=OFF -DHOLDFAST_BUILD_EXAMPLES=OFF -DHOLDFAST_BUILD_PROGRAM=OFF"
    hidden = "-DCMAKE_DISABLE_FIND_PACKAGE_rabbitmq-c=ON -DPKG_CONFIG_EXECUTABLE=false"
    package = "holdfast;0.1;REQUIRED;COMPONENTS;rabbitmq"
    said = configure(holdfast, build, holdfast, f"{off} {hidden} -DHOLDFAST_RABBITMQ=ON", fails=True)
    expect("needs rabbitmq-c 0.11" in said, f"rabbitmq-c is not named: {said}")
    configure(holdfast, build, holdfast, f"{off} {hidden} -DHOLDFAST_RABBITMQ=OFF")
    install(build, prefix, (".", "holdfast"), (".", "holdfast_testing"))
    said = find(folder, prefix, package, "holdfast::rabbitmq", fails=True)
    expect("HOLDFAST_RABBITMQ=OFF" in said, f"the reason is not said: {said}")
    shutil.rmtree(prefix)  # CMake leaves an installed file that is less than a second older than the new one
    configure(holdfast, build, holdfast, "-DHOLDFAST_RABBITMQ=ON -UCMAKE_DISABLE_FIND_PACKAGE_* -UPKG_CONFIG_EXECUTABLE")
    libraries = ("holdfast", "holdfast_testing", "holdfast_rabbitmq", "holdfast_rabbitmq_testing")
    install(build, prefix, *((".", each) for each in libraries))
    find(folder, prefix, package, "holdfast::rabbitmq")
    find(folder, prefix, "holdfast;0.1;REQUIRED", f'holdfast::holdfast" {hidden} "-DUNUSED=')
    said = find(folder, prefix, "holdfast;0.1;REQUIRED", "holdfast::rabbitmq", fails=True)
    expect("was not found" in said, f"the library is there unasked: {said}")
    said = find(folder, prefix, package, "holdfast::rabbitmq", fails=True)
    expect("needs rabbitmq-c 0.11" in said, f"rabbitmq-c is not named: {said}")


def both_kinds(folder, holdfast):
    """HOLDFAST_BOTH_KINDS: a project chooses between shared and static libraries. Another build has one kind only."""
    build, prefix = folder / "both_kinds", folder / "installed_both_kinds"
    off = "-DHOLDFAST_BUILD_TESTS=OFF -DHOLDFAST_BUILD_EXAMPLES=OFF -DHOLDFAST_BUILD_PROGRAM=OFF"
    said = configure(holdfast, build, holdfast, f"{off} -DHOLDFAST_BOTH_KINDS=ON", fails=True)
    expect("BUILD_SHARED_LIBS=ON" in said, f"the other option is not named: {said}")
    configure(holdfast, build, holdfast, "-DBUILD_SHARED_LIBS=ON")
    soname = version().rpartition(".")[0]
    for library in ("libholdfast.so", f"libholdfast.so.{version()}", f"libholdfast.so.{soname}"):
        (build / library).touch()
    (build / "static").mkdir(exist_ok=True)
    install(build, prefix, (".", "holdfast_testing"), ("static", "holdfast"), ("static", "holdfast_testing"))

    def linked(static):
        find(folder, prefix, "holdfast;0.1;REQUIRED", f'holdfast::testing" -Dholdfast_USE_STATIC_LIBS={static} "-DUNUSED=')
        rules = (folder / "finder/build.ninja").read_text(encoding="utf-8")
        return set(re.findall(r"installed_both_kinds/\S*?/(libholdfast\w*\.\w+)", rules))

    found = linked("OFF")
    expect(found == {"libholdfast_testing.a", "libholdfast.so"}, f"not the shared library is linked: {found}")
    found = linked("ON")
    expect(found == {"libholdfast_testing.a", "libholdfast.a"}, f"not the static library is linked: {found}")
    next(prefix.glob("**/holdfastStaticTargets.cmake")).unlink()
    said = find(folder, prefix, "holdfast;0.1;REQUIRED", 'holdfast::holdfast" -Dholdfast_USE_STATIC_LIBS=ON "-DUNUSED=',
                fails=True)
    expect("only shared libraries" in said, f"the missing kind is not named: {said}")


CHECKS = (readme_fetches, parent_exports, boost_is_there, without_testing, with_rabbitmq, both_kinds)
# A file, a part of its text, the text in its place, the check that notices the change, and a part of its message.
MISTAKES = [
    ("CMakeLists.txt", 'install target" ${PROJECT_IS_TOP_LEVEL}', 'install target" ON', readme_fetches, "is not OFF"),
    ("CMakeLists.txt", 'tests" ON)', 'tests" OFF)', readme_fetches, "holdfast::testing"),
    ("CMakeLists.txt", "holdfast NAMESPACE holdfast::", "holdfast NAMESPACE other::", parent_exports, "was not found"),
    ("cmake/holdfastConfig.cmake.in", "_FOUND @HOLDFAST_TESTING@", "_FOUND OFF", parent_exports, "`testing` is missing"),
    ("cmake/holdfastConfig.cmake.in", "foreach(component IN", "foreach(component NOT_IN", parent_exports, "ended with 0"),
    ("cmake/boost.cmake", "if(NOT TARGET ${needed})", "if(TRUE)", boost_is_there, "DISABLE_FIND_PACKAGE_Boost"),
    ("cmake/boost.cmake", "imported OR NOT TARGET Boost::config", "TRUE", boost_is_there, "parent.cpp uses set()"),
    ("cmake/boost.cmake", "if(missing)", "if(FALSE)", boost_is_there, "BOOST=incomplete"),
    ("cmake/boost.cmake", "HOLDFAST_BOOST_INCLUDES $<", "ignored $<", boost_is_there, "without the include directory"),
    ("cmake/boost.cmake", "COMPONENTS ${library}", "HEADERS", boost_is_there, "looks for these components"),
    ("cmake/boost.cmake", "VERSION_LESS 1.81", "VERSION_LESS 1.0", boost_is_there, "BOOST=old"),
    ("CMakeLists.txt", "  if(switches)", "  if(FALSE)", without_testing, "HOLDFAST_BUILD_TESTS is not named"),
    ("CMakeLists.txt", "PATTERN testing EXCLUDE", "", without_testing, "installed ["),
    ("CMakeLists.txt", "\nif(HOLDFAST_TESTING)", "\nif(TRUE)", without_testing, "still built"),
    ("cmake/holdfastConfig.cmake.in", "if(component STREQUAL", "if(FALSE AND", without_testing, "the reason is not said"),
    ("cmake/holdfastConfig.cmake.in", '"rabbitmq" STREQUAL', "FALSE AND", with_rabbitmq, "the reason is not said"),
    ("cmake/holdfastConfig.cmake.in", "NOT TARGET holdfast_rabbitmq_c", "FALSE", with_rabbitmq, "ended with 0"),
    ("CMakeLists.txt", "NOT TARGET holdfast_rabbitmq_c", "FALSE", with_rabbitmq, "ended with 0"),
    ("CMakeLists.txt", "EXPORT_NAME rabbitmq\n", "EXPORT_NAME amqp\n", with_rabbitmq, "was not found"),
    ("CMakeLists.txt", "if(NOT BUILD_SHARED_LIBS)", "if(FALSE)", both_kinds, "ended with 0"),
    ("CMakeLists.txt", "set(HOLDFAST_TESTING_TYPE STATIC)", "", both_kinds, "ended with 1"),
    ("cmake/holdfastConfig.cmake.in", "NOT holdfast_USE_STATIC_LIBS", "TRUE", both_kinds, "not the static library"),
    ("cmake/static_twins.cmake", "EXPORT_NAME ${export}\n", "EXPORT_NAME ${twin}\n", both_kinds, "was not found"),
]


def failure_of(check, holdfast):
    """Returns the text of the failure, or None."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        try:
            check(pathlib.Path(folder), holdfast)
        except Failure as failure:
            return f"FAILED: {check.__name__}: {failure}"
    return None


def self_test():
    """Returns the mistakes that are not noticed, or that are noticed for another reason."""
    missed = []
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        copy = pathlib.Path(folder)
        for part in ("cmake", "include", "src"):
            shutil.copytree(ROOT / part, copy / part)
        for part in ("test", "example", "bench"):
            (copy / part).symlink_to(ROOT / part)
        shutil.copy(ROOT / "CMakeLists.txt", copy)
        for file, old, new, check, reason in MISTAKES:
            text = read(file)
            expect(text.count(old) == 1, f"{file} does not have this text once: {old}")
            (copy / file).write_text(text.replace(old, new), encoding="utf-8")
            failure = failure_of(check, copy)
            print(failure)
            if reason not in (failure or ""):
                missed.append(f"{file}: {new!r} in place of {old!r}")
            (copy / file).write_text(text, encoding="utf-8")
    return missed


def main():
    if sys.argv[1:] == ["--self-test"]:
        missed = self_test()
        print("\n".join(["", f"{len(MISTAKES)} mistakes, not noticed: {len(missed)}", *missed]))
        return 1 if missed else 0
    if sys.argv[1:]:
        print(__doc__.strip())
        return 2
    failures = [each for each in (failure_of(check, ROOT) for check in CHECKS) if each]
    print("\n".join([*failures, f"{len(CHECKS)} checks, failed: {len(failures)}"]))
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(failure)
        sys.exit(1)
