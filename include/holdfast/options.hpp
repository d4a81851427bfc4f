#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <holdfast/diagnostics.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

/// Of sessions, unless they are given another one. A process that dies keeps its slots for up to twice that.
inline constexpr std::chrono::milliseconds default_session_ttl{15'000};
/// The node of Consul's catalog that sessions belong to, unless they are given another one: no agent stands behind it.
inline constexpr std::string_view default_session_node = "holdfast-sessions";

/// What few have to change. What is not given has its default, or is derived; what a kind of lock has no use for is
/// error::invalid_option there. Times are 0 to 24 h unless it says otherwise; what is wrong is named by the error.
struct tuning {
  /// How much earlier than Consul we give a slot up, for clock drift and for the holder to stop: above 0, half the TTL
  /// at most. A tenth of the TTL.
  std::optional<std::chrono::milliseconds> lease_margin{};
  /// For how long what a session held stays taken after that session has ended: 0 to 60 s. Who sees to that, and how
  /// long it is if it is not given:
  /// - a semaphore with node health checks: whoever grants; the TTL. Less than the TTL, and than 60 s, is an error;
  /// - numbered slots: Consul keeps the number; the TTL, without health checks 15 s at least, 60 s at most;
  /// - a mutex, a set, an election: Consul keeps the key; 0, because the lease is over before Consul ends a session. On
  ///   the agent's own node, whose sessions may end sooner, the TTL, 60 s at most: then a lease (TTL minus margin) of
  ///   over 60 s is an error, and with health checks a delay under the TTL, and under 60 s;
  /// - a semaphore without either may be given one, and it has no effect.
  std::optional<std::chrono::milliseconds> lock_delay{};
  /// How long the watch of what is held may fail before it is lost, never past the lease. 24 h, so that the lease alone
  /// counts, and an election of Consul's leader costs nobody a slot. 0: at the first failure, as the semaphore guide
  /// has it.
  std::optional<std::chrono::milliseconds> outage_grace{};
  /// How long an acquire or a release rides out an agent that cannot answer before it fails with the last error. 5 s.
  std::optional<std::chrono::milliseconds> give_up_after{};
  /// Time for one request, 1 ms to 10 min. A third of the TTL, at most 5 s.
  std::optional<std::chrono::milliseconds> request_timeout{};

  // Not of elections:
  /// How long a session that nobody needs is kept warm for the next acquire. Until then it also keeps the execution
  /// context running. While further sessions are being created, idle sessions are kept for longer. 10 s.
  std::optional<std::chrono::milliseconds> session_idle_timeout{};
  /// Acquires that may wait here at once; the next fails with error::too_many_waiters. 1'000'000.
  std::optional<std::size_t> waiters_max{};

  // Of semaphores and mutexes:
  /// How long a slot may go from hand to hand inside this process while others wait elsewhere. Longer is fewer
  /// requests, and a longer wait for the others. 100 ms.
  std::optional<std::chrono::milliseconds> local_handoff_time{};
  /// How long a slot that nobody uses is kept for the next acquire, as long as nobody waits elsewhere. 0: not at all,
  /// which is the default.
  std::optional<std::chrono::milliseconds> slot_idle_timeout{};

  /// Of semaphores: how long a free slot is left for a Go or guide contender at the head of the queue, which claims it
  /// itself. 500 ms.
  std::optional<std::chrono::milliseconds> claim_timeout{};
  /// Of mutexes: how long the mutex may go from hand to hand, in a process or among those who have entries, before it
  /// is let go for whoever comes first: clients of other kinds wait without a trace. That costs some 20 ms. 0: there
  /// are none. 1 s.
  std::optional<std::chrono::milliseconds> yield_interval{};
};

/// What all participants of a semaphore must agree on (`prefix`, `lock_key`, `limit`), and how this process takes part.
/// Checked once, by the semaphore's constructor.
struct semaphore_options {
  /// The KV folder that the semaphore lives in, say "service/db/semaphore". Not empty, no leading slash, no empty
  /// segment, none that is "." or ".."; UTF-8 without control characters, at most 400 bytes. One trailing slash is
  /// accepted. Else error::invalid_prefix.
  std::string prefix{};
  /// How many slots there are, 1 to 4'200. A record in use with another limit: error::limit_conflict.
  std::uint32_t limit = 0;
  /// Whether the limit in the record, where there is a record, counts instead of `limit`, which then is only what a new
  /// record gets. It may change while it is in use (`semaphore_administration::resize`): a lower one takes no slot
  /// away, and nobody is granted until fewer hold. All participants should agree on it: one without it fails while the
  /// record in use has another limit, and writes its own into one that nobody uses.
  bool use_recorded_limit = false;
  /// Whether each slot that is held has a number of its own, 0 to limit - 1, see `slot::numbers`, so that it can stand
  /// for a real thing: the GPU 3, the port 8003. The session that holds the slot has locked "PREFIX/.slot/<number>",
  /// too, and nobody uses a slot without: a number is had by one holder at a time. Who finds the slots numbered and
  /// does not ask for numbers, as HashiCorp's clients, may take part, and has none. A number goes with its slot, in the
  /// same write; where it does not, as after a holder has died, it costs one more.
  bool numbered = false;
  /// The name of the coordinating record below the prefix. HashiCorp's clients use ".lock". One segment, by the rules
  /// of `prefix`; else error::invalid_option.
  std::string lock_key = ".lock";
  /// What an operator reads in our contender entries. Empty: "host:pid". At most 1 KiB, without "\n{\"Limit\":" in it,
  /// and without a last line that is "@" and a number: we add such ourselves. Else error::invalid_option.
  std::string description{};

  /// TTL of our sessions, renewed every third of it. Above 0, at most 24 h; the server's range is 10 s to 24 h unless
  /// configured otherwise. A process that dies keeps its slots for up to twice that; a process that cannot reach Consul
  /// loses them after TTL minus margin.
  std::chrono::milliseconds session_ttl = default_session_ttl;
  /// The node of Consul's catalog that our sessions belong to, at most 128 bytes: when a node is deregistered, Consul
  /// ends its sessions at once. By default one that no agent stands behind, and that nobody has a reason to deregister;
  /// it is registered where it is missing. The ACL token needs `session "holdfast-sessions" { policy = "write" }`, and
  /// as long as the node is missing `node "holdfast-sessions" { policy = "write" }`; else error::permission_denied.
  /// Empty: the agent's own, whose sessions end when the agent leaves, as for a restart, or when it is removed; then
  /// whoever grants a slot leaves that of a holder that is gone alone for that holder's TTL.
  std::string session_node{default_session_node};
  /// Whether the node's health (serfHealth) ends our sessions too; on the agent's own node only, else
  /// error::invalid_option. Then a holder may lose its session before its TTL, so pruning waits `tuning::lock_delay`.
  /// All participants should agree on it.
  bool node_health_checks = false;

  /// Told what an operator may want to read, one line each. Called on the client's strand: be quick, and do not throw.
  std::function<void(const std::string&)> log{};
  holdfast::tuning tuning{};
};

/// What all participants of a mutex must agree on (`key`), and how this process takes part. What is not explained here
/// is as in `semaphore_options`. Checked once, by the mutex's constructor.
struct mutex_options {
  /// The key that whoever holds the mutex has locked, as of HashiCorp's Go `api.Lock`; of `consul lock -n 1 PREFIX` it
  /// is "PREFIX/.lock". The rules of `semaphore_options::prefix`, but no trailing slash. Those who wait have entries
  /// below it, "KEY/<session>". No key of another purpose should begin with it: "tasks/1" is the beginning of
  /// "tasks/10" too, and every change there would wake those who watch here.
  std::string key{};
  /// The key's value while we hold it, and what an operator reads in our entries. Empty: "host:pid". By the rules of
  /// `semaphore_options::description`.
  std::string description{};

  std::chrono::milliseconds session_ttl = default_session_ttl;
  std::string session_node{default_session_node};
  bool node_health_checks = false;
  std::function<void(const std::string&)> log{};
  holdfast::tuning tuning{};
};

/// What all processes of a mutex set must agree on (`prefix`), and how this process takes part. What is not explained
/// here is as in `mutex_options`. Checked once, by the set's constructor.
struct mutex_set_options {
  /// The folder of the locks, say "jobs/locks": the key of the lock NAME is "PREFIX/NAME". Nothing else should stand in
  /// it. The rules of `semaphore_options::prefix`.
  std::string prefix{};
  /// The value of each key that we have locked. Empty: "host:pid". At most 1 KiB.
  std::string description{};

  std::chrono::milliseconds session_ttl = default_session_ttl;
  std::string session_node{default_session_node};
  bool node_health_checks = false;
  std::function<void(const std::string&)> log{};
  holdfast::tuning tuning{};
};

/// What all candidates of an election must agree on (`key`), and how this process takes part. What is not explained
/// here is as in `mutex_options`. Checked once, by the election's constructor.
struct election_options {
  /// The key that the leader has locked, say "service/reports/leader".
  std::string key{};

  /// A leader that dies is followed by another after one to two of these; one that cannot reach Consul steps down after
  /// one minus margin.
  std::chrono::milliseconds session_ttl = default_session_ttl;
  std::string session_node{default_session_node};
  bool node_health_checks = false;
  std::function<void(const std::string&)> log{};
  holdfast::tuning tuning{};
};

/// Arguments of one acquire. Trivially destructible, so that g++ 12 compiles it well in braces at a co_await, too.
struct acquire_options {
  std::uint32_t count = 1;      ///< slots, all or nothing; at most the limit, and at most 60
  diagnostics* diag = nullptr;  ///< filled in on failure; must outlive the operation
};

}  // namespace holdfast
