# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""The measurements: which workloads, with how many contenders and slots, by which systems, and for how long."""

import dataclasses
import json
import statistics

HOLDFAST, GO, LOCK = "holdfast", "consul-go", "consul-lock"
# The Go client of today, beside that of Consul 1.8.7.
GO_TODAY = "consul-go-today"
# The goroutines of one process use its slots through a channel. The first system acquires and releases in Consul for
# each turn; the second keeps its slots for good.
GO_CHANNEL, GO_KEPT = "consul-go-channel", "consul-go-kept"
BEAST, ASIO, WRK = "floor-beast", "floor-asio", "floor-wrk"
GO_PEERS = (GO, GO_TODAY, GO_CHANNEL, GO_KEPT)
PEERS = (*GO_PEERS, LOCK)
FLOORS = (BEAST, ASIO, WRK)

ATTRIBUTES = ("workload", "system", "contenders", "limit", "rate", "on")
CLUSTER, TLS = "cluster", "TLS"
# The workload needs a Boost with immediate executors.
IMMEDIATE, IMMEDIATE_SINCE = "cycle-immediate", (1, 82)
PLACES = {None: "", CLUSTER: " on a cluster", TLS: " over TLS"}


@dataclasses.dataclass(frozen=True)
class Measurement:
    workload: str
    system: str
    contenders: int = 1
    limit: int = 1
    rate: float = None
    seconds: float = 3.0
    rounds: int = None  # in that many rounds; None: in each round
    on: str = None  # CLUSTER; TLS: one agent in memory that speaks TLS; None: such an agent without TLS
    stand_ins: int = None  # How many contenders a smoke run really has. Its row has the number in `contenders`.

    def options(self):
        contenders = self.stand_ins or self.contenders
        given = {"--workload": self.workload, "--system": self.system, "--contenders": contenders}
        given |= {"--limit": self.limit, "--seconds": self.seconds}
        if self.rate:
            given["--rate"] = self.rate
        return [str(word) for pair in given.items() for word in pair]

    def __str__(self):
        rate = f" at {self.rate:g}/s" if self.rate else ""
        return f"{self.workload} {self.contenders:,}/{self.limit}{rate} {self.system}{PLACES[self.on]}"


def each(systems, workload, contenders=1, limit=1, **more):
    return [Measurement(workload, system, contenders, limit, **more) for system in systems]


def full():
    yield from each((HOLDFAST, BEAST, WRK, GO, GO_TODAY, LOCK), "cycle")
    yield from each((HOLDFAST, ASIO), "cycle-idle")
    yield from each((HOLDFAST,), IMMEDIATE)
    for contenders in (1, 8, 128, 1024):
        yield from each((HOLDFAST, ASIO), "local", contenders, 1 if contenders == 1 else 4)
    for contenders in (8, 128, 1024, 100_000):
        for limit in (1, 4):
            yield from each((HOLDFAST, ASIO), "pool", contenders, limit)
            # The Go client has no pool. Each goroutine is a contender, and more than 128 of them take minutes. A user
            # who wants more builds a pool, as GO_CHANNEL and GO_KEPT do.
            if contenders <= 128:
                yield from each((GO,), "pool", contenders, limit, seconds=6 if contenders == 128 else 3)
    yield from each((GO_CHANNEL, GO_KEPT), "pool", 128, 4)
    yield from each((HOLDFAST, ASIO), "pool-rival", 128, 4)
    yield from each((HOLDFAST,), "expected-wait", 64, 4)
    yield from each((HOLDFAST,), "waiting", 100_000)
    yield from each((HOLDFAST,), "waiting-coroutine", 100_000)
    yield from each((HOLDFAST,), "waiting-client", 128)
    yield from each((GO,), "waiting", 128)
    yield from each((GO_CHANNEL,), "waiting", 100_000)
    for contenders in (2, 8, 32, 128):
        for limit in (1, 4):
            if contenders > limit:
                yield from each((HOLDFAST,), "handoff", contenders, limit, seconds=5)
                yield from each((GO,), "handoff", contenders, limit, seconds=6 if contenders == 128 else 5)
        yield from each((BEAST,), "handoff", contenders, 1, seconds=5)
    yield from each((LOCK,), "handoff", 8, 1)
    for contenders in (8, 128):
        yield from each((GO_TODAY,), "handoff", contenders, 1, seconds=6 if contenders == 128 else 5)
    for contenders in (2, 8, 32, 128):
        yield from each((HOLDFAST,), "mutex", contenders, 1)
    yield from each((HOLDFAST,), "long-hold", 8, 4, seconds=20)
    for limit in (1, 4):
        yield from each((HOLDFAST, ASIO, GO), "mixed", 8 * 64, limit, seconds=8)
    yield from each((HOLDFAST, BEAST, GO, GO_TODAY), "loss", seconds=5)
    yield from each((HOLDFAST, BEAST, GO), "open-loop", 8, 1, rate=100)
    yield from each((HOLDFAST, BEAST), "open-loop", 8, 1, rate=300)
    yield from each((HOLDFAST,), "cycle", on=TLS)
    yield from each((HOLDFAST,), "handoff", 8, 1, seconds=5, on=TLS)
    yield from each((HOLDFAST, BEAST, GO), "cycle", on=CLUSTER)
    for contenders in (8, 128):
        yield from each((HOLDFAST, BEAST), "handoff", contenders, 1, seconds=4, on=CLUSTER)
    yield from each((GO,), "handoff", 8, 1, seconds=4, on=CLUSTER)


