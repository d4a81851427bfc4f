#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Makes the manual page and the completions of the program `holdfast` from what `holdfast describe` prints.

usage: manual.py PROGRAM FOLDER     writes holdfast.1, holdfast.bash, _holdfast and holdfast.fish to the folder
"""

import json
import pathlib
import re
import subprocess
import sys
import textwrap

DATE = "November 26, 2026"
# The variables that the program reads, for the manual.
VARIABLES = [
    ("CONSUL_HTTP_ADDR, CONSUL_HTTP_TOKEN, CONSUL_HTTP_TOKEN_FILE, CONSUL_CACERT and others",
     "The agent and how to reach it, as the program consul reads them. Flags come before variables."),
    ("SHELL", "The shell that runs the command of run, unless -- stands before it. The default is /bin/sh."),
    ("CONSUL_LOCK_HELD, HOLDFAST_FENCING_TOKEN, HOLDFAST_SESSION, HOLDFAST_PREFIX, HOLDFAST_LIMIT, HOLDFAST_TTL, "
     "HOLDFAST_SLOT", "run sets them for its command, and verify reads them."),
    ("HOLDFAST_NAME, HOLDFAST_SLOT", "With --rabbitmq, run sets these for its command."),
]


def flags_of(command):
    return [option for option in command["options"] if option["names"]]


def arguments_of(command):
    found = re.match(r"Usage: holdfast \w+ \[FLAGS\] (.*)", command["footer"])
    return found[1] if found else " ".join(option["argument"].upper() for option in command["options"] if option["argument"])


def roff(text):
    """Plain text for mdoc: no macros, no escapes. A sentence begins on a line of its own."""
    text = re.sub(r"(?<=[a-z0-9.]{2}[.:]) (?=[A-Z-])", "\n", text.replace("\\", "\\e").replace("`", ""))
    lines = [part for line in text.split("\n") for part in textwrap.wrap(line, 72, break_on_hyphens=False)]
    lines = ["\\&" + line if line.startswith((".", "'")) else line for line in lines]
    return "\n".join(lines).replace("--", "\\-\\-")


def man_page(all_commands):
    out = [f".Dd {DATE}", ".Dt HOLDFAST 1", ".Os", ".Sh NAME", ".Nm holdfast",
           ".Nd distributed semaphores and mutexes over Consul, for the shell", ".Sh SYNOPSIS"]
    for command in all_commands["commands"]:
        words = [word for word in arguments_of(command).split() if word != "[--]"]
        out += [".Nm", f".Cm {command['name']}", ".Op Ar flags", *(f".Ar {word}" for word in words)]
    out += [".Sh DESCRIPTION", roff(all_commands["text"])]
    for command in all_commands["commands"]:
        out += [f".Ss {command['name']}", roff(command["text"] + ".")]
        lines = [line for line in command["footer"].split("\n") if not line.startswith(("Usage:", "holdfast(1)"))]
        footer = "\n".join(lines).strip()
        if footer:
            out += [".Pp", roff(footer)]
        out += [".Bl -tag -width Ds"]
        for flag in flags_of(command):
            names = " , ".join(f"Fl {name[1:]}" for name in flag["names"])
            value = " Ar value" if flag["takes_value"] else ""
            out += [f".It {names}{value}", roff(flag["text"] + ".")]
            if flag["default"]:
                out += [f"The default is {roff(flag['default'])}."]
        out += [".El"]
    out += [".Sh ENVIRONMENT", ".Bl -tag -width Ds"]
    for name, text in VARIABLES:
        out += [f".It {name}", roff(text)]
    out += [".El", ".Sh EXIT STATUS"]
    told = set()
    for command in all_commands["commands"]:
        statuses = command["statuses"]
        key = json.dumps(statuses)
        if key in told:
            continue
        told.add(key)
        same = [each["name"] for each in all_commands["commands"] if each["statuses"] == statuses]
        out += [roff(f"Of {', '.join(same)}:"), ".Bl -tag -width other"]
        for status, text in statuses:
            out += [f".It {status}", roff(text)]
        out += [".El", ".Pp"]
    if out[-1] == ".Pp":
        out.pop()
    out += [".Sh EXAMPLES", "Run a migration on one host at a time:", ".Dl holdfast run service/db/migrate ./migrate",
            ".Pp", "Run at most three reports in the whole cluster:",
            ".Dl holdfast run -n 3 service/db \\-\\- ./report \\-\\-day=today", ".Sh SEE ALSO", ".Xr flock 1 ,",
            ".Xr timeout 1"]
    return "\n".join(out) + "\n"


def bash(all_commands):
    cases = []
    for command in all_commands["commands"]:
        flags = " ".join(name for flag in flags_of(command) for name in flag["names"])
        cases.append(f"    {command['name']}) flags='{flags}' ;;")
    names = " ".join(command["name"] for command in all_commands["commands"])
    return f"""# Completion of holdfast for bash. Written by tools/manual.py.
