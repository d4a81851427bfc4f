#!/usr/bin/python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""A client that follows the description of the Persistent Semaphore to the letter: it has no lease, and verifies only
that its slot still exists. The tests and the benchmark let it compete with ours.

usage: seed_client.py [--journal FILE] URL NAME COMMAND

  create C, grow X, shrink X, destroy     administer the semaphore under its mutex.

  max             prints the number of slots.

  try             takes a free slot, and releases it at once.

  hold SECONDS    takes a free slot, and holds it for so long.

  cycles N        takes and releases a slot N times. It tries again after 0.1 s while none is free.

  wait K          waits until nobody holds slot K.

Prints a line for each thing that it does. The exit status is 1 if no slot is free, 2 if the slot was lost, and 3 after
other errors. --journal appends lines in the form of test/support/journal.hpp. URL may have pika's parameters, such as
?heartbeat=2.
"""

import os
import sys
import time

import pika
from pika.exceptions import AMQPConnectionError, AMQPError, ChannelClosedByBroker, UnroutableError

RACES_MAX = 20
POLL = 0.1  # seconds
NO_LEASE = 2**62  # nanoseconds
NOTHING = {"x-max-length": 0}  # the queues keep no messages
LOCKED = 405


class Semaphore:
    def __init__(self, url, name, journal):
        self.connection = pika.BlockingConnection(pika.URLParameters(url))
        self.name, self.journal = name, journal
        self.open_channel()

    def open_channel(self):
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def slot(self, k):
        return f"{self.name}-{k}-A"

    def holder(self, k):
        return f"{self.name}-{k}-B"

    def exists(self, queue):
        """A queue exists if a message can be routed to it."""
        try:
            self.channel.basic_publish("", queue, b"", mandatory=True)
            return True
        except UnroutableError:
            return False

    def declare_exclusively(self, queue):
        """False if another connection has the queue. The broker closes the channel then."""
        try:
            self.channel.queue_declare(queue, exclusive=True, arguments=NOTHING)
            return True
        except ChannelClosedByBroker as closed:
            if closed.reply_code != LOCKED:
                raise
            self.open_channel()
            return False

    def highest(self):
        k = 0
        while self.exists(self.slot(k + 1)):
            k += 1
        return k

    def acquire(self):
        """The number of the slot, or 0 if none is free."""
        k, races = 1, 0
        while races < RACES_MAX and self.exists(self.slot(k)):
            if self.exists(self.holder(k)):
                k += 1
            elif self.declare_exclusively(self.holder(k)):
                if not self.exists(self.slot(k)):  # verification, which the description recommends here
                    self.channel.queue_delete(self.holder(k))
                    return 0
                self.note("enter", k)
                return k
            else:
                k, races = 1, races + 1
        return 0

    def release(self, k):
        self.note("leave", k)
        self.channel.queue_delete(self.holder(k))

    def note(self, event, k):
        if self.journal:
            lease = NO_LEASE if event == "enter" else 0
            line = f"{time.clock_gettime_ns(time.CLOCK_BOOTTIME)} seed-{os.getpid()} {event} 0 0.0 {lease} {k}\n"
            os.write(self.journal, line.encode())

    def administer(self, change):
        while not self.declare_exclusively(self.name):
            time.sleep(POLL)
        change(self.highest())
        self.channel.queue_delete(self.name)

    def add(self, first, last):
        for k in range(first, last + 1):
            self.channel.queue_declare(self.slot(k), durable=True, arguments=NOTHING)

    def remove(self, last, first):
        for k in range(last, max(0, first - 1), -1):
            self.channel.queue_delete(self.slot(k))

    def hold(self, seconds):
        k = self.acquire()
        print("acquired" if k else "none is free", k or "", flush=True)
        if not k:
            return 1
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                self.connection.process_data_events(min(POLL, seconds))
                if not self.exists(self.slot(k)):
                    break
            else:
                self.release(k)
                print("released", k, flush=True)
                return 0
        except AMQPConnectionError as why:
            print("lost", k, type(why).__name__, flush=True)
        else:
            print("removed", k, flush=True)
        self.note("lost", k)
        return 2

    def cycles(self, count):
        for _ in range(count):
            while not (k := self.acquire()):
                time.sleep(POLL)
            self.release(k)
        print("done", count, flush=True)

    def wait(self, k):
        while self.exists(self.holder(k)):
            time.sleep(POLL)
        print("free", k, flush=True)


def main():
    words = sys.argv[1:]
    journal = None
    if words[:1] == ["--journal"] and len(words) > 1:
        journal = os.open(words[1], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
        words = words[2:]
    commands = {
        "create": lambda s, n: s.administer(lambda there: s.add(there + 1, int(n))),
        "grow": lambda s, n: s.administer(lambda there: s.add(there + 1, there + int(n))),
        "shrink": lambda s, n: s.administer(lambda there: s.remove(there, there - int(n) + 1)),
        "destroy": lambda s: s.administer(lambda there: s.remove(there, 1)),
        "max": lambda s: print(s.highest()),
        "try": lambda s: s.hold(0),
        "hold": lambda s, n: s.hold(float(n)),
        "cycles": lambda s, n: s.cycles(int(n)),
        "wait": lambda s, n: s.wait(int(n)),
    }
    command = commands.get(words[2]) if len(words) > 2 else None
    if command is None or len(words) - 2 != command.__code__.co_argcount:
        print(__doc__.strip(), file=sys.stdout if words in (["-h"], ["--help"]) else sys.stderr)
        return 0 if words in (["-h"], ["--help"]) else 2
    try:
        semaphore = Semaphore(words[0], words[1], journal)
        status = command(semaphore, *words[3:])
        if semaphore.connection.is_open:
            semaphore.connection.close()
        return status or 0
    except AMQPError as why:
        print(f"{type(why).__name__}: {why}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
