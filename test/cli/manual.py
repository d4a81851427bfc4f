#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks the manual page by mandoc and the completion for bash by shellcheck, and tries the completions in real shells.

usage: manual.py FOLDER     what tools/manual.py has written
"""

import os
import pathlib
import pty
import select
import subprocess
import sys
import time

DEADLINE = 30  # seconds for a shell to answer
CASES = [("holdfast ins", "inspect"), ("holdfast run --gra", "--grace"), ("holdfast destroy --even", "--even-in-use")]


def output_of(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE, **options)
    return done.stdout


def bash(folder, line, _):
    words = line.split()
    code = (f"source {folder}/holdfast.bash; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _holdfast; "
            'printf "%s\\n" "${COMPREPLY[@]}"')
    return output_of("bash", "-c", code).split()


def fish(folder, line, _):
    return [found.split("\t")[0] for found in
            output_of("fish", "--no-config", "-c", f"source {folder}/holdfast.fish; complete -C '{line}'").splitlines()]


def zsh(folder, line, expected):
    """zsh completes in a terminal only. It prints the rest of the word behind what was typed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="dumb", PS1="", HOME=str(folder))
        os.execvp("zsh", ["zsh", "-f", "-i"])
    seen = b""
    try:
        os.write(terminal, f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; echo is-ready\n".encode())
        typed = False
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end and select.select([terminal], [], [], end - time.monotonic())[0]:
            seen += os.read(terminal, 4096)
            if not typed and b"\nis-ready" in seen:
                os.write(terminal, line.encode() + b"\t")
                typed, seen = True, b""
            if typed and expected.encode() in seen:
                break
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    return seen.decode(errors="replace")


def main():
    words = sys.argv[1:]
    if len(words) != 1 or words[0].startswith("-"):
        print(__doc__.strip())
        return 0 if words in (["-h"], ["--help"]) else 2
    folder = pathlib.Path(words[0]).resolve()
    failed = 0

    def check(what, is_right, said):
        nonlocal failed
        failed += not is_right
        print(f"{what}: " + ("passed" if is_right else f"FAILED: {said}"), flush=True)

    said = output_of("mandoc", "-T", "lint", "-W", "style", folder / "holdfast.1")
    said = "\n".join(line for line in said.splitlines() if "outdated mandoc.db" not in line)
    check("mandoc", not said, said)
    said = output_of("shellcheck", folder / "holdfast.bash")
    check("shellcheck", not said, said)
    for shell in (bash, fish, zsh):
        for line, expected in CASES:
            found = shell(folder, line, expected)
            check(f"{shell.__name__}: {line}", expected in found, found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
