# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that the programs which CONTRIBUTING.md names, and all files that begin with `#!`, may be executed."""

import os
import re

import sources

# A command in a row of CONTRIBUTING.md, which may begin with variables. The programs in `build/` are made by a build.
COMMAND = re.compile(r"^\| `(?:[A-Z_]+=\S+ )*((?:scripts|test|bench|example|tools)/[\w./-]+)", re.MULTILINE)


def problems(files):
    commands = set(COMMAND.findall(files["CONTRIBUTING.md"]))
    if not commands:
        yield "CONTRIBUTING.md: no command was found"
    for path in sorted(commands | {path for path, text in files.items() if text.startswith("#!")}):
        if not os.access(sources.ROOT / path, os.X_OK):
            yield f"{path}: it may not be executed (chmod +x, git update-index --chmod=+x)"


PLANTED = [
    ("CONTRIBUTING.md", "| `scripts/demo`", "| `scripts/gone`", "scripts/gone: it may not"),
    ("CONTRIBUTING.md", "| `scripts/demo`", "| `A=7 README.md`\n| `A=7 tools/sources.py`", "tools/sources.py: it may not"),
    ("CONTRIBUTING.md", "", "", "no command was found"),
    ("tools/sources.py", "", "#!/usr/bin/env python3\n", "tools/sources.py: it may not"),
]
