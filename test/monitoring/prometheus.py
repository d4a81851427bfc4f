#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Starts Prometheus for tests, with the alert rules of doc/monitoring. It scrapes five times a second.

usage: prometheus.py PROMETHEUS ENDPOINT...      watches these endpoints (host:port) until it is interrupted, and prints
                                                 the URL. PROMETHEUS is the folder that scripts/prometheus prints
       prometheus.py --self-test PROMETHEUS

Tests import `running`.
"""

import contextlib
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import metrics

RULES = metrics.ROOT / "doc/monitoring/alerts.yml"
DEADLINE = 60  # seconds for anything that is waited for
UNITS = {"s": 1, "m": 60, "h": 3600}


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


def faster(rules, factor):
    """The rules with all their times divided by this factor, because a test cannot wait for minutes."""
    def shorter(found):
        return f"{found[1]}{max(1, round(int(found[2]) * UNITS[found[3]] * 1000 / factor))}ms{found[4]}"

    rules = re.sub(r"(\[)(\d+)([smh])(\])", shorter, rules)
    return re.sub(r"^( *for: *)(\d+)([smh])()$", shorter, rules, flags=re.MULTILINE)


class Prometheus:
    """A running Prometheus at this URL."""

    def __init__(self, url):
        self.url = url

    def get(self, path, **parameters):
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            raise Failure(f"{path} {parameters}: {error.read().decode()}") from error
        expect(found["status"] == "success", f"{path} {parameters}: {found}")
        return found["data"]

    def query(self, expression):
        """The present series: pairs of labels and value."""
        data = self.get("query", query=expression)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(each["metric"], float(each["value"][1])) for each in data["result"]]

    def query_range(self, expression, start, end, step):
        """The series of this time: pairs of labels and a list of (time, value)."""
        data = self.get("query_range", query=expression, start=start, end=end, step=step)
        return [(each["metric"], [(float(at), float(value)) for at, value in each["values"]]) for each in data["result"]]

    def alerts(self):
        """The alerts that fire: {name: [labels]}."""
        found = {}
        for each in self.get("alerts")["alerts"]:
            if each["state"] == "firing":
                found.setdefault(each["labels"]["alertname"], []).append(each["labels"])
        return found

    def until(self, condition, what, deadline=DEADLINE):
        """Waits until the condition holds. Returns its value. The condition may be an expression that must give a series."""
        end = time.monotonic() + deadline
        holds = (lambda: self.query(condition)) if isinstance(condition, str) else condition
        while not (value := holds()):
            expect(time.monotonic() < end, f"not in time: {what}")
            time.sleep(0.05)
        return value

    def until_alert(self, name, deadline=DEADLINE, **labels):
        """Waits until an alert with these labels fires. Returns all its labels."""
        return self.until(lambda: next((each for each in self.alerts().get(name, []) if labels.items() <= each.items()), None),
                          f"{name} with {labels} fires, only these do: {self.alerts()}", deadline)  # fmt: skip


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def running(programs, jobs, rules=None, interval=0.2, speed=1):
    """Starts Prometheus in a temporary folder, on loopback, and waits until it has scraped each endpoint. Gives a
    `Prometheus`. It ends with the context, even if this process is killed.

    - programs: the folder that scripts/prometheus prints
    - jobs: {name of a job: [host:port]}, or a list of endpoints
    - rules: the text of the alert rules; by default those of doc/monitoring
    - interval: the time between two scrapes, in seconds
    - speed: all times in the rules are divided by it
    """
    program = pathlib.Path(programs) / "prometheus"
    expect(program.is_file(), f"there is no program {program}: run scripts/prometheus")
    jobs = jobs if isinstance(jobs, dict) else {"holdfast": jobs}
    milliseconds = f"{round(interval * 1000)}ms"
    settings = {
        "global": {"scrape_interval": milliseconds, "scrape_timeout": milliseconds, "evaluation_interval": milliseconds},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [{"job_name": name, "static_configs": [{"targets": targets}]} for name, targets in jobs.items()],
    }
    with tempfile.TemporaryDirectory(prefix="holdfast-prometheus.") as folder:
        place = pathlib.Path(folder)
        rules = RULES.read_text(encoding="utf-8") if rules is None else rules
        (place / "alerts.yml").write_text(faster(rules, speed), encoding="utf-8")
        (place / "prometheus.yml").write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML, too
        wanted = sum(map(len, jobs.values()))

        def start():
            port = free_port()
            with open(place / "output", "wb") as output:
                started = subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", program, "--config.file=prometheus.yml",
                     "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"],
                    cwd=place, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)  # fmt: skip
            return started, Prometheus(f"http://127.0.0.1:{port}")

        def scraped():
            nonlocal process, prometheus
            if process.poll() is not None:
                output = (place / "output").read_text()
                expect("address already in use" in output, f"Prometheus has ended:\n{output[-2000:]}")
                process, prometheus = start()  # another program has taken the port meanwhile
            with contextlib.suppress(OSError, Failure):
                return len(prometheus.query("up == 1")) == wanted

        process, prometheus = start()
        try:
            prometheus.until(scraped, f"Prometheus scrapes {jobs}")
            yield prometheus
        finally:
            process.terminate()
            try:
                process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def self_test(programs):
    import stand_in

    assert faster("x[5m] > 2\n  for: 1h\n  y: 5m", 60) == "x[5000ms] > 2\n  for: 60000ms\n  y: 5m"
    assert faster(RULES.read_text(encoding="utf-8"), 10).count("ms") >= 20
    pages = stand_in.cluster()
    with stand_in.served(pages) as addresses:
        with running(programs, {"service": addresses[:2], "export": addresses[2:]}, speed=30) as prometheus:
            assert {labels["job"] for labels, _ in prometheus.query("holdfast_build_info")} == {"service"}
            assert len(prometheus.query('holdfast_limit{lock="service/db"}')) == 2
            before = time.time()
            prometheus.until('increase(holdfast_acquires_total{outcome="granted"}[2s]) > 5', "slots are granted")
            after = time.time()
            ((_, values),) = prometheus.query_range("sum(holdfast_holds)", before - 1, after, 0.2)
            assert values and all(before - 2 < at <= after for at, _ in values), values
            # An alert fires because something has happened, and only then.
            assert "HoldfastSlotLost" not in prometheus.alerts()
            pages[1].add("holdfast_losses_total", reason="lease_expired", lock="service/db", kind="semaphore")
            labels = prometheus.until_alert("HoldfastSlotLost", lock="service/db")
            assert labels["reason"] == "lease_expired" and labels["severity"] == "critical", labels
            for wrong, why in ((lambda: prometheus.until("holdfast_holds > 99", "99 holds", 0.5), "not in time: 99 holds"),
                               (lambda: prometheus.until_alert("HoldfastSlotLost", 0.5, lock="x"), "not in time"),
                               (lambda: prometheus.query("sum("), "parse error")):
                try:
                    wrong()
                    raise AssertionError(f"no failure: {why}")
                except Failure as failure:
                    assert why in str(failure), failure
        for arguments, why in (({"rules": "groups: 3\n"}, "Prometheus has ended"), ({"programs": "/"}, "no program")):
            try:
                with running(**{"programs": programs, "jobs": addresses, **arguments}):
                    raise AssertionError(f"no failure: {why}")
            except Failure as failure:
                assert why in str(failure), failure
    return 0


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--self-test"] and len(arguments) == 2:
        return self_test(arguments[1])
    if len(arguments) < 2 or arguments[0].startswith("-"):
        asked = arguments in (["-h"], ["--help"])
        print(__doc__.strip(), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    with running(arguments[0], arguments[1:]) as prometheus, contextlib.suppress(KeyboardInterrupt):
        print(prometheus.url, flush=True)
        while True:
            time.sleep(3600)
    return 0


if __name__ == "__main__":
    sys.exit(main())
