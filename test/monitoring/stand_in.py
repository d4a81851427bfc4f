#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Serves all metrics of holdfast with invented values that move, as some processes and `holdfast export` would.

With it, the tests try the dashboard, the alerts and their own checks without a process that uses the library.

usage: stand_in.py                         serves until it is interrupted, and prints the URLs
       stand_in.py --text                  prints what each endpoint serves after a while
       stand_in.py --self-test PROMETHEUS  shows that promtool, too, accepts the texts, and that missing metrics are
                                           noticed. PROMETHEUS is the folder that scripts/prometheus prints
"""

import contextlib
import http.server
import random
import sys
import threading
import time

import metrics

TICK = 0.05  # seconds
BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 60)
RATIOS = tuple(each / 10 for each in range(1, 11))

REQUESTS = metrics.METRICS["holdfast_client_requests_total"].labels["kind"]


class Page:
    """The samples of one endpoint."""

    def __init__(self):
        self.values, self.lock = {}, threading.Lock()

    def set(self, name, value, **labels):
        with self.lock:
            self.values[name, tuple(sorted(labels.items()))] = value

    def add(self, name, value=1, **labels):
        with self.lock:
            key = name, tuple(sorted(labels.items()))
            self.values[key] = self.values.get(key, 0) + value

    def remove(self, name):
        with self.lock:
            self.values = {key: value for key, value in self.values.items() if metrics.metric_of(key[0]) != name}

    def observe(self, name, value=None, buckets=BUCKETS, **labels):
        """Adds a value to a histogram. Without a value, the histogram is made."""
        for bound in (*buckets, "+Inf"):
            is_below = value is not None and (bound == "+Inf" or value <= bound)
            self.add(f"{name}_bucket", int(is_below), le=str(bound), **labels)
        self.add(f"{name}_sum", value or 0, **labels)
        self.add(f"{name}_count", int(value is not None), **labels)

    def text(self):
        with self.lock:
            values = dict(self.values)
        lines, last = [], None
        for name in metrics.METRICS:
            for (series, labels), value in values.items():
                if metrics.metric_of(series) != name:
                    continue
                if name != last:
                    lines += [f"# HELP {name} Invented.", f"# TYPE {name} {metrics.METRICS[name].type}"]
                    last = name
                inside = ",".join(f'{label}="{text}"' for label, text in labels)
                lines.append(f"{series}{{{inside}}} {value:.15g}" if inside else f"{series} {value:.15g}")
        return "\n".join(lines) + "\n"


class Process(Page):
    """Two locks and a client of one process."""

    def __init__(self, number):
        super().__init__()
        self.dice, self.number = random.Random(number), number
        self.locks = [{"lock": "service/db", "kind": "semaphore"}, {"lock": "service/leader", "kind": "election"}]
        self.client = {"client": "main"}
        self.set("holdfast_build_info", 1, version="0.0.0")
        for lock in self.locks:
            for outcome in ("granted", "denied", "cancelled", "failed"):
                self.add("holdfast_acquires_total", 0, outcome=outcome, **lock)
            for reason in sorted(metrics.METRICS["holdfast_losses_total"].labels["reason"] - {"none"}):
                self.add("holdfast_losses_total", 0, reason=reason, **lock)
            for name in ("handoffs", "revocations", "freed_by_proof", "renewal_failures"):
                self.add(f"holdfast_{name}_total", 0, **lock)
            for name in ("holds", "suspect_holds", "waiters"):
                self.set(f"holdfast_{name}", 0, **lock)
            self.set("holdfast_sessions", 1, **lock)
            self.set("holdfast_limit", 4 if lock["kind"] == "semaphore" else 1, **lock)
            for name in ("wait_seconds", "hold_seconds", "renewal_seconds"):
                self.observe(f"holdfast_{name}", **lock)
            self.observe("holdfast_lease_left_ratio", buckets=RATIOS, **lock)
        for kind in sorted(REQUESTS):
            for outcome in ("ok", "refused", "failed", "cancelled"):
                self.add("holdfast_client_requests_total", 0, kind=kind, outcome=outcome, **self.client)
            self.observe("holdfast_client_request_seconds", kind=kind, **self.client)
        for name in ("http_requests", "http_writes", "sent_bytes", "received_bytes", "connections_opened", "connections_refused",
                     "tokens_unknown"):
            self.add(f"holdfast_client_{name}_total", 0, **self.client)
        for outcome in ("ok", "refused", "failed"):
            self.add("holdfast_broker_requests_total", 0, outcome=outcome, client="broker")
        for name in ("opened", "failed"):
            self.add(f"holdfast_broker_connections_{name}_total", 0, client="broker")
        self.set("holdfast_broker_connections", 3, client="broker")
        self.set("holdfast_broker_alarm", 0, client="broker")
        self.set("holdfast_broker_info", 1, address="amqp://10.0.0.9:5672", client="broker")
        self.set("holdfast_client_connections", 4, **self.client)
        self.set("holdfast_client_agent_info", 1, address="10.0.0.1:8500", **self.client)
        self.set("holdfast_client_agent_change_timestamp_seconds", time.time(), **self.client)

    def tick(self):
        draw = self.dice.random
        for lock in self.locks:
            self.set("holdfast_holds", 1 if lock["kind"] == "semaphore" or self.number == 0 else 0, **lock)
            waiters = int(draw() * 4)
            self.set("holdfast_waiters", waiters, **lock)
            self.remove_place(lock) if not waiters else self.set("holdfast_queue_place", 1 + int(draw() * 5), **lock)
            outcome = "granted" if draw() < 0.9 else self.dice.choice(["denied", "cancelled", "failed"])
            self.add("holdfast_acquires_total", outcome=outcome, **lock)
            if outcome == "failed":
                self.add("holdfast_acquire_failures_total", reason="timed_out", **lock)
            for name, mean in (("wait_seconds", 0.3), ("hold_seconds", 2), ("renewal_seconds", 0.004)):
                self.observe(f"holdfast_{name}", self.dice.expovariate(1 / mean), **lock)
            self.observe("holdfast_lease_left_ratio", 0.63 - draw() / 10, buckets=RATIOS, **lock)
            if draw() < 0.02:
                self.add("holdfast_freed_by_proof_total", **lock)
            if draw() < 0.3:
                self.add("holdfast_handoffs_total", **lock)
        for kind in REQUESTS:
            self.add("holdfast_client_requests_total", kind=kind, outcome="ok" if draw() < 0.97 else "failed", **self.client)
            self.observe("holdfast_client_request_seconds", self.dice.expovariate(1 / 0.003), kind=kind, **self.client)
            self.add("holdfast_client_http_requests_total", **self.client)
            self.add("holdfast_client_http_writes_total", **self.client)
            self.add("holdfast_client_sent_bytes_total", 300, **self.client)
            self.add("holdfast_client_received_bytes_total", 800, **self.client)

    def remove_place(self, lock):
        with self.lock:
            self.values.pop(("holdfast_queue_place", tuple(sorted(lock.items()))), None)


class Export(Page):
    """The program `holdfast export` with one prefix."""

    def __init__(self):
        super().__init__()
        self.begun, self.prefix = time.monotonic(), {"prefix": "service/db"}
        self.tick()

    def tick(self):
        for name, value in (("limit", 4), ("holders", 2), ("waiters", 3), ("dead_holders", 0), ("closed", 0),
                            ("read_success", 1)):
            self.set(f"holdfast_cluster_{name}", value, **self.prefix)
        self.set("holdfast_cluster_oldest_hold_seconds", time.monotonic() - self.begun, **self.prefix)


@contextlib.contextmanager
def served(pages):
    """Serves each of these pages on a port of its own of loopback, and lets them tick. Gives their addresses."""
    end, servers, threads = threading.Event(), [], []

    def handler(page):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = page.text().encode()
                self.send_response(200 if self.path == "/metrics" else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        return Handler

    def tick():
        while not end.wait(TICK):
            for page in pages:
                if hasattr(page, "tick"):
                    page.tick()

    try:
        for page in pages:
            servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(page)))
        threads = [threading.Thread(target=each.serve_forever, args=(0.05,)) for each in servers] + [threading.Thread(target=tick)]
        for each in threads:
            each.start()
        yield [f"127.0.0.1:{each.server_address[1]}" for each in servers]
    finally:
        end.set()
        for each in servers:
            if threads:
                each.shutdown()
            each.server_close()
        for each in threads:
            each.join()


def cluster(processes=2):
    return [*(Process(number) for number in range(processes)), Export()]


def self_test(programs):
    pages = cluster()
    with served(pages) as addresses:
        time.sleep(10 * TICK)
        texts = [metrics.read(f"http://{each}/metrics") for each in addresses]
    needed = (["holdfast_build", "holdfast_a", "holdfast_client", "holdfast_wait"],) * 2 + (["holdfast_cluster"],)
    for text, names in zip(texts, needed):
        assert not list(metrics.problems(text, names)), list(metrics.problems(text, names))
        assert not list(metrics.promtool_problems(programs, text)), list(metrics.promtool_problems(programs, text))
    without_help = texts[0].replace("# HELP holdfast_holds Invented.\n", "")
    found = list(metrics.promtool_problems(programs, without_help))
    assert len(found) == 1 and "holdfast_holds no help text" in found[0], found
    together = {metrics.metric_of(each.name) for text in texts for each in metrics.parse(text)[0]}
    assert not set(metrics.METRICS) - together - {"holdfast_queue_place", "holdfast_acquire_failures_total"}, together
    pages[0].remove("holdfast_limit")
    assert any("holdfast_limit is missing" in each for each in metrics.problems(pages[0].text(), ["holdfast_limit"]))
    return 0


def main():
    if sys.argv[1:2] == ["--self-test"] and len(sys.argv) == 3:
        return self_test(sys.argv[2])
    if sys.argv[1:] not in ([], ["--text"]):
        print(__doc__.strip(), file=sys.stdout if sys.argv[1:] in (["-h"], ["--help"]) else sys.stderr)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    with served(cluster()) as addresses:
        if sys.argv[1:]:
            time.sleep(1)
            print(*(metrics.read(f"http://{each}/metrics") for each in addresses), sep="", end="")
            return 0
        print(*(f"http://{each}/metrics" for each in addresses), sep="\n", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
