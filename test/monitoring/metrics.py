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
PAGE = ROOT / "doc/reference/metrics.md"
ROW = re.compile(r"^\| `(holdfast_\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)
# These may have no samples.
OPTIONAL = {"holdfast_acquire_failures_total", "holdfast_queue_place", "holdfast_client_request_seconds",
            "holdfast_cluster_oldest_hold_seconds", "holdfast_cluster_limit"}  # fmt: skip


def enumerators(path, enum):
    text = re.sub(r"//[^\n]*", "", (ROOT / path).read_text(encoding="utf-8"))
    body = re.search(rf"enum class {enum} \{{(.*?)\}};", text, re.DOTALL)[1]
    return {each.split("=")[0].strip() for each in body.split(",") if each.strip()}


class Metric(NamedTuple):
    type: str
    labels: dict  # for each label the values that it may have; None if it may have any
    is_optional: bool = False


def values_of(name, label):
    if label == "outcome" and name.startswith("holdfast_broker_"):
        return {"ok", "refused", "failed"}
    is_client, client = name.startswith("holdfast_client_"), "include/holdfast/consul/client.hpp"
    if label == "kind" and not is_client:
        return {"semaphore", "mutex", "mutex_set", "election", "rabbitmq_semaphore"}
    if label == "kind":
        return enumerators(client, "request_kind")
    if label == "outcome":
        acquire = {"granted", "denied", "cancelled", "failed"}
        return enumerators(client, "request_outcome") if is_client else acquire
    if label == "reason" and "loss" in name:
        return enumerators("include/holdfast/loss_reason.hpp", "loss_reason")
    if label == "reason":
        return {"other"} | enumerators("include/holdfast/error.hpp", "error")
    return None


def all_metrics():
    """The metrics of the page. `tools/rules/metrics.py` compares the page with the code."""
    found = {}
    for name, kind, labels in ROW.findall(PAGE.read_text(encoding="utf-8")):
        of_each = {label: values_of(name, label) for label in re.findall(r"`(\w+)`", labels)}
        found[name] = Metric(kind, of_each, name in OPTIONAL)
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
