#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that the figures in README.md and doc/*.md are those of the results files in doc/results.

A document holds blocks of Markdown that a renderer has written from a results file:

  <!-- figures: NAME -->
  ...
  <!-- end of figures -->

A renderer module has three members. `RESULTS` is the path of its results file. `COMMAND` is the command that writes
this file. `FIGURES` is a dictionary from a block's name to a function, which makes the block's Markdown from the file's
content. To add a module, add its path to MODULES. If there is no results file, the block says so.

A module may have a function `mark`, which `--write` calls first. The function writes all data that depend on the newest
commit into the results file. So a later commit makes no document wrong.

usage: figures.py              checks; prints the difference
       figures.py --write      writes the renderers' blocks into the documents
       figures.py --self-test  shows that the check is able to fail
"""

import difflib
import importlib.util
import json
import pathlib
import re
import sys
import textwrap

MODULES = (
    "bench/tables.py",
    "bench/tables_newer.py",
    "bench/dead_process/results.py",
    "bench/rabbitmq/results.py",
    "tools/long_results.py",
    "tools/consul_matrix.py",
    "tools/rabbitmq_matrix.py",
    "tools/compiler_matrix.py",
)

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures: ", "<!-- end of figures -->"
BLOCK = re.compile(rf"^( *){BEGIN}(\S+) -->\n(.*?)^ *{END}$", re.MULTILINE | re.DOTALL)  # indented in a list
# Figures that are measured. In README, and where a document is about the benchmark, they must be in a block.
MEASURED = re.compile(r"\d[\d,.]*\s*(?:/s|[KM]B|bytes|requests)(?!\w)")


class Missing(Exception):
    """A block cannot be rendered. The text says why."""


def renewed(text, render):
    """The document as it should be. `render` gives the Markdown of a block. If it gives none, the block stays."""

    def block(found):
        try:
            text = f"{BEGIN}{found[2]} -->\n{render(found[2]).strip()}\n{END}"
            return textwrap.indent(text, found[1])
        except Missing:
            return found[0]

    return BLOCK.sub(block, text)


def problems(documents, names, render):
    """Yields the problems of the documents, {path: text}. `names` are the blocks that must exist."""
    used = set()
    for path, text in documents.items():
        right = renewed(text, render)
        yield from difflib.unified_diff(right.splitlines(), text.splitlines(), "results", path, lineterm="")
        blocks = BLOCK.findall(text)
        used.update(name for _, name, _ in blocks)
        if not len(blocks) == text.count(BEGIN) == text.count(END):
            yield f"{path}: a block of figures that does not begin or end"
        for _, name, _ in blocks:
            try:
                render(name)
            except Missing as why:
                yield f"{path}: {name}: {why}"
        for paragraph in re.split(r"\n\s*\n", BLOCK.sub("\n\n", text)):
            measured = MEASURED.search(paragraph)
            if measured and (path == "README.md" or "scripts/bench" in paragraph):
                yield f"{path}: a measured figure outside of a block: {measured[0]}"
    for name in sorted(set(names) - used):
        yield f"{name}: no document has this block"


def load(path):
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str((ROOT / path).parent))  # for its imports from its own folder
    spec.loader.exec_module(module)
    return module


class Renderers:
    def __init__(self, modules):
        self.of = {name: module for module in modules for name in module.FIGURES}

    def render(self, name):
        if name not in self.of:
            raise Missing("no renderer has this name")
        module = self.of[name]
        try:
            results = json.loads((ROOT / module.RESULTS).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return f"Not measured yet: `{module.COMMAND}` writes this."
        return module.FIGURES[name](results)


def self_test():
    def render(name):
        if name != "speed":
            raise Missing("no results")
        return "| 7 /s |\n"

    def found(text, path="README.md", names=("speed",)):
        return list(problems({path: text}, names, render))

    good = "text\n\n<!-- figures: speed -->\n| 7 /s |\n<!-- end of figures -->\ntext, 15 s\n"
    assert not found(good), found(good)
    by_hand = good.replace("7", "8")
    assert found(by_hand) and renewed(by_hand, render) == good, found(by_hand)
    empty = good.replace("| 7 /s |\n", "")
    assert found(empty) and renewed(empty, render) == good, found(empty)
    bad = {
        "no renderer, or no results": good + good.replace("speed", "other"),
        "no end": good + "<!-- figures: speed -->\n",
        "no beginning": good + "<!-- end of figures -->\n",
        "no such block": "text\n",
        "in prose": good + "It does 1,234 /s.\n",
        "in a table": good + "| ours | 2.1 requests each |\n",
    }
    for what, text in bad.items():
        assert found(text), what
    assert not found(textwrap.indent(good, "  "))
    assert found(good + "`scripts/bench` says 12 KB.\n", "doc/a.md") and not found(good + "12 KB\n", "doc/a.md")
    module = {"RESULTS": "doc/results/none.json", "COMMAND": "scripts/none", "FIGURES": {"a": str}}
    without_results = Renderers([type("module", (), module)])
    assert without_results.render("a") == "Not measured yet: `scripts/none` writes this."
    load("bench/tables.py").self_test()
    try:
        without_results.render("b")
    except Missing:
        return
    raise AssertionError("a block without a renderer")


def main():
    sys.dont_write_bytecode = True
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:] not in ([], ["--write"]):
        print(__doc__.strip())
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    renderers = Renderers([load(path) for path in MODULES])
    paths = [ROOT / "README.md", *sorted((ROOT / "doc").rglob("*.md"))]
    documents = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    if sys.argv[1:] == ["--write"]:
        for module in dict.fromkeys(renderers.of.values()):
            if hasattr(module, "mark"):
                module.mark()
        documents = {path: renewed(text, renderers.render) for path, text in documents.items()}
        for path, text in documents.items():
            (ROOT / path).write_text(text, encoding="utf-8")
    found = list(problems(documents, renderers.of, renderers.render))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
