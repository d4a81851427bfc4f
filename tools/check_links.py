#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that each link in a document leads to a file of the repository, and each anchor to a heading there. Also checks
that each path `doc/...` in a source file, an error text included, names a file.

usage: check_links.py              exit status 1 if a link leads nowhere
       check_links.py --self-test
"""

import pathlib
import posixpath
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# In results and in self-tests stand paths of other commits and of no file.
EXCEPT = re.compile(r"doc/results/|test/fuzz/corpus/|tools/(results|check_links|lint_prose|readme)\.py$")


def without_code(text):
    text = re.sub(r"^( *)(```|~~~).*?^\1\2[^\n]*$", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", lambda m: "x" * len(m[0]), text)


def anchors(text):
    """As hosting sites make them of headings."""
    found = {}
    in_code = False
    for line in text.split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            in_code = not in_code
        heading = re.match(r"#+\s+(.*)", line)
        if in_code or not heading:
            continue
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = found.get(name, -1) + 1
        found[name] = number
        yield name if number == 0 else f"{name}-{number}"
    yield from re.findall(r'<a (?:id|name)="([^"]+)"', text)


def problems(files):
    """`files`: {path: text} of all that there is."""
    for path, text in files.items():
        if path.endswith(".md"):
            plain = without_code(text)
            for match in re.finditer(r"\]\(([^)\s]+)\)", plain):
                link = match[1]
                if re.match(r"[a-z]+:", link):
                    continue
                name, _, anchor = link.partition("#")
                target = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if name else path
                line = plain.count("\n", 0, match.start()) + 1
                is_folder = any(each.startswith(target + "/") for each in files)
                if target not in files and not is_folder:
                    yield f"{path}:{line}: no file {target}"
                elif anchor and anchor not in anchors(files.get(target, "")):
                    yield f"{path}:{line}: no heading #{anchor} in {target}"
        if EXCEPT.match(path):
            continue
        for match in re.finditer(r"(?<![\w/.])doc/[\w/.-]+\.(?:md|svg)\b(?:#([\w-]+))?", text):
            target = match[0].partition("#")[0]
            line = text.count("\n", 0, match.start()) + 1
            if target not in files:
                yield f"{path}:{line}: no file {target}"
            elif match[1] and match[1] not in anchors(files[target]):
                yield f"{path}:{line}: no heading #{match[1]} in {target}"


def self_test():
    good = {"README.md": "# A b, c!\n[x](doc/a.md#d-e) [y](#a-b-c) [z](doc) [w](https://x.y/z)\n```\n[n](none.md)\n```\n`[n](none.md)`",
            "doc/a.md": "## D `e`\n[x](../README.md#a-b-c)", "src/a.cpp": "// doc/a.md#d-e"}
    assert not list(problems(good)), list(problems(good))
    for path, text in (("README.md", "[x](doc/b.md)"), ("README.md", "[x](doc/a.md#none)"), ("doc/a.md", "[x](a/README.md)"),
                       ("src/a.cpp", '"see doc/b.md"'), ("src/a.cpp", "// doc/a.md#none"), ("README.md", "[x](#none)")):
        found = list(problems({**good, path: text}))
        assert any(each.startswith(f"{path}:1:") for each in found), (path, text, found)


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:]:
        print(__doc__.strip(), file=sys.stdout if sys.argv[1:] in (["-h"], ["--help"]) else sys.stderr)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    files = {}
    for path in filter(None, listed.split("\0")):
        try:
            files[path] = (ROOT / path).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            files[path] = ""
    found = sorted(set(problems(files)))
    print(*found, f"{len(files)} files, {len(found)} links lead nowhere", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
