#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Measures holdfast, its peers and its floors, and writes results.json and report.html. scripts/bench calls it.

usage: run.py [--quick | --smoke] [--rounds N] [--only WORKLOAD] [--check] [--plan] [--out FOLDER]
              [--results FILE] PROGRAM

PROGRAM is holdfast_bench.
--quick: a shorter run of 90 s.
--smoke: all rows for a moment each. The figures mean nothing.
--only: only this workload; may be repeated. "cluster" stands for all that runs on three servers.
--check: the exit status is 1 if a goal is not met. A violated limit or a failed measurement always makes it 1.
--plan: prints the measurements and makes none.
--results: a second file for the results, besides the one in FOLDER. It is written if nothing has failed.

HOLDFAST_CONSUL names Consul, BENCH_GO the program of the Go client, BENCH_GO_TODAY that of today's client, and
BENCH_WRK wrk. Peers that are not given are left out.
"""

import argparse
import collections
import datetime
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

import cluster
import goals
import measurements
import recorder
import report
from measurements import ASIO, BEAST, CLUSTER, GO, GO_PEERS, GO_TODAY, HOLDFAST, PEERS, TLS, WRK

HERE = pathlib.Path(__file__).resolve().parent
# By default an agent serves 200 connections from one address, and 128 processes need more. An agent with a higher limit
# refuses to start if it may not open as many files.
CONNECTIONS = 2_000
# --quick makes no further round after this time, so that it ends in time on a slow machine, too.
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
        self.programs = {each: os.environ.get("BENCH_GO") for each in GO_PEERS}
        self.programs |= {WRK: os.environ.get("BENCH_WRK"), GO_TODAY: os.environ.get("BENCH_GO_TODAY")}
        self.commit = output_of("git", "-C", str(HERE), "rev-parse", "HEAD") or "unknown"
        self.begun = time.monotonic()
        self.agents = {}  # the shared agents, which peers do not use; the key is `Measurement.on`
        self.boost = json.loads(output_of(str(options.program), "--about"))["boost"]
        self.no_cluster = False
        self.rows = []
        self.problems = []

    def say(self, text):
        print(f"[{self.seconds():4.0f} s] {text}", flush=True)

    def seconds(self):
        return time.monotonic() - self.begun

    def available(self, m):
        if not measurements.has_boost_for(m, self.boost):
            return False
        return self.programs.get(m.system, True) and not (m.on == CLUSTER and self.no_cluster)

    def start_agent(self, on=None):
        if on == CLUSTER:
            # The data lies beside the results, because the folder for temporary files may be in memory.
            folder = self.options.out
            return cluster.Cluster(self.consul, AGENT_SETTINGS, folder, self.with_agent.dies_with_us)
        settings = {**AGENT_SETTINGS, **(self.certificates() if on == TLS else {})}
        agent = self.with_agent.start_agent(self.consul, settings, self.folder)
        agent.launcher = []
        return agent

    def certificates(self):
        """Makes certificates with Consul's own command, as an operator does. Returns the agent's settings for them."""
        folder = pathlib.Path(self.folder) / "certificates"
        folder.mkdir()
        for words in (["ca", "create"], ["cert", "create", "-server", "-dc", "dc1"]):
            subprocess.run([self.consul, "tls", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        own = folder / "dc1-server-consul-0"
        self.authority = folder / "consul-agent-ca.pem"
        files = {"ca_file": str(self.authority), "cert_file": f"{own}.pem", "key_file": f"{own}-key.pem"}
        return files

    def shared_agent(self, on):
        if on not in self.agents:
            self.agents[on] = self.start_agent(on)
        return self.agents[on]

    def command(self, m, agent, environment):
        if m.system == WRK:
            environment["BENCH_KEY"] = f"bench/wrk-{random.getrandbits(32)}"
            environment["BENCH_SESSION"] = agent.put("session/create", b'{"Checks": [], "LockDelay": "0s"}')["ID"]
            script = str(HERE / "peers/transactions.lua")
            seconds = max(1, round(m.seconds))
            return [self.programs[WRK], "-t1", "-c1", f"-d{seconds}s", "-s", script, f"http://{agent.address}"]
        return [*agent.launcher, self.programs.get(m.system, self.options.program), *m.options()]

    def row_of(self, m, agent, *more):
        environment = {**os.environ, "CONSUL_HTTP_ADDR": agent.address, "HOLDFAST_CONSUL": self.consul}
        for name in ("CONSUL_HTTP_TOKEN", "CONSUL_HTTP_SSL", "CONSUL_CACERT"):
            environment.pop(name, None)
        if m.on == TLS:
            named = {"CONSUL_CACERT": str(self.authority), "CONSUL_TLS_SERVER_NAME": "server.dc1.consul"}
            environment |= {"CONSUL_HTTP_ADDR": f"https://{agent.secure_address}", **named}
        command = [*self.command(m, agent, environment), *more]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=120 + 3 * m.seconds,
                              preexec_fn=self.with_agent.dies_with_us)
        if done.returncode != 0:
            raise RuntimeError(f"ended with status {done.returncode}")
        row = {**json.loads(done.stdout.strip().splitlines()[-1]), "on": m.on}
        return {**row, "contenders": m.contenders} if m.stand_ins else row

    def measure(self, m, where):
        # Peers leave sessions and blocking queries behind, so each measurement of a peer gets an agent of its own.
        # A smoke run has no time for that.
        alone = m.system in PEERS and not self.options.smoke
        # The four idle agents of a cluster would disturb a measurement that does not use them.
        if CLUSTER in self.agents and (m.on != CLUSTER or alone):
            self.agents.pop(CLUSTER).stop()
        agent = None
        try:
            agent = self.start_agent(m.on) if alone else self.shared_agent(m.on)
            row = self.row_of(m, agent)
        except cluster.Unavailable as why:
            self.no_cluster = True
            self.say(f"there can be no cluster here, so its rows are left out: {why}")
            return
        except (RuntimeError, OSError, ValueError, IndexError, subprocess.TimeoutExpired) as failed:
            self.problems.append(f"{m}: {failed}")
            self.say(f"{where}  {m}: FAILED, {failed}")
            return
        finally:
            if agent and agent not in self.agents.values():
                agent.stop()
        self.rows.append(row)
        self.say(f"{where}  {str(m):44} {report.summary(row)}")
        if row.get("limit_held") is False:
            self.problems.append(f"{m}: MORE than {m.limit} were inside at a time")
        if row.get("errors") and m.system == HOLDFAST:
            self.problems.append(f"{m}: {row['errors']} operations failed")
        if row.get("not_served") and m.system == HOLDFAST:
            self.problems.append(f"{m}: {row['not_served']} never had a turn in the warm-up")

    def run(self, plan, rounds):
        for system in (*GO_PEERS, WRK):
            if any(m.system == system for m in plan) and not self.programs[system]:
                self.say(f"{system} is left out: there is no program for it")
        if not all(measurements.has_boost_for(m, self.boost) for m in plan):
            self.say(f"{measurements.IMMEDIATE} is left out: Boost {self.boost} has no immediate executors")
        for number in range(1, rounds + 1):
            for m in plan:
                if number > 1 and self.options.quick and self.seconds() > QUICK_SECONDS:
                    self.say(f"{QUICK_SECONDS} s are over: what remains of {rounds} rounds is left out")
                    return
                if self.available(m) and number <= (m.rounds or rounds):
                    self.measure(m, f"round {number}/{rounds}")

    def check_the_checker(self):
        """Checks that the limit checker reports a semaphore with one slot too many."""
        for system, workload in ((ASIO, "pool"), (HOLDFAST, "handoff"), (GO, "handoff")):
            if not self.programs.get(system, True):
                continue
            m = measurements.Measurement(workload, system, 8, 2, seconds=0.2)
            agent = self.start_agent() if system == GO else self.shared_agent(None)
            try:
                if self.row_of(m, agent, "--broken")["limit_held"]:
                    self.problems.append(f"{m}: the limit checker does not notice a slot too many")
            finally:
                if system == GO:
                    agent.stop()

    def check_the_floor(self):
        """Checks that the floor of a handoff sends only what the library sends. Both are recorded. The library is
        recorded again, up to ten times, until it has sent every request of the floor."""
        forms = {BEAST: collections.Counter(), HOLDFAST: collections.Counter()}
        found = []
        for system, seconds in ((BEAST, 0.2), *[(HOLDFAST, 1)] * 10):
            tape = recorder.Recorder(self.shared_agent(None).address)
            m = measurements.Measurement("handoff", system, 8, seconds=seconds)
            environment = {**os.environ, "CONSUL_HTTP_ADDR": tape.address}
            subprocess.run([self.options.program, *m.options()], env=environment, stdout=subprocess.DEVNULL, check=True,
                           timeout=60, preexec_fn=self.with_agent.dies_with_us)
            tape.close()
            forms[system] += tape.forms()
            if system == HOLDFAST:
                found = list(recorder.drift(forms[BEAST], forms[HOLDFAST]))
                if not found:
                    return
        self.problems += found

    def close(self):
        for agent in self.agents.values():
            agent.stop()


def output_of(*command):
    """The output of a command; empty if it fails."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=30)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def about(options, bench, rounds):
    """Describes the machine and the versions of the programs that were measured."""
    built = json.loads(output_of(str(options.program), "--about"))

    def client(system):
        program = bench.programs[system]
        return (program and output_of(program, "-about")) or "left out"

    tested = {
        "commit": bench.commit,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "rounds": rounds,
        "cores": len(os.sched_getaffinity(0)),
        "compiler": built["compiler"],
        "flags": built["flags"],
        "boost": built["boost"],
        "consul": output_of(bench.consul, "version").split("\n")[0],
        "agent": "one agent, `-dev`: a server that keeps everything in memory",
        "go_client": client(GO),
        "go_client_today": client(GO_TODAY),
    }
    if any(row.get("on") == CLUSTER for row in bench.rows):
        tested["cluster"] = f"three servers, each in a network namespace of its own, raft log and state on disk \
({cluster.file_system(options.out)}), and a client agent, through which all is measured"
    return tested


