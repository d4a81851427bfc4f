# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""The goals of the semaphore on RabbitMQ, and the tables of its benchmark, for tools/results.py."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from goals import Goal, at_least, at_most, in_short, number  # noqa: E402


def figure(found, row, name):
    return found.get(row, {}).get(name)


def times(a, b):
    """How many times b is in a. Returns None if either is missing."""
    return a / b if a and b else None


def evaluate(found):
    """`found`: the figures of each measurement, by its name."""
    def handoff(contenders, of=""):
        return figure(found, f"handoff {contenders}/1{of}", "p50_ms")

    seeds = " of seed clients"
    goals = [Goal("cycle: at least 0.95 of the bare loop's operations", figure(found, "cycle", "of_floor"),
                  at_least(0.95), "x")]
    for contenders in (8, 128):
        goals.append(Goal(f"handoff {contenders}/1: p50 at most 8 ms", handoff(contenders), at_most(8), " ms"))
        goals.append(Goal(f"handoff {contenders}/1: p50 at least 5 times as fast as seed clients",
                          times(handoff(contenders, seeds), handoff(contenders)), at_least(5), "x"))
    return [
        *goals,
        Goal("pool 128/4: as many operations as on Consul, within 5 %", figure(found, "pool 128/4", "of_consul"),
             at_least(0.95), "x"),
        Goal("128 waiting processes: at most 2 packets/s each", figure(found, "waiting 128", "packets_per_s"), at_most(2)),
        Goal("100 idle holders: at most 0.7 packets/s each", figure(found, "idle 100", "packets_per_s"), at_most(0.7)),
    ]


def table(heading, rows):
    return "\n".join("| " + " | ".join(line) + " |" for line in [heading, ["---"] * len(heading), *rows])


def cost(results):
    about, found = results["about"], results["figures"]

    def per_second(row, name="ops_per_s"):
        value = figure(found, row, name)
        return "not measured" if value is None else f"{number(value)} /s"

    def gap(row):
        value = figure(found, row, "p50_ms")
        return "not measured" if value is None else f"p50 {number(value, 2)} ms"

    def kilobytes(row, name):
        value = figure(found, row, name)
        return "not measured" if value is None else f"{number(value / 1000, 2)} KB"

    cycle = found.get("cycle", {})
    bare = cycle.get("floor", {}).get("ops_per_s")
    handoffs = [
        [f"handed on between {contenders} processes", gap(f"handoff {contenders}/1"),
         gap(f"handoff {contenders}/1 of seed clients"), ""]
        for contenders in (8, 128)
    ]
    rows = [
        ["acquire and release, alone", f"{number(cycle.get('cycle', {}).get('ops_per_s'))} /s", "",
         f"{number(bare)} /s; ours: {number(100 * cycle.get('of_floor', 0), 2)} % of it (median of the pairs)"],
        *handoffs,
        ["128 coroutines of one process, limit 4", per_second("pool 128/4"), "",
         f"on Consul: {per_second('pool 128/4', 'on_consul')}"],
        ["packets of each of 128 processes that wait", per_second("waiting 128", "packets_per_s"), "", ""],
        ["packets for each of 100 slots held", per_second("idle 100", "packets_per_s"), "", ""],
        ["memory of the client for a slot held", kilobytes("idle 100", "resident_for_each"), "", ""],
    ]
    measured = (f"Measured on {about['date']} at commit {about['commit'][:12]}, on a RabbitMQ {about['broker']} of its own; "
                f"{about['cores']} cores for all together.")
    return table(["", "holdfast", "seed clients", "floor: the same frames, bare"], rows) + "\n\n" + measured


def reached(results):
    every = sorted(evaluate(results["figures"]), key=lambda goal: goal.met is True)
    words = {True: "met", False: "**missed**", None: "not measured"}
    rows = [[words[each.met], each.text, "" if each.value is None else number(each.value) + each.unit] for each in every]
    return f"{in_short(every)}:\n\n" + table(["", "goal", "reached"], rows)


FIGURES = {"cost-rabbitmq": cost, "goals-rabbitmq": reached}
