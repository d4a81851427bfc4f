#!/usr/bin/python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Cuts one node of a RabbitMQ cluster off from the two others, while a process on it holds a slot. Shows for how long
two processes believed in the same slot. These are figures: nothing is guaranteed on a cluster.

usage: clusters.py PROGRAM WORKER [OPTION]...   PROGRAM is the one that scripts/rabbitmq prints, and WORKER is
                                                rabbitmq_worker
       clusters.py --self-test                  shows that the figures are found in a journal
       clusters.py --list                       the scenes

  --scenes NAME[,NAME]...   the default is all scenes for the metadata store of this version of RabbitMQ

  --results FILE            adds the figures to a file of JSON, under the version of the broker

Each node is in a network namespace of its own. The process that holds the slot is on the same host as node 1, and
two processes that wait for the slot are on those of nodes 2 and 3. So each client reaches its node all the time. A
process keeps its slot although the slot is revoked. Several crews run beside each other. They differ in the lease, and
in the node on which the queues A and F are:

- far: on node 2, so that the holder does not reach them after the cut.
- far_short, far_long: the same, with a short and a long lease.
- near: on node 1, so that only the holder reaches them.
- both: a copy is on each node (a mirrored queue, which only RabbitMQ 3 has), with a short lease.
- both_extra: the same, and `lease_extra` is half of the tick time.

A scene fails only if its figures cannot be measured. The figures of a crew are in seconds:
- overlap: the longest time for which two processes believed in the slot. It counts until the end of the scene.
- nobodys: the longest time in which nobody believed, though others waited.
- lost: when the holder lost the slot, counted from the cut; null if it kept the slot. `reason` says why.
- granted: when another process was granted the slot, counted from the cut; null if none was.
- healed: the losses after the network was mended, and how often.

