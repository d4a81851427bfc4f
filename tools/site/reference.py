#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Makes the site's reference of the public headers: one page for each header, from the XML of Doxygen.

An operation takes a completion token. Its declaration in C++ is a template that returns `auto`. The page shows the
arguments and the completion signature instead.
"""

import collections
import pathlib
import re
import subprocess
import textwrap
import xml.etree.ElementTree

WIDTH = 88
LABEL = re.compile(r"\b(Signature|Completion|Errors|Cancellation|Threads|Lifetimes|Throws|Effect):(?= )")
DOXYFILE = r"""
INPUT = {include}
STRIP_FROM_PATH = {include}
RECURSIVE = YES
FILE_PATTERNS = *.hpp
EXCLUDE_PATTERNS = */detail/*
EXCLUDE_SYMBOLS = holdfast::detail holdfast::detail::* holdfast::*::detail holdfast::*::detail::*
INPUT_FILTER = "sed -f {folder}/filter"
EXTRACT_ALL = YES
SORT_MEMBER_DOCS = NO
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
OUTPUT_DIRECTORY = {folder}
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_LOGFILE = {folder}/warnings
"""

# Doxygen 1.9.4 loses the rest of a header behind a comment with "\n{", and does not know specializations for other
# namespaces.
FILTER = r"""
/^ *\/\/\//s/\\/\\\\/g
s/\bHOLDFAST_EXPORT //
/^struct boost::/s/.*//
/^template <>$/s/.*//
"""

# `context` is the qualified name of the class or namespace. `doc` has elements of Doxygen's descriptions.
Item = collections.namedtuple("Item", "kind id context name header line doc element")


def run_doxygen(include, folder):
    """Returns Doxygen's warnings."""
    (folder / "filter").write_text(FILTER, encoding="utf-8")
    text = DOXYFILE.format(include=include, folder=folder)
    subprocess.run(["doxygen", "-"], input=text, text=True, check=True, stdout=subprocess.DEVNULL)
    return (folder / "warnings").read_text(encoding="utf-8").splitlines()


def descriptions(element):
    return [each for each in (element.find("briefdescription"), element.find("detaileddescription"))
            if each is not None and len(each)]


def read(folder):
    """All public items of Doxygen's XML, in the order of the headers and of their lines."""
    items = []
    for file in sorted((folder / "xml").glob("*.xml")):
        for compound in xml.etree.ElementTree.parse(file).iter("compounddef"):
            kind, name = compound.get("kind"), compound.findtext("compoundname")
            if kind in ("class", "struct"):
                if compound.get("prot") == "public":
                    items.append(item_of(kind, compound, name.rpartition("::")[0], name.rpartition("::")[2]))
            elif kind not in ("namespace", "file"):
                continue
            for member in compound.iter("memberdef"):
                is_macro = member.get("kind") == "define"
                if member.get("prot") == "public" and is_macro == (kind == "file") and member.get("kind") != "friend":
                    items.append(item_of(member.get("kind"), member, "" if is_macro else name, member.findtext("name")))
    hidden = {f"{item.context}::{item.name}" for item in items if item.header is None}
    items = [item for item in items if item.header and item.context not in hidden]
    return sorted(set(items), key=lambda item: (item.header, item.line))


def item_of(kind, element, context, name):
    place = element.find("location")
    header = place.get("file") if place is not None else None
    return Item(kind, element.get("id"), context, name, header, int(place.get("line")) if header else 0,
                tuple(descriptions(element)), element)


def anchor_of(item):
    whole = "-".join([*item.context.split("::")[1:], item.name])
    return re.sub(r"[^a-z0-9_-]", lambda m: {"~": "destructor-"}.get(m[0], f"{ord(m[0]):x}"), whole.lower())


def page_of(header):
    return header.removeprefix("holdfast/").removesuffix(".hpp") + ".md"


