# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""The table on the terminal, and report.html. That file contains its charts as SVG, and loads nothing."""

import html as escape_html
import math

from goals import in_short, number
from measurements import ASIO, BEAST, FLOORS, GO, GO_CHANNEL, GO_KEPT, GO_TODAY, HOLDFAST, LOCK, PEERS, PLACES, WRK

ROUNDED = ("ops_per_s", "p50_ms", "p99_ms", "requests_per_op", "bytes_per_op")
QUANTILES = ("1 %", "5 %", "10 %", "25 %", "50 %", "75 %", "90 %", "95 %", "99 %", "99.9 %", "max")
NAMES = {HOLDFAST: "holdfast", GO: "Go client", GO_TODAY: "Go client, today", LOCK: "consul lock"}
NAMES |= {GO_CHANNEL: "Go, a channel", GO_KEPT: "Go, slots kept"}
NAMES |= {BEAST: "bare requests", ASIO: "bare Asio", WRK: "wrk"}
assert set(NAMES) == {HOLDFAST, *PEERS, *FLOORS}, "a system without a name"

SMOKE = "A smoke run: each row had a moment and few contenders, and its figures say nothing."


def summary(row):
    if row.get("bytes_per_waiter") is not None and row.get("ops_per_s") is None:
        return f"{number(row['bytes_per_waiter'])} bytes each"
    rate = f"{number(row['ops_per_s'])}/s, " if row.get("ops_per_s") is not None else ""
    errors = f", {row['errors']} ERRORS" if row.get("errors") else ""
    return f"{rate}p50 {number(row.get('p50_ms'))} ms{errors}"


LEGEND = """Times: in cycle of an acquire and a release; in pool, local and mixed from asking for a slot to getting it; in
handoff from one's release to the next one's acquire; in open-loop from arrival to slot; in loss from the end of the
session to the notice. Contenders of handoff, mutex and mixed are spread over up to 8 processes; of all other workloads
they are in one. The floor of a handoff is the library's own transaction and the wake-up by it, sent on two connections
in turn. Bytes are those on the wire, both ways; the Go client asks for compressed replies. "of floor" and
"of peer" are our rate over theirs; where there is no rate, their p50 over ours."""

HEADINGS = ("workload", "contenders", "limit", "processes", "system", "ops/s", "p50 ms", "p99 ms",
            "requests/op", "bytes/op", "Jain", "bytes/waiter", "of floor", "of peer", "limit held")


def share(ours, other):
    """Our rate as a multiple of the other's. If there is no rate, the other's median time as a multiple of ours."""
    for name, top, bottom in (("ops_per_s", ours, other), ("p50_ms", other, ours)):
        if other and other is not ours and top.get(name) is not None and bottom.get(name):
            return number(top[name] / bottom[name]) + "x"
    return "-"


def cells(results):
    for row in results.rows:
        ours = row["system"] == HOLDFAST
        rate = f" {row['rate']:g}/s" if row.get("rate") else ""
        held = {True: "yes", False: "NO", None: "-"}[row.get("limit_held")]
        yield (row["workload"] + rate + PLACES[row.get("on")], f"{row['contenders']:,}", str(row["limit"]),
               str(row.get("processes", "-")), row["system"],
               *(number(row.get(name)) for name in (*ROUNDED, "jain", "bytes_per_waiter")),
               share(row, results.floor(row)) if ours else "", share(row, results.peer(row)) if ours else "", held)


def table(results):
    lines = [HEADINGS, *cells(results)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADINGS))]
    left = (0, 4)

    def aligned(line):
        pairs = enumerate(zip(line, widths))
        return "  ".join(cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in pairs).rstrip()

    return "\n".join(map(aligned, lines))


def printed(results, goals, rounds, smoke=False):
    """The text that run.py prints last."""
    about = SMOKE if smoke else f"Goals (medians of {rounds} rounds, fewer where they were left out):"
    return "\n\n".join([table(results), LEGEND, "\n".join([about, *map(str, goals), in_short(goals) + "."])])


# --- SVG

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 340, 64, 16, 34, 62


class Axis:
    """Maps values to pixels, on a linear or a logarithmic scale, and places the ticks."""

    def __init__(self, values, pixels, log):
        self.log = log
        self.pixels = pixels
        values = [v for v in values if v is not None and (v > 0 or not log)] or [1]
        if log:
            self.low, self.high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
            self.high = max(self.high, self.low + 1)
        else:
            self.low, self.high = 0, 1.05 * max(values)

    def at(self, value):
        position = math.log10(value) if self.log else value
        begin, end = self.pixels
        return begin + (position - self.low) / (self.high - self.low) * (end - begin)

    def ticks(self):
        if self.log:
            return [10.0**e for e in range(self.low, self.high + 1)]
        return [self.high * i / 5 / 1.05 for i in range(6)]


def short(x):
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= limit:
            return f"{x / limit:g}{suffix}"
    return f"{x:.3g}"


def text(x, y, words, anchor="middle", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape_html.escape(str(words))}</text>'


