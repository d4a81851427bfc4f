#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Makes the site's reference of the public headers, by Doxygen.

An operation takes a completion token. Its declaration in C++ is a template that returns `auto`. Doxygen reads each header
through this program, which declares the operation as `completes_with<SIGNATURE> NAME(..., CompletionToken&& token)`.

usage: reference.py HEADER      prints the header as Doxygen reads it
"""

import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

DOXYFILE = r"""
PROJECT_NAME = holdfast
PROJECT_BRIEF = "Reference of the headers"
INPUT = {include} {work}/main.dox
STRIP_FROM_PATH = {include}
STRIP_FROM_INC_PATH = {include}
RECURSIVE = YES
FILE_PATTERNS = *.hpp *.dox
EXCLUDE_PATTERNS = */detail/*
EXCLUDE_SYMBOLS = holdfast::detail holdfast::detail::* holdfast::*::detail holdfast::*::detail::*
FILTER_PATTERNS = "*.hpp={python} {program}"
EXTRACT_ALL = YES
SORT_MEMBER_DOCS = NO
VERBATIM_HEADERS = NO
HAVE_DOT = NO
CLASS_GRAPH = NO
GENERATE_LATEX = NO
GENERATE_TAGFILE = {work}/tags.xml
OUTPUT_DIRECTORY = {work}
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_LOGFILE = {work}/warnings
"""
MAIN = r"""/** \mainpage
<a href="../index.html">The documents of holdfast</a> are the rest of this site.

`completes_with<SIGNATURE>` stands for the result type of an operation, which depends on its completion token. An
operation completes with SIGNATURE. If no token is passed, it is `throwing`: the result can be awaited, and an error is
thrown. */
"""
# The comment before an operation, the parameters of its template before the token, the token's concept, and the name.
OPERATION = re.compile(r"((?:^ *///.*\n)*)^( *)template <((?:class \w+, )*)([\w:]+(?:<[^;{}()]*?>)?) Token(?: = [\w:]+)?>\s*"
                       r"auto (\w+)\((?=(?:(?!\) (?:const )?\{)[^;])*Token&& token = \{\}\))", re.MULTILINE)
COMMENT = re.compile(r"(?:^ *///.*\n)+", re.MULTILINE)
COMMENT_OF_CLASS = re.compile(r"(?:^///.*\n)+", re.MULTILINE)
STATED = re.compile(r"Signature: (void\(.*?\))(?=[.;,\s])")
# The public names that each header must have in the reference.
HIDDEN = re.compile(r"^namespace (?:\w+::)*detail\b.*?^\}  // namespace", re.MULTILINE | re.DOTALL)
DECLARED = re.compile(r"^(?:class|struct|enum class) (?:HOLDFAST_EXPORT )?(\w+)(?: [^;{]*)?\{", re.MULTILINE)


def signature_of(concept, comments):
    """The completion signature that a concept of our headers demands, else the one that a comment states."""
    found = re.search(r"\b(slot_token|command_token|token_for)(?:<(.*)>)?$", concept)
    if found:
        results = found[2] or ("slot" if found[1] == "slot_token" else "")
        return f"void(error_code{', ' if results else ''}{results})"
    return next((stated[1] for stated in map(STATED.search, comments) if stated), None)


def filtered(text, path):
    comments_of = {}  # of the overloads so far, by their name

    def operation(found):
        comment, indent, parameters, concept, name = found.groups()
        comments = comments_of.setdefault(name, [])
        comments.insert(0, comment)
        signature = signature_of(concept, [*comments, *COMMENT_OF_CLASS.findall(text, 0, found.start())[-1:]])
        if signature is None:
            sys.exit(f"{path}: no completion signature of {name} is known")
        template = f"template <{parameters.rstrip(', ')}> " if parameters else ""
        return f"{comment}{indent}{template}completes_with<{signature}> {name}("

    result = OPERATION.sub(operation, text).replace("Token&& token = {}", "CompletionToken&& token = throwing")
    # Doxygen does not know specializations for other namespaces.
    result = re.sub(r"^(?:struct boost::.*|template <>)$", "", result.replace("HOLDFAST_EXPORT ", ""), flags=re.MULTILINE)
    # Doxygen 1.9.4 loses the rest of a header behind a comment with "\n{".
    result = COMMENT.sub(lambda found: found[0].replace("\\", "\\\\"), result)
    return re.sub(r"(?<![\w/.])doc/([\w/]+)\.md(#[\w-]+)?", link, result)


def link(found):
    page = re.sub(r"\bREADME$", "index", found[1])
    return f'<a href="../doc/{page}.html{found[2] or ""}">{found[0]}</a>'


def make(include, work, to):
    """Writes Doxygen's pages into the folder `to`. Returns warnings, and {header: (page, {name: place})}."""
    (work / "main.dox").write_text(MAIN, encoding="utf-8")
    text = DOXYFILE.format(include=include, work=work, python=sys.executable, program=pathlib.Path(__file__).resolve())
    subprocess.run(["doxygen", "-"], input=text, text=True, check=True, stdout=subprocess.DEVNULL)
    warnings = (work / "warnings").read_text(encoding="utf-8").splitlines()
    (work / "html").rename(to)
    compounds = xml.etree.ElementTree.parse(work / "tags.xml").getroot().findall("compound")
    place_of = {each.findtext("name"): each.findtext("filename") for each in compounds}
    headers = {}
    for each in compounds:
        path = pathlib.Path(each.findtext("path", "")) / each.findtext("name")
        if each.get("kind") != "file" or path.suffix != ".hpp":
            continue
        names = {found.text.rpartition("::")[2]: place_of[found.text] for found in each.findall("class")}
        names.update((found.findtext("name"), f"{found.findtext('anchorfile')}#{found.findtext('anchor')}")
                     for found in each.findall("member"))
        page = each.findtext("filename").removesuffix(".html") + ".html"
        headers[path.relative_to(include).as_posix()] = page, names
    for path in sorted(include.rglob("*.hpp")):
        header = path.relative_to(include).as_posix()
        if "/detail/" not in header:
            declared = DECLARED.findall(HIDDEN.sub("", path.read_text(encoding="utf-8")))
            missing = [name for name in declared if name not in headers.get(header, ("", ()))[1]]
            warnings += [f"{header}: the reference lacks {name}" for name in missing]
    return warnings, headers


if __name__ == "__main__":
    print(filtered(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[1]))
