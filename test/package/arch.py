#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Makes the package for Arch Linux by makepkg, from the source archive of the last commit, and looks into it.

makepkg and pacman are those of Debian, in a root of Debian 12. So are the compiler and the libraries: nothing of this
test runs on Arch Linux. pacman installs the package below a folder, upgrades it to a higher release, and removes it.

usage: arch.py                    It takes some ten minutes.

       arch.py --packages FOLDER  keeps the packages in the folder, or uses those that are there.

       arch.py --self-test        shows that mistakes in the PKGBUILD are noticed, with a stand-in for the sources. It
                                  takes some minutes.

It needs root and mmdebstrap, as debian.py does. makepkg itself runs as another user, because it refuses root. To save
time, it compiles with -O1. The exit status is 77 if the user is not root.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

import roots
import stand_in
from script import ROOT, call, expect, expect_noticed, keeps_packages, run

sys.path.insert(0, str(ROOT / "tools"))
import release  # noqa: E402

# The packages of the root in which rpm.py works, too.
TOOLS = ("g++ cmake ninja-build libboost1.81-dev libboost-json1.81-dev libssl-dev librabbitmq-dev libcli11-dev python3 "
         "pkg-config makepkg pacman-package-manager libarchive-tools zstd rpm rpmlint ccache").split()
PKGBUILD = "packaging/arch/PKGBUILD"
DEPENDS = {"boost-libs", "gcc-libs", "glibc", "librabbitmq-c", "openssl"}
# Each library that the files need, and the package of Arch Linux that has it.
OWNERS = (
    (r"libboost_", "boost-libs"),
    (r"lib(stdc\+\+|gcc_s)\.", "gcc-libs"),
    (r"lib(c|m)\.so|ld-linux", "glibc"),
    (r"librabbitmq\.", "librabbitmq-c"),
    (r"lib(ssl|crypto)\.", "openssl"),
    (r"libholdfast", None),
)
FLAGS = "-O1 -pipe -fstack-protector-strong -Wp,-D_GLIBCXX_ASSERTIONS"
BUILD = "test/build"
CONF = f"""DLAGENTS=()
VCSCLIENTS=()
CARCH=x86_64
CHOST=x86_64-pc-linux-gnu
CXXFLAGS="{FLAGS}"
LDFLAGS="-Wl,-O1,--sort-common,--as-needed,-z,relro,-z,now"
BUILDENV=(!distcc color !ccache check !sign)
OPTIONS=(strip docs !libtool !staticlibs emptydirs zipman purge !debug)
INTEGRITY_CHECK=(sha256)
STRIP_BINARIES=--strip-all
STRIP_SHARED=--strip-unneeded
STRIP_STATIC=--strip-debug
MAN_DIRS=(usr/share/man)
DOC_DIRS=(usr/share/doc)
COMPRESSZST=(zstd -c -)
PKGEXT=.pkg.tar.zst
SRCEXT=.src.tar.gz
"""
# Mistakes in the PKGBUILD: what is replaced by what.
MISTAKES = (
    ("depends=(boost-libs gcc-libs glibc librabbitmq-c openssl)", "depends=(boost-libs gcc-libs glibc openssl)"),
    ("provides=(libholdfast.so libholdfast_rabbitmq.so)", "provides=(libholdfast.so)"),
    (" -DCMAKE_INSTALL_LIBDIR=lib ", " "),
    ("-DHOLDFAST_RABBITMQ=ON", "-DHOLDFAST_RABBITMQ=OFF"),
    ("-DHOLDFAST_BUILD_PROGRAM=ON", "-DHOLDFAST_BUILD_PROGRAM=OFF"),
    ("  env -u CONSUL_HTTP_ADDR check/quickstart\n", ""),
    ("/usr/lib/tmpfiles.d/$pkgname.conf", "/etc/tmpfiles.d/$pkgname.conf"),
)
FILES = """usr/bin/holdfast
usr/include/holdfast/holdfast.hpp
usr/include/holdfast/rabbitmq.hpp
usr/include/holdfast/testing/server.hpp
usr/lib/libholdfast.so
usr/lib/libholdfast.so.MINOR
usr/lib/libholdfast.so.VERSION
usr/lib/libholdfast_rabbitmq.so.VERSION
usr/lib/libholdfast_rabbitmq_testing.so.VERSION
usr/lib/libholdfast_testing.so.VERSION
usr/lib/cmake/holdfast/holdfastConfig.cmake
usr/lib/cmake/holdfast/holdfastRabbitmqSharedTargets.cmake
usr/lib/pkgconfig/holdfast.pc
usr/lib/tmpfiles.d/holdfast.conf
usr/share/bash-completion/completions/holdfast
usr/share/licenses/holdfast/LICENSE
usr/share/man/man1/holdfast.1.gz
usr/share/zsh/site-functions/_holdfast""".splitlines()


