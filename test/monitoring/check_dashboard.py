#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks Grafana's dashboard in doc/monitoring.

usage: check_dashboard.py                        checks its form: the ids, places, units and descriptions of the panels,
                                                 the data source, the variables, and that each metric is in the list of
                                                 metrics.py
       check_dashboard.py --url URL [--strict]   runs each query on the Prometheus at this URL. It fails if a query gives
                                                 no series, or no number. Series that exist only at times may be missing;
                                                 with --strict they may not
       check_dashboard.py --self-test PROMETHEUS shows that both checks are able to fail. PROMETHEUS is the folder that
                                                 scripts/prometheus prints
"""

import copy
import json
import math
import re
import sys
import time

import metrics
import prometheus

DASHBOARD = metrics.ROOT / "doc/monitoring/dashboard.json"
SCHEMA_MIN = 38  # of Grafana 10
SOURCE = "${datasource}"
BUILT_IN = {"__rate_interval", "__interval", "__range", "datasource"}
VARIABLE = re.compile(r"\$(?:\{(\w+)[^}]*\}|(\w+))")
WINDOW = 5  # seconds of $__rate_interval in checks


def read():
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))


def panels(dashboard):
    """All panels that show something."""
    for panel in dashboard["panels"]:
        yield from panel.get("panels", []) if panel["type"] == "row" else [panel]


def filled(expression, window=WINDOW):
    """The expression with all its variables replaced, as if `All` were chosen for each."""
    values = {"__rate_interval": f"{window}s", "__interval": "1s", "__range": f"{window}s"}
    return VARIABLE.sub(lambda found: values.get(found[1] or found[2], ".*"), expression)


def sources(dashboard):
    """(place, data source) of each panel, query and variable."""
    for panel in panels(dashboard):
        yield panel.get("title"), panel.get("datasource")
        for target in panel.get("targets", []):
            yield f"{panel.get('title')}, query {target.get('refId')}", target.get("datasource")
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable.get("datasource")


def is_overlapping(one, other):
    return all(one[at] < other[at] + other[size] and other[at] < one[at] + one[size] for at, size in (("x", "w"), ("y", "h")))


def problems(dashboard):
    """The faults in the form of this dashboard."""
    if dashboard.get("schemaVersion", 0) < SCHEMA_MIN:
        yield f"schemaVersion is not {SCHEMA_MIN} or more"
    if dashboard.get("id") is not None:
        yield "the id must be null, so that Grafana gives one"
    everything = [*dashboard["panels"], *(inner for panel in dashboard["panels"] for inner in panel.get("panels", []))]
    ids = [panel.get("id") for panel in everything]
    if len(set(ids)) != len(ids) or None in ids:
        yield f"the ids of the panels are not unique: {ids}"
    titles = [panel.get("title") for panel in everything]
    for title in titles:
        if not title or titles.count(title) > 1:
            yield f"a title is missing or not unique: {title}"
    for at, panel in enumerate(everything):
        place = panel.get("gridPos", {})
        if not {"x", "y", "w", "h"} <= place.keys() or place["x"] + place["w"] > 24:
            yield f"{panel.get('title')}: not inside the grid: {place}"
            continue
        for other in everything[:at]:
            if other.get("gridPos") and is_overlapping(place, other["gridPos"]):
                yield f"{panel.get('title')} overlaps {other.get('title')}"
    variables = {each["name"]: each for each in dashboard["templating"]["list"]}
    if variables.get("datasource", {}).get("type") != "datasource" or variables["datasource"].get("query") != "prometheus":
        yield "there is no variable for the data source"
    for name in ("lock", "client"):
        if not variables.get(name, {}).get("includeAll"):
            yield f"there is no variable {name} with the choice of all"
    for place, source in sources(dashboard):
        if source != {"type": "prometheus", "uid": SOURCE}:
            yield f"{place}: the data source is not the variable, but {source}"
    used = set()
    for panel in panels(dashboard):
        title = panel.get("title")
        if not panel.get("fieldConfig", {}).get("defaults", {}).get("unit"):
            yield f"{title}: no unit"
        if not panel.get("description"):
            yield f"{title}: no description"
        if not panel.get("targets"):
            yield f"{title}: no query"
        letters = [target["refId"] for target in panel.get("targets", [])]
        if len(set(letters)) != len(letters):
            yield f"{title}: two queries are called alike"
        for target in panel.get("targets", []):
            used |= set(re.findall(r"\bholdfast_\w+", target["expr"]))
            for each in metrics.unknown_in(target["expr"]):
                yield f"{title}: {each} is no metric of the list"
            for each in VARIABLE.finditer(target["expr"]):
                if (each[1] or each[2]) not in BUILT_IN | variables.keys():
                    yield f"{title}: there is no variable {each[0]}"
    for name, variable in variables.items():
        for each in metrics.unknown_in(str(variable.get("definition"))):
            yield f"variable {name}: {each} is no metric of the list"
    for missing in sorted(set(metrics.METRICS) - {metrics.metric_of(name) for name in used}):
        yield f"no panel shows {missing}"


def is_optional(expression, uses_rabbitmq):
    names = [metrics.metric_of(name) for name in re.findall(r"\bholdfast_\w+", expression)]
    return all(metrics.METRICS[name].is_optional or (name.startswith("holdfast_broker_") and not uses_rabbitmq)
               for name in names)  # fmt: skip


def failing_queries(dashboard, server, is_strict=False, window=WINDOW, uses_rabbitmq=False):
    """The queries that give nothing on this Prometheus. `uses_rabbitmq`: the metrics of RabbitMQ must be there, too."""
    now = time.time()
    for panel in panels(dashboard):
        for target in panel["targets"]:
            expression = filled(target["expr"], window)
            where = f"{panel['title']}, query {target['refId']}"
            try:
                found = server.query_range(expression, now - window, now, window / 20)
            except prometheus.Failure as failure:
                yield f"{where}: {failure}"
                continue
            if not any(math.isfinite(value) for _, values in found for _, value in values):
                if is_strict or not is_optional(target["expr"], uses_rabbitmq):
                    yield f"{where}: {'only NaN' if found else 'no series'}: {expression}"


def self_test(programs):
    import stand_in

    good = read()
    assert not list(problems(good)), list(problems(good))

    def fails(change, why):
        changed = copy.deepcopy(good)
        change(changed, list(panels(changed)))
        found = list(problems(changed))
        assert any(why in each for each in found), (why, found)

    fails(lambda d, _: d.update(schemaVersion=30), "schemaVersion")
    fails(lambda d, _: d.update(id=3), "the id must be null")
    fails(lambda _, p: p[1].update(id=p[0]["id"]), "not unique")
    fails(lambda _, p: p[1].pop("id"), "not unique")
    fails(lambda _, p: p[1].update(title=p[0]["title"]), "a title is missing or not unique")
    fails(lambda _, p: p[1]["gridPos"].update(x=7), "overlaps")
    fails(lambda _, p: p[2]["gridPos"].update(w=9), "not inside the grid")
    fails(lambda _, p: p[0]["fieldConfig"]["defaults"].pop("unit"), "no unit")
    fails(lambda _, p: p[0].pop("description"), "no description")
    fails(lambda _, p: p[0].update(targets=[]), "no query")
    fails(lambda _, p: p[0]["targets"][1].update(refId="A"), "called alike")
    fails(lambda _, p: p[0].update(datasource={"type": "prometheus", "uid": "abc"}), "the data source is not the variable")
    fails(lambda _, p: p[0]["targets"][0].pop("datasource"), "the data source is not the variable")
    fails(lambda _, p: p[0]["targets"][0].update(expr="holdfast_held"), "holdfast_held is no metric")
    fails(lambda _, p: p[0]["targets"][0].update(expr='holdfast_holds{lock=~"$locks"}'), "no variable $locks")
    fails(lambda _, p: p[0]["targets"][1].update(expr="up"), "no panel shows holdfast_limit")
    for at, why in ((0, "no variable for the data source"), (1, "no variable lock"), (2, "no variable client")):
        fails(lambda d, _: d["templating"]["list"].pop(at), why)
    fails(lambda d, _: d["templating"]["list"][1].update(definition="label_values(holdfast_x, lock)"), "variable lock: holdfast_x")

    pages = stand_in.cluster()
    with stand_in.served(pages) as addresses, prometheus.running(programs, addresses) as server:
        server.until('sum(increase(holdfast_acquire_failures_total[4s])) > 0 and sum(holdfast_queue_place) > 0', "there are failures")
        server.until(lambda: not list(failing_queries(good, server, True)), "all queries give a number", 10)
        wrong = copy.deepcopy(good)
        first, second = list(panels(wrong))[0]["targets"][:2]
        first["expr"], second["expr"] = 'holdfast_holds{lock="none"}', "sum("
        found = list(failing_queries(wrong, server))
        assert len(found) == 2 and "no series" in found[0] and "parse error" in found[1], found
        first["expr"], second["expr"] = "holdfast_queue_place{lock='none'}", "0 * holdfast_limit / 0"
        found = list(failing_queries(wrong, server))
        assert len(found) == 1 and "only NaN" in found[0], found
        assert len(list(failing_queries(wrong, server, True))) == 2
        # A metric that no endpoint serves any more is noticed.
        for page in pages:
            page.tick = lambda: None
        time.sleep(5 * stand_in.TICK)  # the last tick has ended
        for page in pages:
            page.remove("holdfast_freed_by_proof_total")
        time.sleep(5)
        found = list(failing_queries(good, server, window=2))
        assert any("freed by proof" in each and "no series" in each for each in found), found
    return 0


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--self-test"] and len(arguments) == 2:
        return self_test(arguments[1])
    is_strict = "--strict" in arguments
    arguments = [each for each in arguments if each != "--strict"]
    if arguments and (arguments[0] != "--url" or len(arguments) != 2) or (is_strict and not arguments):
        asked = arguments in (["-h"], ["--help"])
        print(__doc__.strip(), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    dashboard = read()
    if arguments:
        found = list(failing_queries(dashboard, prometheus.Prometheus(arguments[1].rstrip("/")), is_strict))
    else:
        found = list(problems(dashboard))
    queries = sum(len(panel.get("targets", [])) for panel in panels(dashboard))
    print(*found, f"{len(list(panels(dashboard)))} panels, {queries} queries, {len(found)} problems", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
