#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Runs an example, and checks that it does what it is there to show. Examples run on the fake Consul that they contain.
In the case `on_a_real_agent` some of them run on an agent.

usage: examples.py CASE FOLDER      CASE: a function below; FOLDER: where the examples were built
"""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from readme_install import ROOT, Failure, expect

BANNER = "A fake Consul, for development and tests only"
DEADLINE = 60  # seconds


def run(command, status=0, environment=None):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=DEADLINE, env=environment)
    print(done.stdout)
    expect(done.returncode == status, f"{command} ended with status {done.returncode}, not {status}")
    return done.stdout


@contextlib.contextmanager
def running(command, environment=None):
    """Yields the process of a command. It is terminated at the end of the block, or after the deadline."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=environment)
    watchdog = threading.Timer(DEADLINE, process.terminate)
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        process.terminate()
        process.wait()


def expect_lines(output, *patterns):
    """Fails unless the patterns match one after the other."""
    at = 0
    for pattern in patterns:
        found = re.compile(pattern, re.MULTILINE).search(output, at)
        expect(found, f"no /{pattern}/ in the rest of the output")
        at = found.end()


def quickstart(folder, consul=None):
    """On the Consul that the environment names, or on a fake."""
    environment = {"PATH": "/usr/bin:/bin", **({"CONSUL_HTTP_ADDR": consul} if consul else {})}
    expect_lines(run([folder / "quickstart"], environment=environment), r"^working, with fencing token \d+\.\d+$")


def failures(folder):
    """Each example reports its failure. It uses only the agent that --consul names. Only quickstart uses the agent that
    the environment names."""
    everyones = {"CONSUL_HTTP_ADDR": "127.0.1.1:1", "PATH": "/usr/bin:/bin"}
    expect_lines(run([folder / "quickstart"], -signal.SIGABRT, environment=everyones), "no connection to the server")
    expect_lines(run([folder / "lost_slot"], environment=everyones), BANNER)

    nowhere = ["--consul", "http://127.0.1.1:1"]
    output = run([folder / "demo", *nowhere], 1)
    expect_lines(output, "no connection to the server", "running at http://127.0.1.1:1. Without --consul")
    expect(BANNER not in output, "a fake, though --consul was given")
    expect_lines(run([folder / "lost_slot", "--consul", "ftp://127.0.1.1:1"], 1), "a scheme that is not supported")


def usage(folder):
    for program in ("lost_slot", "guarded_write", "numbered_slots", "exclusive_workers", "hot_standby", "server", "demo",
                    "administration"):
        output = run([folder / program, "--help"])
        expect_lines(output, f"^usage: {program}", "^  --consul URL  ", "CONSUL_HTTP_ADDR")
        expect(BANNER not in output, "the banner, though nothing is started")
        run([folder / program, "--no-such-option"], 2)
        expect_lines(run([folder / program, "--consul"], 2), "--consul wants a value")
    expect_lines(run([folder / "fake_consul", "--no-such-option"], 2), "^usage: fake_consul")
    expect_lines(run([folder / "demo", "--workers", "1"], 2), "--workers wants a number from 2 to 8")


def lost_slot(folder):
    lost = "lost: session_invalidated; the thread stopped"
    cancelled = "the body was cancelled: session_invalidated"
    not_begun = r"second step: not begun, the slot is lost \(session_invalidated\)"
    output = run([folder / "lost_slot"])
    expect_lines(output, lost, cancelled, "first step: done", not_begun)
    expect("never reached" not in output, "the body ran on without its slot")


def guarded_write(folder):
    output = run([folder / "guarded_write"])
    expect_lines(output, "the counter is 1$", "2 is refused: ", "the counter is 3$")


def numbered_slots(folder):
    output = run([folder / "numbered_slots"])
    runs = re.findall(r"^job (\d) runs on card ([012])(?: ([012]))?$", output, re.MULTILINE)
    expect(sorted(job for job, *_ in runs) == list("1234567"), "not each job ran once")
    expect({job for job, _, second in runs if second} == {"3", "6"}, "not each job had its number of cards")


def exclusive_workers(folder, *options):
    output = run([folder / "exclusive_workers", "--workers", "3", "--tasks", "300", *options])
    pattern = r"^worker \d: did (\d+) tasks in \d+ ms, was too late for 0; \d+ requests, 1 session"
    did = re.findall(pattern, output, re.MULTILINE)
    expect(len(did) == 3 and sum(map(int, did)) == 300, "not each task was done once")
    expect_lines(output, "^300 of 300 tasks have a result, each written once;")


