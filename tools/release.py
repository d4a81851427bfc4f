#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks whether this commit can be released, and makes the source archive and its SBOM. scripts/release calls it.

usage: release.py check VERSION                  prints everything that the commit lacks. The exit status is 1 if it
                                                 lacks anything

       release.py archive VERSION FOLDER         writes holdfast-VERSION.tar.gz and its checksum into the folder. The
                                                 same commit always makes the same bytes

       release.py sbom VERSION FOLDER UNPACKED   writes holdfast-VERSION.spdx into the folder. It needs `reuse`, and
                                                 spdx-tools in Python's path. UNPACKED is the folder that the archive
                                                 unpacks to

       release.py left VERSION FOLDER            prints what is left to do by hand

       release.py --self-test                    shows that the check notices each lack
"""

import contextlib
import datetime
import functools
import hashlib
import io
import pathlib
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile

import check_version
import consul_matrix
import figures
import recorded
from recorded import output_of

CHECKS = {
    "versions": ["tools/check_version.py"],
    "links": ["tools/check_links.py"],
    "prose": ["tools/lint_prose.py"],
    "tables of figures": ["tools/figures.py"],
    "licences": ["reuse", "lint"],
}
# Statements that are true before the first release only. "was not released" may be said of a lock.
UNRELEASED = re.compile(r"version [\d.]+\d,?\s(?:is\s|and\s)*\[?not\s+released|there\s+is\s+no\s+release\s+yet", re.IGNORECASE)
NOT_LONG = "quick", "rabbitmq"  # steps of scripts/test that --long leaves out
SHOWN = 4  # lines of one lack


def text_of(path):
    try:
        return (recorded.ROOT / path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def some(lines):
    """The first lines, and how many others there are."""
    lines = list(lines)
    more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return "; ".join(lines[:SHOWN] + more)


# --- What a release needs. Each function yields the lacks, one text for each.


def tree(_):
    changed = output_of("git", "status", "--porcelain", "--untracked-files=all").splitlines()
    if changed:
        yield f"not committed: {some(line[3:] for line in changed)}"


def tag(version):
    if output_of("git", "tag", "--list", f"v{version}"):
        yield f"the tag v{version} exists already"


def project(version):
    found = re.search(check_version.LIBRARY[1], text_of(check_version.LIBRARY[0]))
    own = found[1] if found else "nothing"
    if own != version:
        yield f"{check_version.LIBRARY[0]} says {own}, not {version}"


def changelog(version):
    """The first version in CHANGELOG must be this one, with a date that is not in the future."""
    found = re.search(r"^## (.*)$", text_of("CHANGELOG.md"), re.MULTILINE)
    heading = found[1] if found else "nothing"
    dated = re.fullmatch(rf"{re.escape(version)} \((\d{{4}}-\d\d-\d\d)\)", heading)
    if not dated:
        yield f'CHANGELOG.md begins with "{heading}", not with "{version} (YYYY-MM-DD)"'
        return
    try:
        is_past = datetime.date.fromisoformat(dated[1]) <= datetime.datetime.now(datetime.timezone.utc).date()
    except ValueError:
        is_past = False
    if not is_past:
        yield f"CHANGELOG.md has the date {dated[1]}, which is none, or in the future"


def statements(_):
    for path in output_of("git", "ls-files", "*.md").splitlines():
        found = UNRELEASED.search(text_of(path))
        if found:
            yield f'{path} says "{" ".join(found[0].split())}"'


def check(of, command):
    """A check of the whole tree by another program."""
    program = [sys.executable, *command] if command[0].endswith(".py") else command
    try:
        run = subprocess.run(program, cwd=recorded.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError:
        yield f"{of}: there is no {command[0]} here"
        return
    if run.returncode != 0:
        yield f"{of}: {shlex.join(command)} fails: {some(line for line in run.stdout.splitlines() if line.strip())}"


@functools.cache
def long_steps():
    listed = subprocess.run([figures.ROOT / "scripts/test", "--steps"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line.split()[0] not in NOT_LONG]


def by_reason(bad):
    """Names that have the same reason stand together."""
    reasons = {}
    for name, why in bad.items():
        reasons.setdefault(why, []).append(name)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items())


def of_older_code(commit):
    why = recorded.mark_of(commit)
    return why and f"measured at {commit[:12]}, {why}"


def why_lacking(result, is_good):
    """Why a row of a matrix is not good for a release. A row that cannot be run has `missing` with the reason."""
    if not result:
        return "never run"
    return of_older_code(result["commit"]) or ("" if "missing" in result or is_good(result) else "a test failed")


def why_not_passed(step):
    if not step:
        return "never passed"
    return "" if step["code"] == recorded.code_hash() else f"last passed at {step['commit']}, with other code"


@functools.cache
def result_files():
    """The renderers of all results files (tools/figures.py)."""
    return [figures.load(path) for path in figures.MODULES]


def results(_):
    """All results must be of this commit, or of one with the same code."""
    for module in result_files():
        content = recorded.load(module.RESULTS)
        if not content:
            bad = {"all": "no results"}
        elif hasattr(module, "is_good"):
            rows = module.rows() if hasattr(module, "rows") else module.versions()
            bad = {name: why_lacking(content.get(name), module.is_good) for name in {**dict.fromkeys(rows), **content}}
        elif "steps" in content:
            bad = {step: why_not_passed(content["steps"].get(step)) for step in long_steps()}
        elif "commits" in content:  # the tables compare the first commit with those that they name
            shown = "".join(render(content) for render in module.FIGURES.values())
            named = [each["commit"] for each in content["commits"][1:] if each["commit"] in shown]
            bad = {commit: of_older_code(commit) for commit in named} or {"all": "no results"}
        else:
            bad = {"all": of_older_code(content["about"]["commit"])}
        bad = {name: why for name, why in bad.items() if why}
        if bad:
            yield f"{module.RESULTS} ({module.COMMAND}): {by_reason(bad)}"


def lacks(version, checks=CHECKS):
    """Everything that this commit lacks for a release."""
    for needed in (tree, project, changelog, statements, tag, results):
        yield from needed(version)
    for of, command in checks.items():
        yield from check(of, command)


# --- The files of a release.


def name_of(version):
    return f"holdfast-{version}"


def write_archive(version, folder):
    """Packs the last commit. All files get the time of the commit. The user's settings of git do not matter."""
    path = pathlib.Path(folder) / f"{name_of(version)}.tar.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    tar = subprocess.run(["git", "-c", "tar.umask=0022", "archive", "--format=tar", f"--prefix={name_of(version)}/", "HEAD"],
                         cwd=recorded.ROOT, stdout=subprocess.PIPE, check=True).stdout
    path.write_bytes(subprocess.run(["gzip", "-n", "-9"], input=tar, stdout=subprocess.PIPE, check=True).stdout)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name(path.name + ".sha256").write_text(f"{checksum}  {path.name}\n", encoding="utf-8")
    return path


