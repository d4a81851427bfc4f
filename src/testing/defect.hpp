// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/detail/enumeration.hpp>
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
};

constexpr std::string_view to_string(defect which) noexcept {
  switch (which) {
    case defect::none:
      return "none";
    case defect::lock_index_not_counted:
      return "lock_index_not_counted";
    case defect::lock_index_survives_put:
      return "lock_index_survives_put";
    case defect::cas_ignores_index:
      return "cas_ignores_index";
    case defect::cas_zero_overwrites:
      return "cas_zero_overwrites";
    case defect::identical_write_moves_index:
      return "identical_write_moves_index";
    case defect::delete_wakes_nobody:
      return "delete_wakes_nobody";
    case defect::delete_moves_no_index:
      return "delete_moves_no_index";
    case defect::create_index_survives_delete:
      return "create_index_survives_delete";
    case defect::put_drops_session:
      return "put_drops_session";
    case defect::lock_of_other_succeeds:
      return "lock_of_other_succeeds";
    case defect::unlock_by_anyone:
      return "unlock_by_anyone";
    case defect::release_deletes:
      return "release_deletes";
    case defect::destroy_keeps_locks:
      return "destroy_keeps_locks";
    case defect::partial_transaction:
      return "partial_transaction";
    case defect::first_error_only:
      return "first_error_only";
    case defect::missing_key_index_zero:
      return "missing_key_index_zero";
    case defect::listing_index_is_global:
      return "listing_index_is_global";
    case defect::flags_truncated:
      return "flags_truncated";
    case defect::tree_is_folder:
      return "tree_is_folder";
    case defect::keys_not_cut:
      return "keys_not_cut";
    case defect::no_lock_delay:
      return "no_lock_delay";
    case defect::sibling_wakes_nobody:
      return "sibling_wakes_nobody";
    case defect::deregistration_ends_none:
      return "deregistration_ends_none";
  }
  return {};
}
inline constexpr auto defects = holdfast::detail::enumerators<defect>();

}  // namespace holdfast::testing
