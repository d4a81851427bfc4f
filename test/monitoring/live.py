#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Watches real processes by a real Prometheus while faults happen.

The processes are the example `server` and `holdfast export`, on a Consul agent of their own, and the worker of the fault
tests, on a RabbitMQ broker of its own. The metrics must be those of the list, the alerts must fire, and each query of the
dashboard must give a series. All times of the alert rules are divided by 60.

usage: live.py PROMETHEUS CONSUL HOLDFAST EXAMPLES [--broker BROKER WORKER] [--short]

  --broker     also watches RabbitMQ. BROKER is the program that scripts/rabbitmq prints, WORKER the test's worker
  --short      checks only the metrics, in a few seconds, without faults

PROMETHEUS is the folder that scripts/prometheus prints. CONSUL and HOLDFAST are programs. EXAMPLES is the folder with the
example `server`.
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import check_dashboard
import metrics
import prometheus
import stand_in

sys.path += [str(metrics.ROOT / "test/cli"), str(metrics.ROOT / "test/rabbitmq")]
import broker as brokers  # noqa: E402
import faults  # noqa: E402 the agent

PREFIX, SPEED = "server/example", 60
LOCK = {"lock": PREFIX, "kind": "semaphore"}
BUCKETS = "holdfast_renewal_seconds_count"


@contextlib.contextmanager
def started(command, **variables):
    """Runs a program whose first line has an URL. Gives the process, and the URL's host and port."""
    environment = {"PATH": os.environ["PATH"], "SHELL": "/bin/sh", "HOLDFAST_RUN_DIRECTORY": "", **variables}
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env=environment) as process:  # fmt: skip
        try:
            found = (re.search(r"http://([\d.:]+)", line) for line in process.stdout)
            address = next((each[1] for each in found if each), None)
            prometheus.expect(address, f"{command[0]} has ended: {process.poll()}")
            yield process, address
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


class WorkerPage:
    """The file into which a worker writes its metrics, for `stand_in.served`."""

    def __init__(self, file):
        self.file = file

    def text(self):
        return self.file.read_text(encoding="utf-8")


class OnRabbitMQ:
    """A broker, and two workers that take turns on its semaphore."""

    def __init__(self, stack, program, worker):
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-broker.")))
        self.broker = brokers.Broker(program, folder / "broker")
        stack.callback(self.broker.stop)
        self.broker.start()
        files = [folder / f"metrics.{number}" for number in range(2)]
        for number, file in enumerate(files):
            command = [worker, f"--url={self.broker.url}", "--name=watched", "--create-with=2", "--coroutines=3", "--hold=60000",
                       "--stay=1", "--poll=200", f"--log={folder}/journal.{number}", f"--who=worker-{number}",
                       f"--metrics={file}"]  # fmt: skip
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        brokers.until(lambda: all(file.exists() for file in files), "the workers write their metrics")
        self.addresses = stack.enter_context(stand_in.served([WorkerPage(file) for file in files]))

    def faults(self, server):
        happen("the broker is frozen")
        self.broker.freeze()
        try:
            fired = server.until_alert("HoldfastSlotLost", kind="rabbitmq_semaphore")
            happen(f"HoldfastSlotLost fires: {fired['reason']}")
        finally:
            self.broker.thaw()
        happen("the broker runs again")
        server.until('sum(holdfast_holds{kind="rabbitmq_semaphore"}) == 2', "both slots are held again")
        with self.broker.alarm():
            happen("the broker has no memory left")
            server.until("holdfast_broker_alarm == 1", "an alarm")
        happen("it has memory again")
        server.until("sum(holdfast_broker_alarm) == 0", "no alarm")


class Load:
    """Clients of the server, each with one request at a time."""

    def __init__(self, address):
        self.url, self.wanted, self.threads, self.is_over = f"http://{address}/work", 0, [], threading.Event()

    def clients(self, count):
        self.wanted = count
        while len(self.threads) < count:
            self.threads.append(threading.Thread(target=self.work, args=(len(self.threads),), daemon=True))
            self.threads[-1].start()

    def work(self, number):
        while not self.is_over.is_set():
            if number >= self.wanted:
                self.is_over.wait(0.05)
                continue
            with contextlib.suppress(OSError):
                urllib.request.urlopen(self.url, timeout=60).read()


def renewals(server):
    return sum(value for _, value in server.query(f'{BUCKETS}{{lock="{PREFIX}"}}'))


def sessions_of(agent, program):
    """The sessions of the holders and of the queue."""
    command = [program, "inspect", "--json", f"--http-addr={agent.address}", PREFIX]
    state = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=30).stdout
    return re.findall(r'"session":"([0-9a-f-]{36})"', state)


