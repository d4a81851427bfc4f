#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks a site that build.py has made. Each link and each anchor must lead to something on the site. No page may load
anything from another host. The site must work in any folder. Each public name must have a place in the reference.

usage: check.py FOLDER
       check.py --self-test
"""

import html.parser
import json
import pathlib
import re
import sys
import tempfile
import urllib.parse

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "embed": "src",
          "object": "data", "link": "href"}
NAMES = "names.json"


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        known = dict(attributes)
        self.anchors.update(known[name] for name in ("id", "name") if known.get(name))
        if tag == "a" and known.get("href"):
            self.links.append(known["href"])
        if tag in LOADED and known.get(LOADED[tag]) and known.get("rel") != "canonical":
            self.loads.append(known[LOADED[tag]])


def is_foreign(address):
    return re.match(r"([a-z]+:)?//", address) is not None


def resolved(folder, page, address):
    """The file of the site that the address leads to. The result is None if that is outside of the site."""
    path = urllib.parse.unquote(urllib.parse.urlsplit(address).path)
    file = (page.parent / path).resolve() if path else page
    if file.is_dir():
        file /= "index.html"
    return file if file.is_relative_to(folder.resolve()) else None


def problems(folder):
    folder = pathlib.Path(folder).resolve()
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in sorted(folder.rglob("*.html"))}
    for file, page in pages.items():
        where = file.relative_to(folder)
        is_error_page = where.name == "404.html"  # it stands at any depth, so its addresses begin with /
        for address in page.loads + page.links:
            if is_foreign(address):
                if address in page.loads:
                    yield f"{where} loads {address}"
                continue
            if re.match(r"(mailto|data|javascript):", address):
                continue
            if address.startswith("/"):
                if not is_error_page:
                    yield f"{where}: {address} is of use in one folder only"
                continue
            target = resolved(folder, file, address)
            anchor = urllib.parse.unquote(urllib.parse.urlsplit(address).fragment)
            if target is None or not target.exists():
                yield f"{where}: no file {address}"
            elif anchor and target in pages and anchor not in pages[target].anchors and not is_error_page:
                yield f"{where}: no anchor {address}"
    for file in [*folder.rglob("*.css"), *folder.rglob("*.js")]:
        text = file.read_text(encoding="utf-8")
        found = re.findall(r"""@import\s+["'][^"']+|url\(["']?(?:https?:)?//[^)]*""", text) if file.suffix == ".css" else \
            re.findall(r"""["'`](?:https?:)?//[^"'`\s]+\.(?:m?js|css|wasm|woff2?)["'`]|["'`]https?://unpkg[^"'`]*""", text)
        for each in found:
            yield f"{file.relative_to(folder)} loads {each}"
    named = json.loads((folder / NAMES).read_text(encoding="utf-8"))
    for page, anchor in named:
        if folder / page not in pages or anchor not in pages[folder / page].anchors:
            yield f"{page} has no place for the public name {anchor}"
    if not named:
        yield "the headers have no public names"


def counts(folder):
    folder = pathlib.Path(folder)
    pages = len(list(folder.rglob("*.html")))
    names = json.loads((folder / NAMES).read_text(encoding="utf-8"))
    return f"{pages} pages, {len(names)} public names, {sum(file.stat().st_size for file in folder.rglob('*.*')) >> 20} MB"


def self_test():
    good = '<a id="x" href="b.html#y"></a><img src="c.png"><a href="https://example.org/">'

    def said(page=good, script="", style="", names=(("a.html", "x"),)):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for file, text in {"a.html": page, "b.html": '<p id="y">', "c.png": "", "d.js": script, "e.css": style,
                               NAMES: json.dumps(names)}.items():
                (folder / file).write_text(text, encoding="utf-8")
            return list(problems(folder))

    assert said() == [], said()
    for page in ('<a id="x" href="none.html">', '<a id="x" href="b.html#none">', '<a id="x" href="../../b.html">',
                 '<a id="x" href="/b.html">', '<p id="x"><script src="https://example.org/a.js"></script>',
                 '<p id="x"><img src="//example.org/a.png">', '<p id="x"><img src="none.png">',
                 '<p id="x"><link href="https://example.org/a.css">', "<p>"):
        assert len(said(page)) == 1, (page, said(page))
    assert said(script='load("https://unpkg.com/resize-observer-polyfill")')
    assert said(script='load("https://example.org/mermaid.min.js")')
    assert said(style="a{background:url(https://example.org/a.png)}") and said(style="@import 'https://example.org/a.css'")
    assert said(names=[["a.html", "none"]]) and said(names=[["none.html", "x"]]) and said(names=[])


def main():
    words = sys.argv[1:]
    if words == ["--self-test"]:
        self_test()
        return 0
    if len(words) != 1 or words[0].startswith("-"):
        print(__doc__.strip())
        return 0 if words in (["-h"], ["--help"]) else 2
    found = list(problems(words[0]))
    print("\n".join(found) if found else f"{words[0]}: {counts(words[0])}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