# The libraries that a build needs: the name, its licence, the file and the pattern of its least version, the relation.
LIBRARIES = (
    ("Boost", "BSL-1.0", "cmake/boost.cmake", r"find_package\(Boost ([\d.]+)", "SPDXRef-holdfast DEPENDS_ON SPDXRef-Boost"),
    ("OpenSSL", "NOASSERTION", "CMakeLists.txt", r"find_package\(OpenSSL ([\d.]+)",
     "SPDXRef-OpenSSL OPTIONAL_DEPENDENCY_OF SPDXRef-holdfast"),
    ("rabbitmq-c", "MIT", "cmake/pkg_config.cmake", r"librabbitmq >= ([\d.]+)",
     "SPDXRef-rabbitmq-c OPTIONAL_DEPENDENCY_OF SPDXRef-holdfast"),
    ("CLI11", "BSD-3-Clause", "CMakeLists.txt", r"find_package\(CLI11 ([\d.]+)",
     "SPDXRef-CLI11 OPTIONAL_DEPENDENCY_OF SPDXRef-holdfast"),
)  # fmt: skip


def sbom(reused, version, checksum, created, least):
    """Makes the SBOM of what `reuse spdx` prints, which has files and their licences only. `least` gives the least
    version of a library. The same archive always makes the same text."""
    tool = re.search(r"^Creator: Tool: .*$", reused, re.MULTILINE)[0]
    files = reused[reused.index("\nFileName:") + 1:]
    sums = sorted(re.findall(r"^FileChecksum: SHA1: (\w+)$", files, re.MULTILINE))
    licences = sorted(set(re.findall(r"^LicenseInfoInFile: (\S+)$", files, re.MULTILINE)))
    lines = [
        "SPDXVersion: SPDX-2.3",
        "DataLicense: CC0-1.0",
        "SPDXID: SPDXRef-DOCUMENT",
        f"DocumentName: {name_of(version)}",
        f"DocumentNamespace: https://spdx.org/spdxdocs/{name_of(version)}-{checksum}",
        "Creator: Organization: The holdfast authors",
        tool,
        f"Created: {created}",
        "Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-holdfast",
        *(f"Relationship: {relation}" for *_, relation in LIBRARIES),
        "",
    ]
    for name, licence, *where, _ in LIBRARIES:
        lines += [f"PackageName: {name}", f"SPDXID: SPDXRef-{name}", f"PackageVersion: {least(*where)} or later",
                  "PackageDownloadLocation: NOASSERTION", "FilesAnalyzed: false", f"PackageLicenseConcluded: {licence}",
                  f"PackageLicenseDeclared: {licence}", "PackageCopyrightText: NOASSERTION", ""]
    # All files that follow a package belong to it.
    lines += ["PackageName: holdfast", "SPDXID: SPDXRef-holdfast", f"PackageVersion: {version}",
              f"PackageFileName: {name_of(version)}.tar.gz", "PackageDownloadLocation: NOASSERTION", "FilesAnalyzed: true",
              f"PackageVerificationCode: {hashlib.sha1(''.join(sums).encode()).hexdigest()}",
              f"PackageChecksum: SHA256: {checksum}", "PackageLicenseConcluded: BSL-1.0",
              *(f"PackageLicenseInfoFromFiles: {licence}" for licence in licences), "PackageLicenseDeclared: BSL-1.0",
              "PackageCopyrightText: <text>The holdfast authors</text>", "", ""]
    return "\n".join(lines) + files


