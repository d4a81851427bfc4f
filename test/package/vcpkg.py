#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Runs the portfile of the vcpkg port, and builds programs with what it installs.

vcpkg itself is not here. test/package/vcpkg/port.cmake defines its functions. Boost, OpenSSL and rabbitmq-c are those of
this system, so the names of the port's dependencies are not tested.

usage: vcpkg.py              It takes some ten minutes.

       vcpkg.py --self-test  makes libraries for debugging, too, and shows that mistakes in the port are noticed. It has
                             a stand-in for the sources, and takes a few minutes.

To save time, the libraries are compiled with -O1, in a unity build.
"""

import json
import os
import pathlib
import re
import shutil
import tempfile

import stand_in
from script import ROOT, call, expect, expect_noticed, run

PORT = ROOT / "packaging/vcpkg/holdfast"
# Features and linkage.
WAYS = {
    "static, tls, rabbitmq": (["tls", "rabbitmq"], "static"),
    "dynamic, no feature": ([], "dynamic"),
}
FAST = ("-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=8", "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG")
# Mistakes in the port: in which file, and what is replaced by what.
MISTAKES = {
    "portfile.cmake": (
        ("vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/holdfast)\n", ""),
        ("lib/cmake/holdfast", "lib/cmake/holdfst"),
        ("vcpkg_cmake_install()\n", ""),
        ('file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")\n', ""),
        ("vcpkg_install_copyright(FILE_LIST", "vcpkg_install_copyright(FILES"),
        ('vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")\n', ""),
        ('"${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}"',
         '"${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share"'),
        ("tls HOLDFAST_TLS", "tsl HOLDFAST_TLS"),
        ("rabbitmq HOLDFAST_RABBITMQ", "rabbitmq HOLDFAST_RABBIT"),
        ('"v${VERSION}"', '"${VERSION}"'),
    ),
    "vcpkg.json": (('"tls": {', '"https": {'), ('"tls"\n  ]', '"ssl"\n  ]')),
    "usage": (("holdfast::rabbitmq", "holdfast::rabbit"), ("find_package(holdfast", "find_package(hold")),
}


def check_manifest(port):
    """The manifest, the portfile and the text for users name the same features and targets."""
    manifest = json.loads((port / "vcpkg.json").read_text(encoding="utf-8"))
    features = manifest["features"]
    unknown = set(manifest["default-features"]) - features.keys()
    expect(not unknown, f"these default features do not exist: {unknown}")
    listed = re.search(r"FEATURES\n(.*?)\n\)", (port / "portfile.cmake").read_text(encoding="utf-8"), re.DOTALL)
    pairs = dict(line.split() for line in listed[1].splitlines())
    expect(pairs.keys() == features.keys(), f"the portfile has the features {set(pairs)}, vcpkg.json has {set(features)}")
    cmake = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    for option in pairs.values():
        expect(f"option({option} " in cmake, f"CMakeLists.txt has no option {option}")
    named = set(re.findall(r"holdfast::\w+", (port / "usage").read_text(encoding="utf-8")))
    unknown = [each for each in named if f"add_library({each} ALIAS" not in cmake]
    expect(not unknown, f"usage names {unknown}")
    usage = (port / "usage").read_text(encoding="utf-8")
    expect(set(re.findall(r"find_package\((\w+)", usage)) == {"holdfast"}, "usage finds another package")
    return manifest


def install(port, source, work, way, debug):
    """Runs the portfile. Returns the folder of the package, in another place than where it was made."""
    features, linkage = WAYS[way]
    version = json.loads((port / "vcpkg.json").read_text(encoding="utf-8"))["version"]
    definitions = {
        "PORT": "holdfast", "VERSION": version, "FEATURES": ";".join(["core", *features]), "VCPKG_LIBRARY_LINKAGE": linkage,
        "VCPKG_BUILD_TYPE": "" if debug else "release", "SOURCE": source, "WORK": work, "PORTFILE": port / "portfile.cmake",
        "EXTRA": ";".join(FAST),
    }  # fmt: skip
    run(["cmake", *(f"-D{name}={value}" for name, value in definitions.items()), "-P", ROOT / "test/package/vcpkg/port.cmake"],
        env={**os.environ, "CMAKE_BUILD_PARALLEL_LEVEL": os.environ.get("HOLDFAST_JOBS", "2")})
    installed = work / "installed"
    (work / "packages").rename(installed)
    return installed


def check_form(installed, work, debug):
    """vcpkg itself does these checks after it has built a port."""
    share = installed / "share/holdfast"
    for name in ("copyright", "usage", "holdfastConfig.cmake", "holdfastConfigVersion.cmake"):
        expect((share / name).exists(), f"there is no share/holdfast/{name}")
    for wrong in ("debug/include", "debug/share", "lib/cmake", "debug/lib/cmake"):
        expect(not (installed / wrong).exists(), f"there is {wrong}")
    empty = [each for each in installed.rglob("*") if each.is_dir() and not any(each.iterdir())]
    expect(not empty, f"these folders are empty: {empty}")
    for each in [*installed.rglob("*.cmake"), *installed.rglob("*.pc")]:
        expect(str(work) not in each.read_text(encoding="utf-8"), f"{each.name} has the path of the build")
    names = ({each.name for each in (installed / folder).glob("libholdfast*")} for folder in ("lib", "debug/lib"))
    release, of_debug = names
    expect(release and of_debug == (release if debug else set()), f"libraries: {release}, for debugging: {of_debug}")
    return release


def check_way(port, source, work, way, debug):
    features, linkage = WAYS[way]
    installed = install(port, source, work, way, debug)
    libraries = {name.partition(".")[0] for name in check_form(installed, work, debug)}
    expected = {"libholdfast", "libholdfast_testing"}
    if "rabbitmq" in features:
        expected |= {"libholdfast_rabbitmq", "libholdfast_rabbitmq_testing"}
    expect(libraries == expected, f"libraries: {libraries}")
    kind = "so" if linkage == "dynamic" else "a"
    uses_tls = "SSL_" in run(["nm", *(["-D"] if kind == "so" else []), "--undefined-only", installed / f"lib/libholdfast.{kind}"])
    expect(uses_tls == ("tls" in features), f"the library {'uses' if uses_tls else 'does not use'} OpenSSL")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CONSUL_", "AMQP_"))}
    programs = ["quickstart", "rabbitmq"] if "rabbitmq" in features else ["quickstart"]
    for build_type in ("Release", "Debug") if debug else ("Release",):
        for program in programs:
            build = work / f"{program}-{build_type}"
            run(["cmake", "-S", source / "test/package/examples", "-B", build, "-G", "Ninja", f"-DCMAKE_BUILD_TYPE={build_type}",
                 f"-DCMAKE_PREFIX_PATH={installed}", f"-DCONSUMER_RABBITMQ={'ON' if program == 'rabbitmq' else 'OFF'}"])
            linked = run(["cmake", "--build", build, "--verbose"])
            folder = "debug/lib" if build_type == "Debug" else "lib"
            expect(f"{installed}/{folder}/libholdfast." in linked, f"{program} is not linked from {folder}:\n{linked[-2000:]}")
            said = run([build / program], env=environment)
            expect(stand_in.OUTPUT[program] in said, f"{program} did not print '{stand_in.OUTPUT[program]}':\n{said}")
    size = sum(each.stat().st_size for each in installed.rglob("*") if each.is_file() and not each.is_symlink())
    print(f"  {way}: {', '.join(programs)} built and run; {size:,} bytes", flush=True)
    return size


def self_test(work):
    """Uses the right port, and then wrong ones."""
    source = work / "source"
    stand_in.make(source)

    def check(port, folder, ways):
        check_manifest(port)
        for number, way in enumerate(ways):
            (folder / str(number)).mkdir(parents=True)
            check_way(port, source, folder / str(number), way, debug=number == 0)

    check(PORT, work / "right", WAYS)
    for number, (name, old, new) in enumerate((name, *change) for name, changes in MISTAKES.items() for change in changes):
        port = work / f"port{number}"
        shutil.copytree(PORT, port)
        text = (port / name).read_text(encoding="utf-8")
        expect(old in text, f"{name} does not say {old}")
        (port / name).write_text(text.replace(old, new), encoding="utf-8")
        expect_noticed(f"{new!r} in place of {old!r}",
                       lambda port=port, number=number: check(port, work / f"wrong{number}", list(WAYS)[:1]))


def main(words):
    with tempfile.TemporaryDirectory(prefix="holdfast-vcpkg-") as name:
        work = pathlib.Path(name)
        if words:
            self_test(work)
            return
        manifest = check_manifest(PORT)
        expect({frozenset(features) for features, *_ in WAYS.values()} >= {frozenset(manifest["features"]), frozenset()},
               "not all features are built, or not none")
        sizes = {}
        for number, way in enumerate(WAYS):
            (work / str(number)).mkdir()
            sizes[way] = check_way(PORT, ROOT, work / str(number), way, debug=False)
    print("figures: " + json.dumps({"test": "vcpkg", "bytes": sizes}))


if __name__ == "__main__":
    call(main, __doc__, lambda words: words in ([], ["--self-test"]))
