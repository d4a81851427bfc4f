#!/usr/bin/env python3
"""Measures holdfast, its peers and its floors, and writes results.json and report.html. scripts/bench calls it.

usage: run.py [--quick | --smoke] [--rounds N] [--only WORKLOAD] [--check] [--out FOLDER] PROGRAM

PROGRAM is holdfast_bench. --quick: shorter, in 90 s. --smoke: shows that everything works, and measures nothing.
--only: one workload (may be repeated). --check: a goal that is not met makes the exit status 1, as a violated limit
and a failed measurement always do. HOLDFAST_CONSUL names Consul, BENCH_GO the Go client's program, BENCH_WRK wrk; peers
that are not given are left out.
"""

import argparse
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

import goals
import measurements
import report
from measurements import ASIO, GO, HOLDFAST, PEERS, WRK

HERE = pathlib.Path(__file__).resolve().parent
# An agent serves 200 connections from one address unless it is told otherwise; 128 processes want more. It refuses to
# start if it may not open so many files.
CONNECTIONS = 2_000
# --quick ends in time on a slow machine too: with fewer rounds.
QUICK_SECONDS = 85
AGENT_SETTINGS = {"limits": {"http_max_conns_per_client": CONNECTIONS}}


def load_with_agent():
    path = str(HERE.parent / "scripts/with-agent")
    loader = importlib.machinery.SourceFileLoader("with_agent", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("with_agent", loader))
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = bytecode
    return module


class Bench:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.with_agent = load_with_agent()
        self.consul = os.environ.get("HOLDFAST_CONSUL") or "consul"
        self.programs = {GO: os.environ.get("BENCH_GO"), WRK: os.environ.get("BENCH_WRK")}
        self.begun = time.monotonic()
        self.agent = None
        self.rows = []
        self.problems = []

    def say(self, text):
        print(f"[{self.seconds():4.0f} s] {text}", flush=True)

    def seconds(self):
        return time.monotonic() - self.begun

    def available(self, system):
        return self.programs.get(system, True)

    def start_agent(self):
        return self.with_agent.start_agent(self.consul, AGENT_SETTINGS, self.folder)

    def shared_agent(self):
        if not self.agent:
            self.agent = self.start_agent()
        return self.agent

    def command(self, m, agent, environment):
        if m.system == WRK:
            environment["BENCH_KEY"] = f"bench/wrk-{random.getrandbits(32)}"
            environment["BENCH_SESSION"] = agent.put("session/create", b'{"Checks": [], "LockDelay": "0s"}')["ID"]
            script = str(HERE / "peers/transactions.lua")
            seconds = max(1, round(m.seconds))
            return [self.programs[WRK], "-t1", "-c1", f"-d{seconds}s", "-s", script, f"http://{agent.address}"]
        if m.system == GO:
            options = m.options()
            del options[2:4]  # it is only one system
            return [self.programs[GO], *options]
        return [self.options.program, *m.options()]

    def row_of(self, m, agent):
        environment = {**os.environ, "CONSUL_HTTP_ADDR": agent.address, "HOLDFAST_CONSUL": self.consul}
        for name in ("CONSUL_HTTP_TOKEN", "CONSUL_HTTP_SSL"):
            environment.pop(name, None)
        command = self.command(m, agent, environment)
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=60 + 3 * m.seconds,
                              preexec_fn=self.with_agent.dies_with_us)
        if done.returncode != 0:
            raise RuntimeError(f"ended with status {done.returncode}")
        return json.loads(done.stdout.strip().splitlines()[-1])

    def measure(self, m, where):
        # Peers leave sessions and blocked queries behind: each gets an agent of its own, which ends with it.
        agent = self.start_agent() if m.system in PEERS else self.shared_agent()
        try:
            row = self.row_of(m, agent)
        except (RuntimeError, OSError, ValueError, IndexError, subprocess.TimeoutExpired) as failed:
            self.problems.append(f"{m}: {failed}")
            self.say(f"{where}  {m}: FAILED, {failed}")
            return
        finally:
            if agent is not self.agent:
                agent.stop()
        self.rows.append(row)
        self.say(f"{where}  {str(m):44} {report.summary(row)}")
        if row.get("limit_held") is False:
            self.problems.append(f"{m}: MORE than {m.limit} were inside at a time")
        if row.get("errors") and m.system == HOLDFAST:
            self.problems.append(f"{m}: {row['errors']} operations failed")

    def run(self, plan, rounds):
        for system in (GO, WRK):
            if any(m.system == system for m in plan) and not self.available(system):
                self.say(f"{system} is left out: there is no program for it")
        for number in range(1, rounds + 1):
            for m in plan:
                if number > 1 and self.options.quick and self.seconds() > QUICK_SECONDS:
                    self.say(f"{QUICK_SECONDS} s are over: what remains of {rounds} rounds is left out")
                    return
                if self.available(m.system) and number <= (m.rounds or rounds):
                    self.measure(m, f"round {number}/{rounds}")

    def check_the_checker(self):
        """A limit checker that never complains proves nothing: a semaphore with one slot too many must be seen."""
        broken = measurements.Measurement("pool", ASIO, 8, 2, seconds=0.05)
        command = [self.options.program, *broken.options(), "--broken"]
        row = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout)
        if row["limit_held"]:
            self.problems.append("the limit checker does not notice a slot too many")

    def close(self):
        if self.agent:
            self.agent.stop()


def parse():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", action="append")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench-out"))
    return parser.parse_args()


def main():
    options = parse()
    if options.smoke:
        plan = measurements.smoke()
    else:
        plan = measurements.quick() if options.quick else measurements.full()
    plan = [m for m in plan if not options.only or m.workload in options.only]
    rounds = options.rounds or (1 if options.smoke else 3)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * CONNECTIONS)), hard))

    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        bench = Bench(options, folder)
        try:
            bench.check_the_checker()
            bench.run(plan, rounds)
        finally:
            bench.close()
    results = measurements.Results(bench.rows)
    reached = goals.evaluate(results)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(results.rows, indent=1) + "\n")
    (options.out / "report.html").write_text(report.html(results, reached, rounds))
    print("\n" + report.table(results))
    if not options.smoke:
        print("\n" + report.LEGEND)
        print(f"\nGoals (medians of {rounds} rounds, fewer where they were left out):\n" + "\n".join(map(str, reached)))
    for problem in bench.problems:
        print(f"FAILED: {problem}")
    print(f"wrote {options.out}/results.json and {options.out}/report.html")
    unmet = options.check and any(goal.met is not True for goal in reached)
    return 1 if bench.problems or unmet or not bench.rows else 0


if __name__ == "__main__":
    sys.exit(main())