def invalid(text):
    """Why spdx-tools does not accept the SBOM."""
    from spdx_tools.spdx.parser.error import SPDXParsingError  # not installed where only the check runs
    from spdx_tools.spdx.parser.tagvalue.parser import Parser
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):  # ply reports its tables
            document = Parser().parse(text)
    except SPDXParsingError as why:
        return why.get_messages()
    return [message.validation_message for message in validate_full_spdx_document(document)]


def least_version(unpacked):
    def least(path, pattern):
        return re.search(pattern, (pathlib.Path(unpacked) / path).read_text(encoding="utf-8"))[1]

    return least


def write_sbom(version, folder, unpacked):
    """`reuse` must see the files of the archive only, so it runs where the archive has just been unpacked."""
    archive = pathlib.Path(folder) / f"{name_of(version)}.tar.gz"
    reused = subprocess.run(["reuse", "spdx"], cwd=unpacked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            check=True).stdout
    time = datetime.datetime.fromtimestamp(int(output_of("git", "log", "-1", "--format=%ct")), datetime.timezone.utc)
    text = sbom(reused, version, hashlib.sha256(archive.read_bytes()).hexdigest(), time.strftime("%Y-%m-%dT%H:%M:%SZ"),
                least_version(unpacked))
    found = invalid(text)
    if found:
        sys.exit(f"spdx-tools does not accept the SBOM: {some(found)}")
    (pathlib.Path(folder) / f"{name_of(version)}.spdx").write_text(text, encoding="utf-8")


