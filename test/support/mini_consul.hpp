#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/events.hpp"
#include "protocol/operation.hpp"
#include "protocol/snapshot.hpp"
#include "protocol/time.hpp"

namespace holdfast::test {

/// The parts of Consul that the protocol rests on, in memory: KV with Create- and ModifyIndex, sessions with TTL and
/// behavior delete, the transaction verbs, consistent listings with their index. No I/O, no clock: time is an argument.
class mini_consul {
public:
  struct txn_reply {
    bool applied = false;
    std::vector<protocol::key_value> results{};
    std::vector<protocol::event::refused_operation> refusals{};
  };

  /// Real Consul ends a session between TTL and 2 x TTL after its last renewal: `patience` says when for this one.
  std::string create_session(protocol::duration ttl, protocol::duration patience, protocol::time_point now);
  bool renew_session(const std::string& session, protocol::time_point now);
  void destroy_session(const std::string& session);
  bool has_session(const std::string& session) const { return sessions_.contains(session); }
  void expire_sessions(protocol::time_point now);
  /// Counts every write, like Raft's index.
  std::uint64_t raft_index() const { return index_; }

  /// All of it, or nothing, at one index.
  txn_reply transact(const std::vector<protocol::operation>& operations);

  std::vector<protocol::key_value> list(std::string_view prefix) const;
  /// A listing's X-Consul-Index: the greatest ModifyIndex below `prefix`, deletions included.
  std::uint64_t index_of(std::string_view prefix) const;
  const protocol::key_value* get(const std::string& key) const;

  // What operators and other programs do, without looking.
  void put(const std::string& key, std::string value, std::uint64_t flags);
  void remove(const std::string& key);
  void remove_tree(const std::string& prefix);
  /// Tombstones go after a while: then a listing's index may go backwards.
  void collect_tombstones() { tombstones_.clear(); }

  // Broken ways to be, to see whether the tests notice.
  bool forgets_deletions = false;  ///< deletions move no index
  bool cas_always_fits = false;

private:
  struct lease {
    protocol::duration life{};
    protocol::time_point ends{};
  };

  bool apply(const protocol::operation& op, txn_reply& reply, protocol::event::refusal& why);
  void write(const std::string& key, std::string value, std::uint64_t flags, const std::string* lock);
  void erase(const std::string& key);

  std::uint64_t index_ = 10;
  std::uint64_t last_session_ = 0;
  std::map<std::string, protocol::key_value, std::less<>> keys_;
  std::map<std::string, std::uint64_t, std::less<>> tombstones_;
  std::map<std::string, lease> sessions_;
  protocol::time_point first_to_end_ = protocol::never;  ///< at the earliest
};

}  // namespace holdfast::test
