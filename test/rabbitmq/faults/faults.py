#!/usr/bin/python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Faults on a real RabbitMQ broker, while worker processes hold, release and acquire slots.

usage: faults.py PROGRAM WORKER [OPTION]...   PROGRAM is the one that scripts/rabbitmq prints, WORKER is rabbitmq_worker
       faults.py --self-test                  shows that the judge is able to fail
       faults.py --list                       the scenes

  --scenes NAME[,NAME]...   scenes, or groups of them: usual (the default), long, network, overlap, mixed.

  --results FILE            adds the figures to a file of JSON, under the version of the broker.

  --hasty WORKER            a worker without rule 3, for the scene `overlap`.

Two crews run in each scene, and each crew writes a journal. The crew "held" has one slot. One process holds it when the
fault begins, and another one asks for it every 20 ms. The crew "busy" has two slots. Four coroutines of two processes
take them in turns. A scene fails if two believed in one slot. It also fails if a process gets no slot after the fault,
or does not release all that it has.

The figures of a scene are seconds after the fault began:
- fault: how long it lasted. Most of them include a call of rabbitmqctl, which takes some 0.7 s.
- believed: how long the holder still believed; null if it has not lost its slot.
- nobodys: the longest time in which nobody believed in a slot, though others waited for it.

The exit status is 77 if the scenes need network namespaces, and this machine does not allow them.
"""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import broker as brokers  # noqa: E402
from broker import DEADLINE, Failure, expect, now, until  # noqa: E402

import crew as crews  # noqa: E402
from crew import HOUR, LEASE, Crew  # noqa: E402
from relay import FAULTS, Relay  # noqa: E402

SKIPPED = 77
POLL = 20  # milliseconds; the waiter takes the slot as soon as the broker gives it away
OVERLAP_LEASE = 20  # seconds; a restart takes some of them
BROKER_ADDRESS, HOST_ADDRESS = "10.78.0.1", "10.78.0.2"


class Scene:
    """Two crews on the broker that the scenes share."""

    def __init__(self, broker, programs, name, folder):
        self.broker, self.programs, self.name, self.folder = broker, programs, name, folder
        self.held, self.busy = (self.crew(kind) for kind in ("held", "busy"))
        self.began = self.mended = 0
        self.resources = contextlib.ExitStack()

    def crew(self, kind):
        return Crew(self.programs.worker, self.broker, f"{self.name}-{kind}", self.folder)

    def begin(self, url=None, launcher=(), create_with=1):
        """`url` and `launcher`: how the holder and one of the busy processes reach the broker."""
        self.held.start("holder", url, launcher, create_with=create_with, first_hold=HOUR, busy=LEASE * 3000)
        self.held.until_written("enter", "holder")
        self.held.start("waiter", create_with=create_with, poll=POLL)
        self.busy.start("far", url, launcher, create_with=2, coroutines=2, hold=20)
        self.busy.until_written("enter", "far")
        self.busy.start("near", create_with=2, coroutines=2, hold=20)
        self.held.until_written("asked", "waiter")
        self.busy.until_written("enter", "near")

    @contextlib.contextmanager
    def fault(self, words):
        self.began = now()
        for each in (self.held, self.busy):
            each.journal.write("test", "fault", words=words)
        yield
        self.mended = now()
        for each in (self.held, self.busy):
            each.journal.write("test", "mended", words=words)

    def lost(self):
        """Waits until the holder knows that its slot is lost."""
        return self.held.until_written("lost", "holder", self.began)

    def end_the_hold(self):
        if "holder" in self.held.processes:
            self.held.signal("holder", signal.SIGUSR2)

    def end(self):
        """Judges the journals, and returns the figures of the scene."""
        self.end_the_hold()
        for each in (self.held, self.busy):
            each.until_all_take_turns(self.mended)
        last = now()
        for each in (self.held, self.busy):
            each.end()
        overlap = max(each.judge() for each in (self.held, self.busy))
        queues = until(lambda: self.broker.list("queues", "name"), "queues are listed")
        left = [name for (name,) in queues if name.startswith(self.name + "-") and name.endswith("-B")]
        expect(not left, f"all is closed, but there are {left}")
        figures = {each: getattr(self, each).figures(self.began, last) for each in ("held", "busy")}
        return {"fault": round((self.mended - self.began) / 1e9, 2), "believed": self.believed(),
                "overlap": overlap, **figures}

    def believed(self):
        """For how many seconds the holder still believed after the fault began; None if it has not lost its slot."""
        released = {each.at for each in self.held.written("leave", "holder") if "revoked" not in each.words}
        for _, begin, end, who in self.held.journal.beliefs():
            if who == "holder" and begin < self.began < end:
                return None if end in released else round((end - self.began) / 1e9, 2)
        return 0

    def abandon(self):
        for each in (self.held, self.busy):
            each.abandon()
        self.resources.close()


SCENES = {}


def scene(group):
    def add(function):
        SCENES[function.__name__] = group, function
        return function
    return add


@scene("long")
def broker_frozen_for_1_s(on):
    on.begin()
    with on.fault("SIGSTOP of the broker"):
        on.broker.freeze()
        time.sleep(1)
        on.broker.thaw()


@scene("long")
def broker_frozen_for_10_s(on):
    on.begin()
    with on.fault("SIGSTOP of the broker"):
        on.broker.freeze()
        time.sleep(10)
        on.broker.thaw()


@scene("long")
def broker_killed_and_started(on):
    on.begin()
    on.broker.flush()
    with on.fault("SIGKILL of the broker"):
        on.broker.kill()
        on.broker.start()


@scene("long")
def application_stopped_and_started(on):
    on.begin()
    with on.fault("stop_app"), on.broker.application_stopped():
        pass


@scene("usual")
def connection_closed_while_the_holder_is_busy(on):
    on.begin()
    owner = on.broker.owner(f"{on.held.name}-1-B")
    with on.fault("close_connection"):
        on.held.signal("holder", signal.SIGUSR1)
        on.broker.ctl("close_connection", owner, brokers.OPERATOR)
        on.held.until_written("enter", "waiter", on.began)
        on.lost()


@scene("usual")
def holder_frozen_for_3_leases(on):
    on.begin()
    with on.fault("SIGSTOP of the holder"):
        on.held.signal("holder", signal.SIGSTOP)
        time.sleep(3 * LEASE)
        on.held.signal("holder", signal.SIGCONT)
        on.lost()


@scene("long")
def holder_killed(on):
    on.begin()
    with on.fault("SIGKILL of the holder"):
        on.held.kill("holder")


def relayed(kind):
    def body(on):
        relay = Relay(on.broker.port)
        on.resources.callback(relay.close)
        on.begin(f"amqp://guest:guest@127.0.0.1:{relay.port}/%2F")
        with on.fault("the relay " + kind):
            expect(relay.strike(kind) > 0, "there are connections through the relay")
            on.lost()
    body.__name__ = "relay_" + kind.replace(" ", "_").replace("'", "")
    scene("usual" if kind.startswith("resets") else "long")(body)


for each_kind in FAULTS:
    relayed(each_kind)


@scene("long")
def memory_alarm(on):
    """Slots are released and acquired in the alarm. There are no hints then, so the holder may be faster each time."""
    on.begin()
    with on.fault("memory alarm"), on.broker.alarm():
        time.sleep(1)
        on.end_the_hold()
        time.sleep(4 * LEASE)
        on.held.until_written("enter", None, on.began)
        on.busy.until_written("enter", None, on.began)


@scene("long")
def queue_a_deleted(on):
    """Nobody creates the semaphore anew but the test."""
    on.held.seed("create", "1")
    on.begin(create_with=0)
    with on.fault("delete_queue of A"):
        on.broker.delete_queue(f"{on.held.name}-1-A")
        on.broker.delete_queue(f"{on.busy.name}-2-A")
        on.held.until_written("leave", "holder", on.began)
        on.held.until_written("failed", "waiter", on.began)
        on.held.seed("create", "1")
        on.busy.seed("create", "2")


@scene("usual")
def queue_b_deleted(on):
    on.begin()
    with on.fault("delete_queue of B"):
        on.broker.delete_queue(f"{on.held.name}-1-B")
        on.lost()
        on.held.until_written("enter", "waiter", on.began)


@scene("long")
def queue_f_deleted(on):
    on.begin()
    with on.fault("delete_queue of F"):
        for each in (f"{on.held.name}-1-F", f"{on.busy.name}-1-F", f"{on.busy.name}-2-F"):
            on.broker.delete_queue(each)


def give_rights(on, pattern=".*"):
    on.broker.ctl("set_permissions", on.name, *[pattern] * 3)


def add_user(on):
    """Returns the address of the broker for a user of the scene's own."""
    on.broker.ctl("add_user", on.name, "secret")
    give_rights(on)
    return f"amqp://{on.name}:secret@127.0.0.1:{on.broker.port}/%2F"


