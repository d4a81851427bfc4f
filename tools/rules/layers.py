# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that includes point down only, that public headers stay light, that only a few folders include headers of the
system, and that questions of the core cannot act."""

import re
from typing import NamedTuple

from sources import line_of

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)

# A const function of the core that could set a timer, act, or take a random number.
QUESTION_THAT_ACTS = re.compile(r"\w\([^();{]*\b[Cc]ontext& [^();{]*\) const\b")

# The headers of the standard library have neither an extension nor a folder. All others without our endings or Boost's
# are the system's.
STANDARD = re.compile(r"[a-z_]+")
SYSTEM = re.compile(r"[a-z0-9_/]+(\.h)?|boost/asio/(posix|windows)/.*")
# The call of a function in the global namespace. Standard functions are called with `std::`, so it is the system's. It
# may be known without its header.
SYSTEM_CALL = re.compile(r"(?<![\w>:])::[a-z_]\w*\s*\(")
# The files that may include headers of the system, and call the system. A portable build compiles none of them. The
# program has no portable version: its files are for a command in a process group of its own, and for its terminal.
SYSTEM_USERS = ("src/platform/linux/", "src/cli/guard/", "src/cli/run.cpp", "src/cli/terminal.cpp")
# The folders that may include a header of one version of src/platform.
VERSIONS_USERS = ("src/platform/linux", "src/cli/guard")

# The headers with which a process tells its operators what happens.
LOG = tuple(f"holdfast/{each}.hpp" for each in ("log_event", "log_kind", "tracer", "fencing_token", "loss_reason",
                                                "alive_check"))
COMMON = {"holdfast/error.hpp", "holdfast/tls_options.hpp", "holdfast/diagnostics.hpp", "holdfast/kv.hpp"}
BUILD = "holdfast/detail/build.hpp"  # in every public header that includes Boost
# Any file may include these headers. They include no other header of ours.
ANYWHERE = ("holdfast/detail/export.hpp", "holdfast/detail/enumeration.hpp")
# The headers with which operations begin and end. Locks and the client share them.
OPERATIONS = ("holdfast/detail/initiation.hpp", "holdfast/detail/operation.hpp",
              "holdfast/error_with_diagnostics.hpp")
# Counters and histograms, of locks and of the client.
HISTOGRAM = "holdfast/histogram.hpp"
VERSION = "holdfast/version.hpp"
BROKER = "holdfast/broker_statistics.hpp"  # also of the base library, which writes it for Prometheus
# The headers of what is held, which semaphores on every backend share.
HOLDS = ("holdfast/hold.hpp", "holdfast/slot_source.hpp", "holdfast/with_slot.hpp")


class Layer(NamedTuple):
    """The headers that files of a folder may include: ours and Boost's, both by the beginnings of their paths."""

    ours: tuple
    boost: tuple = ("boost/",)


# The interfaces of the lowest layer, but not what its versions share.
PLATFORM = ("platform/",)
# Boost.System's own folder, for error_code; no Asio, so that the core stays pure.
SYSTEM_ONLY = ("boost/system/",)
# The files that read and write the values of keys.
JSON_USERS = ("src/protocol/record/lock_record.cpp", "src/protocol/record/succession.cpp")
# The file that speaks TLS. A build may leave it out.
TLS_USER = "src/net/tls.cpp"
OPENSSL = re.compile(r"(openssl|boost/asio/ssl)\b")
# The file that uses rabbitmq-c, of which no type is seen elsewhere.
AMQP_USER = "src/rabbitmq/method.cpp"
AMQP = re.compile(r"(rabbitmq-c/|amqp\w*\.h$)")
NO_HEAVY = re.compile(r"boost/(beast|json)\b")

# The folders of the core, and those of the client. Each may include those that it names, and what these may include.
CORE = {
    "base": (),
    "record": ("base",),
    "core": ("record",),
    "session": ("core",),
    "pool": ("session",),
    "mutex_set": ("session",),
    "election": ("core",),
    "broker": ("session",),
    "administration": ("pool",),
}
BESIDE_CLIENT = ("consul/net_names.hpp", "lifetime/tally.hpp", *PLATFORM, "holdfast/consul/", *COMMON)
CLIENT = {"encoding": ("net",), "connections": ("encoding",), "agents": ("connections",)}