def frame(title, y_label, x_label, y_axis, x_ticks):
    """Title, grid and labels. `x_ticks` are pairs of a pixel and a text."""
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [text(LEFT, 18, f"{title}", "start", ' class="title"')]
    for tick in y_axis.ticks():
        y = y_axis.at(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(LEFT - 6, y + 4, short(tick), "end"))
    for x, words in x_ticks:
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>')
        parts.append(text(x, bottom + 16, words))
    parts.append(text((LEFT + right) / 2, bottom + 34, x_label))
    middle = (TOP + bottom) / 2
    parts.append(text(14, middle, y_label, "middle", f' transform="rotate(-90 14 {middle})"'))
    return parts


def legend(systems):
    """Below the plot, side by side."""
    step = (WIDTH - LEFT - RIGHT) / max(len(systems), 4)
    parts = []
    for i, system in enumerate(systems):
        x, y = LEFT + i * step, HEIGHT - 6
        parts.append(f'<rect class="{system} fill" x="{x:.1f}" y="{y - 8}" width="14" height="8"/>')
        parts.append(text(x + 18, y, NAMES[system], "start"))
    return parts


def svg(parts):
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>'


def lines(title, y_label, x_label, series, log_y=True, categories=None):
    """`series` is {system: [(x, y), ...]}. x is a value on a logarithmic scale, or a position in `categories`."""
    series = {system: points for system, points in series.items() if points}
    if not series:
        return ""
    ys = [y for points in series.values() for _, y in points] + ([] if log_y else [1])
    y_axis = Axis(ys, (HEIGHT - BOTTOM, TOP), log_y)
    xs = sorted({x for points in series.values() for x, _ in points})
    if categories:
        spread = (WIDTH - RIGHT - LEFT - 40) / (len(categories) - 1)
        place = lambda x: LEFT + 20 + x * spread  # noqa: E731
        x_ticks = [(place(i), words) for i, words in enumerate(categories)]
    else:
        axis = Axis(xs, (LEFT + 20, WIDTH - RIGHT - 20), True)
        axis.low, axis.high = math.log10(xs[0]), math.log10(xs[-1]) if xs[-1] > xs[0] else math.log10(xs[0]) + 1
        place = axis.at
        x_ticks = [(place(x), f"{x:,}") for x in xs]
    parts = frame(title, y_label, x_label, y_axis, x_ticks)
    for system, points in series.items():
        dots = [(place(x), y_axis.at(y)) for x, y in sorted(points) if y > 0 or not log_y]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        parts.append(f'<polyline class="{system} stroke" points="{path}"/>')
        parts += [f'<circle class="{system} fill" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in dots]
    return svg(parts + legend(list(series)))


def bars(title, y_label, entries):
    """`entries` are (system, text, value). A value that is not positive has no place on the axis and is left out."""
    entries = [entry for entry in entries if entry[2] is not None and entry[2] > 0]
    if not entries:
        return ""
    y_axis = Axis([value for _, _, value in entries], (HEIGHT - BOTTOM, TOP), True)
    step = (WIDTH - LEFT - RIGHT) / len(entries)
    places = [LEFT + (i + 0.5) * step for i in range(len(entries))]
    parts = frame(title, y_label, "", y_axis, [(x, words) for x, (_, words, _) in zip(places, entries)])
    for x, (system, _, value) in zip(places, entries):
        y = y_axis.at(value)
        height = HEIGHT - BOTTOM - y
        parts.append(f'<rect class="{system} fill" x="{x - 28:.1f}" y="{y:.1f}" width="56" height="{height:.1f}"/>')
        parts.append(text(x, y - 5, number(value)))
    return svg(parts + legend(list(dict.fromkeys(system for system, _, _ in entries))))


# --- The report

def by_contenders(results, workload, name, limit, systems):
    series = {system: [] for system in systems}
    for row in results.rows:
        if (row["workload"], row["limit"]) != (workload, limit) or row.get(name) is None or row.get("on"):
            continue
        if row["system"] in series:
            series[row["system"]].append((row["contenders"], row[name]))
    return series


def distribution(results, title, **where):
    series = {}
    for row in results.rows:
        is_it = all(row.get(name) == value for name, value in where.items())
        if is_it and row.get("distribution") and not row.get("on"):
            series[row["system"]] = list(enumerate(row["distribution"]))
    return lines(title, "milliseconds", "share of the samples that took at most this", series, True, QUANTILES)


def charts(results):
    ours = (HOLDFAST, *PEERS)
    many = "contenders, each a client of its own, in up to 8 processes"
    for limit in (1, 4):
        handoffs = by_contenders(results, "handoff", "ops_per_s", limit, (*ours, BEAST))
        yield lines(f"Handoffs between processes, limit {limit}", "handoffs/s", many, handoffs)
    for limit in (1, 4):
        yield lines(f"Coroutines of one process, limit {limit}", "handoffs/s", "coroutines",
                    by_contenders(results, "pool", "ops_per_s", limit, (*ours, ASIO)))
    yield lines("What a handoff costs, limit 1: requests", "requests", many,
                by_contenders(results, "handoff", "requests_per_op", 1, ours))
    yield lines("What a handoff costs, limit 1: bytes", "bytes", many,
                by_contenders(results, "handoff", "bytes_per_op", 1, ours))
    yield distribution(results, "Acquire and release, alone", workload="cycle")
    yield distribution(results, "From release to the next acquire, 8 contenders in 8 processes",
                       workload="handoff", contenders=8, limit=1)
    yield distribution(results, "The same, 128 contenders in 8 processes", workload="handoff", contenders=128, limit=1)
    yield distribution(results, "From arrival to slot, 100 arrivals/s, 8 clients in one process",
                       workload="open-loop", rate=100)
    yield distribution(results, "From a session's end to the loss", workload="loss")
    yield lines("Fairness: Jain's index, limit 1", "1: all get the same", many,
                by_contenders(results, "handoff", "jain", 1, ours), log_y=False)
    yield bars("Memory of one who waits", "bytes", memory(results))


def memory(results):
    for workload, system, words in (
        ("waiting", HOLDFAST, "callback"),
        ("waiting-coroutine", HOLDFAST, "coroutine"),
        ("waiting", GO_CHANNEL, "at a channel"),
        ("waiting-client", HOLDFAST, "client"),
        ("waiting", GO, "contender"),
    ):
        for row in results.rows:
            if (row["workload"], row["system"]) == (workload, system):
                yield system, f"{words} ({row['contenders']:,})", row.get("bytes_per_waiter")


STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --grid: #d8dee4; --ours: #0a66c2; --go: #c2410c;
  --lock: #a16207; --floor: #6b7280; --good: #15803d; --bad: #b91c1c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --paper: #14171b; --grid: #333a42; --ours: #5aa9f5;
  --go: #fb923c; --lock: #facc15; --floor: #9ca3af; --good: #4ade80; --bad: #f87171; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2em auto;
  max-width: 1180px; padding: 0 1em; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(460px, 1fr)); gap: 1em; }