@scene("long")
def user_deleted(on):
    on.begin(add_user(on))
    with on.fault("delete_user"):
        on.broker.ctl("delete_user", on.name)
        on.lost()
        on.held.until_written("enter", "waiter", on.began)
        add_user(on)


@scene("long")
def right_taken_away(on):
    on.begin(add_user(on))
    with on.fault("set_permissions"):
        give_rights(on, "^$")
        on.busy.until_written("failed", "far", on.began)
        on.end_the_hold()
        on.held.until_written("enter", "waiter", on.began)
        give_rights(on)


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    expect(done.returncode == 0, f"{words}: {done.stdout}{done.stderr}")


class Network:
    """A host beside this one. Both are network namespaces; the broker is on this one."""

    def __init__(self):
        self.holder = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"])
        own = os.readlink("/proc/self/ns/net")
        until(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != own, "the other host is there")
        command("ip", "link", "set", "lo", "up")
        command("ip", "link", "add", "cable", "type", "veth", "peer", "name", "eth0", "netns", str(self.holder.pid))
        command("ip", "addr", "add", f"{BROKER_ADDRESS}/24", "dev", "cable")
        command("ip", "link", "set", "cable", "up")
        command(*self.inside, "ip", "addr", "add", f"{HOST_ADDRESS}/24", "dev", "eth0")
        command(*self.inside, "ip", "link", "set", "eth0", "up")
        self.mend()

    @property
    def inside(self):
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", "--"]

    def mend(self):
        command("nft", "flush", "ruleset")

    def cut(self):
        """Drops all frames in both directions, and tells nobody."""
        command("nft", "add table inet faults; add chain inet faults in { type filter hook input priority 0; }; "
                "add chain inet faults out { type filter hook output priority 0; }; "
                "add rule inet faults in iifname cable drop; add rule inet faults out oifname cable drop")