def below(folder, arrows):
    """The folder, and all that may be included from it."""
    found = {folder}
    for each in arrows.get(folder, ()):
        found |= below(each, arrows)
    return found


def inside(root, folder, arrows):
    return tuple(f"{each}/" if each == "net" else f"{root}/{each}/" for each in sorted(below(folder, arrows)))


# The core uses these values of the public interface. Each header holds one struct or enum only, and is checked to
# include no other header of ours but those in ANYWHERE, and no Asio.
VALUES = tuple(f"holdfast/{each}.hpp" for each in ("fencing_token", "log_kind", "loss_reason", "session_defaults"))
# A backend that cannot be a store, such as RabbitMQ, has four folders:
# - src/protocol/NAME: a core of its own, on the waiters, the lease, the closing and the outage of src/protocol/core.
# - src/NAME: the client, and a link, which is an interface with rules in its header (src/rabbitmq/broker_link.hpp).
# - src/NAME_runtime: a driver on the `shell` of src/runtime.
# - src/testing/NAME: a fake server.
# Public are include/holdfast/NAME.hpp and the folder beside it: a client with a `config`, a `slot_source` and a `hold`.
# CMakeLists.txt has an option, which is off by default, and two libraries; holdfastConfig.cmake.in has a component.
# The backend has tests of its rules on a real server and on the fake, simulated worlds with seeded bugs, a page of
# reference, and promises. The tables RULES in names.py and KINDS in guarantees.py check the last two.
LAYERS = {
    "src/protocol": Layer((), ()),  # each file is in a folder
    **{f"src/protocol/{each}": Layer((*inside("protocol", each, CORE), *COMMON, *VALUES), SYSTEM_ONLY) for each in CORE},
    "src/platform": Layer(PLATFORM, ("boost/asio/", *SYSTEM_ONLY)),
    "src/platform/linux": Layer((*PLATFORM, "platform/linux/"), ("boost/asio/", *SYSTEM_ONLY)),
    "src/net": Layer(("net/", "lifetime/per_process.hpp", *PLATFORM, *LOG, *COMMON)),
    **{f"src/consul/{each}": Layer((*inside("consul", each, CLIENT), *BESIDE_CLIENT)) for each in CLIENT},
    "src/lifetime": Layer(("lifetime/", *PLATFORM, *OPERATIONS, *LOG, HISTOGRAM), ("boost/asio/", *SYSTEM_ONLY)),
    "src/consul": Layer(("consul/", "net/", "lifetime/", *PLATFORM, "holdfast/consul/", VERSION, *LOG, *COMMON)),
    "src/rabbitmq": Layer(("rabbitmq/", "protocol/", "net/", "lifetime/", *PLATFORM, "holdfast/rabbitmq/", BROKER, VERSION,
                           *LOG, *COMMON)),
    "include/holdfast/rabbitmq": Layer(("holdfast/rabbitmq/", BUILD, BROKER, *HOLDS, *OPERATIONS, *LOG, *COMMON)),
    "include/holdfast/consul": Layer(("holdfast/consul/", BUILD, HISTOGRAM, *OPERATIONS, *LOG, *COMMON)),
    "include/holdfast/testing": Layer(("holdfast/testing/", "holdfast/consul/", BUILD, *COMMON)),
    "src/testing": Layer(("testing/", "holdfast/testing/", "holdfast/consul/", "consul/", "net/", "lifetime/", *PLATFORM,
                          *COMMON)),
    "src/rabbitmq_runtime": Layer(("rabbitmq_runtime/", "rabbitmq/", "runtime/", "protocol/", "lifetime/", "holdfast/")),
    "src/testing/broker": Layer(("testing/", "holdfast/testing/", "rabbitmq/", "net/", "lifetime/", *PLATFORM, *COMMON)),
    "src/runtime": Layer(("runtime/", "protocol/", "consul/", "net/", "lifetime/", *PLATFORM, "holdfast/")),
    "src/local": Layer(("local/", "runtime/", "protocol/", "lifetime/", *PLATFORM, "holdfast/")),
    "src/cli": Layer(("cli/", "holdfast/", "CLI/")),
    "src/cli/guard": Layer(("cli/", "platform/linux/boot_clock.hpp", "holdfast/")),  # it needs no library
    "src": Layer(("holdfast/",)),
    "include/holdfast": Layer(("holdfast/",)),
}


