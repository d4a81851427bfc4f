// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <holdfast/consul/kv.hpp>
#include <holdfast/consul/query.hpp>
#include <holdfast/consul/session.hpp>
#include <holdfast/consul/txn.hpp>
#include <holdfast/detail/export.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::testing {

/// A rule of Consul that a store can be made to break, to check that a test notices. See testing/defect.hpp.
enum class defect : int;

/// A version of Consul, for example `consul_version{1, 22, 7}`.
struct consul_version {
  unsigned major_number = 0;
  unsigned minor_number = 0;
  unsigned patch_number = 0;

  auto operator<=>(const consul_version&) const = default;

  /// Parses a text such as "1.22.7". A suffix such as "+ent" is ignored. Empty if the text is not a version.
  HOLDFAST_EXPORT static std::optional<consul_version> from_text(std::string_view text);
  HOLDFAST_EXPORT std::string to_text() const;
};

/// The newest version of Consul that the model was compared with.
inline constexpr consul_version newest_consul_version{1, 22, 7};

/// The settings of the modelled agent. The defaults of the limits are Consul's.
struct store_options {
  std::string node = "fake";  ///< the name of the agent's node, to which sessions belong by default
  /// The time after which the agent's node is registered again when it was deregistered. In Consul the leader checks
  /// for this once a minute, so the time is at most 60 s.
  std::chrono::nanoseconds node_returns_after = std::chrono::seconds(60);
  std::chrono::nanoseconds session_ttl_min =
      std::chrono::seconds(10);  ///< Consul's `session_ttl_min`; tests may set it far lower
  std::chrono::nanoseconds session_ttl_max = std::chrono::hours(24);
  std::size_t value_bytes_max = 512 * 1024;  ///< `limits.kv_max_value_size`
  /// `limits.txn_max_req_len`, which limits the body of a transaction, where values are in base64. The body may be as
  /// large as the larger of this limit and `value_bytes_max`.
  std::size_t txn_bytes_max = 512 * 1024;
  /// The version of Consul whose behaviour is modelled. doc/reference/compatibility.md lists the differences between
  /// versions. The model was compared with versions from 1.8.7 on.
  consul_version version = newest_consul_version;
};

/// The status and the body of a reply by which Consul refuses a request.
struct refusal {
  unsigned status = 500;
  std::string text;
  bool operator==(const refusal&) const = default;
};

/// The result of a single write. If the write is neither done nor refused, a check failed: Consul's reply is `false`.
struct write_result {
  bool done = false;
  std::optional<refusal> refused;
};

/// The subject of a blocking query.
struct subject {
  enum class kind {
    key,            ///< one key: `name`
    prefix,         ///< the entries, or only the keys, that start with `name`
    session,        ///< one session: `name` is its id
    sessions,       ///< the list of all sessions
    node_sessions,  ///< the list of the sessions of one node: `name` is the node's name
    node,           ///< one node: `name`
    nodes,          ///< the list of all nodes
  } what = kind::prefix;
  std::string name;
  bool operator==(const subject&) const = default;
};

/// A node of the catalog.
struct node_info {
  std::string name;
  std::string address;
  std::uint64_t create_index = 0;
  std::uint64_t modify_index = 0;
  bool serf_health = false;  ///< the node has the check "serfHealth"; only the agent's node has
  bool operator==(const node_info&) const = default;
};

/// An in-memory model of the parts of Consul that holdfast and its users rely on: KV, sessions, transactions, the nodes
/// that sessions belong to, and the index and wake-up rules of blocking queries. It behaves as measured on Consul of
/// `store_options::version`. Tests compare it, reply by reply, with real agents of several versions on random
/// operations.
///
/// The model is deterministic: it has no I/O, no clock, no randomness and no threads. Time and session ids are
/// arguments, and the same calls give the same answers. The times of successive calls must not decrease. Copies are
/// independent. A copy serves as a snapshot for `restore`.
///
/// Not modelled: ACLs, other datacenters, services, checks other than serfHealth, prepared queries.
///
/// Thread safety: distinct objects only. `server` guards its store with a mutex.
class HOLDFAST_EXPORT store {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::nanoseconds;

