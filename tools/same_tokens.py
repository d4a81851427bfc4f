#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that a change has changed comments and documents only: all files have the same tokens before and after it.

usage: same_tokens.py              compares the working tree with HEAD
       same_tokens.py COMMIT...    compares each commit with its parent
       same_tokens.py --self-test

The exit status is 1 if the tokens of a file differ, or if a file was added, removed or renamed. Documents are doc/ and
*.md. The docstrings of Python are comments, too.
"""

import pathlib
import subprocess
import sys

import recorded
import sources


def git(*words):
    return subprocess.run(["git", *words], cwd=recorded.ROOT, stdout=subprocess.PIPE, check=True).stdout


def changed(before, after):
    """(status, path) of each changed file that is no document. `after` is None for the working tree."""
    listed = git("diff", "--no-renames", "--name-status", "-z", before, *([after] if after else [])).decode().split("\0")
    return [(status, path) for status, path in zip(listed[::2], listed[1::2]) if not recorded.is_document(path)]


def tokens(commit, path):
    content = git("show", f"{commit}:{path}") if commit else (recorded.ROOT / path).read_bytes()
    try:
        return sources.tokens(path, content.decode("utf-8"))
    except (UnicodeDecodeError, SyntaxError):
        return [content]


def problems(before, after):
    for status, path in changed(before, after):
        if status != "M":
            yield f"{path}: {'added' if status == 'A' else 'removed' if status == 'D' else status}"
            continue
        old, new = tokens(before, path), tokens(after, path)
        if old == new:
            continue
        at = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
        context = [" ".join(str(token) for token in side[max(0, at - 4):at + 5])[:120] for side in (old, new)]
        yield f"{path}: other tokens\n  before: {context[0]}\n  after:  {context[1]}"


def self_test():
    with recorded.scratch() as (write, commit):
        write("a.cpp", "// one\nint a = 1;\n")
        write("b.py", '"""One."""\n# one\nx = "#"\n')
        write("c.sh", "#!/bin/sh\n# one\necho '# one'\n")
        first = commit()
        write("a.cpp", "int a = 1;  // two\n")
        write("b.py", '"""Two."""\nx = "#"  # two\n')
        write("c.sh", "#!/bin/sh\n# two\n# two\necho '# one'\n")
        write("doc/d.md", "new")
        assert not list(problems("HEAD", None)), list(problems("HEAD", None))
        commit()
        assert not list(problems(first, "HEAD")), "comments and documents"
        for path, text in (("a.cpp", "int a = 2;"), ("a.cpp", "#define A int a = 1;\n"), ("b.py", "x = '# two'"),
                           ("c.sh", "#!/bin/sh\necho '# two'"), ("c.sh", "#!/bin/bash\necho '# one'\n"), ("e.cpp", "")):
            write(path, text)
            git("add", "--intent-to-add", "--all")
            assert len(list(problems("HEAD", None))) == 1, (path, text)
            git("reset", "-q", "--hard")
            git("clean", "-qfd")


def main():
    words = sys.argv[1:]
    if words == ["--self-test"]:
        return self_test()
    if any(word.startswith("-") for word in words):
        print(__doc__.strip(), file=sys.stdout if words in (["-h"], ["--help"]) else sys.stderr)
        return 0 if words in (["-h"], ["--help"]) else 2
    found = [text for commit in words for text in problems(f"{commit}^", commit)] if words else list(problems("HEAD", None))
    print(*found, f"{len(found)} differences", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