figure { margin: 0; } svg { width: 100%; height: auto; } svg text { font-size: 11px; fill: var(--ink); }
svg .title { font-size: 14px; font-weight: 600; }
.grid { stroke: var(--grid); stroke-width: 1; } .stroke { fill: none; stroke-width: 2; }
.holdfast.fill { fill: var(--ours); } .holdfast.stroke { stroke: var(--ours); }
.consul-go.fill { fill: var(--go); } .consul-go.stroke { stroke: var(--go); }
.consul-go-today.fill { fill: var(--go); } .consul-go-today.stroke { stroke: var(--go); stroke-dasharray: 4 3; }
.consul-go-channel.fill { fill: var(--lock); } .consul-go-channel.stroke { stroke: var(--lock); }
.consul-go-kept.fill { fill: var(--bad); } .consul-go-kept.stroke { stroke: var(--bad); }
.consul-lock.fill { fill: var(--lock); } .consul-lock.stroke { stroke: var(--lock); }
[class^=floor].fill { fill: var(--floor); } [class^=floor].stroke { stroke: var(--floor); stroke-dasharray: 5 4; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
td, th { padding: 2px 8px; text-align: right; border-bottom: 1px solid var(--grid); white-space: nowrap; }
td:first-child, th:first-child, td.words { text-align: left; }
.met { color: var(--good); } .unmet { color: var(--bad); }
"""


def html_row(cells, tag="td"):
    return "<tr>" + "".join(f"<{tag}>{escape_html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def goal_row(goal):
    words, style = {True: ("met", "met"), False: ("not met", "unmet"), None: ("not measured", "")}[goal.met]
    value = "" if goal.value is None else number(goal.value) + goal.unit
    return (f'<tr><td class="words {style}">{words}</td><td>{value}</td>'
            f'<td class="words">{escape_html.escape(goal.text)}</td></tr>')


def html(results, goals, rounds, smoke=False):
    warning = f"<p><strong>{SMOKE}</strong></p>\n" if smoke else ""
    drawn = "".join(f"<figure>{chart}</figure>" for chart in charts(results) if chart)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>holdfast: benchmark</title><style>{STYLE}</style></head><body>
<h1>holdfast, its peers and its floors</h1>
{warning}<p>One machine, one run; one development agent of Consul, which keeps everything in memory, but for the rows
"on a cluster": three servers with their data on disk. Medians of {rounds} round(s). A slot is let go at once
(in open-loop after 1 ms). A floor is what the
same work costs with nothing around it: bare requests on one connection, or a semaphore of one process without Consul.
Compare rows of one report with each other, not with another machine's.</p>
<div class="charts">{drawn}</div>
<h2>Goals</h2><p>{in_short(goals)}.</p><table>{"".join(map(goal_row, goals))}</table>
<h2>All rows</h2><p>{escape_html.escape(LEGEND)}</p>
<div class="scroll"><table>{html_row(HEADINGS, "th")}{"".join(map(html_row, cells(results)))}</table></div>
</body></html>
"""