@scene("network")
def network_cut_for_8_s(on):
    on.begin(f"amqp://guest:guest@{BROKER_ADDRESS}:{on.broker.port}/%2F", on.programs.network.inside)
    with on.fault("the network is cut off"):
        on.programs.network.cut()
        on.held.until_written("enter", "waiter", on.began)
        time.sleep(max(0, 4 * LEASE - (now() - on.began) / 1e9))
        on.programs.network.mend()


class Pairs:
    """A holder and a rival of each kind: seed clients, ours without rule 3, and ours."""

    def __init__(self, on, event):
        self.crews = {kind: on.crew(f"{event}-{kind}") for kind in ("seed", "hasty", "ours")}
        self.hasty = on.programs.hasty

    def start(self, who):
        """Starts one process of each kind, which takes the slot as soon as it can, and holds it."""
        names = {"seed": self.crews["seed"].start_seed(f"seed {who}", "hold", "600")}
        for kind, worker in (("hasty", self.hasty), ("ours", None)):
            self.crews[kind].start(who, worker=worker, create_with=1, lease=OVERLAP_LEASE * 1000, first_hold=HOUR)
            names[kind] = who
        for kind, each in self.crews.items():
            each.until_written("enter", names[kind])
        return names

    def signal(self, who, number):
        for kind, each in self.crews.items():
            each.signal(f"seed {who}" if kind == "seed" else who, number)

    def overlaps(self, strike):
        """The holders are frozen, and the fault strikes. The rivals take the slots. Then the holders go on."""
        self.crews["seed"].seed("create", "1")
        names = self.start("holder")
        self.signal("holder", signal.SIGSTOP)
        strike(self.crews.values())
        self.start("rival")
        self.signal("holder", signal.SIGCONT)
        for kind, each in self.crews.items():
            each.until_written("lost", names[kind])
        return {kind: round(each.journal.overlap(), 2) for kind, each in self.crews.items()}

    def abandon(self):
        for each in self.crews.values():
            each.abandon()