def quick():
    """The measurements that the goals need, shortened; peers in the first round only."""
    yield from each((HOLDFAST, BEAST), "cycle", seconds=0.5)
    yield from each((WRK, GO, GO_TODAY, LOCK), "cycle", seconds=1, rounds=1)
    yield from each((HOLDFAST, ASIO), "cycle-idle", seconds=0.3)
    yield from each((HOLDFAST,), IMMEDIATE, seconds=0.3)
    yield from each((HOLDFAST, ASIO), "local", 128, 4, seconds=0.4)
    for contenders in (8, 128, 1024, 100_000):
        yield from each((HOLDFAST, ASIO), "pool", contenders, 4, seconds=0.4)
    yield from each((GO, GO_CHANNEL, GO_KEPT), "pool", 128, 4, seconds=2, rounds=1)
    yield from each((HOLDFAST,), "pool-rival", 128, 4, seconds=0.8)
    yield from each((HOLDFAST,), "waiting", 100_000)
    yield from each((HOLDFAST,), "waiting-coroutine", 100_000)
    yield from each((GO,), "waiting", 128, rounds=1)
    for contenders in (2, 8, 32, 128):
        yield from each((HOLDFAST,), "handoff", contenders, 1, seconds=0.6)
    for contenders in (8, 128):
        yield from each((HOLDFAST,), "mutex", contenders, 1, seconds=0.6)
    for contenders in (8, 128):
        yield from each((BEAST,), "handoff", contenders, 1, seconds=0.3)
    yield from each((GO, GO_TODAY), "handoff", 8, 1, seconds=1, rounds=1)
    yield from each((GO,), "handoff", 128, 1, seconds=3, rounds=1)
    yield from each((LOCK,), "handoff", 8, 1, seconds=1, rounds=1)
    yield from each((HOLDFAST,), "mixed", 8 * 64, 1, seconds=1.7)
    yield from each((HOLDFAST, BEAST), "loss", seconds=0.6)
    yield from each((GO,), "loss", seconds=0.6, rounds=1)
    yield from each((HOLDFAST, BEAST), "open-loop", 8, 1, rate=100, seconds=0.8)
    yield from each((GO,), "open-loop", 8, 1, rate=100, seconds=0.8, rounds=1)
    yield from each((HOLDFAST,), "cycle", seconds=0.5, on=TLS)
    yield from each((HOLDFAST,), "handoff", 8, 1, seconds=0.6, on=TLS)
    yield from each((HOLDFAST, BEAST), "handoff", 8, 1, seconds=0.6, on=CLUSTER, rounds=1)


