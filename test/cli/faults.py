#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Compares `consul lock` and `holdfast run` under faults, on a server and two client agents of its own. A command holds
a lock through one agent, and a second one waits for it through the other agent. Each line says for how long both commands
ran at the same time, when the second one began, and how many of the first ones were left.

usage: faults.py CONSUL HOLDFAST [--trials N] [--run-directory] [FAULT...]
                                                    all faults, ten trials at once, if nothing is given

  --run-directory    only `holdfast run`, with a run directory

The script runs in a network namespace of its own, which it makes by `unshare`.
"""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

# The command writes the time each 20 ms for as long as it runs.
COMMAND = "while :; do date +%s%N >>{file}; sleep 0.02; done"
LONGEST = 100  # seconds until the successor must have begun
HERE, AWAY = "127.0.0.1", "127.0.0.2"  # the first agent has an address of its own, so that it can be cut off


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Agent:
    def __init__(self, consul, folder, name, server=None, host=HERE):
        self.command_line = [consul, "agent", "-node", name, "-bind", host, "-client", host,
                             "-data-dir", f"{folder}/{name}", "-log-level", "err"]
        names = ["http_port", "serf_lan_port", "serf_wan_port", "server_port"]
        ports = dict(zip(names, free_ports(4)))
        settings = {"ports": {"http": ports["http_port"], "serf_lan": ports["serf_lan_port"], "dns": -1, "grpc": -1,
                              "serf_wan": ports["serf_wan_port"] if server is None else -1,
                              "server": ports["server_port"]}, "leave_on_terminate": False,
                    "limits": {"http_max_conns_per_client": 2000}}
        if server is None:
            self.command_line += ["-server", "-bootstrap-expect", "1"]
        else:
            self.command_line += ["-retry-join", f"127.0.0.1:{server.serf}", "-retry-interval", "1s"]
        pathlib.Path(f"{folder}/{name}.json").write_text(json.dumps(settings))
        self.command_line += ["-config-file", f"{folder}/{name}.json"]
        self.serf, self.http = ports["serf_lan_port"], ports["http_port"]
        self.address = f"{host}:{self.http}"
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command_line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait(self):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                url = f"http://{self.address}/v1/session/list"
                urllib.request.urlopen(url, timeout=5).read()
                return
            time.sleep(0.1)
        sys.exit("an agent does not answer")

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()


class Trial:
    def __init__(self, command, number, folder, first_agent, second_agent, run_directory):
        self.variables = {"PATH": os.environ["PATH"], "SHELL": "/bin/sh", "HOLDFAST_RUN_DIRECTORY": run_directory}
        self.prefix = f"faults/{number}"
        self.files = [pathlib.Path(folder) / f"{number}.{which}" for which in ("first", "second")]
        self.agents = first_agent, second_agent
        self.command = command
        self.processes = []

    def start(self, which):
        environment = {**self.variables, "CONSUL_HTTP_ADDR": self.agents[which].address}
        self.processes.append(subprocess.Popen(
            [*self.command, self.prefix, COMMAND.format(file=self.files[which])], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, process_group=0))

    def times(self, which):
        with contextlib.suppress(FileNotFoundError):
            return [int(line) / 1e9 for line in self.files[which].read_text().split() if len(line) == 19]
        return []

    def runs(self, which):
        return bool(self.times(which))

    def guard(self):
        children = pathlib.Path(f"/proc/{self.processes[0].pid}/task/{self.processes[0].pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def end(self):
        marker = str(self.files[0].parent)
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        subprocess.run(["pkill", "-9", "-f", f"{marker}/"], check=False)


def until(condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def kill_runner(trial):
    trial.processes[0].kill()


def kill_guard(trial):
    for pid in trial.guard()[:1]:
        os.kill(pid, signal.SIGKILL)


def kill_both(trial):
    guards = trial.guard()
    os.kill(trial.processes[0].pid, signal.SIGSTOP)
    for pid in guards[:1]:
        os.kill(pid, signal.SIGKILL)
    trial.processes[0].kill()


def stop_runner(trial):
    trial.processes[0].send_signal(signal.SIGSTOP)


def freeze_agent(trial):
    with contextlib.suppress(ProcessLookupError):
        trial.agents[0].process.send_signal(signal.SIGSTOP)


def kill_agent(trial):
    agent = trial.agents[0]
    if agent.process.poll() is None:
        agent.process.kill()
        agent.process.wait()
        threading.Timer(5, agent.start).start()


def cut_network(trial):
    """Only its clients reach the first agent any more."""
    port = trial.agents[0].http
    rules = "".join(f"add rule inet cut {chain} {what} drop\n" for chain, what in [
        ("output", f"ip saddr {AWAY} ip daddr {HERE} tcp sport != {port}"),
        ("output", f"ip saddr {HERE} ip daddr {AWAY} tcp dport != {port}"),
        ("output", f"ip saddr {AWAY} ip daddr {HERE} meta l4proto udp"),
        ("output", f"ip saddr {HERE} ip daddr {AWAY} meta l4proto udp")])
    table = "add table inet cut\nadd chain inet cut output { type filter hook output priority 0; }\n"
    subprocess.run(["nft", "-f", "-"], input=f"{table}flush chain inet cut output\n{rules}", text=True, check=True)


def mend_network():
    subprocess.run(["nft", "flush", "ruleset"], check=True)


FAULTS = {
    "kill -9 of the program": kill_runner,
    "kill -9 of the guard": kill_guard,
    "kill -9 of both": kill_both,
    "SIGSTOP of the program": stop_runner,
    "the agent is frozen": freeze_agent,
    "the agent is killed, and started again": kill_agent,
    "the agent is cut off from the others": cut_network,
}


def measure(consul, command, fault, trials, has_run_directory):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        server = Agent(consul, folder, "server")
        stack.callback(server.stop)
        server.wait()
        first, second = Agent(consul, folder, "first", server, AWAY), Agent(consul, folder, "second", server)
        stack.callback(mend_network)
        run_directory = f"{folder}/run" if has_run_directory else ""
        if has_run_directory:
            os.mkdir(run_directory)
        for agent in (first, second):
            stack.callback(agent.stop)
            agent.wait()
        all_trials = [Trial(command, number, folder, first, second, run_directory) for number in range(trials)]
        for trial in all_trials:
            stack.callback(trial.end)
            trial.start(0)
        if not until(lambda: all(trial.runs(0) for trial in all_trials), 60):
            return "did not begin"
        for trial in all_trials:
            trial.start(1)
        time.sleep(3)  # all wait
        began = time.time()
        for trial in all_trials:
            FAULTS[fault](trial)
        until(lambda: all(trial.runs(1) for trial in all_trials), LONGEST)
        time.sleep(7)  # those that are left go on for longer than any grace
        overlaps, delays, left = [], [], 0
        now = time.time()
        for trial in all_trials:
            ours, others = trial.times(0), trial.times(1)
            left += ours[-1] > now - 1
            if others:
                overlaps.append(max(0.0, ours[-1] - others[0]))
                delays.append(others[0] - began)
        delays.sort()
        overlaps.sort()
        if not delays:
            return f"no successor within {LONGEST} s; {left} of {trials} commands go on"
        overlapping = sum(each > 0.05 for each in overlaps)
        return (f"overlap up to {overlaps[-1]:.1f} s in {overlapping} of {len(overlaps)}; successor after "
                f"{delays[len(delays) // 2]:.1f} s (up to {delays[-1]:.1f} s), {len(delays)} of {trials}; "
                f"{left} commands left")


def main():
    words = sys.argv[1:]
    if len(words) < 2 or words[0].startswith("-"):
        print(__doc__.strip())
        return 0 if words in (["-h"], ["--help"]) else 2
    if os.environ.get("FAULTS_INSIDE") != "1":
        as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        inside = {**os.environ, "FAULTS_INSIDE": "1"}
        again = ["unshare", *as_root, "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "-", sys.executable]
        os.execvpe(again[0], [*again, *sys.argv], inside)
    consul, holdfast, *rest = words
    trials, has_run_directory = 10, False
    if rest[:1] == ["--trials"]:
        trials, rest = int(rest[1]), rest[2:]
    if rest[:1] == ["--run-directory"]:
        has_run_directory, rest = True, rest[1:]
    for fault in rest or FAULTS:
        for name, command in (("consul lock", [consul, "lock"]), ("holdfast run", [holdfast, "run"])):
            if name == "consul lock" and ("guard" in fault or has_run_directory):
                continue
            print(f"{fault} | {name} | {measure(consul, command, fault, trials, has_run_directory)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
