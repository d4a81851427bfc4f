# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""A proxy before an agent that records the requests: does a floor send the same requests as the library?"""

import base64
import collections
import re
import socket
import threading

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
VALUE = re.compile(r'"Value":"([A-Za-z0-9+/=]*)"')
# The parts that differ from run to run, and from request to request.
VARIABLE = (
    (re.compile(r"bench/[a-z]+-\d+"), "PREFIX"),
    (re.compile(r'(index=|"Index":|Content-Length: )\d+'), r"\1N"),
    (re.compile(r"wait=\d+ms"), "wait=TIME"),
    (re.compile(r'[^\s"]+:\d+((?:\n|\\n)~)?(\n|\\n)@\d+'), r"HOST:PID\1\2@TIME"),
    (re.compile(r'(\["S\d+",)\d+'), r"\1N"),
    (re.compile(r"^Host: .*$", re.MULTILINE), "Host: AGENT"),
)


def form(request):
    """The request, with names in place of the parts that differ. Its sessions are S1, S2, ... in the order of
    appearance."""
    text = request.decode()
    text = VALUE.sub(lambda found: f'"Value":"{base64.b64decode(found[1]).decode()}"', text)
    names = {}
    text = UUID.sub(lambda found: names.setdefault(found[0], f"S{len(names) + 1}"), text)
    for pattern, name in VARIABLE:
        text = pattern.sub(name, text)
    return text.replace("\r\n", "\n")


class Recorder:
    """Listens on a port of its own; `address` is host:port."""

    def __init__(self, agent):
        self.agent = agent
        self.requests = []  # raw, in the order of their ends
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "%s:%d" % self.listener.getsockname()
        threading.Thread(target=self.accept, daemon=True).start()

    def forms(self):
        return collections.Counter(map(form, self.requests))

    def close(self):
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            host, port = self.agent.split(":")
            server = socket.create_connection((host, int(port)))
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.forward, args=(client, server), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client), daemon=True).start()

    def forward(self, client, server):
        pending = b""
        for chunk in self.chunks(client, server):
            pending += chunk
            while True:
                head, end, rest = pending.partition(b"\r\n\r\n")
                length = re.search(rb"(?i)^content-length: *(\d+)", head, re.MULTILINE)
                size = len(head) + len(end) + (int(length[1]) if length else 0)
                if not end or len(pending) < size:
                    break
                self.requests.append(pending[:size])
                pending = pending[size:]

    def pump(self, server, client):
        for _ in self.chunks(server, client):
            pass

    @staticmethod
    def chunks(source, target):
        try:
            while chunk := source.recv(65536):
                target.sendall(chunk)
                yield chunk
        except OSError:
            pass
        finally:
            target.close()


GRANT = re.compile(r'"cas".*"cas".*"delete".*"lock"', re.DOTALL)


def handoffs(forms):
    """The requests of handoffs: the transactions that grant and queue anew, and the blocking queries."""
    waits = {each for each in forms if re.match(r"GET /v1/kv/PREFIX/S1\?.*wait=", each)}
    return waits | {each for each in forms if GRANT.search(each)}


def drift(floor, ours):
    """Yields a sentence for each request that the floor sends and the library does not. Both arguments are counters of
    forms."""
    grants = [each for each in handoffs(floor) if GRANT.search(each)]
    if len(grants) < 2 or len(handoffs(floor)) != len(grants) + 1:
        yield "the floor of a handoff sends no grants, or does not wait for them"
    granting = {each: count for each, count in ours.items() if each.count('"Verb":"cas"') == 2}
    if 2 * sum(granting.get(each, 0) for each in grants) < sum(granting.values()):
        yield "most of the library's grants are not among those that the floor sends"
    for each in sorted(handoffs(floor) - set(ours)):
        yield f"the floor sends what the library does not:\n{each}"
