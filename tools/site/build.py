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

import headers
import reference

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).resolve().parent
DOCUMENTS = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"]
LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".py": "python", ".sh": "sh", ".txt": "cmake", ".cmake": "cmake",
             ".yml": "yaml", ".json": "json"}
# Material's script would fetch these from another host.
FOREIGN = {
    '"https://unpkg.com/mermaid@11/dist/mermaid.min.js"': 'new URL("assets/javascripts/mermaid.min.js",__md_scope).href',
    '"https://unpkg.com/resize-observer-polyfill"': '""',
}


def tracked():
    """The files of the project. The archive of a release has no others, but for those that builds make."""
    if not (ROOT / ".git").exists():
        paths = [str(path.relative_to(ROOT)) for path in sorted(ROOT.rglob("*")) if path.is_file()]
        return [path for path in paths if not path.startswith(("build/", ".cache/")) and "__pycache__" not in path]
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [path for path in listed.splitlines() if (ROOT / path).is_file()]


def site_page(header):
    return "api/" + reference.page_of(header).replace(".md", ".html")


def source_page(path):
    return f"source/{path}.md"


class Stage:
    """Copies documents into the folder that MkDocs reads, and changes what Python-Markdown reads in another way than
    hosting sites do."""

    def __init__(self, folder, api_pages):
        self.folder, self.api_pages = folder, api_pages
        self.files = set(tracked())
        self.sources = set()

    def target(self, path, link):
        """Where a link of this document leads to on the site."""
        name, mark, anchor = link.partition("#")
        if not name or re.match(r"[a-z]+:", link):
            return link
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        if target in DOCUMENTS or (target.startswith("doc/") and not target.endswith((".yml", ".json"))):
            return link
        header = target.removeprefix("include/holdfast/").removesuffix(".hpp") + ".md"
        if target.startswith("include/") and header in self.api_pages:
            page = "api/" + header
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

    def reference_links(self):
        """Comments of headers name documents by their paths. On the site they are links."""
        for page in self.api_pages:
            file = self.folder / "api" / page
            up = "../" * (page.count("/") + 1)
            text = re.sub(r"(?<![\w(/])(doc/(?:[\w/]|\\_)+\.md)(#[\w-]+)?",
                          lambda m: f"[{m[0]}]({up}{m[0]})".replace("\\_](", "_]("), file.read_text(encoding="utf-8"))
            text = re.sub(r"\]\(([^)]*doc/[^)]*)\)", lambda m: f"]({m[1]})".replace("\\_", "_"), text)
            file.write_text(text, encoding="utf-8")

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

    def reference_index(self, items):
        parts = ["# Reference of the headers", "Each public name, by header. "
                 "`#include <holdfast/holdfast.hpp>` includes all headers but those of `holdfast::testing`."]
        rows = []
        for page in self.api_pages:
            own = [item for item in items if reference.page_of(item.header) == page and "::" not in item.context
                   and item.kind in ("class", "struct", "enum", "function")]
            own += [item for item in items if reference.page_of(item.header) == page
                    and item.context in ("holdfast::consul", "holdfast::testing")
                    and item.kind in ("class", "struct", "enum", "function")]
            names = dict.fromkeys((item.name, reference.anchor_of(item)) for item in own)
            listed = ", ".join(f"[`{name}`]({page}#{anchor})" for name, anchor in names
                               if not name.startswith("operator"))
            rows.append(f"| [{page.removesuffix('.md')}.hpp]({page}) | {listed} |")
        parts.append("| header | |\n|---|---|\n" + "\n".join(rows))
        self.write("api/index.md", "\n\n".join(parts) + "\n")


def mkdocs(stage, site, pages):
    """Runs MkDocs. Returns its warnings."""
    settings = {
        "INHERIT": str(HERE / "mkdocs.yml"),
        "hooks": [str(HERE / "hooks.py")],
        "docs_dir": str(stage.folder),
        "site_dir": str(site),
    }
    config = stage.folder.parent / "mkdocs.yml"
    config.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--config-file", str(config)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "HOLDFAST_API_PAGES": " ".join(pages)})
    said = [line for line in done.stdout.splitlines() if line.strip()]
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


def main():
    folder, mermaid, worker = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    work = folder.parent / (folder.name + ".work")
    shutil.rmtree(work, ignore_errors=True)
    (work / "doxygen").mkdir(parents=True)
    warnings, pages, items = reference.make(ROOT / "include", work / "doxygen", work / "pages/api")
    stage = Stage(work / "pages", pages)
    stage.documents()
    stage.reference_links()
    stage.reference_index(items)
    stage.source_pages()
    for script, name in ((mermaid, "mermaid.min.js"), (worker, "iframe-worker.js")):
        (work / "pages/assets/javascripts").mkdir(parents=True, exist_ok=True)
        shutil.copy(script, work / "pages/assets/javascripts" / name)
    shutil.copy(HERE / "holdfast.css", work / "pages/assets/holdfast.css")
    warnings += mkdocs(stage, work / "site", pages)
    for line in warnings:
        print(line)
    if warnings:
        sys.exit(f"{len(warnings)} warnings")
    localize(work / "site")
    shutil.rmtree(folder, ignore_errors=True)
    (work / "site").rename(folder)
    named = [[site_page(item.header), reference.anchor_of(item)] for item in items]
    named += [[site_page(item.header), f"{reference.anchor_of(item)}-{value.findtext('name')}"]
              for item in items for value in item.element.findall("enumvalue")]
    seen = {(page, anchor.rpartition("-")[2]) for page, anchor in named}
    for file in sorted((ROOT / "include/holdfast").rglob("*.hpp")):
        header = file.relative_to(ROOT / "include").as_posix()
        if "/detail/" in header:
            continue
        # Doxygen may have left a name out without a warning. Then check.py finds no place for it.
        for name in headers.names(file.read_text(encoding="utf-8")):
            if (site_page(header), name.lower().lstrip("~")) not in seen:
                named.append([site_page(header), name])
    (folder / "names.json").write_text(json.dumps(named))


if __name__ == "__main__":
    main()
