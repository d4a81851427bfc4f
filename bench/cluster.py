# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Three Consul servers that keep their data on disk, each in a network of its own, and a client agent before them.

Each host is a network namespace without a name, which lives as long as the process in it. A bridge in one more
namespace joins the hosts. The client agent and the measured program run in that namespace. This needs root, or the root
of a user namespace.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import time

SERVERS = 3
READY_WITHIN = 60.0  # seconds
ENVIRONMENT = {**os.environ, "PATH": os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"}


class Unavailable(Exception):
    """There can be no cluster on this machine. The text says why."""


def address(host):
    return f"10.77.0.{host}"


class Cluster:
    BRIDGE = 254
    address = "127.0.0.1:8500"  # of the client agent, in the bridge's network

    def __init__(self, consul, settings, folder, dies_with_us):
        self.consul = consul
        self.settings = settings
        self.dies_with_us = dies_with_us
        self.spaces = []
        self.agents = []
        self.folder = tempfile.TemporaryDirectory(prefix="cluster-", dir=folder)
        try:
            self.make_network()
            for host in range(1, SERVERS + 1):
                self.start(host, {"server": True, "bootstrap_expect": SERVERS, "client_addr": address(host)})
            self.start(self.BRIDGE, {"server": False, "client_addr": "127.0.0.1"})
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise

    # --- The network

    def make_space(self, entry):
        """Makes a namespace. Returns the prefix of a command that is to run in it."""
        shell = ["sh", "-c", "echo made; exec cat"]
        held = subprocess.Popen([*entry, *shell], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env=ENVIRONMENT, preexec_fn=self.dies_with_us)
        self.spaces.append(held)
        if not held.stdout.readline():
            raise Unavailable(held.stderr.read().strip())
        return str(held.pid)

    def make_network(self):
        try:
            if os.geteuid() == 0:
                bridge, user = self.make_space(["unshare", "--net"]), []
            else:
                bridge = self.make_space(["unshare", "--user", "--map-root-user", "--net"])
                user = ["--user", "--preserve-credentials"]
            self.inside = {self.BRIDGE: ["nsenter", "--target", bridge, *user, "--net", "--"]}
            self.command(self.BRIDGE, "ip link set lo up; ip link add br0 type bridge; ip link set br0 up",
                         f"ip addr add {address(self.BRIDGE)}/24 dev br0")
            for host in range(1, SERVERS + 1):
                space = self.make_space([*self.inside[self.BRIDGE], "unshare", "--net"])
                self.inside[host] = ["nsenter", "--target", space, *user, "--net", "--"]
                self.command(self.BRIDGE, f"ip link add p{host} type veth peer name eth0 netns {space}",
                             f"ip link set p{host} master br0 up")
                self.command(host, "ip link set lo up; ip link set eth0 up",
                             f"ip addr add {address(host)}/24 dev eth0")
        except OSError as failed:
            raise Unavailable(str(failed)) from failed

    def command(self, host, *lines):
        done = subprocess.run([*self.inside[host], "sh", "-ec", "; ".join(lines)], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=ENVIRONMENT, timeout=30)
        if done.returncode != 0:
            raise Unavailable(done.stdout.strip())

    # --- The agents

    def start(self, host, more):
        config = {
            "node_name": f"host-{host}",
            "bind_addr": address(host),
            "data_dir": f"{self.folder.name}/data-{host}",
            "retry_join": [address(each) for each in range(1, SERVERS + 1) if each != host],
            "retry_interval": "1s",
            "ports": {"serf_wan": -1, "dns": -1, "grpc": -1},
            "disable_update_check": True,
            "performance": {"raft_multiplier": 1},
            **self.settings,
            **more,
        }
        file = pathlib.Path(self.folder.name) / f"{host}.json"
        file.write_text(json.dumps(config))
        with file.with_suffix(".log").open("wb") as log:
            command = [*self.inside[host], self.consul, "agent", f"-config-file={file}"]
            self.agents.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                start_new_session=True, preexec_fn=self.dies_with_us))

    def ask(self, *words):
        environment = {**ENVIRONMENT, "CONSUL_HTTP_ADDR": self.address}
        done = subprocess.run([*self.launcher, self.consul, *words], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30)
        return done.stdout if done.returncode == 0 else ""

    def is_ready(self):
        """True if three servers vote, all nodes are known, and a write succeeds."""
        voters = [line for line in self.ask("operator", "raft", "list-peers").splitlines() if " true " in line]
        nodes = self.ask("catalog", "nodes")
        known = all(f"host-{host}" in nodes for host in (*range(1, SERVERS + 1), self.BRIDGE))
        return len(voters) == SERVERS and known and bool(self.ask("kv", "put", "bench/ready", "yes"))

    def wait_until_ready(self):
        end = time.monotonic() + READY_WITHIN
        while not self.is_ready():
            if time.monotonic() > end or any(agent.poll() is not None for agent in self.agents):
                log = (pathlib.Path(self.folder.name) / "1.log").read_text(errors="replace")
                raise Unavailable("the servers find no leader; one of them says at last:\n" + log[-1000:])
            time.sleep(0.2)

    # --- As an agent

    @property
    def launcher(self):
        return self.inside[self.BRIDGE]

    def stop(self):
        for each in (*self.agents, *self.spaces):
            each.kill()
            each.wait()
        self.folder.cleanup()


def file_system(folder):
    """The type of the file system that the folder is on."""
    return subprocess.run(["stat", "-f", "-c", "%T", folder], text=True, stdout=subprocess.PIPE).stdout.strip()
