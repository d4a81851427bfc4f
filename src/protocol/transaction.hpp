#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "protocol/events.hpp"
#include "protocol/snapshot.hpp"

namespace holdfast::protocol {

/// One write of a pool's: what it does, in words that can be compared with a later view. It names sessions and ids, not
/// members: those may end meanwhile.
struct transaction {
  /// What it reads beside what it writes.
  enum class read_scope { none, record, everything };

  request_id id = 0;
  time_point sent_at{};
  std::vector<kv_operation> operations{};
  std::vector<member_id> movers{};                              ///< whose entries, or numbers, it adds or removes
  std::vector<std::string> removed{};                           ///< sessions whose entries go
  std::vector<std::pair<std::string, std::string>> inserted{};  ///< sessions, and what their entries say
  std::uint64_t entry_flags = 0;                                ///< of those
  std::vector<slot_number> numbers{};                           ///< taken, and given back; without an index
  std::vector<std::string> granted{};                           ///< those that waited, ours or others'
  std::vector<std::string> provisional{};                       ///< of those, whose grants are to be accepted
  std::vector<std::string> taken_from{};  ///< the descriptions of entries whose grants it takes back
  std::vector<std::string> returned{};    ///< sessions that give their slots back without the record (`compose_return`)
  std::string woken{};                    ///< whose entry it touches without a grant
  lock_record record{};
  std::uint64_t base = 0;             ///< the record's index that a guarded write rests on; 0: there must be none
  bool guarded = false;               ///< it is refused if anybody else has changed the record
  std::size_t record_operations = 0;  ///< the first ones: 0 if it leaves the record as it is
  /// The write leaves a slot free, and contenders may wait that are not seen yet. So it also reads the entries.
  bool frees = false;
  bool owes = false;  ///< leaves a slot free that somebody waits for, or may wait for unseen
  read_scope reads = read_scope::none;

  // Of one in doubt:
  request_id newest_request = 0;  ///< only requests after this one can tell what became of it
  /// It was refused. Something on the way may have repeated it, and what was refused is the copy.
  bool refused = false;
  bool by_record = false;  ///< only for the record's index: a look at that can tell
  failure why{};

  bool moves(member_id id) const;
  /// What it did at `index`, but for what has been seen of it that is newer. Without an index it only removed.
  void patch(snapshot& now, std::uint64_t index) const;
  /// The index at which it was applied, and what it has read beside what it wrote.
  struct reply {
    std::uint64_t index = 0;
    bool has_read = false;  ///< as much as it should
    std::vector<kv_entry> read{};
  };
  reply applied(std::vector<kv_entry> results) const;
  /// It was applied at `index`. Whether the record in `now` is a newer one, by which somebody has granted a session
  /// that this write put into the queue.
  bool is_granted_since(const snapshot& now, std::uint64_t index) const;
  /// Whether a view that is later than the write shows that it was applied, or never will be.
  bool is_decided_by(const snapshot& now) const;
};

}  // namespace holdfast::protocol
