# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Reads the project's files, and finds the comments in source files."""

import ast
import io
import pathlib
import re
import subprocess
import tokenize
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPP = (".cpp", ".hpp", ".hpp.in")

_CPP_PIECE = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
      | (?P<text>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"
               | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*"
               | (?:u8|[uUL])?(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+')
      | (?P<word>[A-Za-z_0-9](?:'(?=[0-9A-Fa-f])|[A-Za-z_0-9])*)
      | (?P<newline>\n)
      | (?P<space>\\\n|[^\S\n]+)
      | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)

_NO_CODE = re.compile(
    r"""//[^\n]*
      | /\*.*?\*/
      | (?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\\\n]|\\.|\\\n)*", re.MULTILINE)


class Comment(NamedTuple):
    line: int  # where it begins, counted from 1
    text: str  # without the signs that make it a comment; lines are kept


def tracked():
    """The paths of the project's files. The archive of a release has no others, but for those that builds make."""
    if (ROOT / ".git").exists():
        words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\0")
    else:
        listed = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*")]
        listed = [path for path in listed if not path.startswith(("build/", ".cache/")) and "__pycache__" not in path]
    return sorted({path for path in listed if path and (ROOT / path).is_file()})


def project(more=()):
    """{path: text} of the project's files and of other files and folders. The text of a file that is no text is empty."""
    others = [each for word in more for each in (pathlib.Path(word), *pathlib.Path(word).rglob("*")) if each.is_file()]
    files = {path: ROOT / path for path in tracked()}
    files.update({str(each): each for each in others})
    return {path: file.read_bytes().decode("utf-8", errors="ignore") for path, file in files.items()}


def enumerators(text, enum):
    """The names of an enum's enumerators; None if there is no such enum."""
    found = re.search(rf"enum class {enum}\b[^{{;]*\{{(.*?)\}}", re.sub(r"//[^\n]*", "", text), re.DOTALL)
    return [part.split("=")[0].strip() for part in found[1].split(",") if part.strip()] if found else None


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def without_noise(text):
    """C++ with blanks in place of comments and literals. A string is left as "". Each character keeps its place."""

    def blank(match):
        spaces = re.sub(r"[^\n]", " ", match[0])
        is_string = match[0].endswith('"') and not match[0].startswith("/")
        return '""' + spaces[2:] if is_string else spaces

    return _NO_CODE.sub(blank, text)


def without_directives(text):
    return _DIRECTIVE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def _cpp_pieces(text):
    """Yields (kind, text, position)."""
    for match in _CPP_PIECE.finditer(text):
        yield match.lastgroup if match.lastgroup != "delimiter" else "text", match[0], match.start()


def cpp_comments(text):
    """One `Comment` for each block. Neighbouring lines with nothing but comments make one block."""
    found = []
    lines = text.split("\n")
    for kind, piece, at in _cpp_pieces(text):
        if kind != "comment":
            continue
        line = text.count("\n", 0, at) + 1
        alone = lines[line - 1].lstrip().startswith("//")
        body = re.sub(r"^(///?<?|/\*\*?)[ ]?|\s*\*/$", "", piece)
        if alone and found and found[-1][2] and found[-1][1] == line - 1:
            found[-1][1] = line
            found[-1][3].append(body)
        else:
            found.append([line, line, alone, [body]])
    return [Comment(first, "\n".join(parts)) for first, _, _, parts in found]


def python_comments(text):
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            line, alone, body = token.start[0], token.line.lstrip().startswith("#"), token.string[1:].removeprefix(" ")
            if alone and found and found[-1][2] and found[-1][1] == line - 1:
                found[-1][1] = line
                found[-1][3].append(body)
            else:
                found.append([line, line, alone, [body]])
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)) and ast.get_docstring(node):
            found.append([node.body[0].lineno, 0, False, [ast.get_docstring(node)]])
    return sorted(Comment(first, "\n".join(parts)) for first, _, _, parts in found)


def line_comments(text):
    """The comments of shell, CMake and similar files: lines with nothing but a comment."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if re.match(r"\s*#(?!!)", line):
            body = re.sub(r"^\s*#+ ?", "", line)
            if found and found[-1][1] == number - 1:
                found[-1][1] = number
                found[-1][2].append(body)
            else:
                found.append([number, number, [body]])
    return [Comment(first, "\n".join(parts)) for first, _, parts in found]


def kind_of(path, text):
    """'cpp', 'python', 'lines' or None."""
    if path.endswith(CPP):
        return "cpp"
    if path.endswith(".py") or re.match(r"#!.*python", text):
        return "python"
    if path.endswith((".cmake", ".sh", "CMakeLists.txt", ".yml", ".toml")) or re.match(r"#!.*\bsh|#!.*bash", text):
        return "lines"
    return None


def comments(path, text):
    kind = kind_of(path, text)
    return {"cpp": cpp_comments, "python": python_comments, "lines": line_comments, None: lambda _: []}[kind](text)
