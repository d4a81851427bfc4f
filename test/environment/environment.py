#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Compares how holdfast and `consul` use Consul's environment variables.

In each of the cases below both ask for a key, and the servers that they may turn to report the requests. Each
difference has to be stated with its reason, and each stated difference has to exist.

usage: environment.py PROBE [--consul PROGRAM] [--write]
       environment.py --self-test

PROBE is the program that is built from test/environment/probe.cpp. PROGRAM is a consul. Without it, $HOLDFAST_CONSUL is
used if it has the version that doc/reference/environment.md is about. Otherwise holdfast is compared with the results of that
version that the document records. --write writes the document. Everything runs in a network of its own.
"""

import argparse
import base64
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve()
DOCUMENT = HERE.parents[2] / "doc" / "reference" / "environment.md"
AWAY = "10.9.8.7"  # an address that is no loopback: Go asks no proxy for those
VARIABLES = (
    "CONSUL_HTTP_ADDR CONSUL_HTTP_TOKEN CONSUL_HTTP_TOKEN_FILE CONSUL_HTTP_AUTH CONSUL_HTTP_SSL CONSUL_HTTP_SSL_VERIFY"
    " CONSUL_CACERT CONSUL_CAPATH CONSUL_CLIENT_CERT CONSUL_CLIENT_KEY CONSUL_TLS_SERVER_NAME CONSUL_NAMESPACE"
    " CONSUL_PARTITION CONSUL_DATACENTER HTTP_PROXY http_proxy HTTPS_PROXY https_proxy NO_PROXY no_proxy REQUEST_METHOD"
).split()

STRICTER = "Go warns, and goes on; a typing error must turn nothing off"


def case(words, because=None):
    """A case as one writes it in a shell, and why the two differ, if they do."""
    return words, because


CASES = [
    # --- The address.
    case(""),
    case("CONSUL_HTTP_ADDR=127.0.0.1:8600"),
    case("CONSUL_HTTP_ADDR=127.0.0.1"),
    case("CONSUL_HTTP_ADDR=localhost"),
    case("CONSUL_HTTP_ADDR=[::1]:8600"),
    case("CONSUL_HTTP_ADDR=[::1]"),
    case("CONSUL_HTTP_ADDR=::1"),
    case("CONSUL_HTTP_ADDR=http://127.0.0.1:8600"),
    case("CONSUL_HTTP_ADDR=http://127.0.0.1"),
    case("CONSUL_HTTP_ADDR=HTTP://127.0.0.1:8600", "a scheme may be in capitals (RFC 3986)"),
    case("CONSUL_HTTP_ADDR=http://127.0.0.1:8600/", "Go puts two slashes together there, takes v1 for a host, and asks for another path"),
    case("CONSUL_HTTP_ADDR=http://127.0.0.1:8600/below/here"),
    case("CONSUL_HTTP_ADDR=http://127.0.0.1:8600/below/", "Go asks for /below//v1/kv/k"),
    case("CONSUL_HTTP_ADDR=127.0.0.1:8600/below"),
    case("CONSUL_HTTP_ADDR=ftp://127.0.0.1:8600"),
    case("CONSUL_HTTP_ADDR=127.0.0.1:0"),
    case("CONSUL_HTTP_ADDR=127.0.0.1:x"),
    case("CONSUL_HTTP_ADDR=unix://{folder}/plain.sock"),
    case("CONSUL_HTTP_ADDR=unix://{folder}/none.sock"),
    # --- TLS.
    case("CONSUL_HTTP_ADDR=https://127.0.0.1:8443 CONSUL_CACERT={folder}/ca.pem"),
    case("CONSUL_HTTP_ADDR=https://localhost:8443 CONSUL_CACERT={folder}/ca.pem"),
    case("CONSUL_HTTP_ADDR=https://127.0.0.1 CONSUL_CACERT={folder}/ca.pem"),
    case("CONSUL_HTTP_ADDR=127.0.0.1:8443 CONSUL_HTTP_SSL=true CONSUL_CACERT={folder}/ca.pem"),
    case("CONSUL_HTTP_ADDR=127.0.0.1 CONSUL_HTTP_SSL=1 CONSUL_CACERT={folder}/ca.pem"),
    case("CONSUL_HTTP_ADDR=http://127.0.0.1:8443 CONSUL_HTTP_SSL=T CONSUL_CACERT={folder}/ca.pem"),
    case("CONSUL_HTTP_ADDR=https://127.0.0.1:8443 CONSUL_HTTP_SSL=false CONSUL_CACERT={folder}/ca.pem"),
    case("CONSUL_HTTP_ADDR=127.0.0.1:8600 CONSUL_HTTP_SSL=0"),
    case("CONSUL_HTTP_ADDR=127.0.0.1:8600 CONSUL_HTTP_SSL=garbage", STRICTER),
    case("CONSUL_HTTP_ADDR=https://127.0.0.1:8443"),
    case("CONSUL_HTTP_ADDR=https://127.0.0.1:8443 CONSUL_HTTP_SSL_VERIFY=false"),
    case("CONSUL_HTTP_ADDR=https://127.0.0.1:8443 CONSUL_HTTP_SSL_VERIFY=true"),
    case("CONSUL_HTTP_ADDR=https://127.0.0.1:8443 CONSUL_HTTP_SSL_VERIFY=garbage", STRICTER),
    case("CONSUL_HTTP_ADDR=https://127.0.0.1:8443 CONSUL_CAPATH={folder}/authorities"),
    case(
        "CONSUL_HTTP_ADDR=https://127.0.0.1:8443 CONSUL_CAPATH={folder}/empty",
        "where nobody is trusted no connection can come about: that is said at once",
    ),
    case("CONSUL_HTTP_ADDR=https://127.0.0.1:8443 CONSUL_CACERT={folder}/other.pem CONSUL_CAPATH={folder}/authorities"),
    case("CONSUL_HTTP_ADDR=https://127.0.0.1:8443 CONSUL_CACERT={folder}/none.pem"),
    case("CONSUL_HTTP_ADDR=https://127.0.0.1:8443 CONSUL_CACERT={folder}/token"),
    case("CONSUL_HTTP_ADDR=127.0.0.1:8600 CONSUL_CACERT={folder}/none.pem"),
    case("CONSUL_HTTP_ADDR=127.0.0.1:8600 CONSUL_CACERT={folder}/ca.pem"),
    case(
        "CONSUL_HTTP_ADDR=https://127.0.0.1:8443 CONSUL_CACERT={folder}/ca.pem CONSUL_TLS_SERVER_NAME=server.dc1.consul"
    ),
    case(
        "CONSUL_HTTP_ADDR=https://127.0.0.1:8443 CONSUL_CACERT={folder}/ca.pem"
        " CONSUL_TLS_SERVER_NAME=server.dc1.consul:1"
    ),
    case("CONSUL_HTTP_ADDR=https://127.0.0.1:8443 CONSUL_CACERT={folder}/ca.pem CONSUL_TLS_SERVER_NAME=other.example"),
    case(
        "CONSUL_HTTP_ADDR=https://127.0.0.1:8443 CONSUL_CACERT={folder}/ca.pem"
        " CONSUL_CLIENT_CERT={folder}/client.pem CONSUL_CLIENT_KEY={folder}/client.key"
    ),
    case("CONSUL_HTTP_ADDR=https://127.0.0.1:8443 CONSUL_CACERT={folder}/ca.pem CONSUL_CLIENT_CERT={folder}/client.pem"),
    case("CONSUL_HTTP_ADDR=127.0.0.1:8600 CONSUL_CLIENT_KEY={folder}/client.key"),
    # --- The token, and who asks.
    case("CONSUL_HTTP_TOKEN=t"),
    case("CONSUL_HTTP_TOKEN=t CONSUL_HTTP_TOKEN_FILE={folder}/token"),
    case("CONSUL_HTTP_TOKEN_FILE={folder}/token"),
    case("CONSUL_HTTP_TOKEN=t CONSUL_HTTP_TOKEN_FILE={folder}/empty.token"),
    case("CONSUL_HTTP_TOKEN_FILE={folder}/empty.token"),
    case("CONSUL_HTTP_TOKEN=t CONSUL_HTTP_TOKEN_FILE={folder}/none.token"),
    case("CONSUL_HTTP_AUTH=user:pass:word"),
    case("CONSUL_HTTP_AUTH=user"),
    case("CONSUL_NAMESPACE=team"),
    case("CONSUL_PARTITION=east"),
    case("CONSUL_NAMESPACE=team CONSUL_PARTITION=east CONSUL_HTTP_TOKEN=t"),
    case("CONSUL_DATACENTER=dc2", "`consul` has an option for it, and no variable"),
    # --- Proxies.
    case("HTTP_PROXY=http://127.0.0.1:3128 CONSUL_HTTP_ADDR={away}:8600"),
    case("http_proxy=127.0.0.1:3128 CONSUL_HTTP_ADDR={away}:8600"),
    case("HTTP_PROXY=http://127.0.0.1:3128 http_proxy=http://127.0.0.1:1 CONSUL_HTTP_ADDR={away}:8600"),
    case("HTTP_PROXY=http://user:pass%20word@127.0.0.1:3128 CONSUL_HTTP_ADDR={away}:8600"),
    case("HTTP_PROXY=http://127.0.0.1:3128 CONSUL_HTTP_ADDR=http://{away}:8600/below CONSUL_HTTP_AUTH=user:word"),
    case("HTTP_PROXY=http://127.0.0.1:3128 CONSUL_HTTP_ADDR=consul.example:8600"),
    case("HTTP_PROXY=http://127.0.0.1:3128"),
    case("HTTP_PROXY=http://127.0.0.1:3128 CONSUL_HTTP_ADDR=localhost:8600"),
    case("HTTP_PROXY=http://127.0.0.1:3128 CONSUL_HTTP_ADDR={away}:8600 NO_PROXY={away}"),
    case("HTTP_PROXY=http://127.0.0.1:3128 CONSUL_HTTP_ADDR={away}:8600 NO_PROXY=a,10.0.0.0/8"),
    case("HTTP_PROXY=http://127.0.0.1:3128 CONSUL_HTTP_ADDR={away}:8600 no_proxy={away}:8600"),
    case("HTTP_PROXY=http://127.0.0.1:3128 CONSUL_HTTP_ADDR={away}:8600 NO_PROXY={away}:8601"),
    case("HTTP_PROXY=http://127.0.0.1:3128 CONSUL_HTTP_ADDR={away}:8600 NO_PROXY=*"),
    case("HTTP_PROXY=http://127.0.0.1:3128 CONSUL_HTTP_ADDR=consul.example:8600 NO_PROXY=example"),
    case("HTTP_PROXY=http://127.0.0.1:3128 CONSUL_HTTP_ADDR=consul.example:8600 NO_PROXY=.example"),
    case("HTTP_PROXY=http://127.0.0.1:3128 CONSUL_HTTP_ADDR=consul.example:8600 NO_PROXY=.consul.example"),
    case("HTTPS_PROXY=http://127.0.0.1:3128 CONSUL_HTTP_ADDR={away}:8600"),
    case(
        "HTTPS_PROXY=http://127.0.0.1:3128 CONSUL_HTTP_ADDR=https://{away}:8443 CONSUL_CACERT={folder}/ca.pem"
        " CONSUL_TLS_SERVER_NAME=localhost CONSUL_HTTP_TOKEN=t"
    ),
    case(
        "HTTPS_PROXY=http://user:word@127.0.0.1:3128 CONSUL_HTTP_ADDR=https://{away}:8443 CONSUL_CACERT={folder}/ca.pem"
        " CONSUL_TLS_SERVER_NAME=localhost"
    ),
    case("HTTP_PROXY=http://127.0.0.1:3128 REQUEST_METHOD=GET CONSUL_HTTP_ADDR={away}:8600"),
    case("HTTP_PROXY=http://127.0.0.1:3128 CONSUL_HTTP_ADDR=unix://{folder}/plain.sock"),
]


def variables_of(words, folder):
    words = words.format(folder=folder, away=AWAY)
    return dict(word.split("=", 1) for word in words.split())


class Recorder:
    """The servers, and the requests that they got."""

    def __init__(self, folder):
        self.folder = folder
        self.came = []
        self.lock = threading.Lock()
        for host in ("127.0.0.1", "::1", AWAY):
            for port in (80, 8500, 8600):
                self.listen(host, port, self.serve_plain)
            for port in (443, 8443):
                self.listen(host, port, self.serve_tls)
        self.listen("127.0.0.1", 3128, self.serve_plain)
        server = socket.socket(socket.AF_UNIX)
        server.bind(f"{folder}/plain.sock")
        self.accept_from(server, "the socket", self.serve_plain)

    def listen(self, host, port, serve):
        server = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.accept_from(server, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", serve)

    def accept_from(self, server, name, serve):
        server.listen()

        def accept():
            while True:
                connection, _ = server.accept()
                connection.settimeout(10)
                threading.Thread(target=serve, args=(connection, name), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()

    def note(self, words):
        with self.lock:
            self.came.append(words)

    def serve_plain(self, connection, where):
        with connection:
            try:
                self.converse(connection, "http " + where)
            except OSError:
                pass

    def serve_tls(self, connection, where):
        names = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{self.folder}/server.pem", f"{self.folder}/server.key")
        context.load_verify_locations(f"{self.folder}/ca.pem")
        context.verify_mode = ssl.CERT_OPTIONAL
        context.sni_callback = lambda _socket, name, _context: names.append(name)
        with connection:
            try:
                with context.wrap_socket(connection, server_side=True) as secured:
                    words = f"https {where}"
                    if names and names[0]:
                        words += f" for {names[0]}"
                    if secured.getpeercert():
                        words += " with a certificate"
                    self.converse(secured, words)
            except ssl.SSLError:
                self.note(f"https {where}: the certificate was refused")
            except OSError:
                pass

    def converse(self, connection, words):
        received = b""
        while b"\r\n\r\n" not in received:
            more = connection.recv(65536)
            if not more:
                if words.startswith("https"):  # with TLS 1.3 a client refuses after the handshake, for all a server sees
                    self.note(words.split(" for ")[0].split(" with ")[0] + ": the certificate was refused")
                return
            received += more
        lines = received.split(b"\r\n\r\n")[0].decode().split("\r\n")
        method, target, _ = lines[0].split(" ")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        path, _, query = target.partition("?")
        words += f", {method} {path}"
        if query:
            words += "?" + "&".join(sorted(query.split("&")))
        for name in ("x-consul-token", "authorization", "proxy-authorization"):
            if name in headers:
                value = headers[name]
                if value.startswith("Basic "):
                    value = base64.b64decode(value[6:]).decode()
                words += f", {name}: {value}"
        self.note(words)
        if method == "CONNECT":
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            self.serve_tls(connection, "behind the proxy")
        else:
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nX-Consul-Index: 1\r\nContent-Length: 0\r\n\r\n")

    def watch(self, command, variables):
        """Runs the program with these variables, and returns the requests that the servers got."""
        environment = {k: v for k, v in os.environ.items() if k not in VARIABLES}
        environment |= variables
        with self.lock:
            self.came = []
        subprocess.run(command, env=environment, capture_output=True, timeout=60)
        # A server thread may still have to say that its client has gone.
        for thread in threading.enumerate():
            if thread.name.endswith("(serve_plain)") or thread.name.endswith("(serve_tls)"):
                thread.join(10)
        with self.lock:
            seen = [words.replace(str(self.folder), "DIR") for words in self.came]
        return "; ".join(seen) or "nothing was sent"


def make_certificates(folder):
    def openssl(*words, text=None):
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder, input=text)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    for name in ("ca", "other"):
        openssl("req", "-x509", *curve, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    for name, names in (
        ("server", "DNS:localhost,DNS:server.dc1.consul,IP:127.0.0.1"),
        ("client", "DNS:client.dc1.consul"),
    ):
        openssl("req", *curve, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (folder / "names").write_text(f"subjectAltName={names}\n")
        sign = ("x509", "-req", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
        openssl(*sign, "-in", f"{name}.csr", "-extfile", "names", "-out", f"{name}.pem")
    (folder / "authorities" / "below").mkdir(parents=True)
    shutil.copy(folder / "ca.pem", folder / "authorities" / "below" / "whatever.txt")
    (folder / "empty").mkdir()
    (folder / "token").write_text("\tfrom-the-file \n")
    (folder / "empty.token").write_text("\n")


def compare(rows):
    """Yields the problems. Each row has a case, a reason, and the results of `consul` and of holdfast."""
    for words, because, theirs, ours in rows:
        shown = words or "(nothing is set)"
        if theirs != ours and because is None:
            yield f"{shown}\n  consul:   {theirs}\n  holdfast: {ours}"
        if theirs == ours and because is not None:
            yield f"{shown}: said to differ ({because}), and does not: {ours}"


def cell(text):
    return text.replace("|", "\\|").replace("{folder}", "DIR").replace("{away}", AWAY)


def document(rows, version):
    lines = [
        "# The environment",
        "",
        "Consul's program and holdfast read the same environment variables. This table shows what each of them sends: `consul`",
        "for `consul kv get k`, and holdfast for the same read by a client with `consul::config::from_environment()`. DIR is",
        "the folder of the test's files. The server's certificate is for `localhost`, `server.dc1.consul` and 127.0.0.1.",
        f"`test/environment/environment.py --write` has written this page, with `{version}`.",
        "",
        "| set | `consul` | holdfast, where it differs | why |",
        "|---|---|---|---|",
    ]
    for words, because, theirs, ours in rows:
        differs = "" if theirs == ours else cell(ours)
        set_ = f"`{cell(words)}`" if words else "nothing"
        lines.append(f"| {set_} | {cell(theirs)} | {differs} | {because or ''} |")
    return "\n".join(lines) + "\n"


def recorded():
    """Returns the results of `consul` that the document records, by the name of the case."""
    found = {}
    for line in DOCUMENT.read_text().splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        if len(cells) == 6 and (cells[1].strip().startswith("`") or cells[1].strip() == "nothing"):
            found[cells[1].strip()] = cells[2].strip()
    return found


def version_of(program):
    return subprocess.run([program, "version"], capture_output=True, text=True).stdout.split("\n")[0]


def run(arguments):
    offered = os.environ.get("HOLDFAST_CONSUL")
    if not arguments.consul and offered and f"`{version_of(offered)}`" in DOCUMENT.read_text():
        arguments.consul = offered
    for command in ("ip link set lo up", f"ip address add {AWAY}/32 dev lo"):
        subprocess.run(command.split(), check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_certificates(folder)
        recorder = Recorder(folder)
        before = recorded() if not arguments.consul else {}
        rows = []
        for words, because in CASES:
            variables = variables_of(words, folder)
            if arguments.consul:
                theirs = recorder.watch([arguments.consul, "kv", "get", "k"], variables)
            else:
                theirs = before.get(f"`{cell(words)}`" if words else "nothing", "(not in the document)")
            rows.append((words, because, theirs, recorder.watch([arguments.probe], variables)))
    problems = list(compare(rows))
    print(*problems, sep="\n")
    if arguments.consul:
        text = document(rows, version_of(arguments.consul))
        if arguments.write and not problems:
            DOCUMENT.write_text(text)
        elif text != DOCUMENT.read_text():
            problems.append("doc/reference/environment.md is not what this run would write")
            print(problems[-1])
    print(f"compared with {version_of(arguments.consul) if arguments.consul else 'the document'}")
    print(f"{len(rows)} cases, {sum(r[2] != r[3] for r in rows)} of them different, {len(problems)} problems")
    return 1 if problems else 0


def self_test():
    same = ("A=1", None, "x", "x")
    assert not list(compare([same, ("A=2", "reason", "x", "y")]))
    assert len(list(compare([("A=1", None, "x", "y")]))) == 1
    assert len(list(compare([("A=1", "reason", "x", "x")]))) == 1
    print("ok")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("probe")
    parser.add_argument("--consul")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.inside:
        as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
        again = ["unshare", *as_root, "--net", sys.executable, str(HERE), *sys.argv[1:], "--inside"]
        return subprocess.run(again).returncode
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
