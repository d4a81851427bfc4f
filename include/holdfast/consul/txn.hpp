#pragma once

#include <cstddef>
#include <cstdint>
#include <holdfast/consul/kv.hpp>
#include <string>
#include <vector>

namespace holdfast::consul {

/// Consul executes at most this many operations in one transaction.
inline constexpr std::size_t txn_operations_max = 64;

/// The KV verbs of a transaction (https://www.consul.io/api-docs/txn#tables-of-operations).
enum class txn_verb {
  set,
  cas,
  lock,
  unlock,
  get,
  get_tree,
  check_index,
  check_session,
  check_not_exists,
  remove,
  remove_tree,
  remove_cas,
};

/// One operation of a transaction. The fields that its verb does not use stay empty; the named makers below fill what
/// each verb needs.
struct txn_operation {
  txn_verb verb = txn_verb::get;
  std::string key;
  std::string value;
  std::uint64_t flags = 0;
  std::uint64_t index = 0;
  std::string session;
  bool operator==(const txn_operation&) const = default;

  static txn_operation set(std::string key, std::string value, std::uint64_t flags = 0) {
    return {txn_verb::set, std::move(key), std::move(value), flags, 0, {}};
  }
  /// Index 0: only if the key does not exist.
  static txn_operation cas(std::string key, std::string value, std::uint64_t index, std::uint64_t flags = 0) {
    return {txn_verb::cas, std::move(key), std::move(value), flags, index, {}};
  }
  static txn_operation lock(std::string key, std::string value, std::string session, std::uint64_t flags = 0) {
    return {txn_verb::lock, std::move(key), std::move(value), flags, 0, std::move(session)};
  }
  static txn_operation unlock(std::string key, std::string value, std::string session, std::uint64_t flags = 0) {
    return {txn_verb::unlock, std::move(key), std::move(value), flags, 0, std::move(session)};
  }
  static txn_operation get(std::string key) { return {txn_verb::get, std::move(key), {}, 0, 0, {}}; }
  static txn_operation get_tree(std::string prefix) { return {txn_verb::get_tree, std::move(prefix), {}, 0, 0, {}}; }
  static txn_operation check_index(std::string key, std::uint64_t index) {
    return {txn_verb::check_index, std::move(key), {}, 0, index, {}};
  }
  static txn_operation check_session(std::string key, std::string session) {
    return {txn_verb::check_session, std::move(key), {}, 0, 0, std::move(session)};
  }
  static txn_operation check_not_exists(std::string key) {
    return {txn_verb::check_not_exists, std::move(key), {}, 0, 0, {}};
  }
  static txn_operation remove(std::string key) { return {txn_verb::remove, std::move(key), {}, 0, 0, {}}; }
  static txn_operation remove_tree(std::string prefix) {
    return {txn_verb::remove_tree, std::move(prefix), {}, 0, 0, {}};
  }
  static txn_operation remove_cas(std::string key, std::uint64_t index) {
    return {txn_verb::remove_cas, std::move(key), {}, 0, index, {}};
  }
};

/// Why Consul refused an operation of a transaction, as far as its text tells.
enum class txn_refusal {
  conflict,           ///< an index, session or existence check did not hold
  lock_held,          ///< the key is locked by another session
  lock_delay,         ///< the key's lock delay is running
  invalid_session,    ///< the session does not exist
  missing_key,        ///< the key does not exist
  permission_denied,  ///< the ACL token lacks the right
  other,
};

struct txn_error {
  std::size_t operation = 0;  ///< position in the transaction
  txn_refusal reason = txn_refusal::other;
  std::string text;  ///< Consul's own words
  bool operator==(const txn_error&) const = default;
};

/// A transaction applies whole (`applied`, `results` in the order of the operations that return something; written
/// values are not echoed) or not at all (`errors` says which operations were refused).
struct txn_reply {
  bool applied = false;
  std::vector<kv_entry> results;
  std::vector<txn_error> errors;
};

}  // namespace holdfast::consul