def layer_of(path):
    folder = path.rpartition("/")[0]
    while folder:
        if folder in LAYERS:
            return folder
        folder = folder.rpartition("/")[0]
    return None


def resolve(path, included, files):
    """The path of an include in the project: protocol code may write "plan.hpp" for "protocol/pool/plan.hpp"."""
    beside = path.rpartition("/")[0] + "/" + included
    for root in ("src/", "include/"):
        if beside in files and beside.startswith(root):
            return beside[len(root) :]
    return included


def problems(files):
    for path, text in sorted(files.items()):
        folder = layer_of(path)
        if folder is None or not path.endswith((".cpp", ".hpp")):
            continue
        layer = LAYERS[folder]
        for match in INCLUDE.finditer(text):
            name = resolve(path, match[2], files)
            where = f"{path}:{line_of(text, match.start())}: {folder} must not include {name}"
            if name in ANYWHERE and path.removeprefix("include/") not in ANYWHERE:
                continue
            if path.startswith("include/") and NO_HEAVY.match(name):
                yield f"{where}: public headers show no Beast and no JSON"
            elif OPENSSL.match(name):
                if path != TLS_USER:
                    yield f"{where}: OpenSSL is {TLS_USER}'s, as it may be missing"
            elif AMQP.match(name):
                if path != AMQP_USER:
                    yield f"{where}: rabbitmq-c is {AMQP_USER}'s"
            elif path.startswith("src/") and "awaitable_operators" in name:
                yield f"{where}: the library cancels by itself, without awaitable operators"
            elif path[len("include/") :] in VALUES and name.startswith(("holdfast/", "boost/asio")):
                yield f"{where}: the pure core includes this header"
            elif SYSTEM.fullmatch(name) and not STANDARD.fullmatch(name):
                if not path.startswith(SYSTEM_USERS):
                    yield f"{where}: headers of the system are for {', '.join(SYSTEM_USERS)}"
            elif name.startswith(("platform/linux/", "platform/portable/")) and folder not in VERSIONS_USERS:
                yield f"{where}: the build chooses the version of src/platform"
            elif name.startswith("boost/"):
                if not name.startswith(layer.boost) and not (name.startswith("boost/json") and path in JSON_USERS):
                    yield f"{where}: of Boost it may use {', '.join(layer.boost)}"
            elif not name.startswith(layer.ours) and not STANDARD.fullmatch(name):
                yield f"{where}: of ours it may use {', '.join(layer.ours)}"
        if not path.startswith(SYSTEM_USERS):
            for match in SYSTEM_CALL.finditer(text):
                yield f"{path}:{line_of(text, match.start())}: calls the system, which is for {', '.join(SYSTEM_USERS)}"
        if path.startswith("src/protocol/"):
            for match in QUESTION_THAT_ACTS.finditer(text):
                yield f"{path}:{line_of(text, match.start())}: a question, which is const, gets a time or a `moment`, and no context"


