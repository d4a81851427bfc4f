# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Makes README's tables and the documents' figures from doc/results/bench.json, for tools/results.py."""

import json
import pathlib

import goals
from goals import number
from measurements import ASIO, BEAST, CLUSTER, GO, GO_CHANNEL, GO_KEPT, GO_TODAY, HOLDFAST, TLS, Results

RESULTS = "doc/results/bench.json"


def rate(row, requests=True, size=False):
    if row is None:
        return "not measured"
    parts = [f"{number(row['ops_per_s'])} /s"]
    if requests and row.get("requests_per_op") is not None:
        each = row["requests_per_op"]
        parts.append("no request" if each < 0.01 else f"{number(each, 2)} requests")
    if size and row.get("bytes_per_op"):
        parts.append(f"{number(row['bytes_per_op'] / 1000, 2)} KB")
    return ", ".join(parts)


def memory(row, more=""):
    if row is None:
        return "not measured"
    return f"{number(row['bytes_per_waiter'])} bytes{more} ({number(row['resident_per_waiter'])} resident)"


def table(heading, rows):
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cost(results):
    about, found = results["about"], Results(results["rows"])
    find = found.find

    def floor(*where, **more):
        row = find(where[0], BEAST, *where[1:], **more)
        ours = find(where[0], HOLDFAST, *where[1:], **more)
        part = goals.ratio(ours, row, "ops_per_s")
        return rate(row, requests=False) + ("" if part is None else f"; ours: {100 * part:.0f} % of it")

    def today(workload, contenders=1, **more):
        row = find(workload, GO_TODAY, contenders, **more)
        return f"; today's client: {rate(row)}" if row else ""

    def handoff(words, contenders, **more):
        where = ("handoff", HOLDFAST, contenders)
        peer = find("handoff", GO, contenders, **more)
        go = rate(peer, size=True)
        if peer and peer.get("not_served"):
            go += f" ({peer['not_served']} of them had no turn in its warm-up)"
        go += today("handoff", contenders, **more)
        return [words, rate(find(*where, **more), size=True), go if peer else "", floor("handoff", contenders, **more)]

    pool, asio = find("pool", HOLDFAST, 128, 4), find("pool", ASIO, 128, 4)
    bare = f"{rate(asio, requests=False)} (a semaphore without a cluster)"
    one = table(
        ["one agent, in memory", "holdfast", "HashiCorp's Go client", "floor: the same requests, bare"],
        [
            ["acquire and release, alone", rate(find("cycle")), rate(find("cycle", GO)) + today("cycle"), floor("cycle")],
            ["the same, with `slot_idle_timeout`", rate(find("cycle-idle")), rate(find("cycle", GO)), ""],
            ["128 coroutines of one process, limit 4", rate(pool),
             f"each goroutine a contender: {rate(find('pool', GO, 128, 4))}", bare],
            ["", "", f"four semaphores behind a channel: {rate(find('pool', GO_CHANNEL, 128, 4))}", ""],
            ["", "", "four slots behind a channel, never released: " + rate(find("pool", GO_KEPT, 128, 4)), ""],
            ["alone, over TLS", rate(find("cycle", on=TLS)), "", ""],
            handoff("from process to process: 8 contenders in 8 processes", 8),
            handoff("the same, 128 contenders in 8 processes", 128),
            ["memory of a registered callback that waits", memory(find("waiting", contenders=100_000)), "", ""],
            ["memory of a coroutine that waits", memory(find("waiting-coroutine", contenders=100_000)),
             "a goroutine at such a channel: " + memory(find("waiting", GO_CHANNEL, 100_000)), ""],
            ["memory of a contender that waits, with its session and its connections",
             memory(find("waiting-client", contenders=128)), memory(find("waiting", GO, 128)), ""],
        ],
    )
    parts = [one, measured(about, about["agent"])]
    if about.get("cluster"):
        three = table(
            ["three servers, on disk", "holdfast", "HashiCorp's Go client", "floor: the same requests, bare"],
            [
                ["acquire and release, alone", rate(find("cycle", on=CLUSTER)), rate(find("cycle", GO, on=CLUSTER)),
                 floor("cycle", on=CLUSTER)],
                handoff("from process to process: 8 contenders in 8 processes", 8, on=CLUSTER),
                handoff("the same, 128 contenders in 8 processes", 128, on=CLUSTER),
            ],
        )
        parts += [three, measured(about, about["cluster"])]
    return "\n\n".join(parts)


