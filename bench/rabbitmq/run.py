#!/usr/bin/python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Measures the semaphore on RabbitMQ beside seed clients and beside a bare loop, on a broker of its own, in one run.

usage: run.py BROKER BENCH [--consul BENCH] [--out FILE] [--seconds N] [--smoke]

BROKER is the program that scripts/rabbitmq prints, BENCH is holdfast_rabbitmq_bench. Prints a line for each
measurement, and then the goals (results.py). FILE gets all figures as JSON. --consul names holdfast_bench, which
measures the pool on Consul. --smoke measures for a moment, with few contenders; its figures mean nothing.

- cycle: operations per second, and their share of the floor. The two take turns, and the median of the pairs counts.
- handoff: from the call of release to the entry of another process, for ours and for seed clients.
- pool: operations per second of 128 coroutines on four slots, and their share of those on a Consul agent, in pairs.
- waiting, idle: packets that the broker receives per second from each process that waits, and for each slot that is
  held. A request is one packet, or more if it is long. Memory of the client and of the broker for each slot held.
"""

import contextlib
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/rabbitmq"))

import results  # noqa: E402
from broker import DEADLINE, expect, running  # noqa: E402

SEED_CLIENT = ROOT / "test/peers/seed_client.py"
PAIRS = 5
SETTLE = 15  # seconds; a connection that nobody uses any more is closed after 10


class Bench:
    def __init__(self, broker, program, consul_program, seconds, settle):
        self.broker, self.program, self.consul_program = broker, program, consul_program
        self.seconds, self.settle = seconds, settle

    def words(self, workload, contenders, seconds=None):
        return [self.program, str(self.broker.port), workload, str(contenders), str(seconds or self.seconds)]

    def run(self, workload, contenders=1, seconds=None):
        done = subprocess.run(self.words(workload, contenders, seconds), capture_output=True, text=True, timeout=300)
        expect(done.returncode == 0, f"{workload}: {done.stderr}")
        return json.loads(done.stdout)

    def cycle(self):
        """The median of the pairs' ratios, and the last pair."""
        ratios = []
        for turn in range(PAIRS):
            pair = {}
            for workload in ("cycle", "floor") if turn % 2 else ("floor", "cycle"):
                pair[workload] = self.run(workload, seconds=self.seconds / 2)
            ratios.append(pair["cycle"]["ops_per_s"] / pair["floor"]["ops_per_s"])
        return {"of_floor": round(statistics.median(ratios), 3), "ratios": [round(each, 3) for each in ratios], **pair}

    def pool(self, contenders):
        """The median of ours, and with Consul the median of the pairs' ratios."""
        ours, theirs = [], []
        for turn in range(PAIRS if self.consul_program else 1):
            for is_ours in (True, False) if turn % 2 else (False, True):
                if is_ours:
                    ours.append(self.run("pool", contenders, self.seconds / 2)["ops_per_s"])
                elif self.consul_program:
                    theirs.append(self.pool_on_consul(contenders))
        found = {"ops_per_s": statistics.median(ours)}
        if theirs:
            ratios = [a / b for a, b in zip(ours, theirs)]
            found.update(on_consul=statistics.median(theirs), of_consul=round(statistics.median(ratios), 3),
                         ratios=[round(each, 3) for each in ratios])
        return found

    def pool_on_consul(self, contenders):
        options = ["--workload", "pool", "--contenders", str(contenders), "--limit", "4", "--seconds", str(self.seconds / 2)]
        done = subprocess.run([ROOT / "scripts/with-agent", self.consul_program, *options], capture_output=True, text=True,
                              timeout=300)
        expect(done.returncode == 0, f"pool on Consul: {done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])["ops_per_s"]

    def seed_handoff(self, contenders):
        """The gaps between a seed client's release and the entry of another one."""
        name = f"seed-{contenders}"
        subprocess.run([SEED_CLIENT, self.broker.url, name, "create", "1"], check=True, capture_output=True)
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            journal = pathlib.Path(folder) / "journal"
            for _ in range(contenders):
                child = subprocess.Popen([SEED_CLIENT, "--journal", journal, self.broker.url, name, "cycles", "1000000"],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                stack.callback(child.wait, DEADLINE)
                stack.callback(child.kill)
            time.sleep(2 * self.seconds)
            until = time.monotonic() + DEADLINE
            gaps = gaps_of(journal)
            while not gaps and time.monotonic() < until:  # a smoke run is short
                time.sleep(0.1)
                gaps = gaps_of(journal)
        expect(gaps, "seed clients hand the slot on")
        return {"operations": len(gaps), "p50_ms": round(statistics.median(gaps), 2)}

    def packets(self):
        return sum(int(count) for (count,) in self.broker.list("connections", "recv_cnt"))

    def memory(self):
        return int(self.broker.ctl("eval", "erlang:memory(total)."))

    def standing(self, workload, contenders):
        """The cost of so many processes that wait, or of so many slots that are held."""
        before = self.memory()
        with subprocess.Popen(self.words(workload, contenders), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as child:
            try:
                found = json.loads(child.stdout.readline())
                time.sleep(self.settle)
                first, begin = self.packets(), time.monotonic()
                time.sleep(self.seconds)
                count, seconds = self.packets() - first, time.monotonic() - begin
                found.update(packets_per_s=round(count / seconds / contenders, 3),
                             broker_bytes_for_each=(self.memory() - before) // contenders)
            finally:
                child.stdin.close()
                child.wait(DEADLINE)
        return found


def gaps_of(journal):
    """Each line is: time in nanoseconds, who, what, and more (test/support/journal.hpp). The last one may be cut off."""
    lines = [line.split() for line in journal.read_text().splitlines(keepends=True) if line.endswith("\n")]
    gaps, left, by = [], None, None
    for line in sorted(lines, key=lambda each: int(each[0])):
        at, who, what = int(line[0]), line[1], line[2]
        if what == "leave":
            left, by = at, who
        elif what == "enter" and left is not None:
            if who != by:
                gaps.append((at - left) / 1e6)
            left = None
    return gaps


def measure(bench, few, many):
    yield "cycle", bench.cycle()
    for contenders in (few, many):
        yield f"handoff {contenders}/1", bench.run("handoff", contenders)
        yield f"handoff {contenders}/1 of seed clients", bench.seed_handoff(contenders)
    yield f"pool {many}/4", bench.pool(many)
    yield f"waiting {many}", bench.standing("waiting", many)
    held = min(many, 100)
    yield f"idle {held}", bench.standing("idle", held)


def describe(broker):
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    return {"commit": commit.strip(), "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
            "broker": broker.ctl("version").strip(), "cores": len(os.sched_getaffinity(0))}


def main(words):
    smoke = "--smoke" in words
    words = [each for each in words if each != "--smoke"]
    options = dict(zip(words[2::2], words[3::2]))
    expect(set(options) <= {"--consul", "--out", "--seconds"}, __doc__)
    found = {}
    with running(words[0]) as broker:
        seconds = 0.5 if smoke else float(options.get("--seconds", 10))
        bench = Bench(broker, words[1], options.get("--consul"), seconds, 0 if smoke else SETTLE)
        about = describe(broker)
        for name, figures in measure(bench, *((2, 4) if smoke else (8, 128))):
            found[name] = figures
            print(f"{name}: {json.dumps(figures)}", flush=True)
    if not smoke:
        print("", *results.evaluate(found), sep="\n")
    if "--out" in options:
        pathlib.Path(options["--out"]).write_text(json.dumps({"about": about, "figures": found}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
