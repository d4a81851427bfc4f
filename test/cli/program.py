#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Tests the program `holdfast` as its users run it, on a model of Consul (`holdfast serve-fake`).

usage: program.py PROGRAM [--on-agent] [CASE...]     all cases if none is named

  --on-agent    on the agent at CONSUL_HTTP_ADDR instead
"""

import collections
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

DEADLINE = 60  # seconds for anything that is waited for


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


class Tester:
    def __init__(self, program, address, folder):
        self.program, self.address, self.folder = program, address, pathlib.Path(folder)
        self.environment = {"PATH": os.environ["PATH"], "CONSUL_HTTP_ADDR": address, "SHELL": "/bin/sh", "B": program,
                            "HOLDFAST_RUN_DIRECTORY": ""}
        self.seen = collections.defaultdict(set)  # statuses, by command

    def run(self, *words, status=0, stdin=None, **more):
        """Runs the program to its end. Returns stdout and stderr."""
        done = subprocess.run([self.program, *words], input=stdin, capture_output=True, text=True, timeout=DEADLINE,
                              env={**self.environment, **more})
        self.note(words, done.returncode)
        expect(done.returncode == status, f"{words}: status {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
        return done.stdout, done.stderr

    def note(self, words, status):
        if status is None or status < 0 or not words:
            return
        self.seen[words[0]].add(str(status) if status in (0, 1, 2, *range(120, 126)) or words[0] != "run" else
                                "128+n" if status > 128 else "other")

    @contextlib.contextmanager
    def fake(self):
        """A model of Consul of its own."""
        serve = [self.program, "serve-fake", "--port", "0"]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as process:
            try:
                found = (re.search(r"CONSUL_HTTP_ADDR=(?:http://)?(\S+)", line) for line in process.stdout)
                yield process, next(filter(None, found))[1]
            finally:
                process.kill()

    @contextlib.contextmanager
    def started(self, *words, **more):
        """Runs the program in the background. Its command must print a line first."""
        process = subprocess.Popen([self.program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**self.environment, **more}, process_group=0)
        try:
            yield process
        finally:
            self.note(words, process.poll())
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.communicate()

    def inspect(self, prefix, status=0):
        return json.loads(self.run("inspect", "--json", prefix, status=status)[0])

    def until(self, prefix, condition):
        """Waits until the state of the semaphore fulfils the condition. Returns the state."""
        with subprocess.Popen([self.program, "watch", "--json", prefix], stdout=subprocess.PIPE, text=True,
                              env=self.environment) as watch:
            end = time.monotonic() + DEADLINE
            try:
                for line in watch.stdout:
                    now = json.loads(line)
                    if condition(now):
                        return now
                    expect(time.monotonic() < end, f"the state stays {now}")
            finally:
                watch.kill()
        raise Failure("the watch has ended")

    def put(self, path):
        with urllib.request.urlopen(urllib.request.Request(f"http://{self.address}{path}", method="PUT")) as reply:
            return reply.read()


def the_words_of_consul_lock(test):
    expect(test.run("run", "a/b", "echo", "x   y", "$CONSUL_LOCK_HELD")[0] == "x y true\n", "the shell sees other words")
    expect(test.run("run", "-shell=false", "a/b", "echo", "x   y", "$HOME")[0] == "x   y $HOME\n", "words are changed")
    expect(test.run("run", "a/b", "--", "echo", "x   y", "$HOME")[0] == "x   y $HOME\n", "words are changed")
    expect(test.run("run", "/a/b", "cat", stdin="text")[0] == "", "the command has a stdin")
    expect(test.run("run", "-pass-stdin", "a/b", "cat", stdin="text")[0] == "text", "stdin is not passed")
    flags = ["-n", "2", "-name=x", "-monitor-retry=3", "-stale", "-try", "5s"]
    expect(test.run("run", *flags, "s/t", "echo y")[0] == "y\n", "another output")


def statuses(test):
    test.run("run", "a/b", "exit 3")
    test.run("run", "-child-exit-code", "a/b", "exit 3", status=2)
    test.run("run", "-child-exit-code", "a/b", "true")
    test.run("run", "--exit-status", "a/b", "exit 3", status=3)
    test.run("run", "--exit-status", "a/b", "kill -USR1 $$", status=128 + signal.SIGUSR1)
    expect("No such file" in test.run("run", "a/b", "--", "/no/such", status=1)[1], "the cause is not named")
    test.run("run", "--exit-status", "a/b", "--", "/no/such", status=125)
    for wrong in (["x"], [], ["-foo", "x", "true"], ["-n"], ["-n", "0", "x", "true"], ["-timeout", "5", "x", "true"],
                  ["--grace", "10s", "x", "true"], ["-n", "x", "x", "true"]):
        expect(test.run("run", *wrong, status=1)[1], f"{wrong}: nothing is said")
    errors = test.run("run", "a/b", "true", status=1, CONSUL_HTTP_ADDR="127.0.0.1:1")[1]
    expect("127.0.0.1:1" in errors, f"the agent is not named: {errors}")
    test.run("run", "-h")
    test.run("--help")
    test.run("--version")
    test.run("nonsense", status=1)


def one_after_the_other(test):
    with test.started("run", "l/one", "--", "sh", "-c", "echo runs; sleep 1000") as first:
        first.stdout.readline()
        expect("in time" in test.run("run", "--no-wait", "l/one", "true", status=1)[1], "another reason")
        expect("in time" in test.run("run", "-timeout=200ms", "l/one", "true", status=1)[1], "another reason")
        test.run("run", "--exit-status", "--no-wait", "l/one", "true", status=121)
        with test.started("run", "-verbose", "l/one", "echo next") as second:
            state = test.until("l/one", lambda now: now["queue"])
            expect(len(state["holders"]) == 1, state)
            first.send_signal(signal.SIGTERM)
            expect(first.wait(DEADLINE) == 0, "its status is not that of consul lock")
            line = second.stdout.readline()
            expect(line == "next\n", f"the next one does not run: {line or (second.wait(), second.stderr.read())}")
            expect(second.wait(DEADLINE) == 0, "the next one failed")


def a_signal_while_it_waits(test):
    with test.started("run", "l/two", "--", "sh", "-c", "echo runs; sleep 1000") as first:
        first.stdout.readline()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            with test.started("run", "l/two", "echo never") as second:
                test.until("l/two", lambda now: now["queue"])
                second.send_signal(number)
                expect(second.wait(DEADLINE) == 128 + number, f"status {second.returncode} by {number}")
                expect(second.stdout.read() == "", "the command ran")
                test.until("l/two", lambda now: not now["queue"])


def a_lost_slot(test):
    for words, prefix in (([], "lost/mutex"), (["-n", "2"], "lost/semaphore")):
        script = "trap '' TERM; echo runs; sleep 1000"
        with test.started("run", *words, prefix, "--", "sh", "-c", script) as run:
            run.stdout.readline()
            session = test.inspect(prefix)["holders"][0]["session"]
            test.put(f"/v1/session/destroy/{session}")
            expect(run.wait(DEADLINE) == 124, f"status {run.returncode}")
            expect("session_invalidated" in run.stderr.read(), "the reason is not named")


def an_operator_asks(test):
    script = "trap 'echo asked; exit 5' TERM; echo runs; while :; do sleep 0.05; done"
    with test.started("run", "--exit-status", "-n", "2", "asked", "--", "sh", "-c", script) as run:
        run.stdout.readline()
        test.run("revoke", "asked", test.inspect("asked")["holders"][0]["session"])
        expect(run.stdout.readline() == "asked\n", "there is no SIGTERM")
        expect(run.wait(DEADLINE) == 5, f"status {run.returncode}")
    test.until("asked", lambda now: not now["holders"])


def the_child_can_verify(test):
    for words in ([], ["-n", "3"]):
        expect(test.run("run", *words, "v/w", '"$B" verify; echo $?')[0] == "held\n0\n", "it is not held")
        out = test.run("run", *words, "v/w", "echo $HOLDFAST_FENCING_TOKEN $HOLDFAST_SESSION $HOLDFAST_TTL")[0]
        expect(re.fullmatch(r"\d+\.\d+ [0-9a-f-]{36} 15000ms\n", out), f"the variables are {out}")
        session = out.split()[1]
        limit = words[-1] if words else "1"
        variables = {"HOLDFAST_SESSION": session, "HOLDFAST_PREFIX": "v/w", "HOLDFAST_LIMIT": limit}
        expect(test.run("verify", status=1, **variables)[0] == "not held\n", "a slot that is released")
        test.run("verify", status=3, **{**variables, "CONSUL_HTTP_ADDR": "127.0.0.1:1"})
    test.run("verify", status=3)
    numbers = test.run("run", "-n", "2", "--numbered", "v/numbers", "echo $HOLDFAST_SLOT")[0]
    expect(numbers in ("0\n", "1\n"), f"the number is {numbers}")


def a_lease_that_is_not_renewed_in_time(test):
    """Consul comes back before the lease is over, but after the guard has ended the command."""
    with test.fake() as (fake, address):
        script = "trap 'echo asked; exit 0' TERM; echo runs; while :; do sleep 0.05; done"
        flags = ["--exit-status", "--ttl=10s", "--grace=4s"]
        with test.started("run", *flags, "late", "--", "sh", "-c", script, CONSUL_HTTP_ADDR=address) as run:
            run.stdout.readline()
            fake.send_signal(signal.SIGSTOP)
            line = run.stdout.readline()
            fake.send_signal(signal.SIGCONT)
            expect(line == "asked\n", "the command was not asked to end")
            expect(run.wait(DEADLINE) == 124, f"status {run.returncode}, as if all were well")
            expect("renewed" in run.stderr.read(), "the reason is not named")


def what_is_left_by_a_killed_runner(test):
    marker = test.folder / "alive"
    script = f"trap '' TERM; echo runs; while :; do touch {marker}; sleep 0.05; done"
    with test.started("run", "--grace=1s", "k", "--", "sh", "-c", script) as run:
        run.stdout.readline()
        run.kill()
        run.wait()
        expect(run.stdout.read() == "", "")  # at its end when no process has it


@contextlib.contextmanager
def run_directory(test):
    with tempfile.TemporaryDirectory(dir=test.folder) as path:
        yield {"HOLDFAST_RUN_DIRECTORY": path}


def guard_of(run):
    """The guard is the only child of the program."""
    return int(pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()[0])


def kill(run):
    """Kills the program with its guard. They are stopped before, because the one that outlives the other acts on it."""
    pids = guard_of(run), run.pid
    for number in signal.SIGSTOP, signal.SIGKILL:
        for pid in pids:
            os.kill(pid, number)


def a_dead_holder_frees_its_slot_at_once(test):
    """The TTL is so long that without the run directory the case would not end in time."""
    for flags, prefix in (["--ttl=600s"], "dead/mutex"), (["--ttl=600s", "-n", "2", "--numbered"], "dead/semaphore"):
        with run_directory(test) as variables, contextlib.ExitStack() as stack:
            script = ["--", "sh", "-c", "echo runs; exec sleep 1000"]
            holders = [stack.enter_context(test.started("run", *flags, prefix, *script, **variables))
                       for _ in range(2 if "-n" in flags else 1)]
            for each in holders:
                each.stdout.readline()
            with test.started("run", *flags, prefix, "echo next $HOLDFAST_SLOT", **variables) as second:
                test.until(prefix, lambda now: now["queue"])
                kill(holders[0])
                expect(second.stdout.readline().startswith("next"), "the slot is not free")
                expect(second.wait(DEADLINE) == 0, f"status {second.returncode}")
            holders[0].wait()
            if len(holders) == 1:  # one that comes later finds the slot free, too
                expect(test.run("run", *flags, "--no-wait", prefix, "echo then", **variables)[0] == "then\n", "")
            for each in holders[1:]:
                each.send_signal(signal.SIGTERM)
                each.wait(DEADLINE)
            left = os.listdir(variables["HOLDFAST_RUN_DIRECTORY"])
            expect(not left, f"files are left: {left}")


def a_slot_stays_while_a_process_of_the_dead_command_lives(test):
    with run_directory(test) as variables:
        # The shell dies with the guard. Its child does not.
        script = "sleep 1000 & echo $!; wait"
        with test.started("run", "--ttl=600s", "heir", "--", "sh", "-c", script, **variables) as first:
            heir = int(first.stdout.readline())
            with test.started("run", "--ttl=600s", "heir", "echo next", **variables) as second:
                test.until("heir", lambda now: now["queue"])
                kill(first)
                first.wait()
                expect(test.run("run", "--ttl=600s", "-timeout=1s", "heir", "true", status=1, **variables)[1],
                       "the slot is free")
                expect(second.poll() is None, "the next command runs beside a process of the dead one")
                os.kill(heir, signal.SIGKILL)
                expect(second.stdout.readline() == "next\n", "the slot is not free")


def operators(test):
    test.run("create", "adm", "2")
    test.run("create", "adm", "3", status=1)
    test.run("resize", "adm", "3")
    expect(test.inspect("adm")["limit"] == 3, "the limit is another")
    test.run("close", "adm")
    expect(test.inspect("adm")["closed"], "it is open")
    test.run("open", "adm")
    test.run("drain", "--within", "5s", "adm")
    expect("0" in test.run("sweep", "adm")[0], "")
    test.run("open", "adm")
    with test.started("run", "-n", "3", "adm", "--", "sh", "-c", "echo runs; sleep 1000") as run:
        run.stdout.readline()
        expect("limit 3, 1 held" in test.run("inspect", "adm")[0], "the holder is not shown")
        session = test.inspect("adm")["holders"][0]["session"]
        test.run("destroy", "--yes", "adm", status=1)
        expect("--yes" in test.run("evict", "adm", session, status=1)[1], "nothing was asked")
        test.run("evict", "--yes", "adm", session)
        expect(run.wait(DEADLINE) == 124, f"status {run.returncode}")
    test.run("destroy", "--yes", "adm")
    expect(not test.inspect("adm", status=1)["exists"], "it is still there")


def a_leader(test):
    script = "echo $HOLDFAST_SESSION; exec sleep 1000"
    with test.started("elect", "--value", "me", "race", "--", "sh", "-c", script) as first:
        session = first.stdout.readline().strip()
        variables = {"HOLDFAST_SESSION": session, "HOLDFAST_PREFIX": "race", "HOLDFAST_KEY": "race", "HOLDFAST_LIMIT": "1"}
        expect(test.run("verify", **variables)[0] == "held\n", "it is not held")
        with urllib.request.urlopen(f"http://{test.address}/v1/kv/race?raw") as reply:
            expect(reply.read() == b"me", "the key has another value")
        with test.started("elect", "race", "echo $HOLDFAST_KEY; $B verify") as second:
            first.send_signal(signal.SIGTERM)
            expect(first.wait(DEADLINE) == 0, f"status {first.returncode}")
            expect(second.stdout.read() == "race\nheld\n", "the next leader is not held")
            expect(second.wait(DEADLINE) == 0, f"status {second.returncode}")
    test.run("elect", "-n", "2", "race", "true", status=1)


def statuses_of_once_per(test):
    """cli/night.py has the nights."""
    test.run("run", "--once-per=1h", "-n", "2", "job", "true", status=1)
    test.run("run", "--once-per=soon", "job", "true", status=1)
    test.run("run", "--once-per=1h", "job", "exit 5", status=5)
    test.run("run", "--once-per=1h", "job", "true")
    test.run("run", "--once-per=1h", "job", "true", status=120)
    with test.fake() as (process, address):
        command = ["run", "--once-per=1h", "--ttl=10s", "--grace=1s", "job", f"kill -STOP {process.pid}"]
        test.run(*command, status=123, CONSUL_HTTP_ADDR=address)
        process.kill()
        process.wait()
        test.run(*command, status=122, CONSUL_HTTP_ADDR=address)


def locks_of_every_kind(test):
    holds = ["--", "sh", "-c", "echo $HOLDFAST_SESSION; exec sleep 1000"]
    me = os.uname().nodename
    with test.started("elect", "--value", "me:80", "kinds/race", *holds) as leader, \
         test.started("run", "kinds/job", *holds) as runner:
        sessions = [each.stdout.readline().strip() for each in (leader, runner)]
        of_set = json.loads(test.put("/v1/session/create"))["ID"]
        for key, flags in (f".sessions/{of_set}", 7526470951156842496), ("task-1", 3304740253564472344):
            test.put(f"/v1/kv/kinds/set/{key}?acquire={of_set}&flags={flags}")
        listed = {each["prefix"]: each for each in map(json.loads, test.run("list", "--json", "kinds")[0].splitlines())}
        kinds = {name: (each["kind"], each["holders"][0]["session"]) for name, each in listed.items()}
        expect(kinds == {"kinds/race": ("mutex", sessions[0]), "kinds/job": ("mutex", sessions[1]),
                         "kinds/set": ("mutex_set", of_set)}, f"{kinds}")
        expect("kinds/race" in test.run("list", "kinds")[0], "people see it, too")
        shown = test.run("explain", "kinds/race")[0]
        expect("an election, held" in shown and "me:80" in shown and f"kinds/race by {me}:{leader.pid}'" in shown, shown)
        expect("are not seen here" in shown, shown)
        shown = test.run("explain", "kinds/job")[0]
        expect(f"at 'kinds/job' by {me}:{runner.pid}" in shown, shown)
        shown = test.run("explain", "kinds/set")[0]
        expect("a mutex set, 1 lock held" in shown and "task-1" in shown, shown)
        expect("mutex or election, 1 held" in test.run("inspect", "kinds/race")[0], "inspect")
        _, problem = test.run("revoke", "kinds/race", sessions[0], status=1)
        expect("kinds/race is a mutex or an election, and this command is for semaphores only" in problem, problem)
        for command in (["sweep"], ["destroy", "--yes"], ["close"]):
            _, problem = test.run(*command, "kinds/set", status=1)
            expect("kinds/set is a mutex set" in problem, problem)
        expect(f"kinds/race by {me}:{leader.pid}'" in test.run("inspect", "kinds/race")[0], "inspect names the process")
        _, problem = test.run("evict", "kinds/race", sessions[0], status=1)
        expect(f"{sessions[0]} holds kinds/race: me:80" in problem and f"by {me}:{leader.pid}" in problem, problem)
        _, problem = test.run("evict", "kinds/race", sessions[1], status=1)
        expect("neither holds kinds/race nor waits" in problem and "--yes" not in problem, problem)
        test.run("evict", "--yes", "kinds/race", sessions[0])
        expect(leader.wait(DEADLINE) == 124, f"status {leader.returncode}")
        test.run("evict", "--yes", "kinds/set", of_set)
        test.run("explain", "kinds/set", status=1)


def why_somebody_waits(test):
    with run_directory(test) as variables, contextlib.ExitStack() as stack:
        command = ["run", "--ttl=600s", "-n", "2", "why", "--", "sh", "-c", "echo runs; exec sleep 1000"]
        holders = [stack.enter_context(test.started(*command, **each)) for each in (variables, {})]
        for each in holders:
            each.stdout.readline()
        stack.enter_context(test.started(*command))  # it has no run directory, and so leaves the dead one alone
        waiter = test.until("why", lambda now: now["queue"])["queue"][0]["session"]
        shown = test.run("explain", "why", **variables)[0]
        expect("2 of 2 slots held, 1 waiting" in shown and "alive on this host" in shown, shown)
        expect("not known here" in shown and f"{waiter} (" in shown and "It is next." in shown, shown)
        kill(holders[0])
        holders[0].wait()
        # The command ends after its guard, some time later. Until then, its process counts as alive.
        end = time.monotonic() + DEADLINE
        while "is gone" not in (shown := test.run("explain", "why", **variables)[0]):
            expect(time.monotonic() < end, shown)
        expect("20m after its last renewal" in shown, shown)
        expect("neither holds nor waits" in test.run("explain", "why", "nobody")[0], "")
        expect(re.search(r"^why +2 of 2 +held +1 waiting$", test.run("list")[0], re.M), test.run("list")[0])
        expect(json.loads(test.run("list", "--json", "why")[0])["prefix"] == "why", "another one is listed")
        expect(test.run("list", "elsewhere")[0] == "", "something else is listed")
        with test.started("top", "why") as top:
            expect(top.stdout.readline().startswith("why: 2 of 2 held, 1 waiting"), "the state is another")
            top.send_signal(signal.SIGINT)
            expect(top.wait(DEADLINE) == 0, f"status {top.returncode}")
    test.run("explain", "nothing", status=1)


def metrics(test):
    """One `export` for two semaphores, of which one does not exist. Scrapes that overlap share one reading."""
    with test.started("export", "--listen=127.0.0.1:0", "metrics/a", "metrics/none") as exporter:
        url = re.search(r"http://\S+", exporter.stdout.readline())[0]

        def scraped():
            with urllib.request.urlopen(url, timeout=DEADLINE) as reply:
                expect(reply.headers["Content-Type"].startswith("text/plain; version=0.0.4"), "another type")
                return dict(re.findall(r"^(holdfast_\S+\{.*\}) (\S+)$", reply.read().decode(), re.M))

        first = scraped()
        expect(first['holdfast_cluster_read_success{prefix="metrics/none"}'] == "1", first)
        expect('holdfast_cluster_limit{prefix="metrics/a"}' not in first, first)
        with test.started("run", "-n", "2", "metrics/a", "--", "sh", "-c", "echo runs; exec sleep 1000") as run:
            run.stdout.readline()
            now = scraped()
            for name, value in ("limit", "2"), ("holders", "1"), ("waiters", "0"), ("closed", "0"):
                expect(now[f'holdfast_cluster_{name}{{prefix="metrics/a"}}'] == value, now)
            expect(0 <= float(now['holdfast_cluster_oldest_hold_seconds{prefix="metrics/a"}']) < DEADLINE, now)
            expect('holdfast_cluster_oldest_hold_seconds{prefix="metrics/none"}' not in now, now)
        try:
            with urllib.request.urlopen(url.removesuffix("/metrics") + "/other", timeout=DEADLINE):
                raise Failure("there is another page")
        except urllib.error.HTTPError as refused:
            expect(refused.code == 404, refused)
        exporter.send_signal(signal.SIGTERM)
        expect(exporter.wait(DEADLINE) == 0, f"status {exporter.returncode}")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        expect("in use" in test.run("export", f"--listen={address}", "metrics/a", status=1)[1], "nothing is said")
    test.run("export", "--listen=localhost:1", "metrics/a", status=1)
    test.run("export", status=1)


def an_interrupt_while_consul_says_nothing(test):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with test.started("top", "why", CONSUL_HTTP_ADDR=address) as top:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(DEADLINE)
                expect(connection.recv(1) != b"", "there is no request")
                top.send_signal(signal.SIGINT)
                expect(top.wait(DEADLINE) == 0, f"status {top.returncode}")


def no_secret_is_shown(test):
    secret = "11111111-2222-3333-4444-555555555555"
    for words in (["-token", secret], ["-token=" + secret]):
        out, errors = test.run("run", "-verbose", *words, "sec", "env; ps -o args= -p $$")
        expect(secret not in out + errors, "the token is shown")
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(secret)
        file.flush()
        out, errors = test.run("run", "-verbose", "-token-file", file.name, "sec", "env")
        expect(secret not in out + errors, "the token is shown")


def control_characters(test):
    for flags, prefix in (([], "c"), (["-n", "2"], "d")):
        command = ["sh", "-c", "echo runs; sleep 1000"]
        with test.started("run", *flags, "-name", "a\x1b[2Jb\x9bc", prefix, "--", *command) as run:
            run.stdout.readline()
            shown = test.run("inspect", prefix)[0]
            expect("a?[2Jb?c" in shown and "\x1b" not in shown and "\x9b" not in shown, f"it prints {shown!r}")


def nothing_is_left_in_consul(test):
    for limit in ("1", "2", "1", "3"):
        test.run("run", "-n", limit, "again", "true")
    with urllib.request.urlopen(f"http://{test.address}/v1/kv/?keys") as reply:
        left = [key for key in json.loads(reply.read()) if key.startswith("again")]
    expect(not left, f"keys are left: {left}")
    test.run("create", "again", "2")
    test.run("close", "again")
    test.run("run", "--no-wait", "-n", "2", "again", "true", status=1)
    expect(test.inspect("again")["closed"], "what an operator has closed is gone")


def an_address_that_is_no_brokers(test):
    """cli/rabbitmq.py has the tests on a broker. This one also runs in a build without RabbitMQ."""
    flag = "--rabbitmq=consul://127.0.0.1"
    for words in (["inspect"], ["create", "1"], ["grow", "1"], ["wait"], ["run", "true"]):
        _, problem = test.run(words[0], flag, "elsewhere", *words[1:], status=1)
        expect("built without RabbitMQ" in problem or "scheme" in problem, problem)
    test.run("wait", "elsewhere", status=1)
    test.run("elect", flag, "elsewhere", "true", status=1)


def each_documented_status_is_seen(test):
    """The manual is made of this description. All other cases have run before."""
    for command in json.loads(test.run("describe")[0])["commands"]:
        documented, seen = {status for status, _ in command["statuses"]}, test.seen[command["name"]]
        if command["name"] in ("run", "verify", "inspect", "explain"):
            expect(documented <= seen, f"{command['name']}: {sorted(documented - seen)} is documented, and was not seen")
        expect(seen <= documented | {"128+n"}, f"{command['name']}: {sorted(seen - documented)} is not documented")


CASES = [the_words_of_consul_lock, statuses, one_after_the_other, a_signal_while_it_waits, a_lost_slot,
         an_operator_asks, the_child_can_verify, a_lease_that_is_not_renewed_in_time,
         what_is_left_by_a_killed_runner, a_dead_holder_frees_its_slot_at_once,
         a_slot_stays_while_a_process_of_the_dead_command_lives, operators, a_leader,
         statuses_of_once_per, locks_of_every_kind, why_somebody_waits,
         metrics, an_interrupt_while_consul_says_nothing, no_secret_is_shown, control_characters,
         nothing_is_left_in_consul, an_address_that_is_no_brokers]
LAST = each_documented_status_is_seen


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip())
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    program = os.path.abspath(sys.argv[1])
    failed = 0
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        named = sys.argv[2:]
        if named[:1] == ["--on-agent"]:
            named.pop(0)
            address = os.environ["CONSUL_HTTP_ADDR"].removeprefix("http://")
        else:
            address = stack.enter_context(Tester(program, "", folder).fake())[1]
        test = Tester(program, address, folder)
        for case in [*CASES, LAST]:
            if (named or failed) and case is LAST and LAST.__name__ not in named:
                continue
            if named and case.__name__ not in named:
                continue
            try:
                case(test)
                print(f"{case.__name__}: passed", flush=True)
            except (Failure, subprocess.TimeoutExpired) as why:
                failed += 1
                print(f"{case.__name__}: FAILED: {why}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
