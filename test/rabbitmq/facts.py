#!/usr/bin/python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""The facts about RabbitMQ on which holdfast::rabbitmq is built, each as a sentence, on a real broker.

usage: facts.py PROGRAM [FACT...]     all facts if none is named. PROGRAM is the one that scripts/rabbitmq prints
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

from pika import spec

import broker as brokers
from broker import Failure, Journal, expect, until
from wire import LENGTH_0, Closed, Message, Wire, declare, delete, get, passive, purge, token_queue

SEED_CLIENT = pathlib.Path(__file__).resolve().parents[1] / "peers/seed_client.py"
HINTS = {"x-max-length": 1000, "x-message-ttl": 2000, "x-queue-type": "classic"}
LOCKED, MISSING, CONFLICT, REFUSED, FORCED = 405, 404, 406, 403, 320


FACTS = []


def fact(function):
    FACTS.append(function)
    return function


class Scene:
    """A semaphore of its own with one slot on the broker that all facts share."""

    def __init__(self, broker, name):
        self.broker, self.name = broker, name
        self.A, self.B, self.F = f"{name}-1-A", f"{name}-1-B", f"{name}-1-F"
        self.take = declare(self.B, True, LENGTH_0)
        self.wires, self.seeds = [], []
        make = declare(self.A, arguments=LENGTH_0), declare(self.F, arguments=token_queue(2000))
        self.same(self.wire().ask(*make), ["ok", "ok"])

    def wire(self, **more):
        self.wires.append(Wire(self.broker.port, **more))
        return self.wires[-1]

    def same(self, seen, expected):
        expect(seen == expected, f"{seen}, not {expected}")

    def end(self):
        for each in self.wires:
            each.socket.close()
        for each in self.seeds:
            each.kill()
            each.wait()
            each.stdout.close()

    def seed(self, *words, journal=None):
        options = ["--journal", journal.path] if journal else []
        self.seeds.append(subprocess.Popen([SEED_CLIENT, *options, self.broker.url, self.name, *words], text=True,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE))
        return self.seeds[-1]

    def publish_token(self, wire, *queues):
        for each in queues:
            wire.send(Message(each))
            self.await_count(wire, each, 1)

    def await_count(self, wire, queue, count):
        """A passive declare may overtake a message to the same queue."""
        until(lambda: wire.ask(passive(queue)) == ["ok"] and wire.count[queue] == count, f"{count} messages in {queue}")

    def ended(self, wire):
        """The code with which the broker closes the connection."""
        try:
            while True:
                wire.read()
        except Closed as closed:
            return closed.code

    def is_free(self, wire):
        return wire.ask(self.take) == ["ok"]


@fact
def the_owner_may_declare_its_exclusive_queue_again(on):
    owner = on.wire()
    on.same(owner.ask(on.take, on.take, passive(on.B)), ["ok", "ok", "ok"])


@fact
def another_channel_of_the_same_connection_gets_the_queue_too(on):
    owner = on.wire()
    owner.open_channel(2)
    on.same(owner.ask(on.take) + owner.ask(on.take, passive(on.B), channel=2), ["ok", "ok", "ok"])


@fact
def a_rival_is_refused_with_405(on):
    owner, rival = on.wire(), on.wire()
    on.same(owner.ask(on.take), ["ok"])
    refused = on.take, passive(on.B), delete(on.B), purge(on.B), get(on.B)
    on.same([rival.ask(each) for each in refused], [[LOCKED]] * 5)
    on.same(owner.ask(passive(on.B)), ["ok"])


@fact
def a_missing_queue_is_404_unless_it_is_to_be_deleted(on):
    wire = on.wire()
    on.same([wire.ask(each) for each in (passive(on.B), get(on.B), purge(on.B), delete(on.B))],
            [[MISSING], [MISSING], [MISSING], ["ok"]])