The exit status is 77 if this machine does not allow network namespaces.
"""

import collections
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import typing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from broker import DEADLINE, Broker, Failure, Journal, expect, listens, now, until  # noqa: E402

import crew as crews  # noqa: E402
from crew import HOUR, LEASE, Crew  # noqa: E402
from faults import SKIPPED, add_results, command, in_a_network_of_its_own  # noqa: E402

NODES = 3
USUAL_LEASE, LONG_LEASE = 10, 20  # seconds
TICK_TIME, SHORT_TICK_TIME = 10, 4  # seconds; Erlang's net_ticktime, which is 60 by default
CUT, AFTER = 30, 30  # seconds: how long the network is cut, and how long it is watched afterwards
POLL = 100  # milliseconds
KHEPRI_FROM = 4, 2  # the version from which on new clusters keep their metadata in Khepri
MIRRORS_UNTIL = 3  # the last version with mirrored queues
PORT = 20000  # the same on each host


class Kind(typing.NamedTuple):
    """How the crews differ."""

    home: int  # the node on which the queues are made
    lease: int  # seconds
    extra: int = 0  # seconds
    mirrored: bool = False


CREWS = {"far": Kind(2, USUAL_LEASE), "far_short": Kind(2, LEASE), "far_long": Kind(2, LONG_LEASE),
         "near": Kind(1, USUAL_LEASE), "both": Kind(1, LEASE, mirrored=True),
         "both_extra": Kind(1, LEASE, TICK_TIME // 2, mirrored=True)}


def address(host):
    return f"10.79.0.{host}"


class Host:
    """A network namespace with one cable to a bridge, which is in the namespace of this process."""

    def __init__(self, number):
        self.number, self.cable = number, f"cable{number}"
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"])
        own, space = os.readlink("/proc/self/ns/net"), f"/proc/{self.process.pid}/ns/net"
        until(lambda: os.readlink(space) != own, "the host is there")
        self.inside = ["nsenter", f"--net={space}", "--"]
        command("ip", "link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", str(self.process.pid))
        command("ip", "link", "set", self.cable, "up")
        self.mend()
        command(*self.inside, "ip", "link", "set", "lo", "up")
        command(*self.inside, "ip", "addr", "add", f"{address(number)}/24", "dev", "eth0")
        command(*self.inside, "ip", "link", "set", "eth0", "up")

    def cut(self):
        """Drops all frames in both directions, and tells nobody."""
        command("ip", "link", "set", self.cable, "nomaster")

    def mend(self):
        command("ip", "link", "set", self.cable, "master", "bridge")

    def close(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def hosts():
    with contextlib.ExitStack() as stack:
        command("ip", "link", "set", "lo", "up")
        command("ip", "link", "add", "bridge", "type", "bridge")
        stack.callback(command, "ip", "link", "del", "bridge")
        command("ip", "addr", "add", f"{address(254)}/24", "dev", "bridge")
        command("ip", "link", "set", "bridge", "up")
        found = []
        for number in range(1, NODES + 1):
            found.append(Host(number))
            stack.callback(found[-1].close)
        yield found


class Node(Broker):
    """A node of the cluster, on a host of its own."""

    def __init__(self, program, folder, host, settings):
        super().__init__(program, folder)
        self.port, self.address, self.launcher = PORT, address(host.number), host.inside
        self.environment = {**os.environ, "RABBITMQ_NODENAME": f"rabbit@node{host.number}",
                            "BROKER_ADDRESS": self.address}
        (self.folder / "conf.d").mkdir(parents=True)
        (self.folder / "conf.d/20-cluster.conf").write_text(configuration(settings))
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(
            f"{address(number)} node{number}\n" for number in range(1, NODES + 1)))
        cookie = self.folder / ".erlang.cookie"
        cookie.write_text("cluster-of-a-test")
        cookie.chmod(0o400)

    def knows(self):
        """How many nodes of the cluster are running, as this one believes."""
        with contextlib.suppress(Failure):
            return len(json.loads(self.ctl("cluster_status", "--formatter", "json"))["running_nodes"])
        return 0


def configuration(settings):
    lines = {"cluster_formation.peer_discovery_backend": "classic_config", "loopback_users": "none",
             **settings}
    for number in range(1, NODES + 1):
        lines[f"cluster_formation.classic_config.nodes.{number}"] = f"rabbit@node{number}"
    return "".join(f"{name} = {value}\n" for name, value in lines.items())


@contextlib.contextmanager
def cluster(program, folder, settings):
    """Yields the hosts and the nodes."""
    with hosts() as all_hosts, contextlib.ExitStack() as stack:
        nodes = [Node(program, os.path.join(folder, f"node{host.number}"), host, settings) for host in all_hosts]
        for each in nodes:
            each.launch()
            stack.callback(each.stop)
        for each in nodes:
            until(lambda node=each: listens(PORT, node.address), f"{each.address} starts")
        until(lambda: all(each.knows() == NODES for each in nodes), "the nodes are a cluster")
        yield all_hosts, nodes


class Watch:
    """A crew on the cluster: a holder on node 1, and two processes that wait on the others."""

    def __init__(self, kind, worker, nodes, folder):
        self.kind = CREWS[kind]
        self.crew, self.nodes = Crew(worker, nodes[self.kind.home - 1], kind, folder), nodes

    def start(self, who, node, **options):
        self.crew.start(who, node.url, node.launcher, create_with=1, poll=POLL, lease=self.kind.lease * 1000,
                        lease_extra=self.kind.extra * 1000, stay=1, **options)

    def begin(self):
        """Makes the queues, and starts the processes."""
        if self.kind.mirrored:
            self.nodes[0].ctl("set_policy", self.crew.name, f"^{self.crew.name}-", '{"ha-mode": "all"}')
        self.start("maker", self.crew.broker, first_hold=0, hold=0)
        self.crew.until_written("leave", "maker")
        self.crew.end()
        self.start("holder", self.nodes[0], first_hold=HOUR)
        self.crew.until_written("enter", "holder")
        for number in (2, 3):
            self.start(f"rival{number}", self.nodes[number - 1], first_hold=HOUR)
            self.crew.until_written("asked", f"rival{number}")


def figures(journal, began, mended, last):
    """Reads the figures from the journal of a crew. The network was cut between these two times, and the scene ended
    at `last`.
    """
    after_the_cut = [each for each in journal.entries() if began <= each.at < last]
    lost = [each for each in after_the_cut if each.event == "lost"]
    of_the_holder = [each for each in lost if each.who == "holder"]
    granted = [each for each in after_the_cut if each.event == "enter" and each.who != "holder"]

    def seconds(entries):
        return round((entries[0].at - began) / 1e9, 2) if entries else None

    healed = collections.Counter(f"{each.who.rstrip('23')} {each.words[1]}" for each in lost if each.at >= mended)
    return {"overlap": round(overlap(journal, last), 2), "nobodys": round(journal.nobodys(began, last), 2),
            "lost": seconds(of_the_holder), "reason": of_the_holder[0].words[1] if of_the_holder else None,
            "granted": seconds(granted), "healed": dict(healed)}


def overlap(journal, last):
    """As Journal.overlap, but processes are killed at `last`, so nobody believes after it."""
    for who in {each.who for each in journal.entries()}:
        journal.write(who, "gone", at=last)
    return journal.overlap()


def partition(program, worker, folder, settings, kinds):
    """Runs one scene. Returns the figures of each crew."""
    with cluster(program, folder, settings) as (all_hosts, nodes), contextlib.ExitStack() as stack:
        watches = {kind: Watch(kind, worker, nodes, folder) for kind in kinds}
        for each in watches.values():
            stack.callback(each.crew.abandon)
            each.begin()
        began = now()
        all_hosts[0].cut()
        time.sleep(CUT)
        all_hosts[0].mend()
        mended = now()
        time.sleep(AFTER)
        last = now()
        for each in watches.values():
            each.crew.abandon()
        return {kind: {**each.kind._asdict(), **figures(each.crew.journal, began, mended, last)}
                for kind, each in watches.items()}


# The settings of the scenes, by the metadata store that they are for.
SCENES = {
    "mnesia": {
        "cluster_ignore": {"cluster_partition_handling": "ignore", "net_ticktime": TICK_TIME},
        "cluster_ignore_short_tick": {"cluster_partition_handling": "ignore", "net_ticktime": SHORT_TICK_TIME},
        "cluster_pause_minority": {"cluster_partition_handling": "pause_minority", "net_ticktime": TICK_TIME},
    },
    "khepri": {
        "cluster_khepri": {"net_ticktime": TICK_TIME},
        "cluster_khepri_short_tick": {"net_ticktime": SHORT_TICK_TIME},
    },
}


def store_of(version):
    return "khepri" if tuple(int(each) for each in version.split(".")[:2]) >= KHEPRI_FROM else "mnesia"


def version_of(program):
    folder = pathlib.Path(program).parent
    (found,) = folder.glob("usr/lib/rabbitmq/lib/rabbitmq_server-*")
    return found.name.rpartition("-")[2]


def kinds_of(version):
    """The crews that this version can have."""
    return [name for name, kind in CREWS.items() if not kind.mirrored or int(version.split(".")[0]) <= MIRRORS_UNTIL]


def play(name, program, worker, settings, kinds):
    """Runs one scene, prints its line, and returns its figures."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            shown, why = {"settings": settings, "crews": partition(program, worker, folder, settings, kinds)}, ""
        except (Failure, OSError, ValueError, subprocess.SubprocessError) as error:
            why = f"{type(error).__name__}: {error}"
            shown = {"failed": why}
    verdict = "FAILED" if why else "passed"
    print(f"{verdict} {time.monotonic() - began:5.1f} s  {name}: {why or json.dumps(shown)}", flush=True)
    return shown