class Text:
    """Makes Markdown of the elements of a description."""

    def __init__(self, links, page):
        self.links, self.page = links, page

    def link(self, refid, text):
        target = self.links.get(refid)
        if target is None:
            return text
        page, anchor = target
        up = "../" * self.page.count("/")
        return f"[{text}]({'' if page == self.page else up + page}#{anchor})"

    @staticmethod
    def escaped(text):
        text = (text or "").replace("\\\\", "\\")  # the filter has doubled it
        return re.sub(r"([\\*_\[\]<`|])", r"\\\1", re.sub(r"\s+", " ", text)).replace(r"\<", "&lt;")

    def inline(self, element):
        parts = [self.escaped(element.text)]
        for child in element:
            parts.append(self.element(child))
            parts.append(self.escaped(child.tail))
        return "".join(parts)

    def element(self, child):
        if child.tag == "computeroutput":
            inner = child.find("ref")
            code = f"`{''.join(child.itertext())}`"
            return self.link(inner.get("refid"), code) if inner is not None else code
        if child.tag == "ref":
            return self.link(child.get("refid"), self.inline(child))
        if child.tag == "ulink":
            return f"[{self.inline(child)}]({child.get('url')})"
        if child.tag in ("emphasis", "bold"):
            mark = "*" if child.tag == "emphasis" else "**"
            return mark + self.inline(child).strip() + mark
        if child.tag in ("para", "itemizedlist", "orderedlist", "programlisting", "verbatim"):
            return "\n\n" + self.block(child) + "\n\n"
        if child.tag in ("ndash", "mdash"):
            return "-"
        if child.tag == "linebreak":
            return "  \n"
        raise ValueError(f"{self.page}: no Markdown for <{child.tag}>")

    def block(self, element):
        if element.tag in ("itemizedlist", "orderedlist"):
            mark = "-" if element.tag == "itemizedlist" else "1."
            return "\n".join(f"{mark:<4}" + textwrap.indent(self.blocks(each), " " * 4).strip() for each in element)
        if element.tag in ("programlisting", "verbatim"):
            for space in element.iter("sp"):
                space.text = " "
            lines = ["".join(line.itertext()) for line in element.iter("codeline")] or ["".join(element.itertext())]
            return "```cpp\n" + "\n".join(lines).strip("\n") + "\n```"
        text = self.inline(element).strip()
        if len(LABEL.findall(text)) > 1 and "\n\n" not in text:  # they stand in lines of their own
            text = "\n".join("-   " + line.strip() for line in LABEL.sub(r"\n**\1**:", text).strip().split("\n"))
        return text

    def blocks(self, element):
        text = "\n\n".join(self.block(each) for each in element)
        return re.sub(r"\n{3,}", "\n\n", text).strip()

    def of(self, item):
        return "\n\n".join(self.blocks(each) for each in item.doc)

    def line(self, item):
        """For a cell of a table."""
        return re.sub(r"\s*\n\s*", " ", self.of(item))


def code_of(element):
    text = re.sub(r"\s+", " ", "".join(element.itertext())).strip() if element is not None else ""
    text = re.sub(r" ([&*]+)", r"\1", text)
    return re.sub(r"([<(]) | ([>)])", r"\1\2", text)


def signature_of(constraint, text):
    """The completion signature that a concept of our headers demands, else the one that the comment states."""
    found = re.search(r"\b(slot_token|command_token|token_for)(?:<(.*)>)?$", constraint)
    if found:
        results = found[2] or ("slot" if found[1] == "slot_token" else "")
        return f"void(error_code{', ' if results else ''}{results})"
    found = re.search(r"Signature\W+(void\(.*?\))(?=[.;,\s])", text)
    return found[1] if found else None


def declaration(item, family):
    """The C++ that stands above a function's text, and the completion signature of an operation. `family` has the texts
    where that signature may stand."""
    element = item.element
    template, token = [], None
    for param in element.findall("templateparamlist/param"):
        kind, name = code_of(param.find("type")), param.findtext("declname") or ""
        if kind == "class Token":
            kind, name = "class", "Token"
        if name == "Token":
            token = (kind, param.find("defval") is not None)
            continue
        default = param.find("defval")
        template.append(f"{kind} {name}".strip() + (f" = {code_of(default)}" if default is not None else ""))
    arguments, is_operation = [], False
    for param in element.findall("param"):
        kind, name, default = code_of(param.find("type")), param.findtext("declname") or "", param.find("defval")
        if token and kind in ("Token&&", "Token"):
            is_operation = True
            arguments.append("CompletionToken&& token" + (" = throwing" if token[1] else ""))
            continue
        arguments.append(f"{kind} {name}".strip() + (f" = {code_of(default)}" if default is not None else ""))
    signature = None
    if is_operation:
        signature = next(filter(None, (signature_of(token[0], text) for text in family)), None)
        if signature is None:
            raise ValueError(f"{item.header}:{item.line}: no completion signature is known")
    tail = re.sub(r"^.*\)", "", re.sub(r"\s*=\s*(default|delete)", r" = \1", element.findtext("argsstring") or ""))
    start = "" if is_operation else code_of(element.find("type"))
    start = re.sub(r"\b(constexpr|inline|friend|static|explicit)\b *", "", start)
    for word in ("explicit", "static"):
        if element.get(word) == "yes":
            start = f"{word} {start}".strip()
    head = f"{start} {item.name}(".strip()
    line = head + ", ".join(arguments) + ")" + tail + ";"
    if len(line) > WIDTH:
        line = head + "\n    " + ",\n    ".join(arguments) + ")" + tail + ";"
    lines = [f"template <{', '.join(template)}>"] if template else []
    return "\n".join(lines + [line]), signature


def heading(level, item, text):
    return f"{'#' * level} {text} {{#{anchor_of(item)}}}"


