#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Tests the program `holdfast` with --rabbitmq, beside a broker that test/rabbitmq/broker.py has started.

usage: rabbitmq.py PROGRAM [CASE...]     all cases if none is named
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

DEADLINE = 60  # seconds for anything that is waited for
LEASE = "--lease=2s"


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


class Tester:
    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)
        self.broker = f"--rabbitmq={os.environ['AMQP_URL']}"

    def run(self, command, *words, status=0):
        """Runs the program to its end. Returns stdout and stderr."""
        done = subprocess.run([self.program, command, self.broker, LEASE, *words], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=DEADLINE)
        expect(done.returncode == status, f"{command} {words}: status {done.returncode}, not {status}\n"
                                          f"{done.stdout}{done.stderr}")
        return done.stdout, done.stderr

    def result(self, command, *words, status=0):
        return json.loads(self.run(command, *words, "--json", status=status)[0])

    @contextlib.contextmanager
    def started(self, *words):
        """Runs `holdfast run` in the background. Its command must print a line first."""
        command = [self.program, "run", self.broker, LEASE, *words]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, process_group=0) as process:
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()

    @staticmethod
    def ctl(*words):
        subprocess.run([os.environ["HOLDFAST_BROKER"], "ctl", os.environ["HOLDFAST_BROKER_FOLDER"], *words], check=True,
                       stdout=subprocess.DEVNULL, timeout=DEADLINE)


def operators(test):
    test.run("create", "operated", "2")
    test.run("create", "operated", "2")
    _, problem = test.run("create", "operated", "3", status=1)
    expect("recorded 2, ours 3" in problem, problem)
    expect(test.run("grow", "operated", "2")[0] == "operated: 4 slots\n", "grow tells the new number")
    expect(test.result("shrink", "operated", "1") == {"name": "operated", "slots": 3}, "shrink tells the new number")
    test.run("wait", "operated", "2")
    test.run("wait", "operated")
    now = test.result("inspect", "operated")
    expect(now == {"name": "operated", "exists": True, "slots": 3, "taken": [], "unfinished": False}, f"it is {now}")
    _, problem = test.run("destroy", "operated", status=1)
    expect("--yes" in problem, problem)
    left = test.result("destroy", "operated", "--yes", "--overshoot", "1")
    expect(left == {"name": "operated", "held": [], "kept_queues": []}, f"it leaves {left}")
    expect(test.run("inspect", "operated", status=1)[0] == "operated: no semaphore\n", "it is there")
    test.run("wait", "operated", status=1)


def a_command_holds_a_slot(test):
    with test.started("-n", "2", "held", "--", "sh", "-c", 'echo "$HOLDFAST_NAME $HOLDFAST_SLOT"; sleep 60') as run:
        name, slot = run.stdout.readline().split()
        expect(name == "held", name)
        now = test.result("inspect", "held")
        expect(now["slots"] == 2 and now["taken"] == [int(slot)], f"it is {now}")
        expect(f"slot {slot} is taken\n" in test.run("inspect", "held")[0], "a person is told, too")
        test.run("wait", "held", slot, "--within", "50ms", status=1)
        test.run("wait", "held", "--within", "50ms", status=1)
        other = test.run("run", "--no-wait", "held", "--", "sh", "-c", "echo $HOLDFAST_SLOT")[0]
        expect(other == f"{3 - int(slot)}\n", f"the other is {other}")
        run.terminate()
        run.wait(DEADLINE)
    test.run("wait", "held")
    test.run("run", "--no-wait", "held", "true")  # the slot was released, so nobody waits for a lease


def statuses(test):
    expect(test.run("run", "stated", "exit 7")[0] == "", "the command prints nothing")
    test.run("run", "--exit-status", "stated", "exit 7", status=7)
    test.run("run", "--child-exit-code", "stated", "exit 7", status=2)
    with test.started("stated", "echo; sleep 60") as run:
        run.stdout.readline()
        _, problem = test.run("run", "--no-wait", "stated", "true", status=1)
        expect("free in time" in problem, problem)
        test.run("run", "--timeout=50ms", "stated", "true", status=1)
    test.run("run", "--grace=1s", "stated", "true", status=1)  # half of a lease of 2 s without its tenth is 0.9 s
    test.run("run", "stated-1-A", "true", status=1)
    test.run("run", "-n", "1001", "stated", "true", status=1)


def a_signal_while_it_waits(test):
    with test.started("signalled", "echo; sleep 60") as run:
        run.stdout.readline()
        with test.started("--verbose", "signalled", "true") as waiting:
            expect("waiting for a slot" in waiting.stderr.readline(), "it waits")
            waiting.terminate()
            status = waiting.wait(DEADLINE)
            expect(status == 143, f"the status tells of the signal, and is {status}: {waiting.stderr.read()}")


def an_operator_removes_the_slot(test):
    command = f"trap 'echo asked > {test.folder}/asked; exit 0' TERM; echo; while :; do sleep 0.05; done"
    with test.started("removed", command) as run:
        run.stdout.readline()
        left = test.result("destroy", "removed", "--yes")
        expect(left == {"name": "removed", "held": [1], "kept_queues": ["removed-1-F"]}, f"it leaves {left}")
        expect(run.wait(DEADLINE) == 0, "it was not lost")
    expect((test.folder / "asked").exists(), "the command is asked to end")
    expect(test.run("destroy", "removed", "--yes")[0] == "", "all is gone")


def a_lost_slot(test):
    with test.started("lost", "echo; sleep 60") as run:
        run.stdout.readline()
        test.ctl("delete_queue", "lost-1-B")
        expect(run.wait(DEADLINE) == 124, "the command is ended")
        expect("the slot is lost: removed" in run.stderr.read(), "it says why")


def the_letter_may_come_first(test):
    test.run("create", "lettered", "1", "--letter-first")
    test.run("inspect", "lettered", status=1)
    test.run("run", "--letter-first", "--no-wait", "lettered", "true")
    test.run("destroy", "lettered", "--letter-first", "--yes")


def no_password_is_shown(test):
    url = os.environ["AMQP_URL"].replace("guest:guest@", "guest:wrong-secret@")
    done = subprocess.run([test.program, "inspect", "secret", "--rabbitmq", url], capture_output=True, text=True,
                          timeout=DEADLINE)
    expect(done.returncode == 1 and "wrong-secret" not in done.stdout + done.stderr, done.stderr)
    (test.folder / "password").write_text("guest\n")
    url = os.environ["AMQP_URL"].replace("guest:guest@", "guest@")
    words = ["inspect", "secret", "--rabbitmq", url, "--password-file", str(test.folder / "password")]
    done = subprocess.run([test.program, *words], capture_output=True, text=True, timeout=DEADLINE)
    expect(done.stdout == "secret: no semaphore\n", done.stderr)


CASES = [operators, a_command_holds_a_slot, statuses, a_signal_while_it_waits, an_operator_removes_the_slot,
         a_lost_slot, the_letter_may_come_first, no_password_is_shown]


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip())
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        test = Tester(os.path.abspath(sys.argv[1]), folder)
        for case in CASES:
            if sys.argv[2:] and case.__name__ not in sys.argv[2:]:
                continue
            try:
                case(test)
                print(f"{case.__name__}: passed", flush=True)
            except (Failure, subprocess.SubprocessError) as why:
                failed += 1
                print(f"{case.__name__}: FAILED: {why}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
