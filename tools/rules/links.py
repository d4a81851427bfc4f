# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that each link in a document leads to a file of the repository, and each anchor to a heading there. Also checks
that each path `doc/...` in a source file, an error text included, names a file."""

import posixpath
import re

# In results and in self-tests stand paths of other commits and of no file.
EXCEPT = re.compile(r"doc/results/|test/fuzz/corpus/|tools/(results|rules/\w+)\.py$")


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


GOOD = {"README.md": "# A b, c!\n[x](doc/a.md#d-e) [y](#a-b-c) [z](doc) [w](https://x.y/z)\n```\n[n](none.md)\n```\n`[n](none.md)`",
        "doc/a.md": "## D `e`\n[x](../README.md#a-b-c)", "src/a.cpp": "// doc/a.md#d-e"}
PLANTED = [(path, "", text, f"{path}:1: no {what}") for path, text, what in [
    ("README.md", "[x](doc/b.md)", "file"), ("README.md", "[x](doc/a.md#none)", "heading"),
    ("doc/a.md", "[x](a/README.md)", "file"), ("README.md", "[x](#none)", "heading"),
    ("src/a.cpp", '"see doc/b.md"', "file"), ("src/a.cpp", "// doc/a.md#none", "heading"),
]]
