#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Measures how long a waiter waits after the holder of its lock was killed, and how many requests the agent gets for each
death. The clients are `holdfast run` with and without a run directory, `consul lock`, and HashiCorp's lock in Go.

usage: dead_holder.py CONSUL HOLDFAST GO_LOCK [--runs N] [--write]

  GO_LOCK     the program of test/peers/go_lock
  --runs      50 if it is not given. They run at the same time, each with a lock of its own.
  --write     puts the rows of this version of Consul into doc/how_to/run_directory.md.
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from faults import Agent, until

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "doc/how_to/run_directory.md"
HEAD = ("| client | Consul | median | longest | requests for each death | runs |\n"
        "|---|---|---|---|---|---|\n")
LONGEST = 100  # seconds until a waiter must have the lock


class Logged(Agent):
    """An agent that logs each request."""

    def start(self):
        self.command_line[self.command_line.index("err")] = "debug"
        self.log = pathlib.Path(self.command_line[-1] + ".log")
        self.process = subprocess.Popen(self.command_line, stdout=self.log.open("w"), stderr=subprocess.STDOUT)

    def requests(self):
        lines = self.log.read_text().splitlines()
        return sum("Request finished" in line and "/session/renew/" not in line for line in lines)


class Pair:
    """A holder and a waiter. Each writes into a file when it has the lock."""

    def __init__(self, folder, number, command, environment):
        self.files = [pathlib.Path(folder) / f"{number}.{which}" for which in ("holder", "waiter")]
        for file in self.files:
            file.touch()  # the client in Go makes none
        self.command, self.number, self.environment = command, number, environment
        self.processes = []

    def start(self, which):
        self.processes.append(subprocess.Popen(self.command(self.number, self.files[which]), env=self.environment,
                                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                               stderr=subprocess.DEVNULL, process_group=0))

    def kill(self):
        """Kills the holder and all that it has started, as if the machine ran out of memory."""
        pid = self.processes[0].pid
        self.killed_at = time.time()
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        self.processes[0].kill()

    def has(self, which):
        return self.files[which].stat().st_size > 0

    def waited(self):
        text = self.files[1].read_text().strip()
        has_time = text[:1].isdigit()  # otherwise the time of the file, which the kernel rounds
        return (float(text) if has_time else self.files[1].stat().st_mtime) - self.killed_at

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


def measure(consul, name, command, runs, variables):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        agent = Logged(consul, folder, "agent")
        stack.callback(agent.stop)
        agent.wait()
        environment = {"PATH": os.environ["PATH"], "SHELL": "/bin/sh", "CONSUL_HTTP_ADDR": agent.address,
                       "HOLDFAST_RUN_DIRECTORY": ""}
        if variables:
            environment["HOLDFAST_RUN_DIRECTORY"] = os.path.join(folder, "run")
            os.mkdir(environment["HOLDFAST_RUN_DIRECTORY"])
        pairs = [Pair(folder, number, lambda *its: command(agent.address, *its), environment) for number in range(runs)]
        for which in (0, 1):
            for pair in pairs:
                stack.callback(pair.end)
                pair.start(which)
            if which == 0 and not until(lambda: all(pair.has(0) for pair in pairs), 60):
                sys.exit(f"{name}: not all holders have their locks")
        time.sleep(5)  # all wait
        before = agent.requests()
        time.sleep(15)  # three renewals of each session
        idle = (agent.requests() - before) / 15
        before, began = agent.requests(), time.monotonic()
        for pair in pairs:
            pair.kill()
            time.sleep(0.02)  # one death at a time
        if not until(lambda: all(pair.has(1) for pair in pairs), LONGEST):
            sys.exit(f"{name}: not all waiters have their locks")
        requests = agent.requests() - before - idle * (time.monotonic() - began)
        times = sorted(pair.waited() for pair in pairs)
        version = re.search(r"v([\d.]+)", subprocess.run([consul, "version"], stdout=subprocess.PIPE, text=True).stdout)[1]
        return (f"| {name} | {version} | {times[len(times) // 2]:.3f} s | {times[-1]:.3f} s | "
                f"{max(0.0, requests / runs):.0f} | {runs} |")


def write(rows):
    text = DOCUMENT.read_text(encoding="utf-8")
    begin = text.index(HEAD) + len(HEAD)
    end = text.index("\n\n", begin - 1) + 1
    new = {tuple(row.split("|")[1:3]): row for row in [*text[begin:end].splitlines(), *rows]}
    DOCUMENT.write_text(text[:begin] + "\n".join(new.values()) + "\n" + text[end:], encoding="utf-8")


def main():
    words = sys.argv[1:]
    if len(words) < 3 or words[0].startswith("-"):
        print(__doc__.strip())
        return 0 if words in (["-h"], ["--help"]) else 2
    consul, holdfast, go_lock, *rest = (os.path.abspath(each) if i < 3 else each for i, each in enumerate(words))
    runs = int(rest[rest.index("--runs") + 1]) if "--runs" in rest else 50

    def ours(_address, number, file):
        return [holdfast, "run", f"dead/{number}", "--", "sh", "-c", f"date +%s.%N >{file}; exec sleep 1000"]

    def theirs(_address, number, file):
        return [consul, "lock", f"dead/{number}", f"date +%s.%N >{file}; exec sleep 1000"]

    def of_go(address, number, file):
        return [go_lock, "-agent", address, "-key", f"dead/{number}/.lock", "-ttl", "15s", "-once", "-until", "/none",
                "-journal", str(file)]

    rows = []
    for name, command, with_directory in (("`holdfast run`, run directory", ours, True),
                                          ("`holdfast run`, none", ours, False),
                                          ("`consul lock`", theirs, False),
                                          ("`api.Lock` in Go", of_go, False)):
        rows.append(measure(consul, name, command, runs, with_directory))
        print(rows[-1], flush=True)
    if "--write" in rest:
        write(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