def crashed_worker(folder):
    """10,000 tasks, four processes, each task done once, one process killed."""
    output = run([folder / "exclusive_workers", "--crash", "--ttl-ms", "1000"])
    pattern = r"^worker 1 crashes with [1-9]\d* locks in its hands, that of task-\d+ among them$"
    crash = re.search(pattern, output, re.MULTILINE)
    expect(crash, "worker 1 did not crash")
    rest = output[crash.end() :]
    expect_lines(rest, r"^\d+ tasks done, 3 workers at work$", "^10000 of 10000 tasks have a result, each written once;")
    expect(len(re.findall(r"^worker [2-4]: did \d+ tasks", rest, re.MULTILINE)) == 3, "the others did not end")


def hot_standby(folder, *options):
    output = run([folder / "hot_standby", *options])
    now = r"^now: ([A-C]): at work$"
    expect_lines(output, r"^[A-C] leads, with fencing token \d+\.\d+$", now, r"^killing [A-C] \(SIGKILL\)$")
    expect_lines(output, "SIGKILL", now, r"^asking [A-C] to stop \(SIGTERM\)$", "^[A-C] has stopped$", now)
    expect_lines(output, "^[A-C] died, [A-C] resigned, [A-C] leads$")
    expect(len(set(re.findall(now, output, re.MULTILINE))) == 3, "three leaders, each another")
    tokens = [int(each) for each in re.findall(r"fencing token (\d+)", output)]
    expect(len(tokens) >= 3 and tokens == sorted(set(tokens)), "the fencing tokens do not grow")


def get_at_once(url, count):
    """The replies to several requests at one time."""
    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        return list(threads.map(get, [url] * count))


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=20) as reply:
            return reply.status, reply.headers, reply.read().decode()
    except urllib.error.HTTPError as reply:
        return reply.code, reply.headers, reply.read().decode()


def server(folder):
    options = ["--port", "0", "--limit", "2", "--wait-ms", "300", "--work-ms", "500"]
    with running([folder / "server", *options]) as process:
        line = process.stdout.readline()
        url = re.search(r"http://[\d.:]+", line)
        expect(url, f"no address in: {line}")
        replies = get_at_once(url[0] + "/work", 4)
        print(*(f"{status} {text}" for status, _, text in replies))
        expect(sorted(status for status, _, _ in replies) == [200, 200, 429, 429], "two of four should have had a slot")
        for status, headers, text in replies:
            expect_lines(text, r"fencing token \d+\.\d+" if status == 200 else "all slots are taken")
            expect((headers["Retry-After"] == "1") == (status == 429), "Retry-After comes with 429 only")
        _, _, text = get(url[0] + "/status")
        expect_lines(text, "limit 2, held here 0, .*granted 2")
        _, headers, text = get(url[0] + "/metrics")
        expect(headers["Content-Type"].startswith("text/plain; version=0.0.4"), "Prometheus would not know the format")
        expect_lines(text, r'^holdfast_acquires_total\{lock="server/example",kind="semaphore",outcome="granted"\} 2$',
                     r'^holdfast_client_requests_total\{client="consul",kind="transact",outcome="ok"\} \d+$')
        expect(get(url[0] + "/other")[0] == 404, "there is no such page")

        # A pending request is answered before the server stops.
        with concurrent.futures.ThreadPoolExecutor() as threads:
            last = threads.submit(get, url[0] + "/work")
            while "held here 1" not in get(url[0] + "/status")[2]:
                pass
            process.terminate()
            expect(last.result()[0] == 200, "the request at work was not answered")
        rest = process.stdout.read()
        print(rest)
        expect_lines(rest, "^stopping: ", "^stopped$")
        expect(process.wait() == 0, "the server did not end well")


# Commands of the tutorial, and what they print.
COMMANDS = re.compile(r"^<!-- run by tools/examples.py -->\n```sh\n(.*?)^```$(?:\n\nIt prints:\n\n```\n(.*?)^```$)?",
                      re.MULTILINE | re.DOTALL)