  explicit store(store_options options = {});

  const store_options& options() const noexcept { return options_; }

  // --- KV. Each write and each transaction increments `raft_index`, even if it changes nothing, unless it is refused
  // for an empty key or for a lock delay.

  /// Applies one operation, as the KV endpoint does. Every writing verb of a transaction is allowed.
  write_result write(const consul::txn_operation& operation, time_point now);
  /// Applies all operations or none. If none, `errors` lists every refused operation, with Consul's text. If operations
  /// are refused for an empty key or for a lock delay, the others are not tried, and only those are listed.
  consul::txn_reply transact(const std::vector<consul::txn_operation>& operations, time_point now);

  consul::answer<std::optional<consul::kv_entry>> get(std::string_view key) const;
  consul::answer<std::vector<consul::kv_entry>> list(std::string_view prefix) const;
  /// Lists keys only. Each key is cut after the first `separator` that follows the prefix.
  consul::answer<std::vector<std::string>> keys(std::string_view prefix, std::string_view separator = {}) const;

  // --- Sessions.

  /// The caller chooses `session.id`: 36 characters that no other session has. An empty `node` means the agent's node.
  /// `node_checks` is empty, or "serfHealth" if the node has that check. The store sets the indexes.
  std::optional<refusal> create_session(consul::session_info session, time_point now);
  /// Returns false if there is no such session. A session with a TTL expires 2 x TTL after its creation or its
  /// last renewal, as measured on Consul.
  bool renew_session(std::string_view id, time_point now);
  void destroy_session(std::string_view id, time_point now);
  consul::answer<std::optional<consul::session_info>> session(std::string_view id) const;
  consul::answer<std::vector<consul::session_info>> sessions() const;
  consul::answer<std::vector<consul::session_info>> sessions_of(std::string_view node) const;

  // --- Nodes. Their names are not case-sensitive.

  /// Registers a node, or changes the address of a node and the case of its name. If nothing differs, the node's
  /// indexes do not change. From Consul 1.12 on, a difference in case alone counts as none, and the name stays as it
  /// is.
  std::optional<refusal> register_node(const std::string& name, const std::string& address, time_point now);
  /// Removes a node and ends all of its sessions, whatever their TTL. `advance` registers the agent's own node again
  /// after `node_returns_after`. Until then, or until `register_node`, no session can be created on that node.
  void deregister_node(std::string_view name, time_point now);
  consul::answer<std::optional<node_info>> node(std::string_view name) const;
  consul::answer<std::vector<node_info>> nodes() const;

  // --- Time, operators and accidents.

  /// Ends expired sessions and lock delays, registers the agent's node again when it is due, and drops tombstones at
  /// the next multiple of 30 s after Consul's 15 minutes.
  void advance(time_point now);
  /// The time at which to call `advance` next. No session expires, no node returns and no tombstone is dropped before
  /// it. The time may be too early, for example if a session was renewed or destroyed since the last `advance`; then
  /// nothing happens at it. `time_point::max()` if no such event is known.
  time_point next_deadline() const;
  /// Simulates a change of the leader: every session with a TTL lives for another 2 x TTL.
  void restart_ttls(time_point now);
  /// Ends every session now, as if its TTL had expired. This includes sessions without a TTL.
  void expire_sessions(time_point now);
  /// Simulates a failed health check of the agent's node: ends the sessions that depend on it.
  void fail_node(time_point now);
  /// Drops all tombstones now. The index of a listing may then be lower than before.
  void collect_tombstones();
  /// Replaces all state, including the indexes of entries, by that of `image`. Only `raft_index` does not decrease.
  /// Every watch fires, as after the restoration of a snapshot in Consul.
  void restore(const store& image);

  // --- Blocking queries.

  using watch_id = std::uint64_t;
  /// The index in the answer to a read of the subject.
  std::uint64_t index_of(const subject& asked) const;
  /// Registers a watch. It fires once, on a change after which Consul would answer the query or look up the subject
  /// again. Changes of other things than the subject may cause that. For example, the watch of a missing key also fires
  /// for neighbouring keys before Consul 1.10.9, and in 1.11.0 to 1.11.3. The caller must therefore compare indexes
  /// after a watch has fired.
  watch_id watch(subject what);
  void unwatch(watch_id id);
  std::size_t watches() const noexcept { return watches_.size(); }
  /// The watches that have fired since the last call, without duplicates.
  std::vector<watch_id> take_fired();