@scene("overlap")
def overlap(on):
    """Shows what rule 3 is for: without it two believe after a holder was frozen."""
    def restart(_):
        with on.broker.application_stopped():
            pass

    def close(crews_of_pairs):
        for each in crews_of_pairs:
            on.broker.close_owner(f"{each.name}-1-B")

    found = {}
    for event, strike in (("restart", restart), ("forced_close", close)):
        pairs = Pairs(on, event)
        on.resources.callback(pairs.abandon)
        found[event] = pairs.overlaps(strike)
        pairs.abandon()
    for event, seconds in found.items():
        expect(seconds["ours"] == 0, f"{event}: two of ours believed for {seconds['ours']} s")
        expect(seconds["seed"] > 0 and seconds["hasty"] > 0, f"{event}: nothing is shown: {seconds}")
    return found


class Mixed:
    """Three processes of ours, two seed clients and administrators share a semaphore. Some are killed."""

    SECONDS, PAUSE = 60, 0.7

    def __init__(self, on):
        self.crew, self.random = on.crew("shared"), random.Random(1)
        self.started = self.killed = 0
        on.resources.callback(self.crew.abandon)

    def start(self, kind):
        self.started += 1
        who = f"{kind}-{self.started}"
        if kind == "ours":
            self.crew.start(who, coroutines=2, hold=20)
        else:
            self.crew.start_seed(who, "cycles", "1000000")

    def kill_one(self):
        who = self.random.choice(sorted(self.crew.processes))
        self.crew.kill(who)
        self.killed += 1
        self.start(who.partition("-")[0])

    def administer(self):
        """Lets an administrator do one command. A third of them is killed in the middle."""
        words = self.random.choice((["create", "4"], ["grow", "1"], ["shrink", "1"], ["shrink", "2"]))
        process = subprocess.Popen([crews.SEED_CLIENT, self.crew.broker.url, self.crew.name, *words])
        try:
            process.wait(self.random.choice((DEADLINE, DEADLINE, 0.3)))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(DEADLINE)
            self.killed += 1

    def run(self):
        self.crew.seed("create", "3")
        for kind in ("ours", "ours", "ours", "seed", "seed"):
            self.start(kind)
        end = time.monotonic() + self.SECONDS
        while time.monotonic() < end:
            self.random.choice((self.kill_one, self.administer))()
            time.sleep(self.PAUSE)
        self.crew.seed("create", "3")
        last = now()
        for who in list(self.crew.processes):
            self.crew.until_written("enter", self.crew.name_of(who), last)
        for who in [each for each in self.crew.processes if each.startswith("seed")]:
            self.crew.kill(who)
        self.crew.end()
        overlap = self.crew.judge()
        entered = [each.who.partition("-")[0] for each in self.crew.written("enter")]
        return {"overlap": overlap, "killed": self.killed, "slots": len(self.crew.journal.of_slots()),
                "granted": {kind: entered.count(kind) for kind in ("ours", "seed")}}


@scene("mixed")
def mixed_for_a_minute(on):
    return Mixed(on).run()


class Programs:
    """The programs and options of the command line, and the network of the scene if it has one."""

    def __init__(self, words):
        self.program, self.worker = (os.path.abspath(each) for each in words[:2])
        options = dict(zip(words[2::2], words[3::2]))
        expect(len(words) % 2 == 0 and set(options) <= {"--scenes", "--results", "--hasty"}, f"usage: {words}")
        self.scenes = options.get("--scenes", "usual").split(",")
        self.results, self.hasty = options.get("--results"), options.get("--hasty")
        self.network = None
        known = {*SCENES, *(group for group, _ in SCENES.values())}
        expect(set(self.scenes) <= known, f"no such scenes: {set(self.scenes) - known}")

    def chosen(self):
        return [name for name, (group, _) in SCENES.items() if name in self.scenes or group in self.scenes]


