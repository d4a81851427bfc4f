#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Draws each panel of the dashboard in doc/monitoring into one SVG, from the answers of a running Prometheus. So a test
leaves a picture for people, without Grafana.

usage: draw.py URL FILE [OPTION]...   URL of a Prometheus; FILE is the SVG
         --seconds N                  the last N seconds (60)
         --window N                   what rates are computed of, in seconds (5)
         --mark AT=TEXT               a vertical line, AT seconds before now; may be repeated
       draw.py --self-test

Tests import `draw`.
"""

import html
import itertools
import math
import pathlib
import re
import sys
import time
import xml.etree.ElementTree

import check_dashboard
import prometheus

COLUMN, ROW = 60, 28  # pixels of one cell of Grafana's grid
POINTS = 150  # in each line
COLORS = ("#1f6fb4", "#d9680f", "#2a8f3c", "#b3263a", "#7a52b3", "#8a6a3b", "#c2479a", "#4d4d4d", "#8f9a12", "#0f9aa8")
LEGEND_MAX = 8


def text(x, y, words, size=11, color="#333", **attributes):
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}"{more}>{html.escape(words)}</text>'


def shown(value, unit):
    """A value with its unit, as short as possible."""
    if not math.isfinite(value):
        return "-"
    if unit == "s":
        for factor, name in ((3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs")):
            if value >= 2 * factor or (factor <= 1 and value >= factor):
                return f"{value / factor:.3g} {name}"
        return f"{value:.3g} s"
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    suffix = {"ops": "/s", "reqps": "/s", "Bps": "B/s"}.get(unit, "")
    for factor, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {name}{suffix}"
    return f"{value:.3g}{' ' if suffix == 'B/s' else ''}{suffix}"


def steps_to(highest):
    """Round values from 0 on, the last of them not below this one."""
    if not highest > 0:
        return [0, 1]
    step = 10 ** math.floor(math.log10(highest / 3))
    step *= next(each for each in (1, 2, 5, 10) if each * step * 4 >= highest * 0.999)
    return [each * step for each in range(math.ceil(highest / step * 0.999) + 1)]


def name_of(labels, legend):
    if legend:
        return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: labels.get(found[1], ""), legend)
    return " ".join(f"{name}={value}" for name, value in sorted(labels.items()) if name != "__name__")


def pieces(values, step):
    """The parts of a line between its gaps."""
    piece = []
    for at, value in values:
        if not math.isfinite(value) or (piece and at - piece[-1][0] > 1.5 * step):
            if piece:
                yield piece
            piece = []
        if math.isfinite(value):
            piece.append((at, value))
    if piece:
        yield piece


class Chart:
    """The place of a panel, and the scales of what it shows."""

    def __init__(self, panel, start, end, step):
        place = panel["gridPos"]
        self.panel, self.start, self.end, self.step = panel, start, end, step
        self.unit = panel["fieldConfig"]["defaults"]["unit"]
        self.x, self.y = place["x"] * COLUMN, place["y"] * ROW
        self.width, self.height = place["w"] * COLUMN, place["h"] * ROW
        self.left, self.top, self.right, self.bottom = self.x + 58, self.y + 40, self.x + self.width - 16, self.y + self.height - 56

    def at(self, moment):
        return self.left + (self.right - self.left) * (moment - self.start) / (self.end - self.start)

    def frame(self):
        yield f'<rect x="{self.x + 4}" y="{self.y + 4}" width="{self.width - 8}" height="{self.height - 8}" rx="4" fill="#fff" stroke="#ccc"/>'
        yield text(self.x + 14, self.y + 22, self.panel["title"], 12, "#111", font_weight="bold")
        description = html.escape(self.panel.get("description", ""))
        yield f"<title>{description}</title>"

    def empty(self):
        yield text(self.x + self.width / 2, self.y + self.height / 2, "no data", 13, "#b3263a", text_anchor="middle")

    def moments(self):
        span = self.end - self.start
        step = next((each for each in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600) if span / each <= 6), 3600)
        for number in range(int(span // step) + 1):
            x = self.at(self.start + number * step)
            yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{self.top}" y2="{self.bottom}" stroke="#eee"/>'
            words = f"{number * step} s" if step < 60 else f"{number * step // 60} min"
            yield text(x, self.bottom + 13, words, 9, "#777", text_anchor="middle")

    def marked(self, marks):
        for number, (moment, _) in enumerate(marks, 1):
            if self.start <= moment <= self.end:
                x = self.at(moment)
                yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{self.top}" y2="{self.bottom}" stroke="#b3263a" stroke-dasharray="2,2"/>'
                yield text(x, self.top - 4, str(number), 9, "#b3263a", text_anchor="middle")

    def legend(self, names, dashed):
        x, y = self.x + 14, self.bottom + 29
        for number, name in enumerate(names[:LEGEND_MAX]):
            words = f"{name}" if number < LEGEND_MAX - 1 or len(names) == LEGEND_MAX else f"and {len(names) - number} more"
            width = 26 + 5.6 * len(words)
            if x + width > self.x + self.width - 8 and x > self.x + 14:
                x, y = self.x + 14, y + 13
            dash = ' stroke-dasharray="4,2"' if name in dashed else ""
            yield f'<line x1="{x}" x2="{x + 14}" y1="{y - 3}" y2="{y - 3}" stroke="{COLORS[number % len(COLORS)]}" stroke-width="2.5"{dash}/>'
            yield text(x + 18, y, words, 10)
            x += width

    def lines(self, series):
        """`series`: {name: [(time, value)]}"""
        custom = self.panel["fieldConfig"]["defaults"].get("custom", {})
        is_stacked = custom.get("stacking", {}).get("mode") == "normal"
        is_stepped = custom.get("lineInterpolation") == "stepAfter"
        dashed = {name for name in series for override in self.panel["fieldConfig"].get("overrides", [])
                  if override["matcher"]["id"] == "byRegexp" and re.search(override["matcher"]["options"].strip("/"), name)}
        below = {}  # the height of the stack at each time
        drawn = []
        for name, values in series.items():
            if is_stacked:
                values = [(at, (value if math.isfinite(value) else 0)) for at, value in values]
                drawn.append((name, [(at, below.get(round(at, 3), 0) + value) for at, value in values],
                              [(at, below.get(round(at, 3), 0)) for at, value in values]))
                for at, value in values:
                    below[round(at, 3)] = below.get(round(at, 3), 0) + value
            else:
                drawn.append((name, values, None))
        highest = max((value for _, values, _ in drawn for _, value in values if math.isfinite(value)), default=0)
        ticks = [0, 0.25, 0.5, 0.75, 1] if self.unit == "percentunit" else steps_to(highest)

        def height(value):
            return self.bottom - (self.bottom - self.top) * value / ticks[-1]

        yield from self.moments()
        for tick in ticks:
            yield f'<line x1="{self.left}" x2="{self.right}" y1="{height(tick):.1f}" y2="{height(tick):.1f}" stroke="#ddd"/>'
            yield text(self.left - 5, height(tick) + 3, shown(tick, self.unit) if tick else "0", 9, "#777", text_anchor="end")
        for number, (name, values, floor) in enumerate(drawn):
            color = COLORS[number % len(COLORS)]
            if floor is not None:
                edge = [f"{self.at(at):.1f},{height(value):.1f}" for at, value in [*values, *reversed(floor)]]
                yield f'<polygon points="{" ".join(edge)}" fill="{color}" fill-opacity="0.6"/>'
                continue
            for piece in pieces(values, self.step):
                edge = [(self.at(at), height(value)) for at, value in piece]
                if is_stepped:
                    corners = ([(following[0], before[1]), following] for before, following in itertools.pairwise(edge))
                    edge = [edge[0], *itertools.chain(*corners)]
                dash = ' stroke-dasharray="6,4"' if name in dashed else ""
                if len(piece) == 1:
                    yield f'<circle cx="{edge[0][0]:.1f}" cy="{edge[0][1]:.1f}" r="2" fill="{color}"/>'
                points = " ".join(f"{x:.1f},{y:.1f}" for x, y in edge)
                yield f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.8"{dash}/>'
        yield from self.legend(list(series), dashed)

    def states(self, series):
        """A bar for each series: red where its value is 1."""
        yield from self.moments()
        height = min(24, (self.bottom - self.top) / max(1, len(series)) - 4)
        for number, (name, values) in enumerate(series.items()):
            y = self.top + 4 + number * (height + 4)
            for at, value in values:
                if math.isfinite(value):
                    x, end = self.at(at), min(self.right, self.at(at + self.step) + 0.3)
                    yield f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0, end - x):.1f}" height="{height:.1f}" fill="{"#b3263a" if value else "#8cc59a"}"/>'
            last = values[-1][1] if values else math.nan
            yield text(self.left + 6, y + height / 2 + 4, f"{name}: {'yes' if last else 'no'}", 11, "#111")

    def table(self, answers):
        """`answers`: for each query its present series. A row of the first is completed by those of the others."""
        units = [next((each["properties"][0]["value"] for each in self.panel["fieldConfig"].get("overrides", [])
                       if each["matcher"]["options"] == f"Value #{chr(65 + number)}"), None) for number in range(len(answers))]
        y = self.top + 14
        for labels, value in answers[0] if answers else []:
            words = [f"{name}: {text_}" for name, text_ in sorted(labels.items()) if name not in ("__name__", "job")]
            if len(answers) == 1:
                words.append(shown(value, "short"))
            for unit, others in zip(units[1:], answers[1:]):
                words += [shown(other, unit or "short") for more, other in others
                          if all(labels.get(name) == text_ for name, text_ in more.items() if name != "__name__")]
            yield text(self.x + 16, y, "    ".join(words), 11, "#111", style="white-space:pre")
            y += 17


def draw(server, dashboard, start, end, window=check_dashboard.WINDOW, marks=()):
    """Returns the SVG of all panels of this time. `server` answers as `prometheus.Prometheus`. `marks`: pairs of a time
    and a text. They have numbers in the panels, and their texts stand below."""
    step = (end - start) / POINTS
    parts = []
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        if panel["type"] == "row":
            parts.append(text(place["x"] * COLUMN + 8, place["y"] * ROW + 20, panel["title"], 15, "#111", font_weight="bold"))
            continue
        chart = Chart(panel, start, end, step)
        queries = [(check_dashboard.filled(each["expr"], window), each.get("legendFormat")) for each in panel["targets"]]
        inside = []
        if panel["type"] == "table":
            inside = list(chart.table([server.query(expression) for expression, _ in queries]))
        else:
            series = {}
            for expression, legend in queries:
                for labels, values in server.query_range(expression, start, end, step):
                    name = name_of(labels, legend)
                    series[name if name not in series else f"{name} ({len(series)})"] = values
            if any(math.isfinite(value) for values in series.values() for _, value in values):
                inside = [*(chart.states(series) if panel["type"] == "state-timeline" else chart.lines(series)), *chart.marked(marks)]
        parts += ["<g>", *chart.frame(), *(inside or chart.empty()), "</g>"]
    height = ROW * max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"]) + 8
    for number, (moment, words) in enumerate(marks, 1):
        height += 18
        parts.append(text(12, height, f"{number}: at {moment - start:.1f} s {words}", 12, "#b3263a"))
    height += 8
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {24 * COLUMN} {height}" width="{24 * COLUMN}" height="{height}" '
            f'font-family="sans-serif">\n<rect width="100%" height="100%" fill="#f5f5f5"/>\n' + "\n".join(parts) + "\n</svg>\n")


class Invented:
    """Answers each query with two series. `silent`: the expressions with this text get none."""

    def __init__(self, silent=None):
        self.silent = silent

    def query(self, expression):
        if self.silent and self.silent in expression:
            return []
        return [({"lock": each, "address": f"<{each}>", "version": each}, 3.0) for each in "ab"]

    def query_range(self, expression, start, end, step):
        moments = [start + number * step for number in range(POINTS)]
        values = [(at, math.nan if number == 5 else 0.5 + 0.5 * math.sin(at)) for number, at in enumerate(moments)]
        return [(labels, values[:50] + values[60:]) for labels, _ in self.query(expression)]


def self_test():
    assert [shown(*each) for each in ((0.0042, "s"), (90, "s"), (0.631, "percentunit"), (1500, "reqps"), (math.nan, "s"))] == [
        "4.2 ms", "90 s", "63.1 %", "1.5 k/s", "-"], shown(0.0042, "s")  # fmt: skip
    assert steps_to(3) == [0, 1, 2, 3] and steps_to(0) == [0, 1] and steps_to(0.07)[-1] >= 0.07 and len(steps_to(0.07)) <= 6
    assert [len(each) for each in pieces([(0, 1), (1, 1), (3, 1), (4, math.nan), (5, 1)], 1)] == [2, 1, 1]
    dashboard = check_dashboard.read()
    count = len(list(check_dashboard.panels(dashboard)))
    whole = draw(Invented(), dashboard, 1000, 1060, marks=[(1030, "the agent is frozen")])
    image = xml.etree.ElementTree.fromstring(whole)
    space = "{http://www.w3.org/2000/svg}"
    assert len(image.findall(f"{space}g")) == count and "no data" not in whole
    assert "&lt;a&gt;" in whole and "the agent is frozen" in whole and "nan" not in whole
    first = image.findall(f"{space}g")[0]
    lines = first.findall(f"{space}polyline")
    # Three queries with two series each, and each line has two gaps: at 5, and from 50 to 59.
    assert len(lines) == 18, len(lines)
    lacking = draw(Invented("holdfast_hold_seconds"), dashboard, 1000, 1060)
    assert lacking.count("no data") == 1 and draw(Invented("holdfast"), dashboard, 1000, 1060).count("no data") == count
    return 0


def main():
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        return self_test()
    seconds, window, marks, words = 60.0, check_dashboard.WINDOW, [], []
    now = time.time()
    try:
        while arguments:
            word = arguments.pop(0)
            if word == "--seconds":
                seconds = float(arguments.pop(0))
            elif word == "--window":
                window = int(arguments.pop(0))
            elif word == "--mark":
                before, _, mark = arguments.pop(0).partition("=")
                marks.append((now - float(before), mark))
            elif word.startswith("-"):
                raise ValueError(word)
            else:
                words.append(word)
        url, file = words
    except (ValueError, IndexError):
        asked = sys.argv[1:] in (["-h"], ["--help"])
        print(__doc__.strip(), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    image = draw(prometheus.Prometheus(url.rstrip("/")), check_dashboard.read(), now - seconds, now, window, marks)
    pathlib.Path(file).write_text(image, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
