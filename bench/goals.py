# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""The goals of holdfast. Each goal compares rows of one run with each other, never with another machine's."""

import math

from measurements import ASIO, BEAST, GO, TLS


def number(x, digits=3):
    """Three significant digits, and a comma between the thousands."""
    if x is None:
        return "-"
    if x == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(x))))
    return f"{round(x, decimals):,.{decimals}f}" if abs(x) < 1000 else f"{x:,.0f}"


def ratio(a, b, name):
    """The figure of a divided by that of b; None if either is missing."""
    if not a or not b or a.get(name) is None or not b.get(name):
        return None
    return a[name] / b[name]


class Goal:
    def __init__(self, text, value, met, unit=""):
        self.text = text
        self.value = value
        self.met = None if value is None else met(value)
        self.unit = unit

    def __str__(self):
        mark = {True: "met", False: "NOT", None: "not measured"}[self.met]
        figure = "" if self.value is None else number(self.value) + self.unit
        return f"{mark:12}  {figure:>12}  {self.text}"


def in_short(every):
    """How many goals are met. A goal without a measurement is not missed, so it is counted separately."""
    met = sum(goal.met is True for goal in every)
    unknown = sum(goal.met is None for goal in every)
    more = f", {unknown} not measured" if unknown else ""
    return f"{met} of {len(every)} goals that were set beforehand are met{more}"


def at_least(n):
    return lambda value: value >= n


def at_most(n):
    return lambda value: value <= n


def figure(row, name):
    return row.get(name) if row else None


def evaluate(results):
    find = results.find
    cycle, go_cycle = find("cycle"), find("cycle", GO)
    pool, crowd = find("pool", contenders=128, limit=4), find("pool", contenders=100_000, limit=4)
    few, many = find("handoff", contenders=8), find("handoff", contenders=128)
    flat = ratio(many, few, "requests_per_op")
    times, x = "x", "cycles/s of the Go client's"
    return [
        Goal(f"cycle: at least 10 x {x}", ratio(cycle, go_cycle, "ops_per_s"), at_least(10), times),
        Goal("cycle: 2 requests", figure(cycle, "requests_per_op"), lambda n: abs(n - 2) < 0.05),
        Goal("cycle: p50 at most 1.3 x the bare loop's",
             ratio(cycle, find("cycle", BEAST), "p50_ms"), at_most(1.3), times),
        Goal("cycle over TLS: p50 at most 1.1 x the plain one's", ratio(find("cycle", on=TLS), cycle, "p50_ms"),
             at_most(1.1), times),
        Goal(f"cycle-idle: at least 1,000 x {x}",
             ratio(find("cycle-idle"), go_cycle, "ops_per_s"), at_least(1000), times),
        Goal(f"pool 128/4: at least 50,000 x {x}, each goroutine a contender",
             ratio(pool, find("pool", GO, 128, 4), "ops_per_s"), at_least(50_000), times),
        Goal("pool 128/4: at least half of the handoffs/s of a bare Asio semaphore",
             ratio(pool, find("pool", ASIO, 128, 4), "ops_per_s"), at_least(0.5), times),
        Goal("pool 128/4 with a rival process: under 0.1 request a cycle",
             figure(find("pool-rival", contenders=128, limit=4), "requests_per_op"), lambda n: n < 0.1),
        Goal("pool 100,000/4: at least half of the handoffs/s at 128",
             ratio(crowd, pool, "ops_per_s"), at_least(0.5), times),
        Goal("pool 100,000/4: at most 3 connections", figure(crowd, "connections"), at_most(3)),
        Goal("100,000 waiting: at most 256 bytes each, beyond the user's frame",
             figure(find("waiting", contenders=100_000), "bytes_per_waiter"), at_most(256)),
        Goal("100,000 waiting: at most 1,024 bytes each, with a spawned coroutine",
             figure(find("waiting-coroutine", contenders=100_000), "bytes_per_waiter"), at_most(1024)),
        Goal("handoff 8/1: at least 10 x the Go client's", ratio(few, find("handoff", GO, 8), "ops_per_s"),
             at_least(10), times),
        Goal("handoff 128/1: at least 100 x the Go client's", ratio(many, find("handoff", GO, 128), "ops_per_s"),
             at_least(100), times),
        Goal("handoff 128/1: at most 4 requests", figure(many, "requests_per_op"), at_most(4)),
        Goal("handoff: requests flat from 8 to 128 (within 25 %)", flat, lambda n: 0.75 <= n <= 1.25, times),
        Goal("mutex 128/1: at most 4 requests", figure(find("mutex", contenders=128), "requests_per_op"), at_most(4)),
        Goal("handoff 128/1: at most 64 KB", figure(many, "bytes_per_op"), at_most(64_000), " B"),
        Goal("handoff: p50 at 128 at most 2 x that at 8", ratio(many, few, "p50_ms"), at_most(2), times),
        Goal("handoff 8/1 over TLS: p50 at most 1.1 x the plain one's",
             ratio(find("handoff", contenders=8, on=TLS), few, "p50_ms"), at_most(1.1), times),
        Goal("mixed: Jain's index of the processes at least 0.95",
             figure(find("mixed", contenders=512), "jain"), at_least(0.95)),
        Goal("mixed: no process waits longer than 3 x the mean",
             figure(find("mixed", contenders=512), "turn_wait_max"), at_most(3), times),
        Goal("loss: p99 at most 2 x a bare blocking query's", ratio(find("loss"), find("loss", BEAST), "p99_ms"),
             at_most(2), times),
    ]