class Page:
    def __init__(self, header, items, links, everything):
        self.header, self.items, self.everything = header, items, everything
        self.text = Text(links, page_of(header))

    def markdown(self):
        parts = [f"# {self.header}", f"```cpp\n#include <{self.header}>\n```"]
        classes = {f"{item.context}::{item.name}" for item in self.items if item.kind in ("class", "struct")}
        for item in self.items:
            if item.kind in ("class", "struct"):
                parts += self.of_class(item)
        free = [item for item in self.items if item.kind not in ("class", "struct") and item.context not in classes]
        parts += self.members(free, 2)
        return "\n\n".join(parts) + "\n"

    def of_class(self, item):
        whole = f"{item.context}::{item.name}"
        bases = [base.text for base in item.element.findall("basecompoundref") if "detail" not in base.text]
        known = {f"{each.context}::{each.name}": each for each in self.everything}
        title = f"{item.kind} {whole.removeprefix('holdfast::')}"
        parts = [heading(2, item, f"`{title}`")]
        found = [known[base] for base in bases if base in known]
        if found:
            names = ", ".join(self.text.link(base.id, f"`{base.context}::{base.name}`") for base in found)
            parts.append(f"Has also the members of its base class {names}.")
        parts.append(self.text.of(item))
        return parts + self.members([each for each in self.items if each.context == whole], 3)

    def members(self, members, level):
        parts = []
        fields = [each for each in members if each.kind == "variable"]
        if fields:
            parts.append(self.fields(fields))
        functions = collections.OrderedDict()
        for each in members:
            if each.kind == "function":
                functions.setdefault(each.name, []).append(each)
            elif each.kind == "enum":
                parts += self.enumeration(each, level)
            elif each.kind in ("typedef", "define"):
                parts += self.definition(each, level)
        for overloads in functions.values():
            parts += self.function(overloads, level)
        return parts

    def fields(self, fields):
        """A table, or a list if the texts are long."""
        rows = []
        for item in fields:
            default = code_of(item.element.find("initializer")).lstrip("= ")
            kind = re.sub(r"\b(static|inline|constexpr)\b *", "", code_of(item.element.find("type")))
            rows.append((f'<a id="{anchor_of(item)}"></a>`{item.name}`', f"`{kind}`",
                         "" if default in ("", "{}") else f"`{default}`", self.text.of(item)))
        if all(len(text) < 200 and "\n" not in text for *_, text in rows):
            cells = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
            return "| member | type | default | |\n|---|---|---|---|\n" + "\n".join(f"| {row} |" for row in cells)
        shown = []
        for name, kind, default, text in rows:
            default = f" = {default}" if default else ""
            shown.append(f"{name} : {kind}{default}\n\n:   " + (textwrap.indent(text, " " * 4).strip() or "&nbsp;"))
        return "\n\n".join(shown)

    def enumeration(self, item, level):
        rows = ["| value | |", "|---|---|"]
        for value in item.element.findall("enumvalue"):
            name = value.findtext("name")
            doc = Item("value", "", "", name, "", 0, tuple(descriptions(value)), value)
            rows.append(f'| <a id="{anchor_of(item)}-{name}"></a>`{name}` | {self.text.line(doc)} |')
        return [heading(level, item, f"`enum {item.name}`"), self.text.of(item), "\n".join(rows)]

    def definition(self, item, level):
        if item.kind == "define":
            code = f"#define {item.name} {code_of(item.element.find('initializer'))}"
        else:
            code = f"using {item.name} = {code_of(item.element.find('type'))};"
        return [heading(level, item, f"`{item.name}`"), f"```cpp\n{code}\n```", self.text.of(item)]

    def function(self, overloads, level):
        parts = [heading(level, overloads[0], f"`{overloads[0].name}`")]
        texts = [self.text.of(each).replace("\\", "") for each in self.everything
                 if (each.context, each.name) == overloads[0][2:4]]
        groups = []  # an overload without a text belongs to the text above
        for each in overloads:
            if each.doc or not groups:
                groups.append([])
            groups[-1].append(each)
        for group in groups:
            code = []
            for each in group:
                lines, signature = declaration(each, [self.text.of(each).replace("\\", ""), *texts])
                code.append((lines, signature))
            shown = [lines + (f"\n// completes with {signature}" if signature and signature != following else "")
                     for (lines, signature), (_, following) in zip(code, [*code[1:], (None, None)])]
            parts.append("```cpp\n" + "\n".join(shown) + "\n```")
            parts.append(self.text.of(group[0]))
        return parts


def make(include, work, to):
    """Writes the pages below the folder `to`. Returns Doxygen's warnings, the pages, and the items."""
    warnings = run_doxygen(include, work)
    items = read(work)
    links = {item.id: (page_of(item.header), anchor_of(item)) for item in items}
    for item in items:
        for value in item.element.findall("enumvalue"):
            links[value.get("id")] = (page_of(item.header), f"{anchor_of(item)}-{value.findtext('name')}")
    headers = sorted(file.relative_to(include).as_posix() for file in include.rglob("*.hpp"))
    pages = []
    for header in headers:
        own = [item for item in items if item.header == header]
        if not own:
            continue
        page = pathlib.Path(to) / page_of(header)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(Page(header, own, links, items).markdown(), encoding="utf-8")
        pages.append(page_of(header))
    return warnings, pages, items
