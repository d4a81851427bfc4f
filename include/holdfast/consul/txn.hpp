// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <holdfast/consul/kv.hpp>
#include <string>
#include <vector>

namespace holdfast::consul {

/// The largest number of operations in one transaction for Consul 1.14 and later. Earlier versions accept 64. Consul
/// names its limit only when it refuses a transaction. So the client sends a transaction of up to this size. After a
/// refusal, it keeps to the limit that the refusal named.
inline constexpr std::size_t txn_operations_max = 128;

using txn_verb = kv_verb;
using txn_operation = kv_operation;

/// The reason for which Consul refused an operation of a transaction. It is derived from Consul's text.
enum class txn_refusal {
  conflict,           ///< an index, session or existence check did not hold, for example that of cas or unlock
  lock_held,          ///< the key is locked by another session
  lock_delay,         ///< the key's lock delay is running
  invalid_session,    ///< the session does not exist
  missing_key,        ///< the key does not exist
  permission_denied,  ///< the ACL token lacks the right
  other,              ///< the text is not known: see `txn_error::text`
};

struct txn_error {
  std::size_t operation = 0;  ///< position in the transaction
  txn_refusal reason = txn_refusal::other;
  std::string text;  ///< Consul's text
  bool operator==(const txn_error&) const = default;
};

/// The reply to a transaction, of which either all operations were applied or none.
struct txn_reply {
  bool applied = false;  ///< true if all operations were applied
  /// If applied, the results of the operations that return something, in their order. Written values are not returned.
  std::vector<kv_entry> results;
  /// If not applied, the operations that were refused.
  std::vector<txn_error> errors;
};

}  // namespace holdfast::consul
