#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Puts rows of holdfast_dead_process into doc/results/dead_process.json, and renders the table of doc/explanation/dead_process.md.

usage: results.py COMMIT ROWS...     ROWS: files with what holdfast_dead_process has printed at this commit
then:  tools/figures.py --write
"""

import json
import pathlib
import re
import statistics
import sys

RESULTS = "doc/results/dead_process.json"
COMMAND = "bench/dead_process/results.py"
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


def seconds(figures):
    values = sorted(float(each) for each in figures)
    return f"{statistics.median(values):.1f} s, {values[-1]:.1f} s ({len(values)})"


def most_in_use(remarks):
    found = [re.search(r"at most (\d+) of (\d+) in use", each) for each in remarks]
    if not all(found):
        return "-"
    return f"{max(int(each[1]) for each in found)} of {found[0][2]}"


def natural(text):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]


def runs(rows):
    return sum(len(row["figures"]) for row in rows.values())


def table(results):
    """The oldest commit is the one before acceptances. Each scene's row is of the later commit with most runs."""
    before, *others = results["commits"]
    best = {}
    for each in others:
        for scene, rows in each["rows"].items():
            if runs(rows) >= runs(best.get(scene, ({}, ""))[0]):
                best[scene] = rows, each["commit"]
    versions = sorted({v for rows, _ in best.values() for v in rows}, key=natural)
    head = ["scene", f"before ({before['commit']})"]
    head += [f"Consul {version}" for version in versions] + ["slots in use", "commit"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for scene, (rows, commit) in sorted(best.items(), key=lambda each: natural(each[0])):
        if scene == "Consul's leader is killed":
            continue
        old = [figure for row in before["rows"].get(scene, {}).values() for figure in row["figures"]]
        cells = [scene, seconds(old) if old else ""]
        cells += [seconds(rows[version]["figures"]) if version in rows else "" for version in versions]
        cells += [most_in_use([remark for row in rows.values() for remark in row["remarks"]]), commit]
        lines.append("| " + " | ".join(cells) + " |")
    text = "\n".join(lines) + "\n\nMedian, longest, and the number of runs.\n"
    kills = best.get("Consul's leader is killed")
    if kills:
        rows, commit = kills
        count = sum(int(remark.split()[0]) for row in rows.values() for remark in row["remarks"])
        lost = sum(int(figure) for row in rows.values() for figure in row["figures"])
        text += f"Consul's leader was killed {count} times under load ({commit}). Of the slots that had been granted "
        text += f"more than 0.2 s before, {lost} were lost.\n"
    return text


FIGURES = {"dead-process": table}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    path = ROOT / RESULTS
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"commits": []}
    lines = [line for name in sys.argv[2:] for line in pathlib.Path(name).read_text(encoding="utf-8").splitlines()]
    rows = read(lines)
    same = [each for each in results["commits"] if each["commit"] == sys.argv[1]]
    if same:
        same[0]["rows"].update(rows)
    else:
        results["commits"].append({"commit": sys.argv[1], "rows": rows})
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for scene, its in rows.items():
        print(scene, {version: len(row["figures"]) for version, row in its.items()})


if __name__ == "__main__":
    main()