def parse():
    workloads = sorted({m.workload for m in measurements.full()} | {CLUSTER})
    parser = argparse.ArgumentParser(usage=__doc__, allow_abbrev=False)
    parser.add_argument("program")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", action="append", choices=workloads)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench-out"))
    parser.add_argument("--results", type=pathlib.Path)
    return parser.parse_args()


def main():
    options = parse()
    if options.smoke:
        plan = measurements.smoke()
    else:
        plan = measurements.quick() if options.quick else measurements.full()
    plan = [m for m in plan if not options.only or m.workload in options.only or m.on in options.only]
    rounds = options.rounds or (1 if options.smoke else 3)
    if options.plan:
        print("\n".join(map(str, plan)))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * CONNECTIONS)), hard))

    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        bench = Bench(options, folder)
        try:
            bench.check_the_checker()
            if options.smoke or options.results:
                bench.check_the_floor()
            bench.run(plan, rounds)
        finally:
            bench.close()
    results = measurements.Results(bench.rows)
    reached = goals.evaluate(results)
    text = measurements.lines(about(options, bench, rounds), results.rows)
    (options.out / "results.json").write_text(text)
    (options.out / "report.html").write_text(report.html(results, reached, rounds, options.smoke))
    if options.results and not bench.problems:
        options.results.parent.mkdir(parents=True, exist_ok=True)
        options.results.write_text(text)
    print("\n" + report.printed(results, reached, rounds, options.smoke))
    for problem in bench.problems:
        print(f"FAILED: {problem}")
    print(f"wrote {options.out}/results.json and {options.out}/report.html")
    unmet = options.check and any(goal.met is not True for goal in reached)
    return 1 if bench.problems or unmet or not bench.rows else 0


if __name__ == "__main__":
    sys.exit(main())
