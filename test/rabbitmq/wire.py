# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""A raw AMQP connection for tests: the test decides which methods are in one write, and sees each frame that comes.

pika encodes and decodes the frames. It does nothing else here, so nothing is sent that the test does not send.
"""

import socket

from pika import frame, spec

from broker import DEADLINE, expect

CAPABILITIES = {"connection.blocked": True, "publisher_confirms": True, "authentication_failure_close": True,
                "basic.nack": True, "consumer_cancel_notify": True}
LENGTH_0 = {"x-max-length": 0, "x-queue-type": "classic"}


def token_queue(lease_ms):
    return {"x-max-length": 1, "x-max-length-bytes": lease_ms, "x-queue-type": "classic"}


def declare(queue, exclusive=False, arguments=None):
    """An exclusive queue, or a durable one."""
    return spec.Queue.Declare(queue=queue, exclusive=exclusive, durable=not exclusive, arguments=arguments or {})


def passive(queue):
    return spec.Queue.Declare(queue=queue, passive=True)


def get(queue):
    return spec.Basic.Get(queue=queue, no_ack=True)


def purge(queue):
    return spec.Queue.Purge(queue=queue)


def delete(queue):
    return spec.Queue.Delete(queue=queue)


class Message:
    """A transient message to the queue."""

    def __init__(self, queue, body=b"clean", mandatory=False, expiration=None):
        self.method = spec.Basic.Publish(exchange="", routing_key=queue, mandatory=mandatory)
        self.properties, self.body = spec.BasicProperties(expiration=expiration), body


class Closed(Exception):
    """The broker has closed the connection. `code` is 0 if it gave no reason."""

    def __init__(self, code, text):
        super().__init__(f"{code} {text}")
        self.code = code


class Wire:
    def __init__(self, port, user="guest", password="guest", vhost="/", heartbeat=0):
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.confirms, self.is_blocked, self.text, self.count = b"", False, False, "", {}
        self.socket.sendall(frame.ProtocolHeader().marshal())
        self.expect(spec.Connection.Start)
        response = f"\0{user}\0{password}"
        self.send(spec.Connection.StartOk({"capabilities": CAPABILITIES}, "PLAIN", response, "en_US"), channel=0)
        self.offer = self.expect(spec.Connection.Tune)
        self.send(spec.Connection.TuneOk(self.offer.channel_max, self.offer.frame_max, heartbeat),
                  spec.Connection.Open(vhost), channel=0)
        self.expect(spec.Connection.OpenOk)
        self.open_channel(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def open_channel(self, channel):
        self.send(spec.Channel.Open(), channel=channel)
        self.expect(spec.Channel.OpenOk)

    @property
    def local_port(self):
        return self.socket.getsockname()[1]

    def send(self, *things, channel=1):
        """All in one write."""
        data = b""
        for each in things:
            if isinstance(each, Message):
                data += frame.Method(channel, each.method).marshal()
                data += frame.Header(channel, len(each.body), each.properties).marshal()
                data += frame.Body(channel, each.body).marshal() if each.body else b""
            else:
                data += frame.Method(channel, each).marshal()
        self.socket.sendall(data)

    def read(self):
        """The next answer. Raises `Closed` if the broker has closed the connection."""
        while (found := self.read_one()) is None:
            pass
        return found

    def read_one(self):
        """The next frame, or None if it is no answer."""
        while (decoded := frame.decode_frame(self.buffer))[1] is None:
            try:
                received = self.socket.recv(65536)
            except ConnectionResetError:
                received = b""
            if not received:
                raise Closed(0, "the connection has ended")
            self.buffer += received
        used, found = decoded
        self.buffer = self.buffer[used:]
        method = getattr(found, "method", None)
        if isinstance(method, spec.Connection.Close):
            raise Closed(method.reply_code, method.reply_text)
        if isinstance(method, (spec.Connection.Blocked, spec.Connection.Unblocked)):
            self.is_blocked = isinstance(method, spec.Connection.Blocked)
            return None
        return None if isinstance(found, frame.Heartbeat) else found

    def expect(self, kind):
        method = self.read().method
        expect(isinstance(method, kind), f"instead of {kind.NAME} there is {method}")
        return method

    def await_blocked(self):
        """Waits until the broker says that it takes no messages. Nothing else may come before."""
        while not self.is_blocked:
            self.read_one()

    def body(self):
        """The body of the message whose method was just read."""
        return b"".join(self.read().fragment for _ in range(1 if self.read().body_size else 0))

    def ask(self, *things, channel=1):
        """Sends all in one write. Returns the answers: "ok", "empty", the body of a message, or the code of an error.

        No answer follows an error, because it closes the channel. The channel is opened again then. `self.text` is the
        text of the last error, and `self.count` has the messages that each queue had.
        """
        self.send(*things, channel=channel)
        answers = []
        for each in things:
            if isinstance(each, Message):
                continue
            method = self.read().method
            if isinstance(method, spec.Channel.Close):
                answers.append(method.reply_code)
                self.text = method.reply_text
                self.send(spec.Channel.CloseOk(), channel=channel)
                self.open_channel(channel)
                break
            if isinstance(method, spec.Basic.GetOk):
                answers.append(self.body().decode())
            else:
                answers.append("empty" if isinstance(method, spec.Basic.GetEmpty) else "ok")
            if isinstance(method, spec.Queue.DeclareOk):
                self.count[method.queue] = method.message_count
        return answers

    def probe(self, queues, channel=2):
        """Which of these queues exist: a mandatory message to each in one write, with confirms."""
        if not self.confirms:
            self.open_channel(channel)
            self.send(spec.Confirm.Select(), channel=channel)
            self.expect(spec.Confirm.SelectOk)
            self.confirms, self.published = True, 0
        self.send(*(Message(queue, b"", True, "0") for queue in queues), channel=channel)
        unconfirmed = set(range(self.published + 1, self.published + len(queues) + 1))
        self.published += len(queues)
        missing = set()
        while unconfirmed:
            method = self.read().method
            if isinstance(method, spec.Basic.Return):
                missing.add(method.routing_key)
                self.body()
            else:
                expect(isinstance(method, spec.Basic.Ack), f"a probe is answered by {method}")
                tag = method.delivery_tag
                unconfirmed -= set(range(tag + 1)) if method.multiple else {tag}
        return [queue not in missing for queue in queues]
