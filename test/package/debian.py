#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Makes the Debian packages in a root of a Debian release, and uses them in a bare one.

The packages are checked by that release's lintian. apt installs them in the bare root, upgrades them to a higher
revision, and removes them. After that, every file of the root must be as before. Programs are built against the
packages, with CMake and with pkg-config, with the shared libraries and with the static ones, and are run.

usage: debian.py RELEASE                     bookworm or trixie. It takes some twenty minutes.

       debian.py RELEASE --packages FOLDER   keeps the packages in the folder, or uses those that are there.

It needs root and mmdebstrap. The packages of the roots come from the servers of this system's own packages. The roots are
kept as archives in the user's cache, below holdfast/. The exit status is 77 if the user is not root.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

from roots import Root
from script import ROOT, call, expect, keeps_packages, run

BOOST = {"bookworm": "1.81", "trixie": "1.83"}
# The packages that scripts/packages needs, and lintian.
TOOLS = "g++ cmake ninja-build libssl-dev librabbitmq-dev libcli11-dev python3 pkg-config dpkg-dev lintian".split()
# The packages that a user of the -dev packages needs besides.
# Debian 13's static OpenSSL needs the last two, and libssl-dev does not depend on them.
USER_TOOLS = "g++ cmake ninja-build pkg-config zlib1g-dev libzstd-dev".split()
RUNTIME, RABBITMQ, DEV, RABBITMQ_DEV, PROGRAM = PACKAGES = (
    "libholdfast0.1", "libholdfast-rabbitmq0.1", "libholdfast-dev", "libholdfast-rabbitmq-dev", "holdfast-tools")
# Tags of lintian that are not errors here, and why.
ACCEPTED = {
    "bogus-mail-host": "the project has no address; the user who publishes packages sets DEBEMAIL",
    "bogus-mail-host-in-debian-changelog": "the same",
}


def make_packages(release, work, folders):
    """Builds the packages of two revisions from this checkout."""
    boost = BOOST[release]
    root = Root(work / "builder", release, [*TOOLS, f"libboost{boost}-dev", f"libboost-json{boost}-dev"])
    source = root.folder / "test/source"
    source.mkdir()
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                            capture_output=True).stdout.split(b"\0")
    names = b"\0".join(each for each in listed if each and os.path.lexists(ROOT / os.fsdecode(each)))
    subprocess.run(f"tar -c --null -T - | tar -x -C {shlex.quote(str(source))}", shell=True, cwd=ROOT, input=names,
                   check=True)
    epoch = run(["git", "log", "-1", "--format=%ct"], cwd=ROOT).strip()
    for revision, folder in enumerate(folders, 1):
        keep = "--keep" if revision > 1 else ""
        if not list(folder.glob("*.deb")):
            made = root.folder / f"test/made{revision}"
            root.run(f"cd /test/source && scripts/packages --revision {revision} {keep} /test/made{revision}",
                     SOURCE_DATE_EPOCH=epoch, HOLDFAST_JOBS=os.environ.get("HOLDFAST_JOBS", "2"))
            folder.mkdir(parents=True, exist_ok=True)
            for each in made.iterdir():
                shutil.copy(each, folder)
    return root


def check_lintian(root, folder):
    shutil.copytree(folder, root.folder / "test/lint", dirs_exist_ok=True)
    said = root.run("lintian --allow-root --fail-on none --show-overrides --tag-display-limit 0 /test/lint/*.deb")
    tags = [line for line in said.splitlines() if re.match(r"[EWO]: ", line)]
    wrong = [line for line in tags if line.split(": ")[2].split()[0] not in ACCEPTED]
    expect(not wrong, "lintian found:\n" + "\n".join(wrong))
    print(f"  lintian: no error, no warning but {len(tags)} that are accepted")


def check_files(folder):
    sizes = {}
    for package in sorted(folder.glob("*.deb")):
        sizes[package.name.partition("_")[0]] = package.stat().st_size
    expect(sorted(sizes) == sorted(PACKAGES), f"these packages were made: {sorted(sizes)}")
    for name, size in sizes.items():
        print(f"  {name}: {size:,} bytes")
    return sizes


def debs(names, folder):
    """The files of packages, as the root has them."""
    return " ".join(f"/test/{folder}/{name}_*.deb" for name in names)


def versions(root):
    out = root.run("dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\\n' '*holdfast*'")
    return {line.split()[0]: line.split()[1:] for line in out.splitlines()}


def check_life(root):
    """Installs, upgrades and removes all packages."""
    root.apt("update")
    before = root.files()
    root.apt(f"install --no-install-recommends {debs(PACKAGES, 'one')}")
    installed = versions(root)
    expect(sorted(installed) == sorted(PACKAGES), f"installed: {installed}")
    check_program(root)
    (root.folder / "run/holdfast/a_session").touch()
    root.apt(f"install --no-install-recommends {debs(PACKAGES, 'two')}")
    for name, (version, status) in versions(root).items():
        expect(status == "installed" and "-2~" in version, f"{name} is {version} after the upgrade ({status})")
        expect(installed[name][0] == version.replace("-2~", "-1~"), f"{name} was {installed[name]} before the upgrade")
    check_program(root)
    expect((root.folder / "run/holdfast/a_session").exists(), "the upgrade has removed a file of a process")
    (root.folder / "run/holdfast/a_session").unlink()
    # Not purged: the packages have no configuration that would stay.
    root.apt(f"remove {' '.join(PACKAGES)}")
    left = root.run("dpkg -l '*holdfast*' 2>/dev/null | grep '^.[^n]' | grep holdfast || true")
    expect(not left, f"dpkg still has:\n{left}")
    root.apt("autoremove --purge")
    after = root.files()
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    expect(not changed, "removal leaves or changes " + ", ".join(
        f"{path} ({before.get(path)} -> {after.get(path)})" for path in sorted(changed)[:20]))
    print(f"  installed, upgraded and removed: all {len(before)} files are as before")