# shellcheck shell=bash
_holdfast() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} flags=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W '{names} --help --version' -- "$word")
    return
  fi
  case ${{COMP_WORDS[1]}} in
{chr(10).join(cases)}
  esac
  case $word in
    -*) mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$word") ;;
    *) if [ "${{COMP_WORDS[1]}}" = run ] || [ "${{COMP_WORDS[1]}}" = elect ]; then mapfile -t COMPREPLY < <(compgen -c -- "$word"); fi ;;
  esac
}}
complete -o default -F _holdfast holdfast
"""


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh(all_commands):
    listed = "\n".join("    " + quoted(f"{command['name']}:{command['text']}") for command in all_commands["commands"])
    cases = []
    for command in all_commands["commands"]:
        words = []
        for flag in flags_of(command):
            text = re.sub(r"([\[\]:])", r"\\\1", flag["text"])
            for name in flag["names"]:
                end = "=" if flag["takes_value"] and name.startswith("--") else "+" if flag["takes_value"] else ""
                words.append(quoted(f"{name}{end}[{text}]" + (":value:_files" if flag["takes_value"] else "")))
        last = "'1:prefix:' '*::command:_normal'" if command["name"] in ("run", "elect") else "'*:argument:'"
        cases.append(f"    {command['name']}) _arguments " + " \\\n      ".join([*words, last]) + " ;;")
    return f"""#compdef holdfast
# Completion of holdfast for zsh. Written by tools/manual.py.
_holdfast() {{
  local -a commands=(
{listed}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=${{words[2]}}
  shift words
  (( CURRENT-- ))
  case $command in
{chr(10).join(cases)}
  esac
}}
_holdfast "$@"
"""


def fish(all_commands):
    out = ["# Completion of holdfast for fish. Written by tools/manual.py."]
    for command in all_commands["commands"]:
        out.append(f"complete -c holdfast -n __fish_use_subcommand -f -a {command['name']} -d {quoted(command['text'])}")
    for command in all_commands["commands"]:
        for flag in flags_of(command):
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag["names"])
            value = " -r" if flag["takes_value"] else ""
            out.append(f"complete -c holdfast -n '__fish_seen_subcommand_from {command['name']}' {names}{value} "
                       f"-d {quoted(flag['text'])}")
    return "\n".join(out) + "\n"


def main():
    words = sys.argv[1:]
    if len(words) != 2 or words[0].startswith("-"):
        print(__doc__.strip())
        return 0 if words in (["-h"], ["--help"]) else 2
    program, folder = words[0], pathlib.Path(words[1])
    described = subprocess.run([program, "describe"], stdout=subprocess.PIPE, text=True, check=True).stdout
    all_commands = json.loads(described)
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in (("holdfast.1", man_page), ("holdfast.bash", bash), ("_holdfast", zsh), ("holdfast.fish", fish)):
        (folder / name).write_text(make(all_commands), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
