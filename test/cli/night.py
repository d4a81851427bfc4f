#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Runs the commands of doc/how_to/run_at_night.md as several hosts do, on a model of Consul.

usage: night.py PROGRAM [CASE...]     all cases if none is named

A night is compressed: the period of 20 h becomes 15 s, and a job of 40 min takes 5 s.
"""

import contextlib
import datetime
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

PAGE = pathlib.Path(__file__).parents[2] / "doc/how_to/run_at_night.md"
COMMANDS = re.compile(r"^<!-- run by test/cli/night.py -->\n```sh\n(.*)\n```$", re.MULTILINE)
DEADLINE = 60  # seconds for anything that is waited for
PERIOD = "15s"
RECORD = "service/backup/.last-success"


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


class Night:
    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)
        page = PAGE.read_text(encoding="utf-8")
        self.line, self.for_cron = COMMANDS.findall(page)
        self.unit = dict(re.findall(r"^(ExecStart|SuccessExitStatus)=(.*)$", page, re.MULTILINE))
        self.jobs = self.folder / "jobs"
        (self.folder / "bin").mkdir()
        (self.folder / "bin/holdfast").symlink_to(os.path.abspath(program))
        self.consul, self.address = None, None

    def __enter__(self):
        serve = [self.program, "serve-fake", "--port", "0"]
        self.consul = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
        found = (re.search(r"CONSUL_HTTP_ADDR=(?:http://)?(\S+)", line) for line in self.consul.stdout)
        self.address = next(filter(None, found))[1]
        return self

    def __exit__(self, *_):
        self.consul.send_signal(signal.SIGCONT)
        self.consul.kill()
        self.consul.communicate()

    def of_the_page(self, line, job):
        """The line of the page, with another job and a shorter period."""
        expect("=20h " in line and line.count("/usr/local/bin/backup") == 1, f"the page has another line: {line}")
        return line.replace("=20h ", f"={PERIOD} ").replace("/usr/local/bin/backup", f"sh -c {shlex.quote(job)}")

    def start(self, job, line=None, **more):
        """A host starts the command."""
        environment = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "CONSUL_HTTP_ADDR": self.address,
                       "HOLDFAST_RUN_DIRECTORY": "", "JOBS": str(self.jobs), **more}
        return subprocess.Popen(["sh", "-c", self.of_the_page(line or self.line, job)], env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def runs(self):
        return self.jobs.read_text(encoding="utf-8").split() if self.jobs.exists() else []

    def key(self, key, value=None):
        """Reads the key, or writes it."""
        request = urllib.request.Request(f"http://{self.address}/v1/kv/{key}?raw", data=value and value.encode(),
                                         method="PUT" if value else "GET")
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE) as reply:
                return reply.read().decode()
        except urllib.error.HTTPError as failed:
            expect(failed.code == 404, f"{key}: {failed.code}")
            return None


def ended(*hosts):
    """The statuses of all, in order, and what they have said."""
    said = [host.communicate(timeout=DEADLINE)[0] for host in hosts]
    return [host.returncode for host in hosts], "".join(said)


def job(seconds, status=0):
    return f"echo begun >> $JOBS; sleep {seconds}; echo ended >> $JOBS; exit {status}"


def wait_for(what, holds):
    end = time.monotonic() + DEADLINE
    while not holds():
        expect(time.monotonic() < end, f"in vain waited for: {what}")
        time.sleep(0.02)


def three_hosts(night, seconds):
    hosts = [night.start(job(seconds)) for _ in range(2)]
    time.sleep(2)  # the timer of the third host comes later
    hosts.append(night.start(job(seconds)))
    statuses, said = ended(*hosts)
    expect(sorted(statuses) == [0, 120, 120], f"{statuses}: {said}")
    expect(night.runs() == ["begun", "ended"], f"{night.runs()}")
    expect(said.count("does not run: it has succeeded at") == 2, said)


def a_job_of_a_second_runs_on_one_host(night):
    three_hosts(night, 1)


def a_job_of_forty_minutes_runs_on_one_host(night):
    three_hosts(night, 5)


def the_next_night(night):
    statuses, said = ended(night.start(job(0)))
    expect(statuses == [0], said)
    first = json.loads(night.key(RECORD))
    expect(set(first) == {"unix_time", "time", "host"} and first["host"] == os.uname().nodename, f"{first}")
    utc = datetime.datetime.fromtimestamp(first["unix_time"], datetime.timezone.utc)
    expect(first["time"] == utc.strftime("%Y-%m-%dT%H:%M:%SZ"), f"{first}")
    ended(night.start(job(0)))
    expect(len(night.runs()) == 2, f"{night.runs()}")
    night.key(RECORD, json.dumps({**first, "unix_time": first["unix_time"] - 15}))
    statuses, said = ended(night.start(job(0)))
    expect(statuses == [0] and len(night.runs()) == 4, f"{statuses} {night.runs()}: {said}")


def cron_and_systemd_take_it_for_a_success(night):
    expect(night.unit["ExecStart"] == "/usr/bin/" + night.line, f"{night.unit}")
    statuses, said = ended(*[night.start(job(0), night.for_cron) for _ in range(2)])
    expect(statuses == [0, 0] and len(night.runs()) == 2 and not said, f"{statuses} {night.runs()}: {said}")
    statuses, said = ended(night.start(job(0)))
    expect(f"{statuses[0]}" == night.unit["SuccessExitStatus"], f"{statuses}: {said}")


def a_job_that_fails_runs_on_the_next_host(night):
    statuses, said = ended(*[night.start(job(0, 7)) for _ in range(2)])
    expect(statuses == [7, 7] and night.key(RECORD) is None, f"{statuses}: {said}")
    expect(night.runs() == ["begun", "ended"] * 2, f"{night.runs()}")


def a_repetition_leaves_the_record(night):
    again = "holdfast run -verbose --exit-status service/backup -- /usr/local/bin/backup"
    expect(again in PAGE.read_text(encoding="utf-8"), "the page has another line")
    ended(night.start(job(0)))
    record = night.key(RECORD)
    statuses, said = ended(night.start(job(0), again.replace("service/backup", "--timeout=20h service/backup")))
    expect(statuses == [0] and night.key(RECORD) == record and len(night.runs()) == 4, f"{statuses}: {said}")


def a_host_that_dies_in_the_middle(night):
    first = night.start("exec 3>&1; " + job(60), night.line.replace("run ", "run --ttl=10s --grace=1s "))
    wait_for("the job", night.runs)
    second = night.start(job(0))
    children = pathlib.Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text(encoding="utf-8").split()
    for process in children or [first.pid]:  # the shell may have been replaced by the program
        os.kill(int(process), signal.SIGKILL)
    statuses, said = ended(second)
    expect(statuses == [0], f"{statuses}: {said}")
    expect(night.runs() == ["begun", "begun", "ended"], f"{night.runs()}")  # the guard has ended the first one
    first.communicate(timeout=DEADLINE)


def consul_is_away(night):
    night.consul.kill()
    night.consul.wait()
    statuses, said = ended(night.start(job(0)))
    expect(statuses == [122] and not night.runs(), f"{statuses}: {said}")


def consul_is_away_at_the_end(night):
    first = night.start("echo begun >> $JOBS; while [ ! -e $JOBS.go ]; do sleep 0.02; done; echo ended >> $JOBS")
    wait_for("the job", night.runs)
    night.consul.send_signal(signal.SIGSTOP)
    (night.folder / "jobs.go").touch()
    statuses, said = ended(first)
    expect(statuses == [123] and "may run again" in said, f"{statuses}: {said}")
    night.consul.send_signal(signal.SIGCONT)
    statuses, said = ended(night.start(job(0)))
    expect(statuses in ([0], [120]) and len(night.runs()) == (4 if statuses == [0] else 2), f"{statuses}: {said}")


def records_that_do_not_count(night):
    in_an_hour = json.dumps({"unix_time": int(time.time()) + 3600, "host": "x"})
    for value, text in (in_an_hour, "recorded in the future"), ("junk", "is no record"), ("{}", "is no record"):
        night.key(RECORD, value)
        before = len(night.runs())
        statuses, said = ended(night.start(job(0)))
        expect(statuses == [0] and text in said and len(night.runs()) == before + 2, f"{value}: {statuses}: {said}")
    in_a_moment = json.dumps({"unix_time": int(time.time()) + 5, "host": "x"})  # the clock of that host is fast
    night.key(RECORD, in_a_moment)
    statuses, said = ended(night.start(job(0)))
    expect(statuses == [120], f"{statuses}: {said}")


def others_hold_it(night):
    first = night.start(job(60))
    wait_for("the job", night.runs)
    for flags in ("--no-wait", "-timeout=200ms"):
        statuses, said = ended(night.start(job(0), night.line.replace("run ", f"run {flags} ")))
        expect(statuses == [121] and "1 slot is held, the first by" in said and os.uname().nodename in said,
               f"{statuses}: {said}")
    first.terminate()
    first.communicate(timeout=DEADLINE)


def the_record_is_spared(night):
    ended(night.start(job(0)))
    for command in (["sweep"], ["destroy", "--yes"], ["run", "service/backup", "true"]):
        words = [command[0], "service/backup", *command[1:]] if command[0] != "run" else command
        subprocess.run([night.program, *words], env={"CONSUL_HTTP_ADDR": night.address, "SHELL": "/bin/sh"},
                       capture_output=True, timeout=DEADLINE, check=False)
        expect(night.key(RECORD), f"{command} has removed the record")
    told = subprocess.run([night.program, "explain", "service/backup"], env={"CONSUL_HTTP_ADDR": night.address},
                          capture_output=True, text=True, timeout=DEADLINE, check=False).stdout
    expect("last succeeded at" in told, told)


CASES = [a_job_of_a_second_runs_on_one_host, a_job_of_forty_minutes_runs_on_one_host, the_next_night,
         cron_and_systemd_take_it_for_a_success, a_job_that_fails_runs_on_the_next_host,
         a_repetition_leaves_the_record,
         a_host_that_dies_in_the_middle, consul_is_away, consul_is_away_at_the_end, records_that_do_not_count,
         others_hold_it, the_record_is_spared]


def main():
    program, *names = sys.argv[1:]
    failed = 0
    for case in CASES:
        if names and case.__name__ not in names:
            continue
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            try:
                case(stack.enter_context(Night(program, folder)))
                print(f"{case.__name__}: passed", flush=True)
            except (Failure, subprocess.TimeoutExpired) as failure:
                failed += 1
                print(f"{case.__name__}: FAILED: {failure}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
