#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""The metrics of holdfast: their names, types and labels. Reads the text that an endpoint serves.

usage: metrics.py [--promtool PROMETHEUS] FILE...
                               checks that these texts have only metrics of the list, in the form of the list. A FILE may
                               be an http:// URL, or - for the standard input. With --promtool, promtool checks them, too:
                               PROMETHEUS is the folder that scripts/prometheus prints
       metrics.py --list       prints the names
       metrics.py --self-test  shows that the check is able to fail
"""

import pathlib
import re
import subprocess
import sys
import urllib.request
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = {"semaphore", "mutex", "mutex_set", "election", "rabbitmq_semaphore"}
REQUESTS = {"kv_read", "kv_write", "txn", "session_create", "session_renew", "session_destroy", "session_read",
            "node_write", "node_read"}  # fmt: skip


def enumerators(path, enum):
    text = re.sub(r"//[^\n]*", "", (ROOT / path).read_text(encoding="utf-8"))
    body = re.search(rf"enum class {enum} \{{(.*?)\}};", text, re.DOTALL)[1]
    return {each.split("=")[0].strip() for each in body.split(",") if each.strip()}


class Metric(NamedTuple):
    type: str
    labels: dict  # for each label the values that it may have; None if it may have any
    is_optional: bool = False


def all_metrics():
    lock = {"lock": None, "kind": KINDS}
    client, prefix = {"client": None}, {"prefix": None}
    acquire = {"granted", "denied", "cancelled", "failed"}
    request = {"ok", "refused", "failed", "cancelled"}
    found = {
        "holdfast_build_info": Metric("gauge", {"version": None}),
        "holdfast_acquires_total": Metric("counter", {**lock, "outcome": acquire}),
        "holdfast_acquire_failures_total": Metric(
            "counter", {**lock, "reason": enumerators("include/holdfast/error.hpp", "error")}, True),
        "holdfast_losses_total": Metric(
            "counter", {**lock, "reason": enumerators("include/holdfast/loss_reason.hpp", "loss_reason")}),
        "holdfast_queue_place": Metric("gauge", lock, True),
        "holdfast_client_requests_total": Metric("counter", {**client, "kind": REQUESTS, "outcome": request}),
        "holdfast_client_request_seconds": Metric("histogram", {**client, "kind": REQUESTS}),
        "holdfast_client_connections": Metric("gauge", client),
        "holdfast_client_agent_info": Metric("gauge", {**client, "address": None}),
        "holdfast_client_agent_change_timestamp_seconds": Metric("gauge", client),
        "holdfast_cluster_oldest_hold_seconds": Metric("gauge", prefix, True),
    }  # fmt: skip
    for name in ("handoffs", "revocations", "freed_by_proof", "renewal_failures"):
        found[f"holdfast_{name}_total"] = Metric("counter", lock)
    for name in ("holds", "suspect_holds", "waiters", "sessions", "limit"):
        found[f"holdfast_{name}"] = Metric("gauge", lock)
    for name in ("wait_seconds", "hold_seconds", "renewal_seconds", "lease_left_ratio"):
        found[f"holdfast_{name}"] = Metric("histogram", lock)
    for name in ("sent_bytes", "received_bytes", "connections_opened", "connections_refused"):
        found[f"holdfast_client_{name}_total"] = Metric("counter", client)
    for name in ("limit", "holders", "waiters", "closed", "read_success"):
        found[f"holdfast_cluster_{name}"] = Metric("gauge", prefix)
    return found


METRICS = all_metrics()


def metric_of(series):
    """The name of the metric to which a series of this name belongs, or None if there is no such metric."""
    for suffix in ("_bucket", "_sum", "_count"):
        name = series.removesuffix(suffix)
        if name != series and name in METRICS and METRICS[name].type == "histogram":
            return name
    return series if series in METRICS and METRICS[series].type != "histogram" else None


def unknown_in(expression):
    """The names in an expression that belong to no metric of the list."""
    return sorted(name for name in set(re.findall(r"\bholdfast_\w+", expression)) if metric_of(name) is None)


class Sample(NamedTuple):
    name: str
    labels: dict
    value: float


def parse(text):
    """The samples of a text in Prometheus' format, and the type of each metric."""
    samples, types = [], {}
    for line in text.splitlines():
        if typed := re.fullmatch(r"# TYPE (\S+) (\S+)", line):
            types[typed[1]] = typed[2]
        if not line.strip() or line.startswith("#"):
            continue
        found = re.fullmatch(r'([a-zA-Z_:][\w:]*)(?:\{((?:\w+="(?:\\.|[^"\\])*",?)*)\})? (\S+)(?: -?\d+)?', line)
        if not found:
            raise ValueError(f"not in Prometheus' format: {line}")
        labels = {name: re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], value)
                  for name, value in re.findall(r'(\w+)="((?:\\.|[^"\\])*)"', found[2] or "")}
        samples.append(Sample(found[1], labels, float(found[3])))
    return samples, types