def play(name, broker, programs, folder):
    """Runs one scene, prints its line, and returns its figures."""
    began, on = time.monotonic(), Scene(broker, programs, name, folder)
    try:
        shown = SCENES[name][1](on) or on.end()
        why = ""
    except (Failure, OSError, ValueError, subprocess.SubprocessError) as error:
        why = f"{type(error).__name__}: {error}"
        shown = {"failed": why}
        keep_journals(name, programs, folder)
    finally:
        on.abandon()
    verdict = "FAILED" if why else "passed"
    print(f"{verdict} {time.monotonic() - began:5.1f} s  {name}: {why or json.dumps(shown)}", flush=True)
    return shown


def keep_journals(name, programs, folder):
    """A scene that fails leaves its journals beside the results."""
    place = pathlib.Path(programs.results).parent if programs.results else pathlib.Path()
    for each in pathlib.Path(folder).glob(f"{name}-*"):
        if each.is_file():
            shutil.copy(each, place)


def add_results(file, version, found):
    file = pathlib.Path(file)
    all_versions = json.loads(file.read_text()) if file.exists() else {}
    all_versions.setdefault(version, {}).update(found)
    file.write_text(json.dumps(all_versions, indent=1) + "\n")


def run(programs, chosen):
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        broker = brokers.Broker(programs.program, os.path.join(folder, "broker"))
        if any(SCENES[name][0] == "network" for name in chosen):
            programs.network = Network()
            defaults = pathlib.Path(broker.folder) / "conf.d"
            defaults.mkdir(parents=True)
            (defaults / "20-network.conf").write_text(f"listeners.tcp.network = {BROKER_ADDRESS}:{broker.port}\n"
                                                      "loopback_users = none\n")
        stack.callback(broker.stop)
        broker.start()
        version = broker.ctl("version").strip()
        print(f"RabbitMQ {version}", flush=True)
        found = {name: play(name, broker, programs, folder) for name in chosen}
    if programs.results:
        add_results(programs.results, version, found)
    return 1 if any("failed" in each for each in found.values()) else 0


def network_is_missing():
    """Why this machine allows no networks of our own; empty if it does."""
    probe = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", "ip link set lo up && nft flush ruleset"]
    with contextlib.suppress(OSError):
        done = subprocess.run(probe, capture_output=True, text=True)
        return done.stderr.strip() or f"status {done.returncode}" if done.returncode != 0 else ""
    return "there is no unshare"


def in_a_network_of_its_own():
    """Runs this program again, in new namespaces."""
    why = network_is_missing()
    if why:
        print(f"SKIPPED: this machine allows no network namespaces: {why}")
        return SKIPPED
    inside = {**os.environ, "HOLDFAST_INSIDE_A_NETWORK": "1"}
    return subprocess.run(["unshare", "--user", "--map-root-user", "--net", *sys.argv], env=inside).returncode


def main():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    words = sys.argv[1:]
    if words == ["--list"]:
        print("\n".join(f"{group:8} {name}" for name, (group, _) in SCENES.items()))
        return 0
    if words == ["--self-test"]:
        return crews.self_test() or 0
    if len(words) < 2 or words[0].startswith("-"):
        print(__doc__.strip(), file=sys.stdout if words in (["-h"], ["--help"]) else sys.stderr)
        return 0 if words in (["-h"], ["--help"]) else 2
    try:
        programs = Programs(words)
        chosen = programs.chosen()
        if any(SCENES[name][0] == "network" for name in chosen) and "HOLDFAST_INSIDE_A_NETWORK" not in os.environ:
            return in_a_network_of_its_own()
        return run(programs, chosen)
    except Failure as why:
        print(why)
        return 1


if __name__ == "__main__":
    sys.exit(main())