  /// The number of the last write, like Raft's index.
  std::uint64_t raft_index() const noexcept { return index_; }
  /// Breaks this rule from now on, instead of the rule of an earlier call, to check that a test notices. `restore`
  /// replaces this setting, and the options, by those of its image.
  void break_rule(defect which) noexcept { defect_ = which; }

private:
  using entries = std::map<std::string, consul::kv_entry, std::less<>>;
  using results = std::vector<consul::kv_entry>;
  struct lease {
    consul::session_info info;
    time_point ends = time_point::max();
  };
  /// The result of an operation.
  struct verdict {
    enum class kind { done, not_done, refused } what = kind::done;
    std::string text{};
  };
  struct undo {
    std::string key;
    std::optional<consul::kv_entry> entry;
    std::optional<std::uint64_t> tombstone;
  };
  struct grave {
    time_point due;
    std::uint64_t index;  ///< of the last tombstone that is dropped then
  };
  struct registered {
    watch_id id;
    subject what;
    std::string place;   ///< the path of the watched node in Consul's radix tree, see store.cpp; or the key
    bool leaf = false;   ///< the watch is on the subject itself, not on a node above it
    bool fires = false;  ///< the current write fires it
  };

  verdict check_before(const consul::txn_operation& op, time_point now) const;
  verdict apply(const consul::txn_operation& op, results& out);
  verdict cas(const consul::txn_operation& op, results& out);
  verdict lock(const consul::txn_operation& op, results& out);
  verdict unlock(const consul::txn_operation& op, results& out);
  verdict remove_cas(const consul::txn_operation& op);
  void set(const consul::txn_operation& op, results& out);
  void put(consul::kv_entry entry, results& out);
  void remove(const std::string& key);
  void remove_tree(const std::string& prefix);
  void end_session(const std::string& id, time_point now);
  void close_session(const std::string& id);
  void add_own_node();
  template <class Condition>
  void end_sessions_if(Condition ended, time_point now);
  const consul::kv_entry* find(std::string_view key) const;
  std::uint64_t kv_index() const noexcept;
  std::uint64_t prefix_index(std::string_view prefix) const;
  bool breaks(defect which) const noexcept { return defect_ == which; }

  void bury(const std::string& key);

  void begin(time_point now);
  void remember(const std::string& key);
  void commit();
  void roll_back();
  bool is_still_missing(const registered& watch) const;

  void place(registered& watch) const;
  void touch(const std::string& key, bool comes_or_goes);
  void touch_session(const consul::session_info& session);
  void touch_node(const std::string& key, bool comes_or_goes);

  store_options options_;
  std::uint64_t index_ = 10;
  std::uint64_t kv_index_ = 0;       // of the last change of any key, including deletions
  std::uint64_t session_index_ = 0;  // of the last change of any session
  std::uint64_t node_index_ = 0;     // of the last change of any node
  std::uint64_t gone_index_ = 0;     // of the last removal of a node
  entries entries_;
  std::map<std::string, std::uint64_t, std::less<>> tombstones_;
  std::vector<grave> graves_;  // when tombstones are dropped
  std::map<std::string, lease, std::less<>> sessions_;
  time_point next_end_ = time_point::max();  // a lower bound of the sessions' expiry times
  /// The ids of sessions, by node name and id, as in Consul's own index.
  std::map<std::string, std::string, std::less<>> sessions_by_node_;
  std::map<std::string, node_info, std::less<>> nodes_;  // by their names in lower case
  time_point own_node_returns_ = time_point::max();
  std::map<std::string, time_point, std::less<>> lock_delays_;

  // The current write, and the state to restore if it is refused.
  time_point now_{};
  std::vector<undo> undo_;
  std::uint64_t kv_index_before_ = 0;

  watch_id last_watch_ = 0;
  std::vector<registered> watches_;
  std::vector<watch_id> fired_;
  defect defect_{};
};

}  // namespace holdfast::testing