def run(words):
    program, worker = (os.path.abspath(each) for each in words[:2])
    options = dict(zip(words[2::2], words[3::2]))
    expect(len(words) % 2 == 0 and set(options) <= {"--scenes", "--results"}, f"usage: {words}")
    version = version_of(program)
    scenes = SCENES[store_of(version)]
    chosen = options["--scenes"].split(",") if "--scenes" in options else list(scenes)
    expect(set(chosen) <= set(scenes), f"RabbitMQ {version} has the scenes {', '.join(scenes)}")
    print(f"RabbitMQ {version}", flush=True)
    found = {name: play(name, program, worker, scenes[name], kinds_of(version)) for name in chosen}
    for each in found.values():
        each["store"] = store_of(version)
    if "--results" in options:
        add_results(options["--results"], version, found)
    return 1 if any("failed" in each for each in found.values()) else 0


def self_test():
    """A holder believes for too long; another process is granted the slot, and loses it after the cut."""
    with tempfile.TemporaryDirectory() as folder:
        journal, second = Journal(f"{folder}/journal"), 10**9
        journal.write("holder", "enter", 0, "1", 0, 20 * second)
        journal.write("holder", "lost", 0, "1 lease_expired", 9 * second)
        journal.write("rival2", "enter", 0, "1", 8 * second, 90 * second)
        journal.write("rival2", "lost", 0, "1 removed", 12 * second)
        shown = figures(journal, 5 * second, 11 * second, 20 * second)
        expect(shown == {"overlap": 1, "nobodys": 8, "lost": 4, "reason": "lease_expired", "granted": 3,
                         "healed": {"rival removed": 1}}, f"{shown}")
        journal = Journal(f"{folder}/both")
        journal.write("maker", "enter", 0, "1", 0, 90 * second)
        journal.write("maker", "lost", 0, "1 removed", 6 * second)
        journal.write("holder", "enter", 0, "1", 2 * second, 6 * second)
        journal.write("holder", "lease", 0, "1", 3 * second, 7 * second)
        journal.write("holder", "lost", 0, "1 lease_expired", 7 * second)
        journal.write("holder", "enter", 0, "1", 9 * second, 90 * second)
        journal.write("rival3", "enter", 0, "1", 12 * second, 90 * second)
        shown = figures(journal, 5 * second, 11 * second, 20 * second)
        expect(shown == {"overlap": 8, "nobodys": 2, "lost": 2, "reason": "lease_expired", "granted": 7, "healed": {}},
               f"{shown}")
    expect([store_of(each) for each in ("3.10.8", "4.0.5", "4.2.0", "4.3.6")] == ["mnesia"] * 2 + ["khepri"] * 2,
           "the metadata store of a version")
    expect("both" in kinds_of("3.10.8") and "both" not in kinds_of("4.0.5"), "the crews of a version")
    return 0


def main():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    words = sys.argv[1:]
    if words == ["--self-test"]:
        return self_test()
    if words == ["--list"]:
        print("\n".join(f"{store:8} {name}" for store, scenes in SCENES.items() for name in scenes))
        return 0
    if len(words) < 2 or words[0].startswith("-"):
        print(__doc__.strip(), file=sys.stdout if words in (["-h"], ["--help"]) else sys.stderr)
        return 0 if words in (["-h"], ["--help"]) else 2
    if "HOLDFAST_INSIDE_A_NETWORK" not in os.environ:
        return in_a_network_of_its_own()
    try:
        return run(words)
    except (Failure, ValueError) as why:
        print(why, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
