// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <array>
#include <string_view>

// Rules of Consul that a store can break. A test of the store must notice each of them.
namespace holdfast::testing {

enum class defect : int {
  none,
  lock_index_not_counted,   // taking the lock of an existing key leaves LockIndex alone
  lock_index_survives_put,  // a plain write keeps LockIndex
  cas_ignores_index,
  cas_zero_overwrites,          // cas=0 succeeds on a key that exists
  identical_write_moves_index,  // a write that changes nothing counts as a change
  delete_wakes_nobody,          // watches miss the deletions of keys
  delete_moves_no_index,        // a deletion changes no index, and leaves no tombstone
  create_index_survives_delete,
  put_drops_session,       // a plain write unlocks
  lock_of_other_succeeds,  // a held lock can be taken
  unlock_by_anyone,
  release_deletes,      // a session's end deletes keys of behavior release
  destroy_keeps_locks,  // a session's end leaves its keys alone
  partial_transaction,  // a refused transaction keeps the operations that were not refused
  first_error_only,     // a transaction stops at the first operation that fails in it
  missing_key_index_zero,
  listing_index_is_global,  // a listing has the index of all keys
  flags_truncated,          // to 63 bits
  tree_is_folder,           // a prefix is taken for a folder: "a" does not find "ab"
  keys_not_cut,             // the separator is ignored
  no_lock_delay,
  sibling_wakes_nobody,      // the watch of a missing key or a prefix ignores neighbours
  deregistration_ends_none,  // a node's sessions outlive it
  count_                     // the number of defects
};

/// The names, in the order of `defect`.
inline constexpr std::array<std::string_view, static_cast<int>(defect::count_)> defect_names{
    "none",
    "lock_index_not_counted",
    "lock_index_survives_put",
    "cas_ignores_index",
    "cas_zero_overwrites",
    "identical_write_moves_index",
    "delete_wakes_nobody",
    "delete_moves_no_index",
    "create_index_survives_delete",
    "put_drops_session",
    "lock_of_other_succeeds",
    "unlock_by_anyone",
    "release_deletes",
    "destroy_keeps_locks",
    "partial_transaction",
    "first_error_only",
    "missing_key_index_zero",
    "listing_index_is_global",
    "flags_truncated",
    "tree_is_folder",
    "keys_not_cut",
    "no_lock_delay",
    "sibling_wakes_nobody",
    "deregistration_ends_none"};

}  // namespace holdfast::testing
