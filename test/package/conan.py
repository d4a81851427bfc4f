#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Makes Conan packages of this source tree, static and shared, and builds programs with them.

Conan has a home of its own in a temporary folder, and no remotes. Boost, OpenSSL and rabbitmq-c are those of this system:
the recipes in test/package/conan name them as ConanCenter does. Conan itself comes from PyPI
(tools/conan_requirements.txt), and is kept in the user's cache, below holdfast/.

usage: conan.py               It takes some ten minutes.

       conan.py --self-test   shows that mistakes in the recipe are noticed, with a stand-in for the sources. It takes
                              a minute.

The programs are compiled by this system's compiler. To save time, the libraries are compiled with -O1, in a unity build.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time
import venv

import roots
import stand_in
from script import ROOT, call, expect, expect_noticed, run, version_of

RECIPE = pathlib.Path("packaging/conan")
SYSTEM = ("boost", "openssl", "rabbitmq-c")
# The packages that are made: the options, and the libraries of the package.
WAYS = {
    "static": ({"shared": False, "with_rabbitmq": True}, ("", "_rabbitmq", "_rabbitmq_testing", "_testing")),
    "shared": ({"shared": True, "with_rabbitmq": True}, ("", "_rabbitmq", "_rabbitmq_testing", "_testing")),
    "static, without TLS": ({"shared": False, "with_tls": False}, ("", "_testing")),
}
FAST = {"CMAKE_UNITY_BUILD": "ON", "CMAKE_UNITY_BUILD_BATCH_SIZE": "8", "CMAKE_CXX_FLAGS_RELEASE": "-O1 -DNDEBUG"}
# Mistakes in the recipe: what is replaced by what, in which way of the table.
MISTAKES = (
    ('f"holdfast::{name}")', 'f"holdfast::lib{name}")', "static"),
    ('component.libs = [f"holdfast{own}"]', 'component.libs = ["holdfast"]', "static"),
    ('["openssl::ssl", "openssl::crypto"]', '["openssl::crypto"]', "static"),
    ('cache_variables["HOLDFAST_TLS"]', 'cache_variables["HOLDFAST_TSL"]', "static, without TLS"),
    ('for generated in ("cmake", "pkgconfig")', 'for generated in ("cmake",)', "static"),
)


def installed_conan():
    """The program `conan`, in an environment that is made once for each list of requirements."""
    requirements = ROOT / "tools/conan_requirements.txt"
    key = f"{hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]}-{sys.version_info[0]}.{sys.version_info[1]}"
    folder = roots.cache().parent / f"conan-{key}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        run([folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes",
             "--only-binary", ":all:", "--requirement", requirements])
        (folder / "complete").touch()
    return folder / "bin/conan"


class Conan:
    """Conan with a home of its own, which has the packages of this system and no remotes."""

    def __init__(self, work):
        self.work = work
        self.program = installed_conan()
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("CONAN", "CONSUL_", "AMQP_"))}
        self.environment |= {"CONAN_HOME": str(work / "home")}
        self.run("remote", "remove", "*")
        expect(not self.json("remote", "list"), "Conan has a remote")
        self.run("profile", "detect")
        for name in SYSTEM:
            self.run("create", ROOT / "test/package/conan" / name)

    def run(self, *words, fails=False):
        return run([self.program, *words], fails=fails, env=self.environment, cwd=self.work)

    def json(self, *words):
        said = self.work / "said.json"
        self.run(*words, "--format", "json", "--out-file", said)
        return json.loads(said.read_text(encoding="utf-8"))

    def create(self, tree, options, cppstd="20", fails=False):
        words = [f"--options=&:{name}={value}" for name, value in options.items()]
        jobs = os.environ.get("HOLDFAST_JOBS", "2")
        return self.run("create", tree / RECIPE, f"--settings:all=compiler.cppstd={cppstd}", *words,
                        f"--conf=tools.build:jobs={jobs}", "--conf=tools.cmake.cmaketoolchain:generator=Ninja",
                        f"--conf=tools.cmake.cmaketoolchain:extra_variables={FAST!r}",
                        f"--conf=tools.cmake.cmake_layout:test_folder={self.work / 'programs'}", fails=fails)

    def package(self):
        """The folder of the only package of holdfast."""
        found = self.json("list", "holdfast/*:*")["Local Cache"]
        expect(len(found) == 1, f"Conan has {list(found)}")
        [(reference, about)] = found.items()
        [revision] = about["revisions"].values()
        [package] = revision["packages"]
        return reference, pathlib.Path(self.run("cache", "path", f"{reference}:{package}").strip())