@fact
def another_lease_is_406_with_both_values_in_the_text(on):
    wire = on.wire()
    on.same(wire.ask(declare(on.F, arguments=token_queue(3000))), [CONFLICT])
    expect("x-max-length-bytes" in wire.text and "2000" in wire.text and "3000" in wire.text, wire.text)
    on.same(wire.ask(declare(on.F, arguments=token_queue(2000))), ["ok"])


@fact
def queues_with_and_without_the_type_classic_are_the_same(on):
    wire, without = on.wire(), {"x-max-length": 0}
    on.same(wire.ask(declare(on.A, arguments=without), on.take, declare(on.B, True, without)), ["ok", "ok", "ok"])


@fact
def a_passive_declare_compares_no_arguments(on):
    wire = on.wire()
    on.same(wire.ask(spec.Queue.Declare(queue=on.F, passive=True, arguments=token_queue(3000))), ["ok"])


@fact
def after_a_declare_that_fails_nothing_behind_it_is_done(on):
    owner, rival = on.wire(), on.wire()
    on.publish_token(owner, on.F)
    on.same(owner.ask(on.take), ["ok"])
    on.same(rival.ask(on.take, get(on.F), passive(on.A)), [LOCKED])
    on.same(owner.ask(get(on.F), get(on.F)), ["clean", "empty"])


@fact
def an_exclusive_queue_outlives_an_error_on_its_channel(on):
    owner, rival = on.wire(), on.wire()
    on.same(owner.ask(on.take, passive("missing")), ["ok", MISSING])
    on.same(owner.ask(passive(on.B)) + rival.ask(on.take), ["ok", LOCKED])


@fact
def an_exclusive_queue_outlives_the_end_of_its_channel(on):
    owner, rival = on.wire(), on.wire()
    on.same(owner.ask(on.take), ["ok"])
    owner.open_channel(2)
    owner.send(spec.Channel.Close(0, "", 0, 0))
    owner.expect(spec.Channel.CloseOk)
    on.same(owner.ask(passive(on.B), channel=2) + rival.ask(on.take), ["ok", LOCKED])


@fact
def an_exclusive_queue_ends_with_its_connection(on):
    owner, rival = on.wire(), on.wire()
    on.same(owner.ask(on.take) + rival.ask(on.take), ["ok", LOCKED])
    owner.socket.close()
    until(lambda: on.is_free(rival), "the slot is free")


@fact
def a_silent_client_is_ended_after_two_heartbeats(on):
    silent, rival = on.wire(heartbeat=1), on.wire()
    on.same(silent.ask(on.take), ["ok"])
    until(lambda: on.is_free(rival), "the slot is free")
    on.same(on.ended(silent), 0)


@fact
def mandatory_messages_show_which_queues_exist(on):
    owner, prober = on.wire(), on.wire()
    on.same(owner.ask(on.take), ["ok"])
    missing = [f"{on.name}-{k}-A" for k in range(2, 200)]
    on.same(prober.probe([on.A, on.B, *missing, on.F]), [True, True, *[False] * len(missing), True])


@fact
def a_probe_that_expires_at_once_leaves_nothing_in_a_queue_of_any_length(on):
    owner, prober = on.wire(), on.wire()
    on.same(owner.ask(declare(on.B, True)), ["ok"])
    on.same(prober.probe([on.B] * 5), [True] * 5)
    on.same(owner.ask(get(on.B)), ["empty"])
    prober.send(*[Message(on.B, b"")] * 5)
    on.await_count(owner, on.B, 5)  # without expiration they stay


@fact
def a_queue_of_length_0_keeps_no_message(on):
    owner, prober = on.wire(), on.wire()
    on.same(owner.ask(on.take), ["ok"])
    prober.send(*[Message(on.B, b"probe")] * 5)
    on.same(prober.probe([on.B]), [True])
    on.same(owner.ask(get(on.B)), ["empty"])


@fact
def a_token_queue_keeps_one_token(on):
    wire = on.wire()
    wire.send(Message(on.F), Message(on.F))
    on.same(wire.ask(get(on.F), get(on.F)), ["clean", "empty"])


