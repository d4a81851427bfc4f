#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Shows what the clients of a server see while its limit is reached, and while Consul does not answer.

usage: run.py FOLDER PICTURE     FOLDER: with the programs of example/; PICTURE: the SVG file to write

The example `server` has 2 slots, and its work takes 0.4 s. So it can do 5 requests a second, and 8 arrive. Each waits for
at most a second. Then the fake Consul is stopped for 20 s, and goes on."""

import collections
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

LENGTH, BEGIN, END, PAUSE = 50, 12, 32, 1 / 8  # seconds
COLORS = {200: "#2a7f3f", 429: "#d98a00", 503: "#c0392b"}
TEXTS = {200: "200: had a slot", 429: "429: others had all slots", 503: "503: no answer of Consul, or slot lost"}
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, HIGHEST = 760, 300, 50, 40, 60, 2.0


def started(*command, environment=None):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    found = None
    while not found:
        line = process.stdout.readline()
        if not line:
            sys.exit(f"{command[0]} has ended")
        found = re.search(r"http://[\d.:]+", line)
    return process, found[0]


def ask(url, since, answers):
    at = time.monotonic()
    try:
        with urllib.request.urlopen(url + "/work", timeout=30) as reply:
            status = reply.status
    except urllib.error.HTTPError as reply:
        status = reply.code
    answers.append((at - since, status, time.monotonic() - at))


def measured(folder):
    consul, address = started(folder / "fake_consul", "0")
    server, url = started(folder / "server", "--port", "0", "--limit", "2", "--wait-ms", "1000", "--work-ms", "400",
                          "--consul", address)
    answers, clients, since = [], [], time.monotonic()
    try:
        for i in range(int(LENGTH / PAUSE)):
            time.sleep(max(0, since + i * PAUSE - time.monotonic()))
            if i == int(BEGIN / PAUSE):
                consul.send_signal(signal.SIGSTOP)
            if i == int(END / PAUSE):
                consul.send_signal(signal.SIGCONT)
            clients.append(threading.Thread(target=ask, args=(url, since, answers)))
            clients[-1].start()
        for each in clients:
            each.join()
    finally:
        consul.send_signal(signal.SIGCONT)
        for each in (server, consul):
            each.kill()
            each.wait()
    return answers


def drawn(answers):
    def x(seconds):
        return LEFT + seconds / LENGTH * (WIDTH - LEFT - 10)

    def y(seconds):
        return HEIGHT - BOTTOM - min(seconds, HIGHEST) / HIGHEST * (HEIGHT - BOTTOM - TOP)

    parts = [f'<rect x="{x(BEGIN):.0f}" y="{TOP}" width="{x(END) - x(BEGIN):.0f}" height="{HEIGHT - BOTTOM - TOP}" '
             f'fill="#eee"/><text x="{x(BEGIN) + 6:.0f}" y="{TOP + 16}">Consul does not answer</text>']
    for seconds in range(0, LENGTH + 1, 10):
        parts.append(f'<text x="{x(seconds):.0f}" y="{HEIGHT - 22}" text-anchor="middle">{seconds}</text>')
    for seconds in (0, 0.5, 1, 1.5, 2):
        parts.append(f'<path d="M{LEFT} {y(seconds):.0f}H{WIDTH - 10}" stroke="#ccc"/>'
                     f'<text x="{LEFT - 6}" y="{y(seconds) + 4:.0f}" text-anchor="end">{seconds:g}</text>')
    parts.append(f'<text x="{WIDTH / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">time of the request in seconds</text>'
                 f'<text x="8" y="{TOP - 8}">seconds to the answer</text>')
    for i, (status, color) in enumerate(COLORS.items()):
        count = sum(each == status for _, each, _ in answers)
        parts.append(f'<circle cx="{LEFT + 4 + 205 * i}" cy="16" r="4" fill="{color}"/>'
                     f'<text x="{LEFT + 14 + 205 * i}" y="20">{TEXTS[status]} ({count})</text>')
    for status, color in COLORS.items():
        dots = "".join(f"M{x(at):.0f} {y(took):.0f}h0" for at, each, took in sorted(answers) if each == status)
        parts.append(f'<path d="{dots}" stroke="{color}" stroke-width="5" stroke-linecap="round"/>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            f'font-size="12">\n<title>What the clients of a server see</title>\n' + "\n".join(parts) + "\n</svg>\n")


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        print(__doc__.strip())
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    answers = measured(pathlib.Path(sys.argv[1]).resolve())
    pathlib.Path(sys.argv[2]).write_text(drawn(answers), encoding="utf-8")
    for name, begin, end in ("before", 0, BEGIN), ("outage", BEGIN, END), ("after", END, LENGTH):
        print(f"{name:7}", dict(collections.Counter(status for at, status, _ in sorted(answers) if begin <= at < end)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