def left(version, folder):
    """The steps that people do by hand, because they cannot be undone."""
    commit = output_of("git", "rev-parse", "HEAD").strip()
    folder = pathlib.Path(folder)
    name = name_of(version)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()
             and (path.name.startswith(name + ".") or path.suffix == ".deb")]
    unsigned = not (folder / f"{name}.tar.gz.asc").exists()
    major, minor, patch = (int(part) for part in version.split("."))
    yield f"1. Tag the commit:      git tag -s -m 'holdfast {version}' v{version} {commit}"
    yield f"                        git push origin v{version}"
    yield f"2. Make a release of the tag v{version} where the repository is hosted. Its text is the section"
    yield f"   {version} of CHANGELOG.md. Upload these files:"
    yield from (f"     {path}" for path in files)
    if unsigned:
        yield "   The archive is not signed: --key was not given."
    yield f"3. Copy the site to its web server:  {folder / 'site'}" if (folder / "site").is_dir() else \
        "3. Make the site, without --no-site, and copy it to its web server."
    yield f"4. Begin the next version: {major}.{minor + 1}.0, or {major}.{minor}.{patch + 1} if it only mends. Change CMakeLists.txt and"
    yield "   include/holdfast/version.hpp (tools/check_version.py names other places), and begin CHANGELOG.md with"
    yield f"   ## {major}.{minor + 1}.0 (unreleased)"


# --- The self-test.

STUB = """import pathlib, sys
if pathlib.Path("doc/broken/{name}").exists(): sys.exit("a finding of {name}")
"""
DEP5 = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: n
License: BSL-1.0
"""
REUSED = """SPDXVersion: SPDX-2.1
Creator: Tool: reuse-1
Relationship: SPDXRef-DOCUMENT describes SPDXRef-a