@fact
def the_next_owner_gets_the_token_of_the_owner_before_it(on):
    first, second = on.wire(), on.wire()
    for owner in [first, second] * 10:
        on.same(owner.ask(on.take, get(on.F), passive(on.A))[::2], ["ok", "ok"])
        owner.send(passive(on.B), Message(on.F), delete(on.B))
        on.same([owner.read().method.NAME for _ in range(2)], ["Queue.DeclareOk", "Queue.DeleteOk"])
        on.await_count(second, on.F, 1)


@fact
def a_release_of_a_queue_that_is_anothers_now_leaves_no_token(on):
    owner, rival, operator = on.wire(), on.wire(), on.wire()
    on.same(owner.ask(on.take), ["ok"])
    on.broker.delete_queue(on.B)
    on.same(owner.ask(passive(on.B)), [MISSING])
    on.same(rival.ask(on.take), ["ok"])
    on.same(owner.ask(passive(on.B), Message(on.F), delete(on.B)), [LOCKED])
    on.same(rival.ask(passive(on.B), get(on.F)), ["ok", "empty"])
    on.same(operator.ask(on.take), [LOCKED])


@fact
def a_purge_takes_a_token_away(on):
    wire = on.wire()
    on.publish_token(wire, on.F)
    on.same(wire.ask(purge(on.F), get(on.F)), ["ok", "empty"])


@fact
def a_hint_wakes_one_of_those_who_listen(on):
    hints, publisher = f"{on.name}-F", on.wire()
    on.same(publisher.ask(declare(hints, arguments=HINTS)), ["ok"])
    listeners = [on.wire(), on.wire()]
    for each in listeners:
        each.ask(spec.Basic.Qos(prefetch_count=1), spec.Basic.Consume(queue=hints))
    publisher.send(Message(hints, b"1"), Message(hints, b"2"), Message(hints, b"3"))
    heard = []
    for each in listeners:
        tag = each.expect(spec.Basic.Deliver).delivery_tag
        heard.append(each.body())
    on.same(sorted(heard), [b"1", b"2"])
    listeners[0].send(spec.Basic.Ack(tag))
    listeners[0].expect(spec.Basic.Deliver)
    on.same(listeners[0].body(), b"3")


@fact
def a_hint_is_forgotten_after_its_time(on):
    hints, wire = f"{on.name}-F", on.wire()
    on.same(wire.ask(declare(hints, arguments=HINTS)), ["ok"])
    on.publish_token(wire, hints)
    on.await_count(wire, hints, 0)


@fact
def the_broker_offers_2047_channels_and_frames_of_128_kib(on):
    offer = on.wire().offer
    on.same((offer.channel_max, offer.frame_max, offer.heartbeat), (2047, 131072, 60))


@fact
def names_that_begin_with_amq_are_refused_with_403(on):
    on.same(on.wire().ask(declare(f"amq.{on.name}")), [REFUSED])


@fact
def a_wrong_password_is_refused_with_403(on):
    try:
        on.wire(password="wrong")
        raise Failure("it is not refused")
    except Closed as closed:
        on.same(closed.code, REFUSED)


@fact
def the_documented_rights_are_enough_and_no_others_are_given(on):
    on.broker.ctl("add_user", on.name, "secret")
    on.broker.ctl("set_permissions", on.name, f"^{on.name}(-.*)?$", f"^({on.name}(-.*)?|amq\\.default)$",
                  f"^{on.name}(-.*)?$")
    user = on.wire(user=on.name, password="secret")
    on.same(user.ask(on.take, get(on.F), passive(on.A), Message(on.F), purge(on.F), delete(on.B)),
            ["ok", "empty", "ok", "ok", "ok"])
    on.same(user.probe([on.A, on.B]), [True, False])
    on.same([user.ask(declare("others")), user.ask(get("others"))], [[REFUSED], [REFUSED]])


