#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Runs `consul lock` and `holdfast run` in the same cases, on one agent, and compares what they do. Each difference has
its reason in the table. Fails if a difference has no reason, if a reason has no difference, or if the table in
doc/reference/run.md is another.

usage: beside_consul_lock.py CONSUL HOLDFAST [--write]     CONSUL_HTTP_ADDR is the agent; --write replaces the table
"""

import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "doc/reference/run.md"
BEGIN, END = "<!-- written by test/cli/beside_consul_lock.py -->\n", "<!-- end of the table -->"
DEADLINE = 40  # seconds for anything that is waited for
ADDRESS = os.environ.get("CONSUL_HTTP_ADDR", "").removeprefix("http://")


def request(method, path):
    with urllib.request.urlopen(urllib.request.Request(f"http://{ADDRESS}{path}", method=method)) as reply:
        return reply.read().decode()


def keys(prefix):
    with contextlib.suppress(urllib.error.HTTPError):
        return request("GET", f"/v1/kv/{prefix}?keys")
    return "[]"


def with_default_signals():
    """A shell starts what it runs in the background with these signals ignored."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


class Client:
    def __init__(self, name, *command):
        self.name, self.command = name, command
        self.count = 0

    def prefix(self):
        self.count += 1
        return f"{self.name}/{self.count}"

    def popen(self, *words, **options):
        environment = {"PATH": os.environ["PATH"], "CONSUL_HTTP_ADDR": ADDRESS, "SHELL": "/bin/sh"}
        options.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen([*self.command, *words], stdout=subprocess.PIPE, text=True, preexec_fn=with_default_signals,
                                env={**environment, **options.pop("env", {})}, process_group=0, **options)

    def run(self, *words, stdin="", **options):
        """The status, and what the command has printed. `consul lock` prints its own lines on stdout, too."""
        process = self.popen(*words, stdin=subprocess.PIPE, **options)
        out, _ = process.communicate(stdin, timeout=DEADLINE)
        lines = [line.removeprefix("out:") for line in out.splitlines() if line.startswith("out:")]
        return f"status {process.returncode}" + (f", `{' '.join(lines)}`" if lines else "")

    @contextlib.contextmanager
    def holding(self, prefix, script="exec sleep 1000", *flags):
        """Runs a command that holds the slot. Yields the process, the command's process id, and a descriptor that is at
        its end when the command and all its children are gone."""
        with tempfile.TemporaryDirectory() as folder:
            fifo = folder + "/started"
            os.mkfifo(fifo)
            # Only the command has this end of the pipe, not its runner: a fifo is opened by its name.
            alive = folder + "/alive"
            os.mkfifo(alive)
            reader = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
            process = self.popen(*flags, prefix, f"exec 9>{alive}; echo $$ >{fifo}; {script}", stdin=subprocess.DEVNULL)
            with open(fifo) as started:
                child = int(started.read())
            try:
                yield process, child, reader
            finally:
                for group in (process.pid, child):  # the command is in the first one or in the second one
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(group, signal.SIGKILL)
                process.communicate()
                os.close(reader)


def ends(process):
    try:
        return f"status {process.wait(DEADLINE)}"
    except subprocess.TimeoutExpired:
        return "does not end"


def is_gone(reader, seconds):
    """Whether the command and its children end within that time."""
    return bool(select.select([reader], [], [], seconds)[0])


def holder(prefix):
    return json.loads(request("GET", f"/v1/kv/{prefix}/.lock"))[0]["Session"]


def sessions(prefix):
    return [each for each in json.loads(request("GET", "/v1/session/list")) if f"'{prefix}'" in each["Name"]]


def words(*given):
    return lambda client: client.run(*[client.prefix() if word == "P" else word for word in given])


def with_stdin(*given):
    return lambda client: client.run(*[client.prefix() if word == "P" else word for word in given], stdin="text\n")


def on_a_held_lock(*flags):
    def case(client):
        prefix = client.prefix()
        with client.holding(prefix):
            return client.run(*flags, prefix, "echo out:never")
    return case


def without_an_agent(client):
    return client.run(client.prefix(), "true", env={"CONSUL_HTTP_ADDR": "127.0.0.1:1"})


def leftover_keys(client):
    prefix = client.prefix()
    client.run(prefix, "true")
    return "none" if prefix not in keys(prefix) else "some"


def one_prefix_with_another_limit(client):
    prefix = client.prefix()
    client.run(prefix, "true")
    return client.run("-n", "2", prefix, "true")


def a_lost_lock(client):
    prefix = client.prefix()
    with client.holding(prefix, "trap '' TERM; while :; do sleep 0.1; done") as (process, _, reader):
        request("PUT", f"/v1/session/destroy/{holder(prefix)}")
        return ends(process) + (", the command is ended" if is_gone(reader, 1) else ", the command runs")