def tutorial(folder):
    """The programs of doc/tutorial print what the pages show. The test of README has the commands that build the library
    or install it."""
    environment, outputs = {"PATH": "/usr/bin:/bin"}, {}
    cmake = (ROOT / "example/CMakeLists.txt").read_text(encoding="utf-8")
    for page in sorted((ROOT / "doc/tutorial").glob("*.md")):
        blocks = COMMANDS.findall(page.read_text(encoding="utf-8"))
        expect(blocks, f"{page.name}: no commands")
        for commands, shown in blocks:
            for target in re.findall(r"--target (\w+)", commands):
                expect(f"add_custom_target({target})" in cmake, f"{page.name}: there is no target {target}")
            for name in re.findall(r"^build/(?:release/example/)?(\w+)$", commands, re.MULTILINE):
                if name == "tutorial_server":  # which does not end, and is tried below
                    continue
                program = folder / ("test_your_code" if page.name == "tests.md" else "") / name
                outputs[name] = subprocess.run([program], stdout=subprocess.PIPE, text=True, timeout=DEADLINE,
                                               env=environment, check=True).stdout
                expect(not shown or sorted(outputs[name].splitlines()) == sorted(shown.splitlines()),
                       f"{page.name}: {name} prints\n{outputs[name]}and not\n{shown}")

    # The order of some lines differs from run to run, but not that of these.
    events = re.findall(r"^\w+ (works|is done)$", outputs["tutorial_first_slot"], re.MULTILINE)
    expect(events[:3] == ["works", "works", "is done"], "two of three work at a time")
    expect_lines(outputs["tutorial_lost_slot"], "^chapter 1, ", "^chapter 2, ", "^again, because of: session_invalidated",
                 "^chapter 1, ", "^chapter 2, ", "^chapter 3, ", "^published$")
    output = outputs["tutorial_leader"]
    expect_lines(output, r"^10\.0\.0\.1:80 leads, ", "^10.0.0.1:80 resigns$", r"^10\.0\.0\.2:80 leads, ")
    expect_lines(output, r"^the leader is at 10\.0\.0\.1:80$", r"^the leader is at 10\.0\.0\.2:80$")

    with running([folder / "tutorial_server"], environment) as process:
        url = re.search(r"http://[\d.:]+", process.stdout.readline())[0]
        statuses = [status for status, _, _ in get_at_once(url, 6)]
        expect(set(statuses) == {200, 429}, "some requests have a slot, and some have none")
        expect(2 <= statuses.count(200) <= 4, "two slots, and time for two turns at most")
        process.terminate()
        expect(process.wait() == 0, "a signal is the normal end")


@contextlib.contextmanager
def fake_agent(folder):
    """Yields the address of a fake Consul, which is another example."""
    with running([folder / "fake_consul", "0"]) as process:
        expect_lines(process.stdout.readline(), BANNER)
        url = None
        while not url:
            line = process.stdout.readline()
            expect(line, "no address")
            url = re.search(r"CONSUL_HTTP_ADDR=(http://127\.0\.0\.1:\d+)$", line)
        yield url[1]
        process.send_signal(signal.SIGINT)
        expect(process.wait() == 0, "Ctrl-C is the normal end")


def fake_consul(folder):
    """Another program can use the fake: here another example does."""
    with fake_agent(folder) as url:
        quickstart(folder, url)
        status, _, text = get(url + "/v1/kv/quickstart/?keys")
        expect(status == 200 and "quickstart/reports/.lock" in text, f"the semaphore is not there: {text}")


def administration(folder, *consul):
    """All commands of an operator in one process. If there is an agent, which outlives the process, they are also given
    on the command line."""
    program = folder / "administration"
    output = run([program, *consul])
    expect_lines(output, "^resized to 2: two slots are held$", "^limit 2, open, 2 in use, 0 waiting$", '"worker 7"  for')
    expect_lines(output, "my slot is wanted, and still mine: yes", "^drained, and closed: no slot", "^no semaphore$")
    expect_lines(output, "^evicted: the holder is told session_invalidated$")
    run([program, "inspect"], 2)
    run([program, "--prefix", "a/b"], 2)
    for name in ("create", "resize"):
        expect_lines(run([program, "--prefix", "a/b", name], 2), f"^{name} wants --limit")
        expect_lines(run([program, "--prefix", "a/b", name, "--limit", "0"], 2), f"^{name} wants --limit")
    expect_lines(run([program, "--prefix", "a/b", "revoke"], 2), "^revoke wants --session")
    expect_lines(run([program, "--prefix", "a/b", "destroy", "inspect"], 2), "^one command at a time")
    if not consul:
        return
    order = [program, *consul, "--prefix", "administration/line"]
    expect_lines(run([*order, "inspect"]), "^no semaphore$")
    run([*order, "close"], 1)
    run([*order, "create", "--limit", "3"])
    expect_lines(run([*order, "close"]), "^close: done$")
    expect_lines(run([*order, "inspect"]), "^limit 3, closed, 0 in use, 0 waiting$")
    run([*order, "open"])
    run([*order, "resize", "--limit", "4"])
    expect_lines(run([*order, "inspect"]), "^limit 4, open, ")
    expect_lines(run([*order, "drain"]), "^drain: done$")
    expect_lines(run([*order, "revoke", "--session", "x"], 1), "the slot is not held")
    expect_lines(run([*order, "evict", "--session", "x"], 1), "the slot is not held")
    expect_lines(run([*order, "sweep"]), "^removed 0 dead holders, 0 dead entries$")
    expect_lines(run([*order, "destroy"]), "^destroy: done$")


