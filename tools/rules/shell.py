# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Runs shellcheck over all shell scripts of the project: those that begin with a shell's name."""

import pathlib
import re
import subprocess
import tempfile

# The first line of a script, or the line that a file has in its first comments if it is only sourced.
SHELL = re.compile(r"#!.*\b(sh|bash|dash)\b|((#(?!!).*)?\n)*# shellcheck shell=")


def problems(files):
    scripts = {path: text for path, text in files.items() if SHELL.match(text)}
    if not scripts:
        yield "scripts: no shell script was found"
        return
    with tempfile.TemporaryDirectory() as folder:
        for path, text in scripts.items():
            (pathlib.Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (pathlib.Path(folder) / path).write_text(text, encoding="utf-8")
        words = ["shellcheck", "--external-sources", "--format=gcc", *scripts]
        run = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        yield from (run.stdout + run.stderr).splitlines()
        if run.returncode != 0 and not run.stdout + run.stderr:
            yield f"scripts: shellcheck ended with status {run.returncode}"


GOOD = {"good": '#!/bin/sh\nrm "$1"\n', "program.py": "#!/usr/bin/env python3\nrm $1\n"}
PLANTED = [
    ("good", "#!/bin/sh", "", "no shell script"),
    ("scripts/bad", "", "#!/bin/sh\nrm $1\n", "scripts/bad:2:"),
    ("scripts/bad", "", "#!/usr/bin/env bash\nrm $1\n", "scripts/bad:2:"),
    ("scripts/bad", "", "# x\n\n# shellcheck shell=sh\nf() { rm $1; }\n", "scripts/bad:4:"),
]
