#pragma once

// Ways in which a store can be wrong. Each is one that Consul is not, and that a test of the store has to notice.
namespace holdfast::testing {

enum class defect : int {
  none,
  lock_index_not_counted,   // taking a lock leaves LockIndex alone
  lock_index_survives_put,  // a plain write keeps it
  cas_ignores_index,
  cas_zero_overwrites,          // cas=0 succeeds on a key that exists
  identical_write_moves_index,  // a write that changes nothing counts as a change
  delete_wakes_nobody,          // watches of a prefix miss deletions
  delete_moves_no_index,        // no tombstones
  create_index_survives_delete,
  put_drops_session,       // a plain write unlocks
  lock_of_other_succeeds,  // a held lock can be taken
  unlock_by_anyone,
  release_deletes,      // a session's end deletes keys of behavior release
  destroy_keeps_locks,  // a session's end leaves its keys alone
  partial_transaction,  // a refused transaction keeps what was done before the refusal
  first_error_only,     // a transaction reports only its first refused operation
  missing_key_index_zero,
  listing_index_is_global,  // as if something else below another prefix counted
  flags_truncated,          // to 63 bits
  tree_is_folder,           // a prefix is taken for a folder: "a" does not find "ab"
  keys_not_cut,             // the separator is ignored
  no_lock_delay,
  sibling_wakes_nobody,  // a missing key's watch does not see what is beside it
  count_                 // how many there are
};

}  // namespace holdfast::testing
