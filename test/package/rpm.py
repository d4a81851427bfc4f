#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Makes RPM packages by the commands of doc/reference/packages.md, and looks into them with rpm and rpmlint.

rpm and rpmlint are those of Debian 12, in a root. So are the compiler and the libraries. rpm installs the
packages in an empty folder without their dependencies, upgrades them to a higher release, and removes them. They were
never installed on Fedora or openSUSE.

usage: rpm.py                    It takes some ten minutes.

       rpm.py --packages FOLDER  keeps the packages in the folder, or uses those that are there.

It needs root and mmdebstrap, as debian.py does. To save time, it compiles with -O1. The exit status is 77 if the user is
not root.
"""

import json
import pathlib
import re
import shutil
import tempfile

import arch
from roots import Root
from script import ROOT, call, expect, keeps_packages, version_of

COMMANDS = re.compile(r"^## RPM$.*?^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The findings of rpmlint that are accepted, each with the reason.
ACCEPTED = {
    "invalid-license": "BSL-1.0 is the SPDX name, as Fedora and openSUSE write it; Debian's rpmlint does not know it",
    "library-not-linked-against-libc": "the linker leaves out what a library does not call directly",
    "manpage-not-compressed": "Debian's rpmlint expects bzip2; Fedora and openSUSE compress by gzip",
    "missing-hash-section": "glibc needs only .gnu.hash, and g++ makes no other by default",
    "no-documentation": "the documents are in the source, and on the site",
    "no-major-in-name": "Fedora and openSUSE name a -devel package without a number",
    "no-manual-page-for-binary": "it looks for a manual that bzip2 has compressed, too",
    "no-packager-tag": "the user who publishes packages sets %packager",
    "no-signature": "the user who publishes packages signs them",
    "only-non-binary-in-usr-lib": "systemd-tmpfiles reads /usr/lib/tmpfiles.d on all machines",
    "outside-libdir-files": "the licence; its folder has the name of the package, so packages of two versions do not conflict",
    "requires-on-release": "the libraries share internal symbols, so they require exactly their own version",
    "static-library-without-debuginfo": "debug information would make the archives several times as large",
}
# The folders of the first and of the second release of the packages.
MADE, NEWER = "made", "newer"
NAMES = LIBRARY, DEVEL, RABBITMQ, RABBITMQ_DEVEL, PROGRAM = (
    "libholdfast{0}", "holdfast-devel", "libholdfast_rabbitmq{0}", "holdfast-rabbitmq-devel", "holdfast")
# For each package: files that it must have, and what it must require. {0} is the minor version with _, {1} with a dot.
FILES = {
    LIBRARY: ["/usr/lib64/libholdfast.so.{1}"],
    DEVEL: ["/usr/lib64/libholdfast.so", "/usr/lib64/libholdfast.a", "/usr/lib64/libholdfast_testing.a",
            "/usr/include/holdfast/holdfast.hpp", "/usr/lib64/cmake/holdfast/holdfastConfig.cmake",
            "/usr/lib64/pkgconfig/holdfast.pc"],
    RABBITMQ: ["/usr/lib64/libholdfast_rabbitmq.so.{1}"],
    RABBITMQ_DEVEL: ["/usr/lib64/libholdfast_rabbitmq.so", "/usr/include/holdfast/rabbitmq.hpp"],
    PROGRAM: ["/usr/bin/holdfast", "/usr/lib/tmpfiles.d/holdfast.conf", "/usr/share/man/man1/holdfast.1.gz"],
}  # fmt: skip
REQUIRES = {
    LIBRARY: [r"libboost_json\.so\.", r"libssl\.so\.3"],
    DEVEL: [r"libholdfast{0} = ", r"boost-devel >= 1\.\d+$", r"boost-devel < 1\.\d+$", r"pkgconfig\(openssl\)"],
    RABBITMQ: [r"libholdfast\.so\.{1}\(", r"libholdfast{0} = ", r"librabbitmq\.so\."],
    RABBITMQ_DEVEL: [r"libholdfast_rabbitmq{0} = ", r"holdfast-devel = ", r"pkgconfig\(librabbitmq\)"],
    PROGRAM: [r"libholdfast{0} = ", r"libholdfast_rabbitmq{0} = ", r"libholdfast\.so\.{1}\("],
}  # fmt: skip
SCRIPTS = {LIBRARY: "/sbin/ldconfig", RABBITMQ: "/sbin/ldconfig", PROGRAM: "systemd-tmpfiles --create holdfast.conf"}


def commands():
    found = COMMANDS.search((ROOT / "doc/reference/packages.md").read_text(encoding="utf-8"))
    expect(found, "doc/reference/packages.md has no commands for RPM")
    return found[1]


def make_packages(root, folder, version):
    """Runs the commands in the unpacked archive of the last commit. The same files then become the packages' next release."""
    build = root.folder / arch.BUILD
    build.mkdir()
    archive = arch.release.write_archive(version, build)
    with arch.compiler_cache(root) as environment:
        # The source is where makepkg of arch.py unpacks it, so ccache knows most objects.
        root.run(f"mkdir /{arch.BUILD}/src && cd /{arch.BUILD}/src && tar -xf ../{archive.name} && "
                 f"cd holdfast-{version} && set -e && {commands()}\n"
                 "cmake build/rpm -DHOLDFAST_RPM_RELEASE=2 && cpack --config build/rpm/CPackConfig.cmake -B build/newer",
                 CXXFLAGS=f"{arch.FLAGS} -DNDEBUG", LDFLAGS="-Wl,-z,relro,-z,now", HOME="/test", **environment)
    for place, name in (("packages", MADE), ("newer", NEWER)):
        made = list(build.glob(f"src/*/build/{place}/*.rpm"))
        expect(len(made) == len(NAMES), f"cpack has made {[each.name for each in made]}")
        (folder / name).mkdir(parents=True, exist_ok=True)
        for each in made:
            shutil.copy(each, folder / name)


