#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Runs `holdfast run` and `consul lock` side by side on one mutex and on one semaphore of three slots. Each second it
kills one of them: the program, its guard, both, or the program with all its processes. Each command writes down the time
every 5 ms. At the end no more commands than slots may have run at a time.

usage: mixed.py CONSUL HOLDFAST [--seconds N] [--without-consul-lock]     600 seconds if it is not given
"""

import collections
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

from faults import Agent

# Writes the time into a file of its own until the time that it was given is over.
BEAT = ("import os, sys, time; end = time.monotonic() + float(sys.argv[2])\n"
        "with open(sys.argv[1], 'w', buffering=1) as file:\n"
        "    while time.monotonic() < end: file.write(f'{time.time_ns()}\\n'); time.sleep(0.005)")
LIMITS = {"mixed/one": 1, "mixed/three": 3}
WORKERS = 5  # for each prefix
BETWEEN_KILLS_OF_THEIRS = 60  # seconds; a dead `consul lock` keeps its slot for half a minute


def children(pid):
    with contextlib.suppress(OSError):
        return [int(each) for each in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def tree(pid):
    return [pid] + [each for child in children(pid) for each in tree(child)]


def send(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class Run:
    def __init__(self, arguments):
        self.consul, self.holdfast, self.seconds, self.with_theirs = arguments
        self.lock = threading.Lock()
        self.count = 0
        self.running = {}  # by process, its prefix, its kind and its file
        self.started = collections.Counter()
        self.kills = collections.Counter()
        self.over = threading.Event()

    def work(self, prefix, folder, environment, seed):
        choose = random.Random(seed)
        while not self.over.is_set():
            with self.lock:
                self.count += 1
                file = pathlib.Path(folder) / f"{prefix.replace('/', '-')}.{self.count}"
            kind = "consul lock" if self.with_theirs and choose.random() < 0.3 else "holdfast run"
            program = [self.consul, "lock"] if kind == "consul lock" else [self.holdfast, "run"]
            command = [*program, "-n", str(LIMITS[prefix]), "-shell=false", prefix, sys.executable, "-c", BEAT, str(file),
                       str(choose.uniform(0.1, 1))]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, env=environment, process_group=0)
            with self.lock:
                self.running[process] = prefix, kind, file
            while process.poll() is None and not self.over.wait(0.01):
                pass
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait()
            with self.lock:
                del self.running[process]
                self.started[kind] += file.exists()

    def kill_one(self, choose, may_be_theirs):
        """Kills one whose command runs."""
        with self.lock:
            holding = [(process, kind) for process, (_, kind, file) in self.running.items()
                       if file.exists() and process.poll() is None and (may_be_theirs or kind == "holdfast run")]
        if not holding:
            return None
        process, kind = choose.choice(holding)
        what = "with all its processes" if kind == "consul lock" else choose.choice(
            ["the program", "the guard", "the program and the guard", "with all its processes"])
        guards = children(process.pid)[:1]
        if what == "the program":
            send(process.pid, signal.SIGKILL)
        elif what == "the guard":
            for pid in guards:
                send(pid, signal.SIGKILL)
        else:
            victims = [process.pid, *guards] if what == "the program and the guard" else tree(process.pid)
            for number in signal.SIGSTOP, signal.SIGKILL:  # none of them may react to the death of another
                for pid in victims:
                    send(pid, number)
        self.kills[f"{kind}: {what}"] += 1
        return kind

    def run(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            agent = Agent(self.consul, folder, "agent")
            stack.callback(agent.stop)
            agent.wait()
            environment = {**os.environ, "SHELL": "/bin/sh", "CONSUL_HTTP_ADDR": agent.address,
                           "HOLDFAST_RUN_DIRECTORY": os.path.join(folder, "run")}
            os.mkdir(environment["HOLDFAST_RUN_DIRECTORY"])
            workers = [threading.Thread(target=self.work, args=(prefix, folder, environment, f"{prefix}{number}"))
                       for prefix in LIMITS for number in range(WORKERS)]
            for worker in workers:
                worker.start()
            choose, theirs_at = random.Random(1), time.monotonic() + 10
            for second in range(self.seconds):
                time.sleep(1)
                if self.kill_one(choose, time.monotonic() > theirs_at) == "consul lock":
                    theirs_at = time.monotonic() + BETWEEN_KILLS_OF_THEIRS
                if second % 60 == 59:
                    print(f"{second + 1} s: {self.count} started, {sum(self.kills.values())} killed", file=sys.stderr)
            self.over.set()
            for worker in workers:
                worker.join()
            return self.judge(folder)

    def judge(self, folder):
        good = True
        for prefix, limit in LIMITS.items():
            changes = []
            for file in pathlib.Path(folder).glob(f"{prefix.replace('/', '-')}.*"):
                beats = [int(line) for line in file.read_text().split() if len(line) == 19]
                if beats:
                    changes += [(beats[0], 1), (beats[-1], -1)]
            changes.sort()
            now = most = 0
            began = {1: [], -1: []}
            for at, change in changes:
                now += change
                most = max(most, now)
                began[change].append(at)
            gaps = [(after - before) / 1e9 for before, after in zip(began[1], began[1][1:])]
            print(f"{prefix}: {len(began[1])} commands, at most {most} of {limit} at a time, longest time without a new "
                  f"one {max(gaps):.1f} s")
            good = good and most <= limit
        print(f"that ran: {dict(self.started)}; kills: {dict(sorted(self.kills.items()))}")
        return good


def main():
    words = sys.argv[1:]
    if len(words) < 2 or words[0].startswith("-"):
        print(__doc__.strip())
        return 0 if words in (["-h"], ["--help"]) else 2
    seconds = int(words[words.index("--seconds") + 1]) if "--seconds" in words else 600
    arguments = os.path.abspath(words[0]), os.path.abspath(words[1]), seconds, "--without-consul-lock" not in words
    return 0 if Run(arguments).run() else 1


if __name__ == "__main__":
    sys.exit(main())
