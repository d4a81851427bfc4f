#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Runs shellcheck over all shell scripts of the project: those that begin with a shell's name.

usage: check_shell.py              checks the project in the current folder
       check_shell.py --self-test  shows that it is able to fail
"""

import pathlib
import re
import subprocess
import sys
import tempfile

# The first line of a script, or the line that a file has instead if it is only sourced.
SHELL = re.compile(rb"#!.*\b(sh|bash|dash)\b|# shellcheck shell=")
NOT_OURS = {".git", ".cache", "build", "bench-out"}


def shell_scripts(root):
    for path in sorted(root.iterdir()):
        if path.is_dir() and not path.is_symlink() and path.name not in NOT_OURS:
            yield from shell_scripts(path)
        elif path.is_file():
            with path.open("rb") as file:
                if SHELL.match(file.readline()):
                    yield path


def check(root):
    scripts = list(shell_scripts(root))
    print(f"{len(scripts)} scripts", flush=True)
    if not scripts:
        return 1
    return subprocess.run(["shellcheck", "--external-sources", *(p.relative_to(root) for p in scripts)], cwd=root).returncode


def self_test():
    bad = {
        "a program": "#!/bin/sh\nrm $1\n",
        "a program found by env": "#!/usr/bin/env bash\nrm $1\n",
        "a file that is sourced": "# shellcheck shell=sh\nf() { rm $1; }\n",
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "program.py").write_text("#!/usr/bin/env python3\nrm $1\n")
        assert check(root) != 0, "no script at all"
        (root / "good").write_text('#!/bin/sh\nrm "$1"\n')
        assert check(root) == 0, "a good script is refused"
        (root / "scripts").mkdir()
        for what, text in bad.items():
            (root / "scripts/bad").write_text(text)
            assert check(root) != 0, f"not found: {what}"
    return 0


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1:] == ["--self-test"] else check(pathlib.Path.cwd()))
