// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/alive_check.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/log_event.hpp>
#include <holdfast/session_defaults.hpp>
#include <holdfast/tracer.hpp>
#include <memory>
#include <optional>
#include <string>

namespace holdfast {

/// Options that most users do not change. An option that is not set has its default, or a value that is derived from
/// other options.
///
/// An option that does not apply to a kind of lock must not be set there; otherwise the constructor throws
/// error::invalid_option. Times are 0 to 24 h unless stated otherwise. The text of the error names the wrong option.
struct tuning {
  /// How much earlier than Consul this process gives up a slot. The margin covers clock drift, and gives the holder
  /// time to stop. Above 0, at most half the TTL. Default: a tenth of the TTL.
  std::optional<std::chrono::milliseconds> lease_margin{};
  /// How long a slot or key stays taken after the session of its holder has ended, so that a holder with a slow clock
  /// cannot overlap the next one. 0 to 60 s. With node health checks, a value below both the TTL and 60 s is an error.
  /// The enforcement and the default depend on the kind of lock:
  /// - Semaphore with node health checks: the process that grants the slot enforces it. Default: the TTL.
  /// - Numbered slots: Consul enforces it for the key of the number. Default: the TTL, at most 60 s; without health
  ///   checks at least 15 s.
  /// - Mutex, mutex set, election: Consul enforces it for the key. Default: 0, because the lease expires before Consul
  ///   ends a session. On the agent's own node, sessions may end sooner. There the default is the TTL, at most 60 s,
  ///   and without a value of your own a lease (TTL minus margin) of over 60 s is an error.
  /// - Slot that is freed because the run directory shows that its holder is dead: the process that frees it enforces
  ///   the value. Default: 0.
  /// - Semaphore without health checks and without numbers: otherwise the option has no effect.
  std::optional<std::chrono::milliseconds> lock_delay{};
  /// How long the watch of a held slot may fail before the slot is lost. The slot is also lost when its lease expires.
  /// Default: 24 h, so that only the lease counts, and an election of Consul's leader costs nobody a slot. 0: the slot
  /// is lost at the first failure, as the semaphore guide has it.
  std::optional<std::chrono::milliseconds> outage_grace{};
  /// How long an acquire or a release retries while the agent cannot answer. Then an acquire fails with the last error,
  /// unless the process has a place in the cluster's queue or its users hold all slots. A release ends the session of
  /// the slot instead, except in a mutex set: see `slot::release`. `close` has this time limit, too. Default: 5 s.
  std::optional<std::chrono::milliseconds> give_up_after{};
  /// Timeout of one request, 1 ms to 10 min. Default: a third of the TTL, at most 5 s.
  std::optional<std::chrono::milliseconds> request_timeout{};

  /// Lets the lock go if the application hangs. Default: nothing is asked.
  std::optional<alive_check> alive{};

  // Not for elections:
  /// How long an unused session is kept for the next acquire. During this time it also keeps the execution context
  /// running. While further sessions are being created, unused sessions are kept longer. Default: 10 s.
  std::optional<std::chrono::milliseconds> session_idle_timeout{};
  /// How many acquires of this object may wait at once, at least 1. The next one fails with error::too_many_waiters.
  /// Default: 1'000'000.
  std::optional<std::size_t> waiters_max{};

  // For semaphores and mutexes only:
  /// How long a slot may be handed from caller to caller inside this process while contenders wait elsewhere. A longer
  /// time saves requests and makes the others wait longer. Default: 100 ms.
  std::optional<std::chrono::milliseconds> local_handoff_time{};
  /// How long an unused slot is kept for the next acquire. It is kept only while nobody waits elsewhere. A mutex is
  /// also unlocked when its `yield_interval` has passed. Default: 0, the slot is not kept.
  std::optional<std::chrono::milliseconds> slot_idle_timeout{};

  /// For semaphores only. How long a free slot is reserved for a contender at the head of the queue whose client is
  /// HashiCorp's Go client or follows Consul's guide. Such a client has to claim the slot itself. Each process waits
  /// for a random time between once and one and a half times this value. Default: 500 ms.
  std::optional<std::chrono::milliseconds> claim_timeout{};
  /// For mutexes only. How long the mutex may go from hand to hand, inside a process or between contenders that have
  /// entries. Then it is unlocked, and the first client that asks gets it. Clients of other kinds need this, because
  /// they wait without an entry. Unlocking costs about 20 ms. 0: no such clients take part, and the mutex is not
  /// unlocked for them. Default: 1 s.
  std::optional<std::chrono::milliseconds> yield_interval{};