def rabbitmq(folder):
    """On the broker that the environment names, or on a fake. Nothing keeps the program running at its end."""
    environment = {"PATH": "/usr/bin:/bin", **{name: os.environ[name] for name in ("AMQP_URL",) if name in os.environ}}
    begun = time.monotonic()
    output = run([folder / "rabbitmq"], environment=environment)
    expect_lines(output, "^working with slot [12]$", "^  step 1 of 3$", "^  step 3 of 3$", "^released$")
    expect(time.monotonic() - begun < 9, "a connection without a slot kept the program running for 10 s")
    nowhere = {"AMQP_URL": "amqp://guest:secret@127.0.1.1:1", "PATH": "/usr/bin:/bin"}
    output = run([folder / "rabbitmq"], 1, environment=nowhere)
    expect_lines(output, r"\(amqp://127.0.1.1:1\): no connection to the server could be made$")
    expect("secret" not in output, "the password is shown")


def in_the_headers(folder, *consul):
    output = run([folder / "in_the_headers", *consul])
    expect_lines(output, "^it is locked$", "^lost in the test: session_invalidated$", "^there was a slot at once$",
                 "^the lock is held$", "^counted$", "^leader: me$")
    expect_lines(output, "^0 of 3 slots are held$", "^the slot was lost$", "^lost: session_invalidated$")


def prometheus_cpp(folder):
    """Built only where prometheus-cpp is installed, as scripts/setup does."""
    output = run([folder / "prometheus_cpp"])
    labels = r'\{lock="service/reports"'
    expect_lines(output, rf'^holdfast_acquires_total{labels},outcome="granted"\}} 1', rf"^holdfast_holds{labels}\}} 1",
                 rf'^holdfast_wait_seconds_bucket{labels},le="\+Inf"\}} 1')


def spdlog_events(folder):
    """Built only where spdlog is installed, as scripts/setup does."""
    output = run([folder / "spdlog_events"])
    expect_lines(output, r"^holdfast error \[slot_lost\] slot of service/reports lost: session_invalidated "
                 r"\(session [-0-9a-f]{36}, fencing token [\d.]+\)")


def spans(output):
    """The spans that OpenTelemetry has printed: {name of a field: value} of each."""
    found = []
    for text in re.findall(r"^\{\n(.*?)^\}$", output, re.DOTALL | re.MULTILINE):
        found.append(dict(re.findall(r"^\s+([\w.]+)\s*: (.*?)\s*$", text, re.MULTILINE)))
    return found


def named(all_spans, name):
    return next(each for each in all_spans if each["name"] == name)


def opentelemetry(folder):
    """Built only where opentelemetry-cpp is installed, as in Debian 13. The second process waits for the first."""
    with fake_agent(folder) as url:
        command = [folder / "opentelemetry", "--consul", url, "--work-ms"]
        with running([*command, "1000"]) as process:
            before = []
            while "working\n" not in before:
                before.append(process.stdout.readline())
                expect(before[-1], "the first process has ended")
            second = spans(run([*command, "0"]))
            output = "".join(before) + process.stdout.read()
        print(output)
        first = spans(output)
    waited, its_hold, request = (named(second, name) for name in ("acquire", "hold", "handle request"))
    expect(waited["parent_span_id"] == request["span_id"], "the parent of the wait is the caller's span")
    expect(its_hold["parent_span_id"] == waited["span_id"], "the parent of the hold is the wait")
    expect(waited["trace_id"] == its_hold["trace_id"] == request["trace_id"], "all of it is one trace")
    expect(int(waited["duration"]) > 10**8, "it has waited")
    others = named(first, "hold")
    expect(others["holdfast.key"] == its_hold["holdfast.key"] == "service/reports", "both have the key")
    tokens = [int(each["holdfast.fencing_token"].split(".")[0]) for each in (others, its_hold)]
    expect(tokens[0] < tokens[1], "the tokens tell which hold came first")
    sessions = [each["holdfast.session"] for each in (its_hold, waited, others)]
    expect(sessions[0] == sessions[1] != sessions[2], "and the sessions whose they were")


