#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that a token that is enough for `consul lock` is enough for `holdfast run`, on an agent of its own with ACLs.

usage: rights.py CONSUL HOLDFAST
"""

import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

DEADLINE = 60  # seconds for anything that is waited for
ROOT_TOKEN = "10000000-0000-0000-0000-000000000001"
# The rights to keys, to sessions of this agent's own node, and to ask for the name of that node.
ENOUGH_FOR_CONSUL_LOCK = '''
key_prefix "" { policy = "write" }
session "here" { policy = "write" }
agent "here" { policy = "read" }
'''


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def listens(address):
    host, port = address.split(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), DEADLINE):
        return True
    return False


def started(consul, folder):
    """Starts an agent, and returns its process and its address. Another program may take a port before the agent does.
    Then the agent ends, and another one gets other ports."""
    for _ in range(5):
        process, address = start(consul, folder)
        end = time.monotonic() + DEADLINE
        while process.poll() is None and time.monotonic() < end:
            if listens(address):
                return process, address
            time.sleep(0.05)
        process.kill()
        process.wait()
    sys.exit("the agent does not start")


@contextlib.contextmanager
def agent(consul, folder):
    process, address = started(consul, folder)
    with process:
        try:
            yield address
        finally:
            process.kill()


def start(consul, folder):
    http, server, lan, wan = free_ports(4)
    version = subprocess.run([consul, "version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    is_old = tuple(map(int, re.search(r"v(\d+)\.(\d+)", version).groups())) < (1, 11)
    settings = {
        "ports": {"http": http, "server": server, "serf_lan": lan, "serf_wan": wan, "dns": -1, "grpc": -1},
        "acl": {"enabled": True, "default_policy": "deny",
                "tokens": {"master" if is_old else "initial_management": ROOT_TOKEN, "agent": ROOT_TOKEN}},
    }
    pathlib.Path(f"{folder}/agent.json").write_text(json.dumps(settings))
    command = [consul, "agent", "-server", "-bootstrap-expect", "1", "-node", "here", "-bind", "127.0.0.1", "-client",
               "127.0.0.1", "-data-dir", f"{folder}/data", "-log-level", "err", "-config-file", f"{folder}/agent.json"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL), f"127.0.0.1:{http}"


NIGHT = '''key_prefix "n/.lock" { policy = "write" }
session_prefix "" { policy = "write" }
node_prefix "" { policy = "read" }
'''


def request(address, method, path, body=None):
    data = json.dumps(body).encode() if body is not None else None
    token = {"X-Consul-Token": ROOT_TOKEN}
    asked = urllib.request.Request(f"http://{address}{path}", data=data, method=method, headers=token)
    with urllib.request.urlopen(asked, timeout=10) as reply:
        return json.loads(reply.read())


def token_with(address, rules, name="lock"):
    end = time.monotonic() + DEADLINE
    while True:
        try:
            request(address, "PUT", "/v1/acl/policy", {"Name": name, "Rules": rules})
            return request(address, "PUT", "/v1/acl/token", {"Policies": [{"Name": name}]})["SecretID"]
        except OSError:  # there is no leader yet, or the ACLs are not ready
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def main():
    words = sys.argv[1:]
    if len(words) != 2 or words[0].startswith("-"):
        print(__doc__.strip())
        return 0 if words in (["-h"], ["--help"]) else 2
    consul, holdfast = words
    failed = 0

    def check(what, is_right, done):
        nonlocal failed
        failed += not is_right
        print(f"{what}: " + ("passed" if is_right else f"FAILED: status {done.returncode}\n{done.stdout}{done.stderr}"))

    with tempfile.TemporaryDirectory() as folder, agent(consul, folder) as address:
        token = token_with(address, ENOUGH_FOR_CONSUL_LOCK)

        def run(*command, **variables):
            environment = {"PATH": os.environ["PATH"], "CONSUL_HTTP_ADDR": address, "CONSUL_HTTP_TOKEN": token}
            return subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True,
                                  timeout=DEADLINE, stdin=subprocess.DEVNULL)

        done = run(consul, "lock", "a/b", "echo runs")
        check("consul lock", done.returncode == 0 and "runs" in done.stdout, done)
        for limit in ("1", "2"):
            done = run(holdfast, "run", "-n", limit, f"a/{limit}", "echo runs")
            names = done.stderr.count("holdfast-sessions")
            check(f"holdfast run -n {limit}", done.returncode == 0 and done.stdout == "runs\n" and names >= 1, done)
        done = run(holdfast, "run", "--session-node", "holdfast-sessions", "a/c", "echo runs")
        check("--session-node forbids it", done.returncode == 1 and "Permission denied" in done.stderr, done)
        done = run(holdfast, "run", "--session-node", "", "a/c", "echo runs")
        check("--session-node '' says nothing", done.returncode == 0 and not done.stderr, done)
        record = 'key "n/.last-success" { policy = "read" }\n'
        only_reads = token_with(address, NIGHT + record, "only-reads")
        done = run(holdfast, "run", "--once-per=1h", "n", "echo runs", CONSUL_HTTP_TOKEN=only_reads)
        check("a record that may not be written", done.returncode == 123 and done.stdout == "runs\n" and
              "may run again" in done.stderr, done)
        nothing = token_with(address, NIGHT, "nothing")
        done = run(holdfast, "run", "--once-per=1h", "n", "echo runs", CONSUL_HTTP_TOKEN=nothing)
        check("a record that may not be read", done.returncode == 125 and not done.stdout, done)
        done = run(holdfast, "run", "a/d", "true", CONSUL_HTTP_TOKEN=ROOT_TOKEN[::-1])
        check("a wrong token", done.returncode == 1 and ROOT_TOKEN[::-1] not in done.stderr, done)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
