#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Builds the site: the repository's documents, the reference of the public headers, and the source files that documents
link to. scripts/docs calls it, with the Python packages of requirements.txt in the path.

usage: build.py FOLDER MERMAID WORKER     the site's folder, and the two scripts that the pages need
"""

import json
import os
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

import reference  # noqa: E402
import sources  # noqa: E402

ROOT = sources.ROOT
DOCUMENTS = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"]
LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".py": "python", ".sh": "sh", ".txt": "cmake", ".cmake": "cmake",
             ".yml": "yaml", ".json": "json"}
# Material's script would fetch these from another host.
FOREIGN = {
    '"https://unpkg.com/mermaid@11/dist/mermaid.min.js"': 'new URL("assets/javascripts/mermaid.min.js",__md_scope).href',
    '"https://unpkg.com/resize-observer-polyfill"': '""',
}


def source_page(path):
    return f"source/{path}.md"

FOREIGN_LOAD = re.compile(r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\ssrc=["']?(?:https?:)?//[^>]*>"""
                          r"""|<link\b(?![^>]*canonical)[^>]*\shref=["']?(?:https?:)?//[^>]*>""")
BAD_ITEM = re.compile(r"<li>\s*(?:<p>)?\s*-?\s*(?:</p>)?\s*(?:<[uo]l>|</li>)")


class Stage:
    """Copies documents into the folder that MkDocs reads, and changes what Python-Markdown reads in another way than
    hosting sites do."""

    def __init__(self, folder, headers):
        self.folder, self.headers = folder, headers
        self.files = set(sources.tracked())
        self.sources = set()

    def target(self, path, link):
        """Where a link of this document leads to on the site."""
        name, mark, anchor = link.partition("#")
        if not name or re.match(r"[a-z]+:", link):
            return link
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        if target in DOCUMENTS or (target.startswith("doc/") and not target.endswith((".yml", ".json"))):
            return link
        header = target.removeprefix("include/")
        if header in self.headers:
            page = "api/" + self.headers[header][0]
        else:
            self.sources.add(target)
            page = source_page(target)
        return posixpath.relpath(page, posixpath.dirname(path) or ".") + mark + anchor

    def markdown(self, path, text):
        lines, fence, before, cut, shift = [], None, "", None, 0
        for line in text.split("\n"):
            if fence:
                lines.append(" " * shift + line if line else line)
                if line.strip() == fence:
                    fence = None
                    if cut:
                        lines += ["", f"<small>From [`{cut}`]({self.target(path, self.back(path, cut))})</small>"]
                        cut = None
                before = line
                continue
            found = re.match(r"<!-- cut from ([^:\s]+)", line)
            if found:
                cut = found[1]
            if re.match(r"<!--.*-->$", line):
                line = ""
            indent = len(line) - len(line.lstrip(" "))
            if 0 < indent < 4:  # below an item of a list
                shift = 4 - indent
            elif indent >= 4:
                shift = 0 if indent % 4 == 0 else 4 - indent % 4
            else:
                shift = 0
            opening = re.match(r" *(```|~~~)", line)
            if opening:
                fence = opening[1]
            is_item = re.match(r"\s*([-*]|\d+\.) ", line)
            was_item = re.match(r"\s*([-*]|\d+\.) ", before)
            begins_list = is_item and before.strip() and not was_item and not before.startswith(" ")
            begins_table = line.startswith("|") and before.strip() and not before.startswith("|")
            if begins_list or begins_table:
                lines.append("")
            line = line if opening else re.sub(r"(\]\()([^)\s]+)(?=\))", lambda m: m[1] + self.target(path, m[2]), line)
            lines.append(" " * shift + line if line else line)
            before = line
        return "\n".join(lines)

    @staticmethod
    def back(path, target):
        return posixpath.relpath(target, posixpath.dirname(path) or ".")

    def write(self, name, text):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def documents(self):
        for path in sorted(self.files):
            if path in DOCUMENTS or (path.startswith("doc/") and path.endswith(".md")):
                self.write(path, self.markdown(path, (ROOT / path).read_text(encoding="utf-8")))
            elif path.startswith("doc/") and path.endswith((".svg", ".png")):
                (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, self.folder / path)

    def source_pages(self):
        done = set()
        while self.sources - done:
            for path in sorted(self.sources - done):
                done.add(path)
                inside = sorted(each for each in self.files if each.startswith(path + "/"))
                if inside:
                    listed = "\n".join(f"-   [`{each}`]({self.back(source_page(path), source_page(each))})" for each in inside)
                    self.write(source_page(path), f"# {path}\n\n{listed}\n")
                    self.sources.update(inside)
                    continue
                language = LANGUAGES.get(pathlib.PurePosixPath(path).suffix, "text")
                code = (ROOT / path).read_text(encoding="utf-8")
                self.write(source_page(path), f"# {path}\n\n~~~~{{ .{language} linenums=\"1\" }}\n{code}~~~~\n")

    def reference_index(self):
        rows = []
        for header, (page, names) in sorted(self.headers.items()):
            listed = ", ".join(f"[`{name}`](api/{place})" for name, place in names.items() if not name.startswith("operator"))
            rows.append(f"| [{header}](api/{page}) | {listed} |")
        self.write("headers.md", "# Reference of the headers\n\n[All classes](api/annotated.html), [all files](api/files.html)."
                   " `#include <holdfast/holdfast.hpp>` includes all headers but those of `holdfast::testing`.\n\n"
                   "| header | |\n|---|---|\n" + "\n".join(rows) + "\n")