def check_package(root, name, version):
    """Looks at the files, the requirements and the owner of one package. Returns its size."""
    minor = version.rpartition(".")[0]
    number = minor.replace(".", "_")

    def fill(text):
        return text.replace("{0}", number).replace("{1}", minor)

    [path] = (root.folder / "test/made").glob(f"{fill(name)}-{version}-1.*.rpm")
    package = f"/test/made/{path.name}"
    files = root.run(f"rpm -qpl {package}").split()
    missing = [fill(each) for each in FILES[name] if fill(each) not in files]
    expect(not missing, f"{path.name} lacks {missing}:\n" + "\n".join(files))
    licence = f"/usr/share/licenses/{fill(name)}/LICENSE"
    expect(licence in files, f"{path.name} has no {licence}")
    # Folders that belong to other packages conflict with theirs.
    ours = re.compile(r"/usr/(include/holdfast|lib64/cmake/holdfast|share/licenses/)")
    modes = root.run(f"rpm -qp --qf '[%{{FILEMODES:perms}} %{{FILEUSERNAME}} %{{FILENAMES}}\\n]' {package}").splitlines()
    foreign = [line for line in modes if line.startswith("d") and not ours.match(line.split()[2])]
    expect(not foreign, f"{path.name} owns {foreign}")
    wrong = [line for line in modes if line.split()[1] != "root" or line[8] == "w" and line[0] != "l"]
    expect(not wrong, f"{path.name} has {wrong}")
    requires = root.run(f"rpm -qpR {package}").splitlines()
    for each in REQUIRES[name]:
        pattern = re.compile(fill(each))
        expect(any(map(pattern.match, requires)), f"{path.name} does not require {pattern.pattern}:\n" + "\n".join(requires))
    scripts = root.run(f"rpm -qp --scripts {package}")
    wanted = SCRIPTS.get(name)
    expect(wanted in scripts if wanted else not scripts, f"{path.name} has these scripts:\n{scripts}")
    about = root.run(f"rpm -qp --qf '%{{NAME}} %{{VERSION}} %{{LICENSE}}' {package}")
    expect(about == f"{fill(name)} {version} BSL-1.0", f"{path.name}: {about}")
    return path.stat().st_size


def check_lint(root):
    said = root.run("rpmlint --ignore-unused-rpmlintrc /test/made/*.rpm || true")
    findings = re.findall(r"^(\S+): ([EW]): (\S+)(.*)$", said, re.MULTILINE)
    wrong = [" ".join(each) for each in findings if each[2] not in ACCEPTED]
    expect(not wrong, "rpmlint found:\n" + "\n".join(wrong))
    counted = re.search(r"(\d+) packages and .*checked; (\d+) errors, (\d+) warnings", said)
    expect(counted and int(counted[1]) == len(NAMES), f"rpmlint did not check {len(NAMES)} packages:\n{said[-1000:]}")
    print(f"  rpmlint: {counted[0]}; accepted: {', '.join(sorted({each[2] for each in findings}))}")


def check_life(root, version):
    """rpm installs the packages in an empty folder, without their dependencies, upgrades them, and removes them."""
    rpm = "rpm --root /test/installed --noscripts --nodeps"
    root.run("mkdir /test/installed")
    for number, folder in enumerate((MADE, NEWER), 1):
        root.run(f"{rpm} -U /test/{folder}/*.rpm")
        installed = root.run("rpm --root /test/installed -qa --qf '%{VERSION}-%{RELEASE}\\n'").split()
        expect(installed == [f"{version}-{number}"] * len(NAMES), f"installed: {installed}")
        said = root.run("LD_LIBRARY_PATH=/test/installed/usr/lib64 /test/installed/usr/bin/holdfast --version")
        expect(version in said, "the installed program does not run")
    # CMake looks into lib64 only where the system does.
    build = "cmake -S /test/source/test/package/examples -B /test/consumer -G Ninja -Dholdfast_DIR=/test/installed/usr/lib64/cmake/holdfast"
    root.run(f"{build} && cmake --build /test/consumer")
    expect("working, with" in root.run("/test/consumer/quickstart"), "README's program does not work with the packages")
    root.run(f"{rpm} -e $(rpm --root /test/installed -qa)")
    left = root.run("find /test/installed/usr ! -type d -print 2>/dev/null || true")
    expect(not left, f"removal leaves {left}")


def main(words):
    version = version_of(ROOT)
    with tempfile.TemporaryDirectory(prefix="holdfast-rpm-") as name:
        work = pathlib.Path(name)
        kept = pathlib.Path(words[1]).resolve() if words else work / "kept"
        root = Root(work / "root", "bookworm", arch.TOOLS)
        if not list(kept.glob("*/*.rpm")):
            make_packages(root, kept, version)
        for name in (MADE, NEWER):
            shutil.copytree(kept / name, root.folder / "test" / name)
        for part in ("example", "test/package/examples"):
            shutil.copytree(ROOT / part, root.folder / "test/source" / part)
        sizes = {name.replace("{0}", ""): check_package(root, name, version) for name in NAMES}
        for package in sorted((kept / MADE).iterdir()):
            print(f"  {package.name}: {package.stat().st_size:,} bytes")
        check_lint(root)
        check_life(root, version)
        print("  installed in an empty folder, upgraded, used by a program, and removed")
    print("figures: " + json.dumps({"test": "rpm", "bytes": sizes}))


if __name__ == "__main__":
    call(main, __doc__, lambda words: not words or keeps_packages(words), needs_root="it makes a root of Debian")