GOOD = {
    "src/protocol/record/succession.cpp": '#include "protocol/record/succession.hpp"\n#include <vector>\n'
    '#include "snapshot.hpp"\n#include <holdfast/error.hpp>\n',
    "src/protocol/record/lock_record.cpp": "#include <boost/json/parse.hpp>\n",
    "src/protocol/core/context.hpp": "bool is_due(moment& at) const;\nvoid act(context& ctx, const member& m);\n",
    "src/protocol/record/snapshot.hpp": "#include <boost/system/error_code.hpp>\n#include <holdfast/loss_reason.hpp>\n",
    "src/consul/client.cpp": '#include <holdfast/consul/client.hpp>\n#include "consul/encoding/url.hpp"\n'
    "#include <boost/beast/http/parser.hpp>\n#include <csignal>\n",
    "src/platform/linux/sockets.cpp": '#include "platform/sockets.hpp"\n#include <sys/socket.h>\n'
    "#include <boost/asio/posix/stream_descriptor.hpp>\n",
    "src/cli/guard/guard.cpp": '#include "platform/linux/boot_clock.hpp"\n#include <sys/prctl.h>\n',
    "src/cli/terminal.cpp": "#include <unistd.h>\nbool f() { return ::isatty(0) != 0; }\n",
    "src/net/resolve.cpp": "std::string a::f() { return std::to_string(net::g(h<i>::j())); }\n",
    "src/net/tls.cpp": "#include <boost/asio/ssl/stream.hpp>\n#include <openssl/x509v3.h>\n",
    "src/runtime/driver.cpp": '#include "protocol/pool/plan.hpp"\n#include <holdfast/consul/client.hpp>\n',
    "src/rabbitmq/method.cpp": "#include <rabbitmq-c/framing.h>\n#include <amqp_framing.h>\n",
    "src/rabbitmq/names.cpp": '#include "net/utf8.hpp"\n',
    "src/net/address.hpp": "#include <holdfast/detail/export.hpp>\n",
    "src/error.cpp": "#include <holdfast/error.hpp>\n#include <string>\n",
    "include/holdfast/semaphore.hpp": "#include <boost/asio/deferred.hpp>\n#include <holdfast/consul/config.hpp>\n",
    "include/holdfast/loss_reason.hpp": "#include <holdfast/detail/export.hpp>\n#include <string_view>\n",
}