@fact
def a_user_that_is_deleted_loses_its_connection(on):
    on.broker.ctl("add_user", on.name, "secret")
    on.broker.ctl("set_permissions", on.name, ".*", ".*", ".*")
    user, rival = on.wire(user=on.name, password="secret"), on.wire()
    on.same(user.ask(on.take), ["ok"])
    on.broker.ctl("delete_user", on.name)
    on.same(on.ended(user), FORCED)
    until(lambda: on.is_free(rival), "the slot is free")


@fact
def our_queues_are_classic_where_quorum_is_the_default(on):
    on.broker.ctl("add_vhost", on.name, "--default-queue-type", "quorum")
    on.broker.ctl("set_permissions", "-p", on.name, "guest", ".*", ".*", ".*")
    wire = on.wire(vhost=on.name)
    queues = on.take, declare(on.A, arguments=LENGTH_0), declare(on.F, arguments=token_queue(2000))
    on.same(wire.ask(*queues), ["ok"] * 3)
    kinds = {kind for _, kind in on.broker.list("queues", "name", "type", "-p", on.name)}
    on.same({kind.removeprefix("rabbit_").removesuffix("_queue") for kind in kinds}, {"classic"})


@fact
def a_forced_close_is_told_at_once_and_leaves_no_token(on):
    owner, rival = on.wire(), on.wire()
    other = f"{on.name}-2-F"
    on.same(rival.ask(declare(other, arguments=token_queue(2000))), ["ok"])
    on.publish_token(rival, on.F, other)
    on.same(owner.ask(on.take, get(on.F)), ["ok", "clean"])
    on.broker.close_connection(owner.local_port)
    on.same(on.ended(owner), FORCED)
    until(lambda: on.is_free(rival), "the slot is free")
    on.same(rival.ask(get(on.F), get(other)), ["empty", "clean"])


@fact
def two_seed_clients_believe_after_a_forced_close_of_a_frozen_one(on):
    journal = Journal(on.broker.folder / f"{on.name}.journal")
    holder = on.seed("hold", "60", journal=journal)
    on.same(holder.stdout.readline(), "acquired 1\n")
    holder.send_signal(signal.SIGSTOP)
    on.broker.close_owner(on.B)
    rival = on.seed("hold", "0", journal=journal)
    on.same(rival.communicate()[0], "acquired 1\nreleased 1\n")
    holder.send_signal(signal.SIGCONT)
    on.same(holder.communicate()[0], "lost 1 ConnectionClosedByBroker\n")
    on.same((holder.returncode, rival.returncode), (2, 0))
    expect(journal.overlap() > 0, f"there was one believer at a time:\n{journal.path.read_text()}")


@fact
def an_alarm_stops_no_connection_that_does_not_publish(on):
    owner, rival, reader = on.wire(), on.wire(), on.wire()
    on.publish_token(reader, on.F)  # so the broker knows that this connection publishes
    with on.broker.alarm():
        on.same(owner.ask(on.take, get(on.F), passive(on.A), passive(on.B), purge(on.F)), ["ok", "clean"] + ["ok"] * 3)
        on.same(rival.ask(on.take) + owner.ask(delete(on.B)) + rival.ask(on.take), [LOCKED, "ok", "ok"])
        on.same(reader.ask(passive(on.F)), ["ok"])


@fact
def in_an_alarm_a_message_is_kept_back_and_its_sender_is_told(on):
    publisher, reader = on.wire(), on.wire()
    with on.broker.alarm():
        publisher.send(Message(on.F))
        publisher.await_blocked()
        on.same(reader.ask(get(on.F)), ["empty"])
    until(lambda: reader.ask(get(on.F)) == ["clean"], "the message arrives after the alarm")
    on.same(publisher.ask(passive(on.F)), ["ok"])
    expect(not publisher.is_blocked, "it is not told that the alarm is over")


