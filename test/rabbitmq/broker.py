#!/usr/bin/python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Starts a RabbitMQ broker for tests, and breaks it on demand.

usage: broker.py PROGRAM COMMAND...    runs COMMAND beside a new broker. PROGRAM is the one that scripts/rabbitmq prints
       broker.py --self-test           shows that the journals' overlaps are found

The command gets AMQP_URL. `$HOLDFAST_BROKER ctl $HOLDFAST_BROKER_FOLDER WORD...` runs rabbitmqctl on that broker.
The exit status is that of the command.
"""

import contextlib
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

DEADLINE = 60  # seconds for anything that is waited for
OPERATOR = "closed by an operator of a test"


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


def until(condition, what):
    """Waits until the condition holds. Returns its value."""
    end = time.monotonic() + DEADLINE
    while not (value := condition()):
        expect(time.monotonic() < end, f"not in time: {what}")
        time.sleep(0.01)
    return value


def free_port(count):
    """The first of so many ports in a row that are free, below those that the system gives to clients."""
    while True:
        first = random.randrange(20000, 32000)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first


def children(pid):
    with contextlib.suppress(OSError):
        return [int(each) for each in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), DEADLINE):
        return True
    return False


class Broker:
    """A broker with a folder of its own. The folder and the ports stay the same when it starts again."""

    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)
        self.port = free_port(3)
        self.process = None

    @property
    def url(self):
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"

    def start(self):
        expect(os.path.isfile(self.program), f"there is no program {self.program!r}: run scripts/rabbitmq")
        self.folder.mkdir(exist_ok=True)
        # The broker ends with this process, even if that is killed.
        command = ["setpriv", "--pdeathsig", "KILL", self.program, "run", str(self.folder), str(self.port)]
        with open(self.folder / "output", "ab") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        until(lambda: listens(self.port) or self.process.poll() is not None, "the broker starts")
        expect(self.process.poll() is None, f"the broker has ended:\n{(self.folder / 'output').read_text()[-2000:]}")

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(DEADLINE)
            self.process = None

    def signal(self, number):
        """Sends the signal to the Erlang machine, which is the first process in its namespace."""
        (namespace,) = children(self.process.pid)
        (machine,) = children(namespace)
        os.kill(machine, number)

    def kill(self):
        """Ends the broker as `kill -9` does, and with it all that is in its namespace."""
        self.signal(signal.SIGKILL)
        self.process.wait(DEADLINE)

    def flush(self):
        """Brokers with Mnesia may answer a declare before it is on disk, so `kill -9` would undo it."""
        self.ctl("eval", "catch mnesia:sync_log().")

    def freeze(self):
        self.signal(signal.SIGSTOP)

    def thaw(self):
        self.signal(signal.SIGCONT)

    def ctl(self, *words):
        done = subprocess.run([self.program, "ctl", str(self.folder), *words], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=DEADLINE)
        expect(done.returncode == 0, f"rabbitmqctl {words}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def list(self, what, *columns):
        lines = self.ctl("list_" + what, "-q", "--no-table-headers", *columns).splitlines()
        return [line.split("\t") for line in lines]

    def close_connection(self, port):
        """Closes the connection of the client that has this port, as an operator does."""
        (pid,) = [pid for pid, peer in self.list("connections", "pid", "peer_port") if int(peer) == port]
        self.ctl("close_connection", pid, OPERATOR)

    def close_owner(self, queue):
        """Closes the connection that has the exclusive queue, as an operator does."""
        (pid,) = [pid for name, pid in self.list("queues", "name", "owner_pid") if name == queue]
        self.ctl("close_connection", pid, OPERATOR)

    def delete_queue(self, name):
        self.ctl("delete_queue", name)

    @contextlib.contextmanager
    def alarm(self):
        """The broker runs out of memory, as it believes."""
        self.ctl("set_vm_memory_high_watermark", "0.000001")
        try:
            yield
        finally:
            self.ctl("set_vm_memory_high_watermark", "absolute", "1GiB")

    @contextlib.contextmanager
    def application_stopped(self):
        self.ctl("stop_app")
        try:
            yield
        finally:
            self.ctl("start_app")


class Journal:
    """A file in which clients write what they believe, in the form of test/support/journal.hpp."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def beliefs(self):
        """(slot, begin, end) of each time that a client believed. `end` is infinite if it believes still."""
        since, found = {}, []
        for line in self.path.read_text().splitlines():
            at, who, event, _, _, _, slot = line.split()
            if event == "enter":
                since[who, slot] = int(at)
            elif event in ("leave", "lost") and (who, slot) in since:
                found.append((slot, since.pop((who, slot)), int(at)))
        return found + [(slot, begin, float("inf")) for (_, slot), begin in since.items()]

    def overlap(self):
        """For how many seconds two clients believed in the same slot at the most."""
        beliefs = self.beliefs()
        both = [min(one[2], other[2]) - max(one[1], other[1])
                for i, one in enumerate(beliefs) for other in beliefs[:i] if one[0] == other[0]]
        return max([0, *both]) / 1e9


@contextlib.contextmanager
def running(program):
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(program, folder)
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()


def self_test():
    alone = "1 a enter 0 0.0 9 1\n5 a leave 0 0.0 0 1\n5 b enter 0 0.0 9 1\n7 b lost 0 0.0 0 1\n2 c enter 0 0.0 9 2\n"
    cases = {alone: 0, alone + "4 d enter 0 0.0 9 1\n6 d leave 0 0.0 0 1\n": 1e-9,
             alone + "2 d enter 0 0.0 9 1\n": 3e-9}
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(f"{folder}/journal")
        for text, seconds in cases.items():
            journal.path.write_text(text)
            expect(journal.overlap() == seconds, f"{journal.overlap()} s, not {seconds} s:\n{text}")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        print(__doc__.strip(), file=sys.stdout if sys.argv[1:] in (["-h"], ["--help"]) else sys.stderr)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    with contextlib.ExitStack() as stack:
        try:
            broker = stack.enter_context(running(os.path.abspath(sys.argv[1])))
        except Failure as why:
            print(why, file=sys.stderr)
            return 1
        environment = {**os.environ, "AMQP_URL": broker.url, "HOLDFAST_BROKER": broker.program,
                       "HOLDFAST_BROKER_FOLDER": str(broker.folder)}
        status = subprocess.run(sys.argv[2:], env=environment).returncode
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