def check_texts(programs, addresses):
    """The endpoints serve the metrics of the list, and promtool has nothing against them."""
    needed = {"server": ("holdfast_build", "holdfast_acq", "holdfast_h", "holdfast_wait", "holdfast_client"),
              "export": ("holdfast_cluster", "holdfast_client"),
              "rabbitmq": ("holdfast_build", "holdfast_acq", "holdfast_broker")}  # fmt: skip
    for job, address in ((job, each) for job, several in addresses.items() for each in several):
        text = metrics.read(f"http://{address}/metrics")
        found = [*metrics.problems(text, needed[job]), *metrics.promtool_problems(programs, text)]
        prometheus.expect(not found, f"{job}: {found}")


def happen(what):
    print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


def faults_and_alerts(server, agent, program, load):
    """The faults, one after the other, and the alert that each of them must raise."""

    def fires(name, **labels):
        server.until_alert(name, **labels)
        happen(f"{name} fires")

    happen("the agent is frozen just after a renewal")
    before = renewals(server)
    server.until(lambda: renewals(server) > before, "a renewal")
    frozen_at = time.monotonic()
    agent.process.send_signal(signal.SIGSTOP)
    try:
        fires("HoldfastClusterUnread", prefix=PREFIX)
        fires("HoldfastHoldSuspect", **LOCK)
        time.sleep(max(0.0, frozen_at + 10.5 - time.monotonic()))  # so that less than a third of the lease is left
    finally:
        agent.process.send_signal(signal.SIGCONT)
    happen("the agent runs again")
    fires("HoldfastRenewalsLate", **LOCK)
    happen("all sessions are destroyed")
    for session in sessions_of(agent, program):
        request = urllib.request.Request(f"http://{agent.address}/v1/session/destroy/{session}", method="PUT")
        urllib.request.urlopen(request, timeout=10).read()
    fires("HoldfastSlotLost", reason="session_invalidated", **LOCK)
    happen("more and more clients")
    end = threading.Event()

    def grow():
        while not end.wait(0.25):
            load.clients(min(load.wanted + 1, 200))

    grower = threading.Thread(target=grow, daemon=True)
    grower.start()
    try:
        fires("HoldfastQueueGrows", **LOCK)
    finally:
        end.set()
        grower.join()
    load.clients(6)
    happen("the semaphore is closed for maintenance")
    operator = [program, "close", f"--http-addr={agent.address}", PREFIX]
    subprocess.run(operator, check=True, timeout=30)
    server.until("holdfast_cluster_closed == 1", "it is closed")
    subprocess.run([program, "open", *operator[2:]], check=True, timeout=30)


def main():
    arguments, with_broker = sys.argv[1:], None
    is_short = "--short" in arguments
    arguments = [each for each in arguments if each != "--short"]
    if "--broker" in arguments[:-2]:
        at = arguments.index("--broker")
        with_broker = arguments[at + 1 : at + 3]
        del arguments[at : at + 3]
    if len(arguments) != 4 or arguments[0].startswith("-"):
        asked = sys.argv[1:] in (["-h"], ["--help"])
        print(__doc__.strip(), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    programs, consul, program, examples = arguments
    with contextlib.ExitStack() as stack:
        agent = faults.Agent(consul, stack.enter_context(tempfile.TemporaryDirectory()), "watched")
        stack.callback(agent.stop)
        agent.wait()
        command = [pathlib.Path(examples) / "server", "--port", "0", "--limit", "2", "--wait-ms", "20000", "--work-ms", "200"]
        _, at_server = stack.enter_context(started([*command, "--consul", f"http://{agent.address}"]))
        _, at_export = stack.enter_context(
            started([program, "export", f"--http-addr={agent.address}", "--listen=127.0.0.1:0", PREFIX]))
        load = Load(at_server)
        stack.callback(load.is_over.set)
        load.clients(6)
        addresses = {"server": [at_server], "export": [at_export]}
        rabbitmq = OnRabbitMQ(stack, *with_broker) if with_broker else None
        if rabbitmq:
            addresses["rabbitmq"] = rabbitmq.addresses
        server = stack.enter_context(prometheus.running(programs, addresses, speed=SPEED))
        server.until(f'holdfast_waiters{{lock="{PREFIX}"}} > 0 and holdfast_wait_seconds_count > 3', "the server works")
        server.until("holdfast_cluster_holders > 0", "the cluster's view")
        check_texts(programs, addresses)
        if is_short:
            return 0
        other = [program, "run", f"--http-addr={agent.address}", "-n", "2", PREFIX, "--", "sleep", "1000"]
        with subprocess.Popen([*map(str, other)], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as rival:
            stack.callback(rival.kill)
            happen("another process holds a slot")
            server.until("holdfast_queue_place > 0", "a place in the queue")
            server.until(lambda: renewals(server) > 0, "a renewal")
            faults_and_alerts(server, agent, program, load)
            if rabbitmq:
                rabbitmq.faults(server)
            missing = list(check_dashboard.failing_queries(check_dashboard.read(), server, uses_rabbitmq=bool(rabbitmq)))
            check_texts(programs, addresses)
            prometheus.expect(not missing, f"no series: {missing}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except prometheus.Failure as failure:
        sys.exit(f"live.py: {failure}")