def opentelemetry_metrics(folder):
    """Built only where opentelemetry-cpp is installed, as in Debian 13."""
    output = run([folder / "opentelemetry_metrics"])
    shown = {}
    for text in re.split(r"^  instrument name\s*: ", output, flags=re.MULTILINE)[1:]:
        shown[text.partition("\n")[0]] = text
    names = {f"holdfast.{each}" for each in ("acquires", "losses", "holds", "wait.duration", "hold.duration")}
    expect(set(shown) == names, f"these are shown: {sorted(shown)}")
    expect_lines(shown["holdfast.acquires"], r"(?s)value\s*: 2\n[^:]*:\s*lock: service/reports\s+outcome: granted$")
    expect_lines(shown["holdfast.holds"], r"value\s*: 1$")
    expect_lines(shown["holdfast.losses"], r"value\s*: 0$", r"reason: lease_expired$")
    for name in ("wait", "hold"):
        expect_lines(shown[f"holdfast.{name}.duration"], r"count\s*: [12]$", r"buckets\s*: \[0.0001, 0.001, .*, 1800, \]$")


def demo(folder, *options):
    output = run([folder / "demo", "--seconds", "5", "--ttl-ms", "1000", *options])
    killed = r"killed process [ABC] \(SIGKILL\) while it held [1-4] slot"
    back = "others hold 4 slots again"
    most = "^most holders at one time +4 by the lock record, 4 by the workers' own word$"
    left = "^left in Consul at the end +0 holders, 0 contenders$"
    expect_lines(output, killed, back, most, left, "^PASSED")


def workers_of(process):
    """The process ids of a demo's workers, by name."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended meanwhile
        if b"--worker" in words and parent == process.pid:
            found[words[words.index(b"--worker") + 1].decode()] = int(folder.name)
    return found


def broken_limit(folder):
    """The demo's check is able to fail: a worker that is paused past its lease still believes that it holds slots."""
    paused, seconds_paused, output = None, 0, ""
    with running([folder / "demo", "--seconds", "20", "--ttl-ms", "500"]) as process:
        for line in process.stdout:
            output += line
            holds = re.search(r"slots held by \S*([ABC])", line)
            if "WRONG" in line and paused:
                os.kill(paused, signal.SIGCONT)
                paused = None
            elif holds and paused:
                seconds_paused += 1
                if seconds_paused == 3:  # it had just released its slot: pause it again
                    os.kill(paused, signal.SIGCONT)
                    paused = None
            elif holds and "WRONG" not in output:
                paused, seconds_paused = workers_of(process)[holds[1]], 0
                os.kill(paused, signal.SIGSTOP)
        print(output)
        expect(process.wait() == 1, "the demo should have failed")
        expect_lines(output, r"WRONG: \d+ coroutines believed that they held one of 4 slots", "^FAILED")


def on_a_real_agent(folder):
    """Examples that use the same interface on a real agent, which the fake stands for."""
    address = os.environ.get("CONSUL_HTTP_ADDR")
    if not address:
        with_agent = [sys.executable, ROOT / "scripts" / "with-agent", "--session-ttl-min", "100ms"]
        run([*with_agent, sys.executable, __file__, "on_a_real_agent", folder])
        return
    consul = ["--consul", f"http://{address}"]
    quickstart(folder, address)
    exclusive_workers(folder, *consul)
    hot_standby(folder, *consul, "--ttl-ms", "1000")
    administration(folder, *consul)
    demo(folder, *consul)


CASES = [
    quickstart, failures, usage, lost_slot, guarded_write, numbered_slots, exclusive_workers, crashed_worker,
    hot_standby, server, fake_consul, administration, in_the_headers, prometheus_cpp, spdlog_events, opentelemetry,
    opentelemetry_metrics, rabbitmq, tutorial, demo, broken_limit, on_a_real_agent,
]


def main():
    cases = {case.__name__: case for case in CASES}
    if len(sys.argv) != 3 or sys.argv[1] not in cases:
        print(__doc__.strip(), "\ncases:", *cases)
        return 2
    try:
        cases[sys.argv[1]](pathlib.Path(sys.argv[2]))
    except (Failure, subprocess.TimeoutExpired) as failed:
        print(f"FAILED: {failed}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
