# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""A relay before a broker, which breaks the connections through it on demand."""

import asyncio
import contextlib
import socket
import struct
import threading

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: the close of a socket resets its connection


class Side(asyncio.Protocol):
    """One of the two sockets of a relayed connection."""

    def __init__(self):
        self.transport, self.peer = None, None
        self.swallows = False  # what comes from here is dropped
        self.ends_alone = False  # the other side stays open when this one ends

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        if not self.swallows and not self.peer.transport.is_closing():
            self.peer.transport.write(data)

    def connection_lost(self, _):
        if self.peer and not self.ends_alone:
            self.peer.transport.close()

    def end(self):
        self.ends_alone = self.peer.ends_alone = True
        self.transport.close()

    def reset(self):
        self.ends_alone = True
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.transport.abort()


class Accepted(Side):
    """The socket of a client."""

    def __init__(self, relay):
        super().__init__()
        self.relay, self.early = relay, b""

    def connection_made(self, transport):
        super().connection_made(transport)
        self.opening = self.relay.loop.create_task(self.open())

    def data_received(self, data):
        if self.peer:
            super().data_received(data)
        else:
            self.early += data

    async def open(self):
        try:
            _, self.peer = await self.relay.loop.create_connection(Side, "127.0.0.1", self.relay.target)
        except OSError:
            self.transport.close()
            return
        self.peer.peer = self
        self.relay.clients.append(self)
        if self.transport.is_closing():
            self.peer.transport.close()
        else:
            self.peer.transport.write(self.early)


class Relay:
    """Each fault strikes the connections that there are. Later ones work."""

    def __init__(self, target):
        self.target, self.clients = target, []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.port = self.call(self.listen())

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    async def listen(self):
        server = await self.loop.create_server(lambda: Accepted(self), "127.0.0.1", 0)
        return server.sockets[0].getsockname()[1]

    async def each(self, strike):
        struck, self.clients = [one for one in self.clients if not one.transport.is_closing()], []
        for client in struck:
            strike(client)
        return len(struck)

    def strike(self, kind):
        """Returns how many connections were struck."""
        return self.call(self.each(FAULTS[kind]))

    async def end_all(self):
        for client in self.clients:
            client.reset()
            client.peer.reset()
        await asyncio.sleep(0)
        self.loop.stop()

    def close(self):
        with contextlib.suppress(Exception):
            self.call(self.end_all())
        self.thread.join(1)


def swallow(side):
    side.swallows = True


def reset(client):
    client.reset()
    client.peer.reset()


FAULTS = {
    "swallows what clients send": swallow,
    "swallows what the broker sends": lambda client: swallow(client.peer),
    "ends the broker's side only": lambda client: client.peer.end(),
    "ends the clients' side only": lambda client: client.end(),
    "resets both sides": reset,
}