def check_program(root):
    expect(re.search(r"\d\.\d", root.run("holdfast --version")), "the program does not run")
    said = root.run("stat -c '%F %a %U %G' /run/holdfast").strip()
    expect(said == "directory 1777 root root", f"/run/holdfast: {said}")
    root.run("gzip -t /usr/share/man/man1/holdfast.1.gz && test -s /usr/share/bash-completion/completions/holdfast && "
             "test -s /usr/share/zsh/vendor-completions/_holdfast && test -s /usr/share/fish/vendor_completions.d/holdfast.fish")
    # The trigger has run: the loader's cache has the libraries.
    cached = root.run("ldconfig -p")
    for library in ("libholdfast.so.0.1", "libholdfast_rabbitmq.so.0.1"):
        expect(library in cached, f"{library} is not in the cache of ldconfig")


def needs(root, program):
    return {each for each in re.findall(r"NEEDED.*\[(lib\w+)\.so", root.run(f"readelf -d {program}"))}


def check_development(root):
    """Builds programs with the -dev packages in a root that has nothing else of holdfast."""
    root.apt(f"install --no-install-recommends {' '.join(USER_TOOLS)} {debs((RUNTIME, DEV), 'one')}")
    project = "/test/source/test/package/examples"

    def with_cmake(program, static, libraries, options="", fails=False):
        build = f"/test/{program}-{'static' if static else 'shared'}"
        said = root.run(f"cmake -S {project} -B {build} -G Ninja -Dholdfast_USE_STATIC_LIBS={static:d} {options} && "
                        f"cmake --build {build}", fails=fails)
        if not fails:
            check_built(f"{build}/{program}", static, libraries)
        return " ".join(said.split())

    def with_pkg_config(program, static, libraries, modules):
        built = f"/test/{program}-by-pkg-config"
        static_flags = "-static" if static else ""
        root.run(f"g++ -std=c++20 {static_flags} /test/source/example/{program}.cpp -o {built} "
                 f"$(pkg-config {static_flags.replace('-', '--')} --cflags --libs {modules})")
        check_built(built, static, libraries)

    def check_built(program, static, libraries):
        found = {each for each in needs(root, program) if each.startswith("libholdfast")}
        expect(found == (set() if static else libraries), f"{program} needs {found}")
        said = root.run(program)
        expect("working" in said, f"{program} did not work:\n{said}")

    for static in (False, True):
        with_cmake("quickstart", static, {"libholdfast"})
        with_pkg_config("quickstart", static, {"libholdfast"}, "holdfast-testing holdfast")
    expect(DEV.replace("-dev", "-rabbitmq-dev") in with_cmake("rabbitmq", False, set(), "-DCONSUMER_RABBITMQ=ON", fails=True),
           "CMake does not name the package of the component rabbitmq")
    root.apt(f"install --no-install-recommends {debs((RABBITMQ, RABBITMQ_DEV), 'one')}")
    for static in (False, True):
        with_cmake("rabbitmq", static, {"libholdfast", "libholdfast_rabbitmq"}, "-DCONSUMER_RABBITMQ=ON")
        with_pkg_config("rabbitmq", static, {"libholdfast", "libholdfast_rabbitmq"},
                        "holdfast-rabbitmq-testing holdfast-rabbitmq")
    print("  8 programs: CMake and pkg-config, shared and static, Consul and RabbitMQ")


def main(words):
    release = words[0]
    with tempfile.TemporaryDirectory(prefix="holdfast-debian-") as name:
        work = pathlib.Path(name)
        kept = pathlib.Path(words[2]).resolve() if len(words) == 3 else work
        folders = [kept / f"{release}-{revision}" for revision in (1, 2)]
        print(f"{release}: the packages", flush=True)
        builder = make_packages(release, work, folders)
        sizes = check_files(folders[0])
        check_lintian(builder, folders[0])
        print(f"{release}: a bare root", flush=True)
        bare = Root(work / "bare", release)
        for folder, revision in zip(folders, ("one", "two")):
            shutil.copytree(folder, bare.folder / "test" / revision)
        shutil.copytree(builder.folder / "test/source/example", bare.folder / "test/source/example")
        shutil.copytree(builder.folder / "test/source/test/package", bare.folder / "test/source/test/package")
        check_life(bare)
        check_development(bare)
    print("figures: " + json.dumps({"test": f"debian/{release}", "bytes": sizes}))


def is_known(words):
    return words[:1] in ([release] for release in BOOST) and (len(words) == 1 or keeps_packages(words[1:]))


if __name__ == "__main__":
    call(main, __doc__, is_known, needs_root="apt installs packages in a root")
