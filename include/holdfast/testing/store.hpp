#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <holdfast/consul/kv.hpp>
#include <holdfast/consul/query.hpp>
#include <holdfast/consul/session.hpp>
#include <holdfast/consul/txn.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::testing {

/// One rule of Consul that a store can be made to break, to see whether a test notices. See testing/defect.hpp.
enum class defect : int;

/// A version of Consul, as in `consul_version{1, 22, 7}`. What changed with a version holds from that one on.
struct consul_version {
  unsigned major_number = 0;
  unsigned minor_number = 0;
  unsigned patch_number = 0;

  auto operator<=>(const consul_version&) const = default;

  /// "1.22.7", also with "+ent" or the like behind it. Nothing if it is no version.
  static std::optional<consul_version> from_text(std::string_view text);
  std::string to_text() const;
};

/// The newest that the model was compared with.
inline constexpr consul_version newest_consul_version{1, 22, 7};

/// Limits as an agent's configuration has them. The defaults are Consul's.
struct store_options {
  std::string node = "fake";  ///< the agent's: sessions belong to it that name no other
  /// How long it takes the agent to register its node again when somebody has deregistered that. Consul's leader looks
  /// once a minute, so it is some time below that.
  std::chrono::nanoseconds node_returns_after = std::chrono::seconds(60);
  std::chrono::nanoseconds session_ttl_min =
      std::chrono::seconds(10);  ///< `session_ttl_min`; may be far lower in tests
  std::chrono::nanoseconds session_ttl_max = std::chrono::hours(24);
  std::size_t value_bytes_max = 512 * 1024;  ///< `limits.kv_max_value_size`
  /// `limits.txn_max_req_len`: of a transaction's body, in which values are in base64. The larger of both counts for
  /// that.
  std::size_t txn_bytes_max = 512 * 1024;
  /// Whose ways it has: doc/reference/compatibility.md says in what they differ. 1.8.7 or later was compared.
  consul_version version = newest_consul_version;
};

/// Why Consul would not do something: the status and the body of its reply.
struct refusal {
  unsigned status = 500;
  std::string text;
  bool operator==(const refusal&) const = default;
};

/// What a single write came to. Not done and not refused is Consul's `false`: a check did not hold.
struct write_result {
  bool done = false;
  std::optional<refusal> refused;
};

/// What a blocking query asks about.
struct subject {
  enum class kind {
    key,            ///< one key: `name`
    prefix,         ///< the entries, or only the keys, that start with `name`
    session,        ///< one session: `name` is its id
    sessions,       ///< the list of all
    node_sessions,  ///< the list of one node's: `name` is the node's
    node,           ///< one node: `name`
    nodes,          ///< the list of all
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
  bool serf_health = false;  ///< has that check: only the agent's node has
  bool operator==(const node_info&) const = default;
};

/// The parts of Consul that holdfast and its users rely on, in memory: KV, sessions, transactions, the nodes that
/// sessions belong to, and the index and wake-up rules of blocking queries, as `store_options::version` of Consul was
/// measured to behave. It is compared with real agents of several versions on random operations, reply by reply.
///
/// Pure: no I/O, no clock, no randomness, no threads. Time and session ids are arguments; the same calls give the same
/// answers. Times must not go back. Copies are independent; one is a snapshot that `restore` takes.
///
/// Not modelled: ACLs, other datacenters, services, checks but serfHealth, prepared queries.
/// Threads: distinct objects only. `server` puts a lock around its own.
class store {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::nanoseconds;

  explicit store(store_options options = {});

  const store_options& options() const noexcept { return options_; }

  // --- KV. Each write is one step of the index, also one that changes nothing.

  /// One operation by itself, as the KV endpoint does it: all verbs of a transaction that write.
  write_result write(const consul::txn_operation& operation, time_point now);
  /// All of them, or none: then `errors` has every refused operation, with Consul's text.
  consul::txn_reply transact(const std::vector<consul::txn_operation>& operations, time_point now);

  consul::answer<std::optional<consul::kv_entry>> get(std::string_view key) const;
  consul::answer<std::vector<consul::kv_entry>> list(std::string_view prefix) const;
  /// Names only, each cut after the first `separator` that follows the prefix.
  consul::answer<std::vector<std::string>> keys(std::string_view prefix, std::string_view separator = {}) const;

  // --- Sessions.

