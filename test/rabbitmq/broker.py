#!/usr/bin/python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Starts a RabbitMQ broker for tests, and breaks it on demand.

usage: broker.py [--prepare PREPARER] PROGRAM COMMAND...
                                       runs COMMAND beside a new broker. PROGRAM is the one that scripts/rabbitmq
                                       prints.
                                       `PREPARER FOLDER PORT` may write configuration files into the broker's folder
                                       before. PORT is free, for one more listener
       broker.py --self-test           shows that the journals' overlaps are found

The command gets AMQP_URL, and HOLDFAST_BROKER_PORT with the port that the preparer got.
`$HOLDFAST_BROKER ctl $HOLDFAST_BROKER_FOLDER WORD...` runs rabbitmqctl on that broker.
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
import typing

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


def now():
    """The time on the clock of journals."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def children(pid):
    with contextlib.suppress(OSError):
        return [int(each) for each in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def listens(port, address="127.0.0.1"):
    with contextlib.suppress(OSError), socket.create_connection((address, port), DEADLINE):
        return True
    return False


class Broker:
    """A broker with a folder of its own. The folder and the ports stay the same when it starts again."""

    address = "127.0.0.1"

    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)
        self.port = free_port(4)
        self.process = None
        self.launcher, self.environment = [], None  # of a node of a cluster

    @property
    def second_port(self):
        """A port for a listener that only a test's configuration has."""
        return self.port + 3

    @property
    def url(self):
        return f"amqp://guest:guest@{self.address}:{self.port}/%2F"

    def launch(self):
        expect(os.path.isfile(self.program), f"there is no program {self.program!r}: run scripts/rabbitmq")
        self.folder.mkdir(exist_ok=True)
        # The broker ends with this process, even if that is killed.
        command = ["setpriv", "--pdeathsig", "KILL", *self.launcher, self.program, "run", self.folder, str(self.port)]
        with open(self.folder / "output", "ab") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                            env=self.environment)

    def start(self):
        self.launch()
        until(lambda: listens(self.port, self.address) or self.process.poll() is not None, "the broker starts")
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
        done = subprocess.run([*self.launcher, self.program, "ctl", str(self.folder), *words], stdin=subprocess.DEVNULL,
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

    def owner(self, queue):
        """The connection that has the exclusive queue."""
        (pid,) = [pid for name, pid in self.list("queues", "name", "owner_pid") if name == queue]
        return pid

    def close_owner(self, queue):
        """Closes the connection that has the exclusive queue, as an operator does."""
        self.ctl("close_connection", self.owner(queue), OPERATOR)

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


class Entry(typing.NamedTuple):
    """A line of a journal. test/support/journal.hpp explains it."""

    at: int  # nanoseconds of a clock that all processes share
    who: str
    event: str
    coroutine: int
    lease: int
    words: list


class Journal:
    """A file in which clients write what they believe, in the form of test/support/journal.hpp.

    The first word of an entry about a slot is the number of the slot.
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.known, self.offset = [], 0

    def entries(self):
        """All whole lines, in the order in which they were written. The file may grow meanwhile."""
        if self.path.exists():
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                text = file.read()
            text = text[:text.rfind(b"\n") + 1]
            self.offset += len(text)
            for line in text.decode().splitlines():
                at, who, event, coroutine, _, lease, *words = line.split()
                self.known.append(Entry(int(at), who, event, int(coroutine), int(lease), words))
        return self.known

    def write(self, who, event, coroutine=-1, words="", at=None, lease=0):
        at = now() if at is None else at
        with open(self.path, "ab", buffering=0) as file:
            file.write(f"{at} {who} {event} {coroutine} 0.0 {lease} {words}\n".encode())

    def beliefs(self):
        """(slot, begin, end, who) of each time that a client believed. A belief ends with its lease at the latest."""
        present, found = {}, []
        for each in self.entries():
            place = each.who, each.coroutine
            if each.event == "enter":
                present[place] = each.words[0], each.at, each.lease
            elif each.event == "lease" and place in present:
                present[place] = *present[place][:2], each.lease
            elif each.event in ("leave", "lost", "gone"):
                for ends in [known for known in present if known == place or (known[0], -1) == place]:
                    slot, begin, lease = present.pop(ends)
                    found.append((slot, begin, min(each.at, lease), each.who))
        return found + [(slot, begin, lease, who) for (who, _), (slot, begin, lease) in present.items()]

    def of_slots(self):
        """The beliefs in each slot, in the order of their begin."""
        slots = {}
        for each in sorted(self.beliefs(), key=lambda belief: belief[1]):
            slots.setdefault(each[0], []).append(each)
        return slots

    def overlap(self):
        """For how many seconds two clients believed in the same slot at the most."""
        longest = 0
        for beliefs in self.of_slots().values():
            last = 0
            for _, begin, end, _ in beliefs:
                longest = max(longest, min(last, end) - begin)
                last = max(last, end)
        return longest / 1e9

    def nobodys(self, since, until_then):
        """For how many seconds at most nobody believed in a slot, between these two times."""
        longest = 0
        for beliefs in self.of_slots().values():
            last = since
            for _, begin, end, _ in beliefs:
                longest = max(longest, min(begin, until_then) - last)
                last = max(last, end)
            longest = max(longest, until_then - last)
        return longest / 1e9


@contextlib.contextmanager
def running(program, preparer=None):
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(program, folder)
        try:
            if preparer:
                subprocess.run([preparer, folder, str(broker.second_port)], check=True, timeout=DEADLINE)
            broker.start()
            if preparer:
                until(lambda: listens(broker.second_port), "the broker has its second listener")
            yield broker
        finally:
            broker.stop()


def self_test():
    alone = ("1 a enter 0 0.0 9 1\n5 a leave 0 0.0 0 1\n5 b enter 0 0.0 9 1\n7 b lost 0 0.0 0 1 removed\n"
             "2 c enter 0 0.0 9 2\n")
    frozen = "1 a enter 0 0.0 5 1\n3 a lease 0 0.0 7 1\n"  # believes until its lease is over
    cases = {alone: 0, alone + "4 d enter 0 0.0 9 1\n6 d leave 0 0.0 0 1\n": 1e-9,
             alone + "2 d enter 0 0.0 9 1\n": 3e-9,
             frozen + "6 b enter 0 0.0 9 1\n": 1e-9, frozen + "7 b enter 0 0.0 9 1\n9 a lost 0 0.0 0 1\n": 0,
             frozen + "4 a gone -1 0.0 0\n4 b enter 0 0.0 9 1\n": 0, frozen + "3 a enter 1 0.0 5 1\n": 2e-9}
    with tempfile.TemporaryDirectory() as folder:
        for number, (text, seconds) in enumerate(cases.items()):
            journal = Journal(f"{folder}/{number}")
            journal.path.write_text(text)
            expect(journal.overlap() == seconds, f"{journal.overlap()} s, not {seconds} s:\n{text}")
        journal = Journal(f"{folder}/alone")
        journal.path.write_text(alone + "9 f fault -1 0.0 0 words")  # not yet a whole line
        expect(len(journal.entries()) == 5, "a half of a line is no entry")
        seen = [journal.nobodys(*times) for times in ((1, 7), (0, 5), (1, 13), (8, 9))]
        expect(seen == [1e-9, 2e-9, 6e-9, 1e-9], f"nobody's: {seen}")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    words = sys.argv[1:]
    preparer = words[1] if words[:1] == ["--prepare"] and len(words) > 1 else None
    words = words[2:] if preparer else words
    if len(words) < 2 or words[0].startswith("-"):
        print(__doc__.strip(), file=sys.stdout if words in (["-h"], ["--help"]) else sys.stderr)
        return 0 if words in (["-h"], ["--help"]) else 2
    with contextlib.ExitStack() as stack:
        try:
            broker = stack.enter_context(running(os.path.abspath(words[0]), preparer))
        except (Failure, OSError, subprocess.SubprocessError) as why:
            print(why, file=sys.stderr)
            return 1
        environment = {**os.environ, "AMQP_URL": broker.url, "HOLDFAST_BROKER": broker.program,
                       "HOLDFAST_BROKER_FOLDER": str(broker.folder), "HOLDFAST_BROKER_PORT": str(broker.second_port)}
        status = subprocess.run(words[1:], env=environment).returncode
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