@contextlib.contextmanager
def compiler_cache(root):
    """Yields the environment in which ccache of the root uses the objects of earlier runs. This test and rpm.py build in
    the same folder of their roots, with the same flags, so most objects are the same."""
    kept, used = roots.cache() / "ccache", root.folder / "test/ccache"
    if kept.exists():
        shutil.copytree(kept, used, dirs_exist_ok=True)
    used.mkdir(exist_ok=True)
    root.run("chown -R 1000:1000 /test/ccache")
    try:
        yield {"CCACHE_DIR": "/test/ccache", "CCACHE_NOHASHDIR": "1", "CCACHE_MAXSIZE": "200M",
               "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
               "CMAKE_BUILD_PARALLEL_LEVEL": os.environ.get("HOLDFAST_JOBS", "2")}  # fmt: skip
    finally:
        new = kept.with_name(f"ccache.{os.getpid()}")
        shutil.copytree(used, new)
        shutil.rmtree(kept, ignore_errors=True)
        new.rename(kept)


def run_makepkg(root, archive, text):
    """Runs makepkg as a user beside the archive, with that text of the PKGBUILD. Returns the file of the package, and that
    of the next release of the same package."""
    build = archive.parent
    expect(text.count("sha256sums=(SKIP)") == 1, f"{PKGBUILD} has no checksum to fill in")
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    (build / "PKGBUILD").write_text(text.replace("(SKIP)", f"({checksum})"), encoding="utf-8")
    (root.folder / "test/makepkg.conf").write_text(CONF, encoding="utf-8")
    makepkg = (f"cd /{BUILD} && setpriv --reuid 1000 --regid 1000 --clear-groups "
               "makepkg --config /test/makepkg.conf --nodeps --nocolor")
    with compiler_cache(root) as environment:
        said = root.run(f"chown -R 1000:1000 /{BUILD} && {makepkg}", HOME=f"/{BUILD}", **environment)
    expect("working, with fencing token" in said, f"check() did not run README's program:\n{said[-3000:]}")
    warned = re.findall("^==> WARNING: .*", said, re.MULTILINE)
    wrong = [line for line in warned if "Skipping dependency checks" not in line]
    expect(not wrong, f"makepkg warns: {wrong}")
    root.run(f"sed -i 's/^pkgrel=1$/pkgrel=2/' /{BUILD}/PKGBUILD && {makepkg} --repackage", HOME=f"/{BUILD}")
    made = sorted(build.glob("*.pkg.tar.zst"))
    expect(len(made) == 2, f"makepkg made {made}")
    return made


