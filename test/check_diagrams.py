#!/usr/bin/env python3
"""Checks that the state diagrams in doc/*.md have the states of the code.

In a document a line `<!-- states of FILE: ENUM -->` precedes a mermaid stateDiagram: its states are the enumerators of that
enum in that file, all of them and no others.

usage: check_diagrams.py              checks; prints what differs
       check_diagrams.py --self-test  shows that the check is able to fail
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIAGRAM = re.compile(r"^<!-- states of (\S+): (\w+) -->\n```mermaid\nstateDiagram-v2\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"//.*")


def enumerators(code, name):
    found = re.search(rf"enum class {name}\b[^{{;]*\{{(.*?)\}}", COMMENT.sub("", code), re.DOTALL)
    if not found:
        return None
    return {part.split("=")[0].strip() for part in found[1].split(",") if part.strip()}


def states(diagram):
    return {state for line in diagram.splitlines()
            for state in re.findall(r"\w+|\[\*\]", line.partition(":")[0].replace("-->", " ")) if state != "[*]"}


def problems(documents, read):
    """What is wrong with the documents, {path: text}; `read` gives the text of a file."""
    for path, text in documents.items():
        if text.count("<!-- states of") != len(DIAGRAM.findall(text)):
            yield f"{path}: a diagram that cannot be read"
        for file, name, diagram in DIAGRAM.findall(text):
            there = enumerators(read(file), name)
            if there is None:
                yield f"{path}: {file} has no enum {name}"
            elif there != states(diagram):
                yield f"{path}: {file}: {name} has the states {sorted(there)}, the diagram {sorted(states(diagram))}"


def self_test():
    code = {"a.hpp": "enum class s {\n  one,  ///< first, two\n  two = 3,\n};"}
    good = "<!-- states of a.hpp: s -->\n```mermaid\nstateDiagram-v2\n  [*] --> one\n  one --> two: three\n```\n"
    assert not list(problems({"d": good}, code.get))
    for bad in (good.replace("two:", "four:"), good.replace("  one --> two: three\n", ""), good.replace(": s ", ": t "),
                good.replace("stateDiagram-v2", "flowchart")):
        assert list(problems({"d": bad}, code.get)), bad


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:]:
        sys.exit(__doc__.strip())
    documents = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in ROOT.glob("doc/*.md")}
    found = list(problems(documents, lambda file: (ROOT / file).read_text(encoding="utf-8")))
    print("\n".join(found) or f"{sum(text.count('<!-- states of') for text in documents.values())} diagrams, as the code")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