def problems(text, needed=()):
    """How this text differs from the list. `needed`: the beginnings of the names that may not be missing."""
    samples, types = parse(text)
    seen = set()
    for sample in samples:
        name = metric_of(sample.name)
        where = f"{sample.name}{sample.labels}"
        if not sample.name.startswith("holdfast_"):
            continue
        if name is None:
            yield f"{where}: no metric of the list"
            continue
        seen.add(name)
        metric = METRICS[name]
        if types.get(name) != metric.type:
            yield f"{where}: the type is {types.get(name)}, not {metric.type}"
        wanted = set(metric.labels) | ({"le"} if sample.name == f"{name}_bucket" else set())
        if set(sample.labels) != wanted:
            yield f"{where}: the labels are not {sorted(wanted)}"
        for label, values in metric.labels.items():
            if values and sample.labels.get(label) not in values:
                yield f"{where}: no such {label}"
    if not seen:
        yield "there is no metric of holdfast"
    for name, metric in METRICS.items():
        if name.startswith(tuple(needed)) and not metric.is_optional and name not in seen:
            yield f"{name} is missing"


def promtool_problems(programs, text):
    """The complaints of `promtool check metrics` about this text."""
    program = pathlib.Path(programs) / "promtool"
    run = subprocess.run([program, "check", "metrics"], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, timeout=60)  # fmt: skip
    if run.returncode:
        yield f"promtool: status {run.returncode}: {run.stdout.strip()}"


def read(source):
    if source == "-":
        return sys.stdin.read()
    if source.startswith("http://"):
        with urllib.request.urlopen(source, timeout=10) as answer:
            return answer.read().decode()
    return pathlib.Path(source).read_text(encoding="utf-8")


def self_test():
    good = ('# TYPE holdfast_holds gauge\nholdfast_holds{lock="a\\"},b",kind="mutex"} 1\n'
            '# TYPE holdfast_losses_total counter\nholdfast_losses_total{lock="a",kind="mutex",reason="removed"} 0\n'
            '# TYPE holdfast_wait_seconds histogram\nholdfast_wait_seconds_bucket{lock="a",kind="mutex",le="+Inf"} 2\n'
            'holdfast_wait_seconds_sum{lock="a",kind="mutex"} 0.5\nholdfast_wait_seconds_count{lock="a",kind="mutex"} 2\n'
            "# TYPE other gauge\nother 3\n")
    assert not list(problems(good)), list(problems(good))
    assert parse(good)[0][0] == Sample("holdfast_holds", {"lock": 'a"},b', "kind": "mutex"}, 1)
    for old, new, why in ((" gauge\n", " counter\n", "the type is"), ('kind="mutex"} 1', 'kind="lock"} 1', "no such kind"),
                          (',reason="removed"', "", "labels"), ("holdfast_holds{", "holdfast_hold{", "no metric"),
                          ("seconds_bucket", "seconds", "no metric"), ("removed", "gone", "no such reason"),
                          (',le="+Inf"', "", "labels"), ("holdfast_", "x_", "there is no metric")):
        found = list(problems(good.replace(old, new)))
        assert any(why in each for each in found), (old, new, found)
    assert any("holdfast_limit is missing" in each for each in problems(good, ["holdfast_l"]))
    assert not any("queue_place" in each for each in problems(good, ["holdfast_"]))
    assert unknown_in("rate(holdfast_wait_seconds_bucket[5m]) + holdfast_holds / holdfast_wait_seconds + x") == ["holdfast_wait_seconds"]
    try:
        parse("holdfast_holds{lock=a} 1")
        raise AssertionError("a line without quotes was read")
    except ValueError:
        pass
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:] == ["--list"]:
        print(*sorted(METRICS), sep="\n")
        return 0
    arguments, programs = sys.argv[1:], None
    if arguments[:1] == ["--promtool"] and len(arguments) > 2:
        programs, arguments = arguments[1], arguments[2:]
    if not arguments or (arguments[0].startswith("-") and arguments[0] != "-"):
        asked = sys.argv[1:] in (["-h"], ["--help"])
        print(__doc__.strip(), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    found = []
    for source in arguments:
        text = read(source)
        found += [f"{source}: {each}" for each in problems(text)]
        found += [f"{source}: {each}" for each in promtool_problems(programs, text)] if programs else []
    print(*found, f"{len(found)} differences to the list", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