def make_packages(root, folder, version):
    build = root.folder / BUILD
    build.mkdir()
    made = run_makepkg(root, release.write_archive(version, build), (ROOT / PKGBUILD).read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    for package in made:
        shutil.copy(package, folder)


def fields(text):
    found = {}
    for name, value in re.findall(r"^(\w+) = (.*)$", text, re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def check_about(root, version):
    about = fields(root.run("bsdtar -xOf /test/made/*.zst .PKGINFO"))
    minor = version.rpartition(".")[0]
    expect(about["pkgname"] == ["holdfast"] and about["pkgver"] == [f"{version}-1"], f".PKGINFO: {about}")
    expect(set(about["depend"]) == DEPENDS, f".PKGINFO: it depends on {about['depend']}")
    provided = {f"lib{name}.so={minor}-64" for name in ("holdfast", "holdfast_rabbitmq")}
    expect(set(about["provides"]) == provided, f".PKGINFO: it provides {about['provides']}")
    expect(about["license"] == ["BSL-1.0"], f".PKGINFO: its licence is {about['license']}")
    return int(about["size"][0])


def check_files(root, version):
    listed = root.run("bsdtar -tf /test/made/*.zst").split()
    minor = version.rpartition(".")[0]
    wanted = [each.replace("VERSION", version).replace("MINOR", minor) for each in FILES]
    missing = [each for each in wanted if each not in listed]
    expect(not missing, f"the package lacks {missing}")
    other = [each for each in listed if not re.match(r"usr/|\.(PKGINFO|BUILDINFO|MTREE)$", each)]
    other += [each for each in listed if each.endswith((".a", ".la", ".pyc")) or "/x86_64-linux-gnu/" in each]
    expect(not other, f"the package has {other}, too")
    owners = root.run("bsdtar --numeric-owner -tvf /test/made/*.zst | awk '{ print $3 \":\" $4 }' | sort -u").split()
    expect(owners == ["0:0"], f"the files belong to {owners}")
    return len([each for each in listed if not each.endswith("/")])


def check_life(root, version):
    """pacman installs the package below a folder, without its dependencies, upgrades it, and removes it."""
    # The system's configuration wants mount points, of which the root has none.
    (root.folder / "test/pacman.conf").write_text("[options]\nSigLevel = Never\n", encoding="utf-8")
    pacman = "pacman --config /test/pacman.conf --root /test/installed --dbpath /test/installed/db --noconfirm"
    root.run("mkdir -p /test/installed/db")
    inside = "LD_LIBRARY_PATH=/test/installed/usr/lib /test/installed/usr/bin/holdfast --version"
    for number, folder in enumerate(("made", "newer"), 1):
        root.run(f"{pacman} -U --nodeps --nodeps /test/{folder}/*.zst")
        installed = root.run(f"{pacman} -Q").strip()
        expect(installed == f"holdfast {version}-{number}", f"installed: {installed}")
        expect(version in root.run(inside), "the installed program does not run")
    needed = root.run("readelf -d /test/installed/usr/bin/holdfast /test/installed/usr/lib/lib*.so.*")
    for library in set(re.findall(r"NEEDED.*\[(.*)\]", needed)):
        owner = [package for pattern, package in OWNERS if re.match(pattern, library)]
        expect(owner, f"it needs {library}, whose package this test does not know")
        expect(owner[0] is None or owner[0] in DEPENDS, f"it needs {library}, and does not depend on {owner[0]}")
    expect("/test" not in root.run("readelf -d /test/installed/usr/bin/holdfast"), "the program has a path of the build")
    root.run(f"{pacman} -R holdfast")
    left = root.run("find /test/installed -path /test/installed/db -prune -o -type f -print")
    expect(not left.replace("/test/installed/var/log/pacman.log", "").strip(), f"removal leaves {left}")


def check(root, packages, version):
    """All checks of a package and its next release. Returns how many files it has, and their size."""
    shutil.rmtree(root.folder / "test/installed", ignore_errors=True)
    for package, name in zip(packages, ("made", "newer")):
        folder = root.folder / "test" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy(package, folder)
    size = check_about(root, version)
    count = check_files(root, version)
    check_life(root, version)
    return count, size


def self_test(root, version):
    build = root.folder / BUILD
    text = (ROOT / PKGBUILD).read_text(encoding="utf-8")

    def try_out(changed):
        shutil.rmtree(build, ignore_errors=True)
        build.mkdir()
        archive = build / f"holdfast-{version}.tar.gz"
        run(["tar", "-czf", archive, "-C", root.folder / "test", f"holdfast-{version}"])
        check(root, run_makepkg(root, archive, changed), version)

    stand_in.make(root.folder / f"test/holdfast-{version}")
    try_out(text)
    print("  the right PKGBUILD passes", flush=True)
    for old, new in MISTAKES:
        expect(text.count(old) == 1, f"{PKGBUILD} does not say {old} once")
        expect_noticed(f"{new!r} in place of {old!r}", lambda wrong=text.replace(old, new): try_out(wrong))


def main(words):
    version = re.search(r"^pkgver=(.*)$", (ROOT / PKGBUILD).read_text(encoding="utf-8"), re.MULTILINE)[1]
    with tempfile.TemporaryDirectory(prefix="holdfast-arch-") as name:
        work = pathlib.Path(name)
        root = roots.Root(work / "root", "bookworm", TOOLS)
        if words == ["--self-test"]:
            self_test(root, version)
            return
        kept = pathlib.Path(words[1]).resolve() if words else work / "made"
        if not list(kept.glob("*.zst")):
            make_packages(root, kept, version)
        made = sorted(kept.glob("*.zst"))
        count, unpacked = check(root, made, version)
        size = made[0].stat().st_size
        print(f"  {made[0].name}: {size:,} bytes, {count} files of {unpacked:,} bytes")
        print("  pacman has installed it, upgraded it to the next release, and removed it; the program runs")
    print("figures: " + json.dumps({"test": "arch", "bytes": size, "files": count}))


if __name__ == "__main__":
    call(main, __doc__, lambda words: words in ([], ["--self-test"]) or keeps_packages(words),
         needs_root="it makes a root of Debian")