def mkdocs(stage, site):
    """Runs MkDocs. Returns its warnings."""
    settings = {
        "INHERIT": str(HERE / "mkdocs.yml"),
        "docs_dir": str(stage.folder),
        "site_dir": str(site),
    }
    config = stage.folder.parent / "mkdocs.yml"
    config.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    # --quiet would also hide warnings, and --strict counts only those that are shown.
    said = [line for line in done.stdout.splitlines() if line.strip() and not line.startswith("INFO")]
    return said if said or done.returncode == 0 else [f"mkdocs ended with status {done.returncode}"]


def localize(site):
    """Takes the addresses of other hosts out of Material's script."""
    for file in (site / "assets/javascripts").glob("bundle.*.js"):
        text = file.read_text(encoding="utf-8")
        for foreign, own in FOREIGN.items():
            if text.count(foreign) != 1:
                sys.exit(f"{file.name} has {foreign} {text.count(foreign)} times, not once")
            text = text.replace(foreign, own)
        file.write_text(text, encoding="utf-8")
    for file in site.rglob("*.map"):
        file.unlink()


def problems(site):
    """Yields problems that MkDocs does not find: pages that load anything from another host, and items of lists that are
    empty or begin with a list."""
    for page in sorted(site.rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        for found in FOREIGN_LOAD.finditer(text):
            yield f"{page.relative_to(site)} loads {found[0]}"
        for found in BAD_ITEM.finditer(text):
            yield f"{page.relative_to(site)}: a list's item is empty or begins with a list: {text[found.start() :][:80]!r}"


def main():
    folder, mermaid, worker = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    work = folder.parent / (folder.name + ".work")
    shutil.rmtree(work, ignore_errors=True)
    (work / "pages").mkdir(parents=True)
    warnings, headers = reference.make(ROOT / "include", work, work / "pages/api")
    stage = Stage(work / "pages", headers)
    stage.documents()
    stage.reference_index()
    stage.source_pages()
    for script, name in ((mermaid, "mermaid.min.js"), (worker, "iframe-worker.js")):
        (work / "pages/assets/javascripts").mkdir(parents=True, exist_ok=True)
        shutil.copy(script, work / "pages/assets/javascripts" / name)
    shutil.copy(HERE / "holdfast.css", work / "pages/assets/holdfast.css")
    warnings += mkdocs(stage, work / "site")
    warnings += problems(work / "site")
    for line in warnings:
        print(line)
    if warnings:
        sys.exit(f"{len(warnings)} warnings")
    localize(work / "site")
    shutil.rmtree(folder, ignore_errors=True)
    (work / "site").rename(folder)
    print(f"{folder}: {len(list(folder.rglob('*.html')))} pages, {len(headers)} headers")


if __name__ == "__main__":
    main()
