# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that each path `doc/...` in a file, an error text included, names a file, and that its anchor is a heading there.
scripts/docs checks the links in documents."""

import re

# In results and in self-tests stand paths of other commits and of no file.
EXCEPT = re.compile(r"doc/results/|test/fuzz/corpus/|tools/(results|rules/\w+)\.py$")


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
        if EXCEPT.match(path):
            continue
        for match in re.finditer(r"(?<![\w/.])doc/[\w/.-]+\.(?:md|svg)\b(?:#([\w-]+))?", text):
            target = match[0].partition("#")[0]
            line = text.count("\n", 0, match.start()) + 1
            if target not in files:
                yield f"{path}:{line}: no file {target}"
            elif match[1] and match[1] not in anchors(files[target]):
                yield f"{path}:{line}: no heading #{match[1]} in {target}"


GOOD = {"doc/a.md": "## D `e`\n```\n# F\n```", "src/a.cpp": "// doc/a.md#d-e", "README.md": "https://x.y/doc/b.md"}
PLANTED = [(path, "", text, f"{path}:1: no {what}") for path, text, what in [
    ("src/a.cpp", '"see doc/b.md"', "file"), ("src/a.cpp", "// doc/a.md#none", "heading"), ("README.md", "doc/a.md#f", "heading"),
]]