  /// `session.id` is the caller's: 36 characters that no other session has. An empty `node` is the agent's;
  /// `node_checks` are none, or "serfHealth" where the node has that. The indexes are filled in here.
  std::optional<refusal> create_session(consul::session_info session, time_point now);
  /// False if there is no such session. A session ends 2 x TTL after its last renewal, as Consul was measured to do.
  bool renew_session(std::string_view id, time_point now);
  void destroy_session(std::string_view id, time_point now);
  consul::answer<std::optional<consul::session_info>> session(std::string_view id) const;
  consul::answer<std::vector<consul::session_info>> sessions() const;
  consul::answer<std::vector<consul::session_info>> sessions_of(std::string_view node) const;

  // --- Nodes. Their names are found whatever the case of their letters.

  /// A node is registered, or has another address or other letters from now on. What is there already word for word
  /// stays as it is.
  std::optional<refusal> register_node(const std::string& name, const std::string& address, time_point now);
  /// Ends all of its sessions, whatever their TTL. The agent's own node comes back in `node_returns_after`, by
  /// `advance`; until then, or until somebody else registers it, no session can be created on it.
  void deregister_node(std::string_view name, time_point now);
  consul::answer<std::optional<node_info>> node(std::string_view name) const;
  consul::answer<std::vector<node_info>> nodes() const;

  // --- Time, and what operators and accidents do.

  /// Ends sessions whose time has come, has the agent's node back, and forgets tombstones after Consul's 15 minutes.
  void advance(time_point now);
  /// When `advance` has something to do next; `time_point::max()`: never.
  time_point next_deadline() const;
  /// The leader changes: every TTL starts anew, at its full 2 x TTL.
  void restart_ttls(time_point now);
  /// Every session ends now, as if its TTL had run out.
  void expire_sessions(time_point now);
  /// The health check of the agent's node fails: sessions that depend on it end.
  void fail_node(time_point now);
  /// From now on the index of a listing may be lower than before.
  void collect_tombstones();
  /// All state is that of `image`, and indexes are its indexes. Every watch fires, as after a snapshot's restoration.
  void restore(const store& image);

  // --- Blocking queries.

  using watch_id = std::uint64_t;
  /// The index that the read of the subject would answer with.
  std::uint64_t index_of(const subject& asked) const;
  /// Fires once, when something changes that Consul would answer for, or look up the subject again. That may be more
  /// than the subject (before Consul 1.10.9, for a missing key: what is beside it), so whoever waits compares indexes
  /// again.
  watch_id watch(subject what);
  void unwatch(watch_id id);
  std::size_t watches() const noexcept { return watches_.size(); }
  /// The watches that have fired since the last call, each named once.
  std::vector<watch_id> take_fired();

  /// Counts every write, like Raft's index.
  std::uint64_t raft_index() const noexcept { return index_; }
  /// For tests of tests: from now on one rule is broken.
  void break_rule(defect which) noexcept { defect_ = which; }

private:
  using entries = std::map<std::string, consul::kv_entry, std::less<>>;
  using results = std::vector<consul::kv_entry>;
  struct lease {
    consul::session_info info;
    time_point ends = time_point::max();
  };
  /// What an operation came to.
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
    std::uint64_t index;  ///< of the last tombstone that goes then
  };
  struct registered {
    watch_id id;
    subject what;
    std::string place;   ///< a node's path in Consul's radix tree; see store.cpp
    bool leaf = false;   ///< the subject itself, not a node above it
    bool fires = false;  ///< by the write under way
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
  std::uint64_t kv_index_ = 0;       // of the last change of any key, deletions included
  std::uint64_t session_index_ = 0;  // of the last change of any session
  std::uint64_t node_index_ = 0;     // of the last change of any node
  std::uint64_t gone_index_ = 0;     // of the last node that went
  entries entries_;
  std::map<std::string, std::uint64_t, std::less<>> tombstones_;
  std::vector<grave> graves_;  // when tombstones go
  std::map<std::string, lease, std::less<>> sessions_;
  time_point next_end_ = time_point::max();  // of a session, at the earliest
  /// By node: the key of each is the node's and the id, as in Consul's own index.
  std::map<std::string, std::string, std::less<>> sessions_by_node_;
  std::map<std::string, node_info, std::less<>> nodes_;  // by their names in small letters
  time_point own_node_returns_ = time_point::max();
  std::map<std::string, time_point, std::less<>> lock_delays_;

  // The write under way, and what to put back if it is refused.
  time_point now_{};
  std::vector<undo> undo_;
  std::uint64_t kv_index_before_ = 0;

  watch_id last_watch_ = 0;
  std::vector<registered> watches_;
  std::vector<watch_id> fired_;
  defect defect_{};
};

}  // namespace holdfast::testing
