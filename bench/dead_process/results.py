#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Puts rows of holdfast_dead_process into doc/results/dead_process.json, and renders the table of doc/explanation/dead_process.md.

usage: results.py COMMIT ROWS...     ROWS: files with what holdfast_dead_process has printed at this commit
then:  tools/results.py --write
"""

import json
import pathlib
import re
import statistics
import sys

RESULTS = "doc/results/dead_process.json"
KILLS = "Consul's leader is killed"
ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = re.compile(r"\| (?P<scene>[^|]+) \| (?P<consul>[\d.]+) \| (?P<ttl>\d+) s \| (?P<figure>[^|]*) \| (?P<remark>[^|]*) \|")


def read(lines):
    rows = {}
    for line in lines:
        found = ROW.match(line)
        if not found:
            continue
        row = rows.setdefault(found["scene"], {}).setdefault(found["consul"], {"figures": [], "remarks": []})
        row["figures"].append(found["figure"])
        row["remarks"].append(found["remark"])
    return rows


def most_in_use(remarks):
    found = [re.search(r"at most (\d+) of (\d+) in use", each) for each in remarks]
    if not all(found):
        return "-"
    return f"{max(int(each[1]) for each in found)} of {found[0][2]}"


def summary(commit, rows):
    """Returns what the table shows of a scene: for each version of Consul, the median, the longest and the number of runs."""
    values = {version: sorted(map(float, row["figures"])) for version, row in rows.items()}
    of = {version: [statistics.median(each), each[-1], len(each)] for version, each in values.items()}
    return {"commit": commit, "of": of, "in_use": most_in_use([remark for row in rows.values() for remark in row["remarks"]])}


def add(results, commit, rows):
    """A scene's row is replaced by one of as many runs or more, and by one of the same commit."""
    kills = rows.pop(KILLS, None)
    if kills:
        results["kills"] = {
            "commit": commit,
            "count": sum(int(remark.split()[0]) for row in kills.values() for remark in row["remarks"]),
            "lost": sum(int(figure) for row in kills.values() for figure in row["figures"]),
        }
    for scene, row in rows.items():
        old, new = results["scenes"].get(scene), summary(commit, row)
        if not old or old["commit"] == commit or runs(new) >= runs(old):
            results["scenes"][scene] = new


def runs(row):
    return sum(of[2] for of in row["of"].values())


def natural(text):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]


def table(results):
    """`before` has the figures of the commit before acceptances."""
    def seconds(figures):
        return "{:.1f} s, {:.1f} s ({})".format(*figures) if figures else ""

    before, scenes = results["before"], results["scenes"]
    versions = sorted({version for row in scenes.values() for version in row["of"]}, key=natural)
    head = ["scene", f"before ({before['commit']})"]
    head += [f"Consul {version}" for version in versions] + ["slots in use", "commit"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for scene, row in sorted(scenes.items(), key=lambda each: natural(each[0])):
        cells = [scene, seconds(before["scenes"].get(scene))]
        cells += [seconds(row["of"].get(version)) for version in versions] + [row["in_use"], row["commit"]]
        lines.append("| " + " | ".join(cells) + " |")
    text = "\n".join(lines) + "\n\nMedian, longest, and the number of runs.\n"
    kills = results.get("kills")
    if kills:
        text += f"Consul's leader was killed {kills['count']} times under load ({kills['commit']}). Of the slots that had been granted "
        text += f"more than 0.2 s before, {kills['lost']} were lost.\n"
    return text


FIGURES = {"dead-process": table}


def self_test():
    def rows(*figures):
        lines = [f"| a scene | 1.8.7 | 15 s | {figure} | at most 7 of 8 in use |" for figure in figures]
        return read(["x", *lines, f"| {KILLS} | 1.8.7 | 15 s | 2 | 9 kills |"])

    results = {"before": {"commit": "b", "scenes": {}}, "scenes": {}}
    add(results, "c", rows("3.5", "3.1", "9.25"))
    add(results, "d", rows("1.0"))
    assert "| a scene |  | 3.5 s, 9.2 s (3) | 7 of 8 | c |" in table(results), table(results)
    assert "killed 9 times under load (d)" in table(results) and ", 2 were lost" in table(results), table(results)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    path = ROOT / RESULTS
    results = json.loads(path.read_text(encoding="utf-8"))
    lines = [line for name in sys.argv[2:] for line in pathlib.Path(name).read_text(encoding="utf-8").splitlines()]
    rows = read(lines)
    for scene, its in rows.items():
        print(scene, {version: len(row["figures"]) for version, row in its.items()})
    add(results, sys.argv[1], rows)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