@fact
def in_an_alarm_a_release_whose_connection_ends_frees_the_slot_without_a_token(on):
    owner, rival = on.wire(heartbeat=1), on.wire()
    on.same(owner.ask(on.take), ["ok"])
    with on.broker.alarm():
        owner.send(passive(on.B), Message(on.F), delete(on.B))
        owner.await_blocked()
        on.same(rival.ask(on.take), [LOCKED])
        owner.socket.close()
        until(lambda: on.is_free(rival), "the slot is free while the alarm lasts")
        on.same(rival.ask(get(on.F)), ["empty"])
    on.same(rival.ask(passive(on.B), get(on.F)), ["ok", "empty"])


@fact
def a_stop_of_the_application_is_told_and_leaves_no_token_that_was_taken(on):
    owner = on.wire()
    on.publish_token(owner, on.F)
    on.same(owner.ask(on.take, get(on.F)), ["ok", "clean"])
    with on.broker.application_stopped():
        on.same(on.ended(owner), FORCED)
    rival = on.wire()
    on.same(rival.ask(on.take, get(on.F), passive(on.A)), ["ok", "empty", "ok"])


@fact
def a_broker_that_is_killed_forgets_all_tokens_and_keeps_the_slots(on):
    owner, other = on.wire(), f"{on.name}-2-F"
    on.same(owner.ask(on.take, declare(other, arguments=token_queue(2000))), ["ok", "ok"])
    on.publish_token(owner, on.F, other)
    on.broker.flush()
    on.broker.kill()
    on.same(on.ended(owner), 0)
    on.broker.start()
    rival = on.wire()
    on.same(rival.ask(on.take, get(on.F), get(other), passive(on.A)), ["ok", "empty", "empty", "ok"])
    on.same(rival.ask(declare(on.F, arguments=token_queue(3000))), [CONFLICT])


@fact
def seed_clients_administer_and_share_a_semaphore(on):
    for words, printed in ((["max"], "1"), (["grow", "2"], ""), (["max"], "3"), (["shrink", "1"], ""), (["max"], "2"),
                           (["create", "4"], ""), (["max"], "4"), (["shrink", "2"], ""), (["max"], "2")):
        on.same(on.seed(*words).communicate()[0].strip(), printed)
    holders = [on.seed("hold", "60"), on.seed("hold", "60")]
    on.same(sorted(each.stdout.readline() for each in holders), ["acquired 1\n", "acquired 2\n"])
    last = on.seed("try")
    on.same((last.communicate()[0].strip(), last.returncode), ("none is free", 1))
    waits = [on.seed("wait", str(k)) for k in (1, 2)]
    for each in holders:
        each.kill()
    on.same([each.communicate()[0] for each in waits], ["free 1\n", "free 2\n"])
    racers = [on.seed("cycles", "20") for _ in range(3)]
    on.same([each.communicate()[0] for each in racers], ["done 20\n"] * 3)
    on.same(on.seed("destroy").wait(brokers.DEADLINE), 0)
    on.same(on.seed("max").communicate()[0], "0\n")


def holds(its, broker, number):
    """Runs one fact, and prints its sentence."""
    began, scene = time.monotonic(), None
    try:
        scene = Scene(broker, f"fact-{number}")
        its(scene)
        why = ""
    except (Failure, Closed, OSError, ValueError, subprocess.TimeoutExpired) as error:
        why = f": {type(error).__name__}: {error}"
        why += "".join(f"\n  the broker said: {wire.text}" for wire in scene.wires if wire.text) if scene else ""
    finally:
        if scene:
            scene.end()
    sentence = its.__name__.replace("_", " ")
    print(f"{'FAILED' if why else 'passed'} {time.monotonic() - began:5.2f} s  {sentence}{why}", flush=True)
    return not why


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip(), file=sys.stdout if sys.argv[1:] in (["-h"], ["--help"]) else sys.stderr)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    named = sys.argv[2:]
    chosen = [each for each in FACTS if not named or each.__name__ in named]
    try:
        with brokers.running(sys.argv[1] and os.path.abspath(sys.argv[1])) as broker:
            return 0 if chosen and all([holds(each, broker, number) for number, each in enumerate(chosen)]) else 1
    except Failure as why:
        print(why)
        return 1


if __name__ == "__main__":
    sys.exit(main())