  /// Not for mutex sets. The run directory of this host: a directory on a local file system in which each process keeps
  /// a locked file for each of its sessions. If a process dies, another process that waits and has the same directory
  /// frees the slots of the dead one at once, or after a `lock_delay` that you set, instead of when its sessions
  /// expire. The dead process must have belonged to the same user or to root. See doc/how_to/run_directory.md. Empty:
  /// no directory is used. A directory that does not exist, or is not on a local file system, is an error. Default:
  /// $HOLDFAST_RUN_DIRECTORY, else /run/holdfast if it exists, else $XDG_RUNTIME_DIR/holdfast, which is created if
  /// $XDG_RUNTIME_DIR exists. If the default cannot be used, no directory is used.
  std::optional<std::string> run_directory{};
};

/// Options of a semaphore. All participants must use the same `prefix` and `lock_key`, and without `use_recorded_limit`
/// the same `limit`. The other options are each process's own unless stated otherwise. The constructor of the semaphore
/// checks all of them.
struct semaphore_options {
  /// The KV folder of the semaphore, for example "service/db/semaphore". Not empty; no leading slash; no empty segment;
  /// no segment "." or ".."; UTF-8 without control characters; at most 400 bytes. One trailing slash is accepted.
  /// Otherwise the constructor throws error::invalid_prefix.
  std::string prefix{};
  /// The number of slots, 1 to 4'200. If a record in use has another limit, acquires fail with error::limit_conflict.
  std::uint32_t limit = 0;
  /// If true, the limit in the record replaces `limit` wherever there is a record. `limit` is then only written into a
  /// new record.
  ///
  /// The limit may change while the semaphore is in use (`semaphore_administration::resize`). A lower limit takes no
  /// slot away; nothing is granted until fewer slots are held.
  ///
  /// All participants should use the same value. A process without it fails with error::limit_conflict while the record
  /// in use has another limit. If nobody else uses the record, that process writes its own limit into it.
  bool use_recorded_limit = false;
  /// If true, each held slot has a number of its own, 0 to limit - 1, so that it can stand for a real thing: GPU 3, or
  /// port 8003. See `slot::numbers`.
  ///
  /// The session that holds the slot has also locked the key "PREFIX/.slot/<number>", and a slot is not handed out
  /// before that. So only one holder at a time has a number.
  ///
  /// Clients that do not ask for numbers, for example HashiCorp's clients, may use the same semaphore. Their slots have
  /// no numbers.
  ///
  /// Usually a number moves with its slot in the same write. If it does not, for example after a holder has died, it
  /// costs one more write.
  bool numbered = false;
  /// The name of the lock record below the prefix. HashiCorp's clients use ".lock". It is one segment, not empty and
  /// not "." or "..", in UTF-8 without control characters; otherwise the constructor throws error::invalid_option.
  std::string lock_key = ".lock";
  /// A text for operators in the entries of this process. If empty, "host:pid" is used. At most 1 KiB. It must not
  /// contain "\n{\"Limit\":", and must not end with a line "~" or with a line of "@" and a number. The number may be
  /// followed by "+TTL-MARGIN" and a node. The library itself appends such text. Otherwise the constructor throws
  /// error::invalid_option.
  std::string description{};

  /// TTL of the sessions of this process. They are renewed about every third of it. Above 0, at most 24 h; the server
  /// accepts 10 s to 24 h unless configured otherwise. If the process dies, its slots stay taken for up to twice the
  /// TTL after the last renewal, then for `tuning::lock_delay` where that applies, and longer if Consul elects a new
  /// leader meanwhile. With `tuning::run_directory` they may be free sooner. If it cannot reach Consul, it loses its
  /// slots when TTL minus margin has passed since the last renewal.
  std::chrono::milliseconds session_ttl = default_session_ttl;
  /// The node, in Consul's catalog, that the sessions belong to. At most 128 bytes of UTF-8 without control characters.
  /// When a node is deregistered, Consul ends its sessions at once.
  ///
  /// The default is a node on which no agent runs, so nobody has a reason to deregister it. The library registers the
  /// node if it is missing. The ACL token needs `session "holdfast-sessions" { policy = "write" }`, and while the node
  /// is missing also `node "holdfast-sessions" { policy = "write" }`. Otherwise acquires fail with
  /// error::permission_denied.
  ///
  /// If empty, sessions belong to the agent's own node. They end when the agent leaves, as for a restart, or when the
  /// node is removed. After such an end, processes that grant slots leave the slot of the vanished holder alone for
  /// that holder's TTL.
  std::string session_node{default_session_node};
  /// If true, a failed health check of the node (serfHealth) also ends the sessions. Only allowed with the agent's own
  /// node (an empty `session_node`); otherwise the constructor throws error::invalid_option. A holder may then lose its
  /// session before its TTL, so its slot stays taken for `tuning::lock_delay`. All participants should use the same
  /// value.
  bool node_health_checks = false;