def signal_while_it_waits(number):
    def case(client):
        prefix = client.prefix()
        with client.holding(prefix) as (holding, _, _reader):
            process = client.popen("-verbose", prefix, "echo out:never", stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
            for line in process.stdout:  # of -verbose
                if "Attempting lock acquisition" in line or "waiting for a slot" in line:
                    break
            end = time.monotonic() + DEADLINE
            while len(sessions(prefix)) < 2 and process.poll() is None and time.monotonic() < end:
                pass
            process.send_signal(number)
            try:
                return f"status {process.wait(2)}, at once"
            except subprocess.TimeoutExpired:
                holding.send_signal(signal.SIGTERM)
                return ends(process) + ", when the lock is free"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                process.communicate()
    return case


def signal_while_it_runs(number):
    def case(client):
        with client.holding(client.prefix()) as (process, _, reader):
            process.send_signal(number)
            return ends(process) + (", the command is ended" if is_gone(reader, 2) else ", the command goes on alone")
    return case


def a_stubborn_command(client):
    with client.holding(client.prefix(), "trap '' TERM; while :; do sleep 0.1; done") as (process, _, reader):
        process.send_signal(signal.SIGTERM)
        return ends(process) + (", the command is killed" if is_gone(reader, 2) else ", the command goes on alone")


def what_the_command_leaves(client):
    with client.holding(client.prefix(), "sleep 1000 & exit 0") as (process, _, reader):
        return ends(process) + (", its children are ended" if is_gone(reader, 2) else ", its children go on")


def process_group(client):
    with client.holding(client.prefix()) as (process, child, _):
        return "the runner's" if os.getpgid(child) == os.getpgid(process.pid) else "its own"


GUARD = "the guard ends the command: it must not run beside its successor"
MISLEADING = "0 would mean success"
CASES = [
    ("the command fails: `P 'exit 3'`", words("P", "exit 3"), None),
    ("`-child-exit-code P 'exit 3'`", words("-child-exit-code", "P", "exit 3"), None),
    ("the command is killed: `P 'kill -9 $$'`", words("P", "kill -9 $$"), None),
    ("`P echo 'out:a  b' '$CONSUL_LOCK_HELD'`", words("P", "echo", "out:a  b", "$CONSUL_LOCK_HELD"), None),
    ("`-shell=false P echo 'out:a  b' '$HOME'`", words("-shell=false", "P", "echo", "out:a  b", "$HOME"), None),
    ("`P -- echo 'out:a  b'`", words("P", "--", "echo", "out:a  b"), "`--` runs the arguments as they are"),
    ("`P 'sed s/^/out:/'`, with a text on stdin", with_stdin("P", "sed s/^/out:/"), None),
    ("`-pass-stdin P 'sed s/^/out:/'`, with a text on stdin", with_stdin("-pass-stdin", "P", "sed s/^/out:/"), None),
    ("`-n 3 P true`", words("-n", "3", "P", "true"), None),
    ("`-n 0 P true`", words("-n", "0", "P", "true"), None),
    ("`--name=x --verbose -stale P true`", words("--name=x", "--verbose", "-stale", "P", "true"), None),
    ("`P`", words("P"), None),
    ("`-foo P true`", words("-foo", "P", "true"), None),
    ("`-timeout 5 P true`", words("-timeout", "5", "P", "true"), None),
    ("a lock that is held: `-timeout=1s`", on_a_held_lock("-timeout=1s"), None),
    ("a lock that is held: `-try=1s`", on_a_held_lock("-try=1s"), None),
    ("no agent", without_an_agent, None),
    ("keys that are left", leftover_keys, None),
    ("`-n 2` where `-n 1` was used before", one_prefix_with_another_limit, None),
    ("the lock is lost, and the command ignores SIGTERM", a_lost_lock, MISLEADING),
    ("SIGTERM while it waits", signal_while_it_waits(signal.SIGTERM), f"it leaves at once, and {MISLEADING}"),
    ("SIGINT while it waits", signal_while_it_waits(signal.SIGINT), f"it leaves at once, and {MISLEADING}"),
    ("SIGTERM while the command runs", signal_while_it_runs(signal.SIGTERM), None),
    ("SIGINT while the command runs", signal_while_it_runs(signal.SIGINT), None),
    ("SIGHUP while the command runs", signal_while_it_runs(signal.SIGHUP), "the signal is passed on"),
    ("SIGQUIT while the command runs", signal_while_it_runs(signal.SIGQUIT), "the signal is passed on"),
    ("SIGKILL while the command runs", signal_while_it_runs(signal.SIGKILL), GUARD),
    ("SIGTERM, and the command ignores it", a_stubborn_command, None),
    ("the command ends, and leaves children", what_the_command_leaves, GUARD),
    ("the process group of the command", process_group, "a shell's job control needs that"),
]


def table(consul, holdfast):
    lines = ["| | `consul lock` | `holdfast run` | reason of the difference |", "|---|---|---|---|"]
    wrong = []
    for name, case, reason in CASES:
        theirs, ours = case(consul), case(holdfast)
        print(f"{name}: {theirs} | {ours}", flush=True)
        if theirs == ours and reason:
            wrong.append(f"{name}: no difference, but a reason")
        if theirs != ours and not reason:
            wrong.append(f"{name}: {theirs} and {ours}, without a reason")
        cells = [name, theirs, "the same" if theirs == ours else ours, reason or ""]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n", wrong


def main():
    arguments = sys.argv[1:]
    if len(arguments) not in (2, 3) or arguments[0].startswith("-") or arguments[2:] not in ([], ["--write"]):
        print(__doc__.strip())
        return 0 if arguments in (["-h"], ["--help"]) else 2
    made, wrong = table(Client("theirs", arguments[0], "lock"), Client("ours", arguments[1], "run"))
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    old, _, after = rest.partition(END)
    if arguments[2:]:
        PAGE.write_text(before + BEGIN + made + END + after, encoding="utf-8")
    elif old != made:
        wrong.append(f"{PAGE.relative_to(ROOT)} has another table; --write replaces it")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
