// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "protocol/core/events.hpp"
#include "protocol/record/snapshot.hpp"

namespace holdfast::protocol {

/// One write of a pool, described so that it can be compared with a later view. It names sessions and ids, not members,
/// because members may end meanwhile.
struct transaction {
  /// How much the transaction also reads.
  enum class read_scope { none, record, everything };

  request_id id = 0;
  time_point sent_at{};
  std::vector<kv_operation> operations{};
  /// Members whose entries it adds, removes or marks, or whose numbers it takes or releases. If it returns slots, also
  /// the members of the write before it.
  std::vector<member_id> movers{};
  std::vector<std::string> removed{};  ///< sessions whose entries it removes
  std::size_t freed = 0;               ///< how many of them hold slots, and are known to be dead by proof
  /// Sessions whose entries it adds, with the text of each.
  std::vector<std::pair<std::string, std::string>> inserted{};
  std::uint64_t entry_flags = 0;           ///< the flags of the added entries
  std::vector<slot_number> numbers{};      ///< numbers that it takes, hands on or releases; without an index
  std::vector<std::string> granted{};      ///< waiting sessions that it grants, ours or others'
  std::vector<std::string> provisional{};  ///< the granted sessions that must accept their grants
  std::vector<std::string> taken_from{};   ///< the descriptions of entries whose grants it takes back
  /// Sessions that release their slots without writing the record (`compose_return`).
  std::vector<std::string> returned{};
  std::string woken{};  ///< the session whose entry it touches without a grant
  lock_record record{};
  std::uint64_t base = 0;  ///< the index that the record must have for a guarded write; 0: there must be no record
  bool guarded = false;    ///< it is refused if anybody else has changed the record
  /// How many of the operations write the record, or check its index. They come first. 0 if the write is not guarded.
  std::size_t record_operations = 0;
  bool keeps_record = false;  ///< it does not change what the record says; its text may change
  /// The write leaves a slot free, and also reads the entries, because contenders may wait that are not seen yet.
  bool frees = false;
  bool owes = false;  ///< it leaves a slot free that a contender waits for, or may wait for unseen
  read_scope reads = read_scope::none;

  // For a transaction in doubt:
  request_id newest_request = 0;  ///< only requests after this one can tell what became of it
  /// The transaction was refused, or it returns slots after a write that was refused. Something on the way may have
  /// sent the refused write twice. Then the refusal may answer the copy, and the write itself may have been applied. So
  /// a later listing decides where the members stand.
  bool refused = false;
  bool by_record = false;  ///< a read of the record alone may show the outcome
  failure why{};

  bool moves(member_id id) const;
  /// Applies the changes that the transaction made at `index`, except where `now` is newer. Without an index it has
  /// only removed entries. `record_index` is the record's index after a write of the record.
  void patch(snapshot& now, std::uint64_t index, std::uint64_t record_index = 0) const;
  /// The index at which the transaction was applied, and the entries that it has read. If it has only removed entries,
  /// the index is 0. Consul does not change the index of a record that is written as it was.
  struct reply {
    std::uint64_t index = 0;
    std::uint64_t record_index = 0;
    bool has_read = false;  ///< it has read what it should read
    std::vector<kv_entry> read{};
  };
  reply applied(std::vector<kv_entry> results) const;
  /// The transaction was applied at `index`. Returns true if the record in `now` is newer, in between somebody has
  /// granted a session that this write put into the queue, and `now` does not show the entry with that grant.
  bool is_granted_since(const snapshot& now, std::uint64_t index) const;
  /// Whether a view that is later than the write shows that it was applied, or never will be.
  bool is_decided_by(const snapshot& now) const;
};

}  // namespace holdfast::protocol