  /// Called with the events that operators want to know: losses, failures of watches, and others; see `log_kind`.
  /// Empty: nothing is logged.
  log_function log{};
  /// The tracer is notified of each wait and hold. Null: nothing is traced.
  std::shared_ptr<holdfast::tracer> tracer{};
  holdfast::tuning tuning{};
};

/// Options of a mutex. All participants must use the same `key`. Options without a comment are described in
/// `semaphore_options`. The constructor of the mutex checks all of them.
struct mutex_options {
  /// The key that the holder of the mutex has locked. It is the key of HashiCorp's Go `api.Lock`; for `consul lock -n 1
  /// PREFIX` it is "PREFIX/.lock". The rules of `semaphore_options::prefix` apply, but no trailing slash is accepted.
  ///
  /// Waiters have entries below the key, "KEY/<session>". The keys of other locks and data should not begin with `key`:
  /// every change of "tasks/10" would wake the watchers of "tasks/1".
  std::string key{};
  /// The value of the key while this process holds the mutex, and a text for operators in its entries. If empty,
  /// "host:pid" is used. The rules of `semaphore_options::description` apply.
  std::string description{};

  std::chrono::milliseconds session_ttl = default_session_ttl;
  std::string session_node{default_session_node};
  bool node_health_checks = false;
  log_function log{};
  std::shared_ptr<holdfast::tracer> tracer{};
  holdfast::tuning tuning{};
};

/// Options of a mutex set. All processes must use the same `prefix`. Options without a comment are described in
/// `mutex_options`. The constructor of the set checks all of them.
struct mutex_set_options {
  /// The folder of the locks, for example "jobs/locks". The lock NAME has the key "PREFIX/NAME". The folder must not
  /// contain anything else. The rules of `semaphore_options::prefix` apply.
  std::string prefix{};
  /// The value of the key of each lock that this process holds. If empty, "host:pid" is used. The rules of
  /// `semaphore_options::description` apply.
  std::string description{};

  std::chrono::milliseconds session_ttl = default_session_ttl;
  std::string session_node{default_session_node};
  bool node_health_checks = false;
  log_function log{};
  std::shared_ptr<holdfast::tracer> tracer{};
  holdfast::tuning tuning{};
};

/// Options of an election. All candidates must use the same `key`. Options without a comment are described in
/// `mutex_options`. The constructor of the election checks all of them.
struct election_options {
  /// The key that the leader has locked, for example "service/reports/leader". The rules of `mutex_options::key` apply.
  std::string key{};

  /// TTL of the sessions. If the leader dies, another candidate can be elected one to two TTLs after the last renewal,
  /// plus `tuning::lock_delay`; with `tuning::run_directory` maybe sooner. If the leader cannot reach Consul, it steps
  /// down when TTL minus margin has passed since the last renewal.
  std::chrono::milliseconds session_ttl = default_session_ttl;
  std::string session_node{default_session_node};
  bool node_health_checks = false;
  log_function log{};
  std::shared_ptr<holdfast::tracer> tracer{};
  holdfast::tuning tuning{};
};

/// Options of one acquire. The type is trivially destructible, because g++ 12 miscompiles braced arguments of other
/// types in a co_await expression.
struct acquire_options {
  std::uint32_t count = 1;  ///< number of slots, all or none; at most the limit, and at most 60
  /// Filled in on failure, and partly if the acquire has waited (`diagnostics::queue`). Must outlive the operation.
  diagnostics* diag = nullptr;
  /// The time after which the caller does not need a slot. The acquire fails with error::would_be_late at this time. It
  /// fails at once, without a request, if the time has passed already. It also fails at once if the hold times that
  /// this object has seen say that its turn would come later. While fewer than 20 holds were seen, it does not fail
  /// early. The estimate assumes that other processes hold slots for about as long as this one. If Consul has not
  /// answered, the acquire fails with an error that equals condition::unavailable instead.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  const void* trace_parent = nullptr;  ///< the tracer gets it; see `span_start::parent`
};

}  // namespace holdfast