def cost_in_short(results):
    """Three rows, how many goals are met, and every goal that was missed."""
    about, found = results["about"], Results(results["rows"])
    find = found.find
    asio = f"{rate(find('pool', ASIO, 128, 4), requests=False)} (a semaphore without a cluster)"
    rows = table(
        ["one agent, in memory", "holdfast", "HashiCorp's Go client", "floor"],
        [
            ["acquire and release, alone", rate(find("cycle")), rate(find("cycle", GO)),
             rate(find("cycle", BEAST), requests=False)],
            ["128 coroutines of one process, limit 4", rate(find("pool", HOLDFAST, 128, 4)),
             rate(find("pool", GO, 128, 4)), asio],
            ["128 contenders in 8 processes", rate(find("handoff", HOLDFAST, 128), size=True),
             rate(find("handoff", GO, 128), size=True), rate(find("handoff", BEAST, 128), requests=False)],
        ],
    )
    every = goals.evaluate(found)
    missed = [f"- missed: {goal.text}; reached: {number(goal.value)}{goal.unit}" for goal in every if goal.met is False]
    short = f"{goals.in_short(every)} ({about['date']}, commit {about['commit'][:12]})."
    return "\n\n".join([rows, short, "\n".join(missed)]).strip()


def measured(about, where):
    today = f", and today's, {about['go_client_today']}" if "go_client_today" in about else ""
    rounds = "one round" if about["rounds"] == 1 else f"medians of {about['rounds']} rounds"
    return (
        f"Measured on {about['date']} at commit {about['commit'][:12]}, on {where}. {about['consul']}; Go client "
        f"{about['go_client']}{today}; {about['cores']} cores for all together; {about['compiler']}, `{about['flags']}`, "
        f"Boost {about['boost']}; {rounds}."
    )


def reached(results):
    every = sorted(goals.evaluate(Results(results["rows"])), key=lambda goal: goal.met is True)
    words = {True: "met", False: "**missed**", None: "not measured"}
    values = ["" if each.value is None else number(each.value) + each.unit for each in every]
    rows = [[words[each.met], each.text, value] for each, value in zip(every, values)]
    return f"{goals.in_short(every)}:\n\n" + table(["", "goal", "reached"], rows)


def mutex(results):
    row = Results(results["rows"]).find("mutex", contenders=128)
    requests = number(row.get("requests_per_op"))
    return f"With 128 contenders of a mutex, in 8 processes, a handoff takes {requests} requests in all."


FIGURES = {"cost": cost, "cost-in-short": cost_in_short, "goals": reached, "mutex": mutex}


def self_test():
    """Goals without a measurement are counted in README's sentence, and are neither met nor missed."""
    results = json.loads((pathlib.Path(__file__).resolve().parent.parent / RESULTS).read_text(encoding="utf-8"))
    judged = [goals.Goal("a goal", value, goals.at_most(1)) for value in (1, 2, None, 0)]
    short = goals.in_short(judged)
    assert short == "2 of 4 goals that were set beforehand are met, 1 not measured", short
    short = goals.in_short(judged[:2])
    assert short == "1 of 2 goals that were set beforehand are met", short

    # Without these rows four goals are not measured: that of loss, that of mutex, and the two over TLS.
    gone = (("loss", BEAST), ("mutex", HOLDFAST))
    kept = [row for row in results["rows"] if (row["workload"], row["system"]) not in gone and row.get("on") != TLS]
    for figure in (cost_in_short, reached):
        text = figure({**results, "rows": kept})
        assert " goals that were set beforehand are met, 4 not measured" in text, text
        assert "missed: loss" not in text and "missed: mutex" not in text, text
