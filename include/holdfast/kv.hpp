// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <holdfast/detail/enumeration.hpp>
#include <string>
#include <string_view>
#include <utility>

// The entries of a key-value store with sessions and transactions, and the operations on them. The protocol and the
// Consul client both use these types. So the protocol needs Consul's rules, but not its client.
namespace holdfast {

/// One key, as Consul returns it. `value` is decoded from base64. All numbers are exact 64-bit values.
struct kv_entry {
  std::string key;
  std::string value;
  std::uint64_t flags = 0;
  std::string session;  ///< the session that has locked the key, empty if none
  std::uint64_t create_index = 0;
  std::uint64_t modify_index = 0;
  std::uint64_t lock_index = 0;
  bool operator==(const kv_entry&) const = default;
};

// A new verb stands at the end, because the inputs of `fuzz.txn_reply` name verbs by their numbers. If only some
// versions of Consul have it, `src/testing/ways.hpp` says which. If Consul refuses it with a text of its own,
// `refusal_of` in `src/consul/encoding/json.cpp` must know that text. Requests for single keys are others:
// `write_request::kind`.

/// The verbs of a transaction (https://www.consul.io/api-docs/txn#tables-of-operations).
enum class kv_verb {
  lock,
  unlock,
  cas,
  check_session,
  check_index,
  check_not_exists,
  remove,
  remove_cas,
  get,
  get_tree,
  set,
  remove_tree,
};

/// The name of the verb in Consul's API.
constexpr std::string_view to_string(kv_verb verb) noexcept {
  switch (verb) {
    case kv_verb::lock:
      return "lock";
    case kv_verb::unlock:
      return "unlock";
    case kv_verb::cas:
      return "cas";
    case kv_verb::check_session:
      return "check-session";
    case kv_verb::check_index:
      return "check-index";
    case kv_verb::check_not_exists:
      return "check-not-exists";
    case kv_verb::remove:
      return "delete";
    case kv_verb::remove_cas:
      return "delete-cas";
    case kv_verb::get:
      return "get";
    case kv_verb::get_tree:
      return "get-tree";
    case kv_verb::set:
      return "set";
    case kv_verb::remove_tree:
      return "delete-tree";
  }
  return {};
}
/// All verbs.
inline constexpr auto kv_verbs = detail::enumerators<kv_verb>();

/// True if the verb can change something. The other verbs only read or check.
constexpr bool is_write(kv_verb verb) noexcept {
  switch (verb) {
    case kv_verb::lock:
    case kv_verb::unlock:
    case kv_verb::cas:
    case kv_verb::remove:
    case kv_verb::remove_cas:
    case kv_verb::set:
    case kv_verb::remove_tree:
      return true;
    case kv_verb::check_session:
    case kv_verb::check_index:
    case kv_verb::check_not_exists:
    case kv_verb::get:
    case kv_verb::get_tree:
      return false;
  }
  return true;
}

/// One operation of a transaction. Fields that the verb does not use stay empty. The named functions below fill the
/// fields that each verb needs.
struct kv_operation {
  kv_verb verb = kv_verb::get;
  std::string key;
  std::string value{};
  std::uint64_t flags = 0;
  std::uint64_t index = 0;
  std::string session{};
  bool operator==(const kv_operation&) const = default;

  static kv_operation set(std::string key, std::string value, std::uint64_t flags = 0) {
    return {kv_verb::set, std::move(key), std::move(value), flags, 0, {}};
  }
  /// With index 0, the operation succeeds only if the key does not exist.
  static kv_operation cas(std::string key, std::string value, std::uint64_t index, std::uint64_t flags = 0) {
    return {kv_verb::cas, std::move(key), std::move(value), flags, index, {}};
  }
  static kv_operation lock(std::string key, std::string value, std::string session, std::uint64_t flags = 0) {
    return {kv_verb::lock, std::move(key), std::move(value), flags, 0, std::move(session)};
  }
  static kv_operation unlock(std::string key, std::string value, std::string session, std::uint64_t flags = 0) {
    return {kv_verb::unlock, std::move(key), std::move(value), flags, 0, std::move(session)};
  }
  static kv_operation get(std::string key) { return {kv_verb::get, std::move(key), {}, 0, 0, {}}; }
  static kv_operation get_tree(std::string prefix) { return {kv_verb::get_tree, std::move(prefix), {}, 0, 0, {}}; }
  static kv_operation check_index(std::string key, std::uint64_t index) {
    return {kv_verb::check_index, std::move(key), {}, 0, index, {}};
  }
  static kv_operation check_session(std::string key, std::string session) {
    return {kv_verb::check_session, std::move(key), {}, 0, 0, std::move(session)};
  }
  static kv_operation check_not_exists(std::string key) {
    return {kv_verb::check_not_exists, std::move(key), {}, 0, 0, {}};
  }
  static kv_operation remove(std::string key) { return {kv_verb::remove, std::move(key), {}, 0, 0, {}}; }
  static kv_operation remove_tree(std::string prefix) {
    return {kv_verb::remove_tree, std::move(prefix), {}, 0, 0, {}};
  }
  static kv_operation remove_cas(std::string key, std::uint64_t index) {
    return {kv_verb::remove_cas, std::move(key), {}, 0, index, {}};
  }
};

}  // namespace holdfast