# Each mistake has a name, a path and the file's text.
BAD = [
    ("asio in the core", "src/protocol/core/a.cpp", "#include <boost/asio/post.hpp>"),
    ("JSON in a header of the core", "src/protocol/core/a.hpp", "#include <boost/json/value.hpp>"),
    ("JSON elsewhere in the core", "src/protocol/core/z.cpp", "#include <boost/json/value.hpp>"),
    ("consul in the core", "src/protocol/core/a.cpp", "#include <holdfast/consul/kv.hpp>"),
    ("private consul in the core", "src/protocol/core/a.cpp", '#include "consul/encoding/url.hpp"'),
    ("runtime in the core", "src/protocol/core/a.cpp", '#  include "runtime/driver.hpp"'),
    ("a folder above in the core", "src/protocol/core/a.hpp", '#include "protocol/pool/pool.hpp"'),
    ("a folder beside in the core", "src/protocol/election/a.hpp", '#include "protocol/pool/pool.hpp"'),
    ("a file in no folder of the core", "src/protocol/a.hpp", '#include "protocol/base/time.hpp"'),
    ("a folder above in the client", "src/consul/encoding/a.hpp", '#include "consul/connections/proxy.hpp"'),
    ("HTTP below the client", "src/net/a.hpp", '#include "consul/encoding/http.hpp"'),
    ("public interface in the core", "src/protocol/core/a.cpp", "#include <holdfast/semaphore.hpp>"),
    ("the client in the lifetime of contexts", "src/lifetime/a.cpp", '#include "consul/encoding/url.hpp"'),
    ("the system in the client", "src/consul/a.cpp", "#include <sys/socket.h>"),
    ("the system in the core", "src/protocol/core/a.cpp", "#include <time.h>"),
    ("the system in a public header", "include/holdfast/a.hpp", "#include <unistd.h>"),
    ("the system in the portable version", "src/platform/portable/a.cpp", "#include <pthread.h>"),
    ("the system in an interface", "src/platform/a.hpp", "#include <linux/magic.h>"),
    ("the system elsewhere in the program", "src/cli/a.cpp", "#include <signal.h>"),
    ("a call of the system without its header", "src/net/a.cpp", "const auto t = ::timegm(&end);"),
    ("Windows", "src/net/a.cpp", "#include <windows.h>"),
    ("a descriptor of POSIX", "src/lifetime/a.cpp", "#include <boost/asio/posix/stream_descriptor.hpp>"),
    ("a version chosen by an include", "src/runtime/a.cpp", '#include "platform/linux/boot_clock.hpp"'),
    ("the other version", "src/platform/portable/a.cpp", '#include "platform/linux/boot_clock.hpp"'),
    ("a folder above the lowest", "src/platform/a.hpp", '#include "lifetime/process_mark.hpp"'),
    ("the platform in the core", "src/protocol/core/a.cpp", '#include "platform/clocks.hpp"'),
    ("the platform in the program", "src/cli/a.cpp", '#include "platform/clocks.hpp"'),
    ("protocol in the client", "src/consul/a.cpp", '#include "protocol/pool/plan.hpp"'),
    ("runtime in the client", "src/consul/a.cpp", '#include "runtime/driver.hpp"'),
    ("semaphore in the client", "src/consul/a.cpp", "#include <holdfast/semaphore.hpp>"),
    ("semaphore in the client's headers", "include/holdfast/consul/a.hpp", "#include <holdfast/slot.hpp>"),
    ("Beast in a public header", "include/holdfast/consul/a.hpp", "#include <boost/beast/http.hpp>"),
    ("JSON in a public header", "include/holdfast/a.hpp", "#include <boost/json.hpp>"),
    ("OpenSSL in a public header", "include/holdfast/consul/a.hpp", "#include <boost/asio/ssl/context.hpp>"),
    ("OpenSSL elsewhere in the client", "src/consul/a.cpp", "#include <openssl/ssl.h>"),
    ("private code in a public header", "include/holdfast/a.hpp", '#include "runtime/driver.hpp"'),
    ("rabbitmq-c elsewhere", "src/rabbitmq/frame.hpp", "#include <amqp.h>"),
    ("newer rabbitmq-c elsewhere", "src/rabbitmq/frame.hpp", "#include <rabbitmq-c/amqp.h>"),
    ("consul in the client of RabbitMQ", "src/rabbitmq/a.cpp", '#include "consul/encoding/url.hpp"'),
    ("runtime in the client of RabbitMQ", "src/rabbitmq/a.cpp", '#include "runtime/shell.hpp"'),
    ("the driver in the client of RabbitMQ", "src/rabbitmq/a.cpp", '#include "rabbitmq_runtime/broker_driver.hpp"'),
    ("consul in the driver of RabbitMQ", "src/rabbitmq_runtime/a.cpp", '#include "consul/encoding/url.hpp"'),
    ("RabbitMQ in the runtime", "src/runtime/a.cpp", '#include "rabbitmq/broker_link.hpp"'),
    ("the client of RabbitMQ in that of Consul", "src/consul/a.cpp", '#include "rabbitmq/address.hpp"'),
    ("consul in the model of RabbitMQ", "src/testing/broker/a.cpp", '#include "consul/encoding/url.hpp"'),
    ("rabbitmq in the model of Consul", "src/testing/a.cpp", '#include "rabbitmq/method.hpp"'),
    ("operators in the library", "src/runtime/a.cpp", "#include <boost/asio/experimental/awaitable_operators.hpp>"),
    ("asio in a value header", "include/holdfast/loss_reason.hpp", "#include <boost/asio/post.hpp>"),
    ("private code in the command line", "src/cli/a.cpp", '#include "runtime/driver.hpp"'),
    ("a question that may act", "src/protocol/core/a.hpp", "bool is_due(context& ctx, int n) const;"),
    ("the file beside, in the wrong layer", "src/consul/a.cpp", '#include "../protocol/plan.hpp"'),
]
PLANTED = [(path, "", text + "\n", f"{path}:1: ") for _, path, text in BAD]