def check_way(conan, tree, way):
    options, libraries = WAYS[way]
    conan.run("remove", "--confirm", "holdfast/*")
    shutil.rmtree(conan.work / "programs", ignore_errors=True)
    said = conan.create(tree, options)
    programs = ["quickstart"] + ["rabbitmq"] * ("with_rabbitmq" in options)
    for program in programs:
        expect(stand_in.OUTPUT[program] in said, f"{program} did not print '{stand_in.OUTPUT[program]}':\n{said[-3000:]}")
        found = list((conan.work / "programs").glob(f"**/{program}"))
        expect(len(found) == 1, f"the programs are {found}")
        needed = "libholdfast" in run(["readelf", "-d", found[0]])
        expect(needed == options["shared"], f"{program} {'needs' if needed else 'does not need'} shared libraries")
    reference, package = conan.package()
    expect(reference == f"holdfast/{version_of(tree)}", f"the package is {reference}")
    has = {each.name.partition(".")[0] for each in (package / "lib").glob("*.so" if options["shared"] else "*.a")}
    expect(has == {f"libholdfast{name}" for name in libraries}, f"the package has {has}")
    others = [each for each in package.iterdir() if each.name not in ("include", "lib", "licenses")]
    others = [each.name for each in [*others, *(package / "lib").iterdir()] if not re.match(r"libholdfast|conan", each.name)]
    expect(not others, f"the package has {others}, too")
    if (package / "lib/libholdfast.so").exists():
        is_linked = "libssl" in run(["readelf", "-d", package / "lib/libholdfast.so"])
    else:
        is_linked = "SSL_" in run(["nm", "--undefined-only", package / "lib/libholdfast.a"])
    expect(is_linked == options.get("with_tls", True), f"the library {'uses' if is_linked else 'does not use'} OpenSSL")
    size = sum(each.stat().st_size for each in package.rglob("*") if each.is_file() and not each.is_symlink())
    print(f"  {way}: {', '.join(programs)} built and run; {size:,} bytes", flush=True)
    return size


def check_pkg_config(conan):
    """The modules that Conan generates have the names of holdfast's own ones."""
    reference, _ = conan.package()
    folder = conan.work / "modules"
    conan.run("install", f"--requires={reference}", "--settings:all=compiler.cppstd=20", "--options=holdfast/*:with_tls=False",
              "--generator=PkgConfigDeps", f"--output-folder={folder}")
    names = {each.stem for each in folder.glob("*.pc")}
    expect({"holdfast", "holdfast-testing"} <= names, f"Conan makes the modules {names}")
    said = run(["pkg-config", "--libs", "holdfast-testing"], env={**os.environ, "PKG_CONFIG_PATH": str(folder)})
    expect("-lholdfast_testing" in said and "-lholdfast " in said + " ", f"holdfast-testing links {said}")


def self_test(conan):
    tree = conan.work / "tree"
    stand_in.make(tree)
    for way in WAYS:
        check_way(conan, tree, way)
    check_pkg_config(conan)
    recipe = tree / RECIPE / "conanfile.py"
    text = recipe.read_text(encoding="utf-8")
    for old, new, way in MISTAKES:
        expect(text.count(old) == 1, f"the recipe does not say {old} once")
        recipe.write_text(text.replace(old, new), encoding="utf-8")
        expect_noticed(f"{new} in place of {old}", lambda way=way: check_way(conan, tree, way),
                       "rror|undefined|package|library")


def main(words):
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-conan-") as work:
        conan = Conan(pathlib.Path(work))
        print(conan.run("--version").strip(), flush=True)
        if words:
            self_test(conan)
            return
        said = conan.create(ROOT, {}, cppstd="17", fails=True)
        expect("cppstd" in said and "20" in said, f"C++17 is refused without a reason:\n{said[-2000:]}")
        sizes = {way: check_way(conan, ROOT, way) for way in WAYS}
        check_pkg_config(conan)
    print("figures: " + json.dumps({"test": "conan", "bytes": sizes, "seconds": round(time.monotonic() - begun)}))


if __name__ == "__main__":
    call(main, __doc__, lambda words: words in ([], ["--self-test"]))
