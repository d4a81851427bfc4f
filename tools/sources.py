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


def _blocks(pieces):
    """One `Comment` for each block. Neighbouring lines with nothing but comments make one block. A piece has its line,
    whether the line has nothing else, and its text."""
    found = []
    for line, alone, body in pieces:
        if alone and found and found[-1][2] and found[-1][1] == line - 1:
            found[-1][1] = line
            found[-1][3].append(body)
        else:
            found.append([line, line, alone, [body]])
    return [Comment(first, "\n".join(parts)) for first, _, _, parts in found]


def _cpp_pieces(text):
    lines = text.split("\n")
    for match in _NO_CODE.finditer(text):
        if match[0].startswith("/"):
            line = line_of(text, match.start())
            yield line, lines[line - 1].lstrip().startswith("//"), re.sub(r"^(///?<?|/\*\*?)[ ]?|\s*\*/$", "", match[0])


def _python_pieces(text):
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            yield token.start[0], token.line.lstrip().startswith("#"), token.string[1:].removeprefix(" ")


def _docstrings(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)) and ast.get_docstring(node):
            yield Comment(node.body[0].lineno, ast.get_docstring(node))


def _line_pieces(text):
    """The comments of shell, CMake and similar files: lines with nothing but a comment."""
    for number, line in enumerate(text.split("\n"), 1):
        if re.match(r"\s*#(?!!)", line):
            yield number, True, re.sub(r"^\s*#+ ?", "", line)


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
    if kind == "python":
        return sorted([*_blocks(_python_pieces(text)), *_docstrings(text)])
    return _blocks({"cpp": _cpp_pieces, "lines": _line_pieces, None: lambda _: ()}[kind](text))