FileName: ./a
SPDXID: SPDXRef-a
FileChecksum: SHA1: 85ed0817af83a24ad8da68c2b5094de69833983c
LicenseConcluded: NOASSERTION
LicenseInfoInFile: BSL-1.0
FileCopyrightText: <text>n</text>
"""


def remove(path):
    (recorded.ROOT / path).unlink()


def write_results(commit, code, result=None):
    """Writes results files that have everything, each of this commit. `result(module, content)` may change them."""
    for module in result_files():
        row = {"commit": commit}
        if hasattr(module, "is_good"):
            rows = module.rows() if hasattr(module, "rows") else module.versions()
            row |= {"failed": 0, "cases": {"a": [1, 1]}, "built": True, "tested": True, "warnings": 0}
            content = {name: dict(row) for name in rows}
        elif module.RESULTS.endswith("long.json"):
            content = {"steps": {name: {**row, "code": code} for name in long_steps()}}
        elif module.RESULTS.endswith("dead_process.json"):
            rows = {"scene": {"1.8.7": {"figures": ["1.0"], "remarks": [""]}}}
            content = {"commits": [{"commit": "0000000", "rows": rows}, {**row, "rows": rows}]}
        else:
            content = {"about": row}
        if result:
            result(module, content)
        recorded.save(module.RESULTS, content)


def self_test():
    version = "1.2.3"
    whole = f"## {version} (2001-02-03)\nThe first.\n\n## 1.2.2 (2001-02-02)\n"
    with recorded.scratch() as (write, commit):
        for name, (first, *_) in CHECKS.items():
            if first.endswith(".py"):
                write(first, STUB.format(name=name))
        write(".reuse/dep5", DEP5)
        write("LICENSES/BSL-1.0.txt", "n")
        write("CMakeLists.txt", f"project(holdfast VERSION {version} LANGUAGES CXX)\n")
        write("CHANGELOG.md", whole)
        write("README.md", "A slot that was not released.\n")
        write("src/a.cpp", "1")
        first = commit()
        code = recorded.code_hash()
        write_results(first, code)
        commit()
        assert not list(lacks(version)), list(lacks(version))

        # Each lack by itself: how it is made, how it is mended, and a part of the report.
        def results_of(suffix, change):
            def changed(module, content):
                if module.RESULTS.endswith(suffix):
                    change(content)

            return lambda: write_results(first, code, changed)

        def of_old_code(row):
            row["commit"] = "0000000"

        consul = consul_matrix.versions()[0]
        made = {
            "CMakeLists.txt says 1.2.4, not 1.2.3":
                lambda: write("CMakeLists.txt", "project(holdfast VERSION 1.2.4 LANGUAGES CXX)\n"),
            'begins with "1.2.3 (unreleased)"': lambda: write("CHANGELOG.md", whole.replace("2001-02-03", "unreleased")),
            'begins with "1.2.4 (2001-02-03)"': lambda: write("CHANGELOG.md", whole.replace(version, "1.2.4")),
            'begins with "nothing"': lambda: remove("CHANGELOG.md"),
            "9001-02-03, which is none, or in the future": lambda: write("CHANGELOG.md", whole.replace("2001", "9001")),
            "2001-02-30, which is none": lambda: write("CHANGELOG.md", whole.replace("02-03)", "02-30)")),
            'README.md says "version 1.2, not released"': lambda: write("README.md", "It is version 1.2, not\nreleased.\n"),
            'README.md says "version 1.2 and [not released"': lambda: write("README.md", "At version 1.2 and [not released](a).\n"),
            'README.md says "There is no release yet"': lambda: write("README.md", "There is no\nrelease yet.\n"),
            f"consul.json (scripts/test --matrix consul): {consul}: never run":
                results_of("/consul.json", lambda content: content.pop(consul)),
            f"{consul}: a test failed": results_of("/consul.json", lambda content: content[consul].update(failed=1)),
            f"{consul}: measured at 0000000, unknown commit":
                results_of("/consul.json", lambda content: of_old_code(content[consul])),
            "1.0: measured at 0000000": results_of("/consul.json", lambda content: content.update({"1.0": {"commit": "0000000"}})),
            "g++-12: a test failed": results_of("compilers.json", lambda content: content["g++-12"].update(warnings=1)),
            "rabbitmq.json (scripts/test --matrix rabbitmq): ":
                results_of("/rabbitmq.json", lambda content: content.popitem()),
            "debian: never passed": results_of("long.json", lambda content: content["steps"].pop("debian")),
            "tidy: last passed at": results_of("long.json", lambda content: content["steps"]["tidy"].update(code="0")),
            "bench.json (scripts/bench --publish): all: measured at 0000000":
                results_of("bench.json", lambda content: of_old_code(content["about"])),
            "dead_process.json (bench/dead_process/results.py): 0000000: measured at":
                results_of("dead_process.json", lambda content: of_old_code(content["commits"][-1])),
            "bench_rabbitmq.json (scripts/bench --rabbitmq --publish): all: no results":
                lambda: remove("doc/results/bench_rabbitmq.json"),
            "licences: reuse lint fails": lambda: remove("LICENSES/BSL-1.0.txt"),
        }
        made |= {f"{name}: {first_word} fails: a finding of {name}": lambda name=name: write(f"doc/broken/{name}", "1")
                 for name, (first_word, *_) in CHECKS.items() if first_word.endswith(".py")}
        good = output_of("git", "rev-parse", "HEAD").strip()
        for part, make in made.items():
            make()
            # The finding needs no commit, but without one the tree is not clean, which hides whether it is found alone.
            output_of("git", "add", "--all")
            output_of("git", "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false", "commit", "-qm", "m")
            quick = {name: command for name, command in CHECKS.items() if name in part or command[0].endswith(".py")}
            found = list(lacks(version, quick))
            assert any(part in each for each in found), (part, found)
            # A change of CMakeLists.txt is one of code, so all results are old then.
            assert len(found) == (1 + len(result_files()) if part.startswith("CMake") else 1), (part, found)
            output_of("git", "reset", "-q", "--hard", good)

        # Files that are not committed.
        write("new.txt", "1")
        assert list(lacks(version)) == ["not committed: new.txt"], list(lacks(version))
        remove("new.txt")
        # The tag.
        output_of("git", "tag", "v1.2.30")
        assert not list(lacks(version)), "the tag of another version"
        output_of("git", "tag", f"v{version}")
        assert list(lacks(version)) == [f"the tag v{version} exists already"], list(lacks(version))
        # A change of code makes all results old.
        write("src/a.cpp", "2")
        commit()
        assert sum("doc/results/" in each for each in lacks(version)) == len(result_files()), list(lacks(version))
        output_of("git", "reset", "-q", "--hard", good)
        # Everything at once.
        write("src/a.cpp", "2")
        commit()
        for make in made.values():
            with contextlib.suppress(FileNotFoundError):
                make()
        found = list(lacks(version))
        parts = ["not committed:", f"the tag v{version}", "CMakeLists.txt says", "CHANGELOG.md", "README.md says",
                 *(module.RESULTS for module in result_files()), *(f"{name}:" for name in CHECKS)]
        assert all(any(part in each for each in found) for part in parts), found
        output_of("git", "reset", "-q", "--hard", good)
        output_of("git", "clean", "-qfd")

        # The archive, made twice, at different times and with other settings.
        with tempfile.TemporaryDirectory() as folder:
            one = write_archive(version, f"{folder}/1")
            output_of("git", "config", "tar.umask", "0077")
            (recorded.ROOT / "src/a.cpp").touch()
            two = write_archive(version, f"{folder}/2")
            assert one.read_bytes() == two.read_bytes(), "the archive is not reproducible"
            assert one.read_bytes()[3:8] == bytes(5), "gzip has put a name or a time into it"
            with tarfile.open(one) as packed:
                times = {each.mtime for each in packed}
            assert times == {int(output_of("git", "log", "-1", "--format=%ct"))}, times
            checked = subprocess.run(["sha256sum", "--check", "--quiet", one.name + ".sha256"], cwd=one.parent)
            assert checked.returncode == 0
            listed = output_of("tar", "--list", "--file", str(one)).splitlines()
            assert "holdfast-1.2.3/src/a.cpp" in listed and all(each.startswith("holdfast-1.2.3/") for each in listed), listed
            shown = "\n".join(left(version, one.parent))
            assert f"v1.2.3 {good}" in shown and "1.3.0, or 1.2.4" in shown and str(one) + ".sha256" in shown, shown
            assert "not signed" in shown and "Make the site" in shown, shown

    # The SBOM, without spdx-tools: scripts/release checks each one by them.
    text = sbom(REUSED, version, "c" * 64, "2001-02-03T00:00:00Z", least_version(figures.ROOT))
    assert text == sbom(REUSED, version, "c" * 64, "2001-02-03T00:00:00Z", least_version(figures.ROOT))
    assert "describes" not in text and "SPDX-2.1" not in text and text.endswith(REUSED[REUSED.index("FileName"):]), text
    assert all(f"PackageName: {name}\n" in text for name in ("holdfast", "Boost")), text
    try:
        assert not invalid(text), invalid(text)
        assert invalid(text.replace("SPDXID: SPDXRef-Boost\n", "")) and invalid(text.replace("SHA256: c", "SHA256: ")), "invalid"
    except ModuleNotFoundError:
        pass


def main():
    words = sys.argv[1:]
    if words == ["--self-test"]:
        return self_test()
    if words[:1] == ["check"] and len(words) == 2:
        found = list(lacks(words[1]))
        print(*(f"- {each}" for each in found), sep="\n", end="\n" if found else "")
        return 1 if found else 0
    if words[:1] == ["archive"] and len(words) == 3:
        print(write_archive(*words[1:]))
        return 0
    if words[:1] == ["sbom"] and len(words) == 4:
        return write_sbom(*words[1:])
    if words[:1] == ["left"] and len(words) == 3:
        print(*left(*words[1:]), sep="\n")
        return 0
    print(__doc__.strip())
    return 0 if words in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main())