def smoke():
    """All of full(), each for a moment and with few contenders. The run shows that everything works; its figures mean
    nothing."""
    for m in full():
        # Peers take longer for a turn, so they have fewer contenders: 5, as the limit is up to 4, and 8 in "mixed",
        # which has 8 clients.
        few = 16 if m.system not in PEERS else 2 if m.system == LOCK else 8 if m.workload == "mixed" else 5
        yield dataclasses.replace(m, seconds=0.2 if m.system in PEERS else 0.05, stand_ins=min(m.contenders, few))


def identity(row):
    return tuple(row.get(name) for name in ATTRIBUTES)


def combine(rows):
    """Makes one row of several rounds' rows. Figures are medians. `limit_held` is true if it is so in each round.
    Errors and samples are added up, and `not_served` is the largest one."""
    if len(rows) == 1:
        return rows[0]
    result = dict(rows[0])
    for name, value in rows[0].items():
        values = [row[name] for row in rows if row.get(name) is not None]
        if name in ATTRIBUTES or not values:
            continue
        if name == "limit_held":
            result[name] = all(values)
        elif name in ("errors", "samples"):
            result[name] = sum(values)
        elif name == "not_served":
            result[name] = max(values)
        elif name == "distribution":
            result[name] = [statistics.median(at) for at in zip(*[v for v in values if v] or [[]])]
        else:
            result[name] = statistics.median(values)
    rates = [row["ops_per_s"] for row in rows if row.get("ops_per_s") is not None]
    result["rounds"] = len(rows)
    result["ops_per_s_range"] = [min(rates), max(rates)] if rates else None
    return result


def floor_system(workload):
    return ASIO if workload.startswith(("pool", "mixed", "cycle-i", "local")) else BEAST


def has_boost_for(m, boost):
    """False if the workload needs a newer Boost than `boost`, the version as text."""
    return m.workload != IMMEDIATE or tuple(map(int, boost.split("."))) >= IMMEDIATE_SINCE


def brief(value):
    """Rounds to four significant digits. Two runs do not even agree in that many."""
    if isinstance(value, list):
        return [brief(each) for each in value]
    if not isinstance(value, float):
        return value
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded.is_integer() else rounded


def lines(about, rows):
    """The results file: one line for each row, without the figures that do not apply to it."""
    kept = [{name: brief(value) for name, value in row.items() if value not in (None, [])} for row in rows]
    text = ",\n  ".join(json.dumps(row) for row in kept)
    return '{\n "about": ' + json.dumps(about, indent=1).replace("\n", "\n ") + ',\n "rows": [\n  ' + text + "\n ]\n}\n"


class Results:
    """The rows of all rounds, combined. It finds the rows that are compared with a given row."""

    def __init__(self, rows):
        by_identity = {}
        for row in rows:
            by_identity.setdefault(identity(row), []).append(row)
        workloads = list(dict.fromkeys(row["workload"] for row in rows))
        self.rows = [combine(same) for same in by_identity.values()]

        def place(row):
            rank = workloads.index(row["workload"]), row["limit"], row["contenders"], row.get("rate") or 0
            return (row.get("on") or "", *rank)

        self.rows.sort(key=place)

    def find(self, workload, system=HOLDFAST, contenders=1, limit=1, rate=None, on=None):
        wanted = (workload, system, contenders, limit, rate, on)
        return next((row for row in self.rows if identity(row) == wanted), None)

    def of(self, row, system):
        """The row of another system at the same work."""
        return self.find(row["workload"], system, row["contenders"], row["limit"], row.get("rate"),
                         row.get("on"))

    def floor(self, row):
        # A bare semaphore knows no immediate completion.
        like = {IMMEDIATE: "cycle-idle"}.get(row["workload"], row["workload"])
        return self.of({**row, "workload": like}, floor_system(row["workload"]))

    def peer(self, row):
        # A pool that keeps its slot does what the peer does in a cycle.
        like = {"cycle-idle": "cycle", IMMEDIATE: "cycle", "pool-rival": "pool"}.get(row["workload"], row["workload"])
        as_peer = {**row, "workload": like}
        return self.of(as_peer, GO) or self.of(as_peer, LOCK)
