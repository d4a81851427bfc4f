#pragma once

#include <cstddef>
#include <cstdint>
#include <holdfast/consul/kv.hpp>
#include <string>
#include <vector>

namespace holdfast::consul {

/// Consul 1.14 and later executes at most this many operations in one transaction. Earlier ones execute 64, and no Consul
/// announces its number: a larger transaction is tried. A client that was refused one keeps to what the refusal named.
inline constexpr std::size_t txn_operations_max = 128;

using txn_verb = kv_verb;
using txn_operation = kv_operation;

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
