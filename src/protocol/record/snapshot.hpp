// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/system/result.hpp>
#include <cstddef>
#include <cstdint>
#include <holdfast/kv.hpp>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/operation.hpp"
#include "protocol/record/lock_record.hpp"

namespace holdfast::protocol {

/// The magic number in the high half of our contenders' flags. It says that other processes may grant the contender.
/// The low half has three flags and a counter of grants. Each grant changes the counter, because a write that changes
/// nothing moves no index and wakes nobody.
inline constexpr std::uint64_t contender_magic = std::uint64_t{0x686f6c64} << 32;

constexpr bool is_grantable(std::uint64_t flags) noexcept {
  return (flags & ~std::uint64_t{0xffffffff}) == contender_magic;
}
/// The flag of an entry that waits for a numbered slot, or holds one. The process that grants it also gives it a
/// number, if it has one to give away.
inline constexpr std::uint64_t numbered_flag = std::uint64_t{1} << 31;
constexpr bool is_numbered(std::uint64_t flags) noexcept { return is_grantable(flags) && (flags & numbered_flag) != 0; }
/// The flag of an entry whose session has released its slot without writing the record. The record still names the
/// session, but the entry neither holds nor waits. A later write of the record takes the session out of it and removes
/// the entry.
inline constexpr std::uint64_t given_back_flag = std::uint64_t{1} << 30;
constexpr bool is_given_back(std::uint64_t flags) noexcept {
  return is_grantable(flags) && (flags & given_back_flag) != 0;
}
/// The flag of an entry with a provisional grant: another process has granted it, and its own process accepts grants
/// (acceptance.hpp). Acceptance does not remove the flag.
inline constexpr std::uint64_t provisional_flag = std::uint64_t{1} << 29;
constexpr bool is_provisional(std::uint64_t flags) noexcept {
  return is_grantable(flags) && (flags & provisional_flag) != 0;
}
/// The bits below the flags count the grants.
constexpr std::uint64_t grants_in(std::uint64_t flags) noexcept { return flags & (provisional_flag - 1); }
constexpr std::uint64_t next_grant_flags(std::uint64_t flags, bool is_provisional = false) noexcept {
  const std::uint64_t rest = flags & ~(2 * provisional_flag - 1);
  return rest | (is_provisional ? provisional_flag : 0) | grants_in(flags + 1);
}

/// A live contender entry: a key `<prefix>/<session>` that this very session has locked.
struct contender {
  std::string session;
  std::string value;
  std::uint64_t flags = 0;
  std::uint64_t create_index = 0;
  std::uint64_t modify_index = 0;
  bool accepted = false;  ///< a listing has shown that its session has accepted a grant of this entry

  /// True if the contender looks for its own session in the record, so that others may grant it. Contenders of the Go
  /// client, and of programs that follow Consul's semaphore guide, do not.
  bool grantable() const noexcept { return is_grantable(flags); }
  bool operator==(const contender&) const = default;
};

/// Contenders in queue order: by CreateIndex, then by session. Each session is in the queue at most once. It is found
/// by its name in logarithmic time.
class contender_queue {
public:
  contender_queue() = default;
  contender_queue(std::initializer_list<contender> all) : contender_queue(std::vector<contender>(all)) {}
  explicit contender_queue(std::vector<contender> all);

  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  std::size_t size() const { return list_.size(); }
  bool empty() const { return list_.empty(); }
  const contender& front() const { return list_.front(); }
  const contender& operator[](std::size_t place) const { return list_[place]; }

  const contender* find(std::string_view session) const;
  /// The caller must not change the session or the CreateIndex of the contender.
  contender* find(std::string_view session);
  void insert(contender entry);
  void erase(std::string_view session);
  template <class Predicate>
  void erase_if(Predicate which) {
    std::erase_if(list_, which);
    sort();
  }
  /// The places of all contenders in the queue, in the order of their sessions' names.
  const std::vector<std::uint32_t>& by_session() const { return by_session_; }
  bool operator==(const contender_queue& other) const { return list_ == other.list_; }

private:
  std::vector<std::uint32_t>::const_iterator place_of(std::string_view session) const;
  void sort();

  std::vector<contender> list_;
  std::vector<std::uint32_t> by_session_;  ///< places in the list
};

/// The number of a numbered slot, as the key `<prefix>/.slot/<number>` shows it. The session that has the number has
/// locked the key.
struct slot_number {
  std::uint32_t number = 0;
  std::string session;  ///< empty: no session has the number
  std::uint64_t modify_index = 0;
  bool operator==(const slot_number&) const = default;
};
/// The common beginning of the keys of all numbers. `entries` is the common beginning of the contenders' keys.
std::string numbers_of(std::string_view entries);
/// The key by which a session accepts a grant of its entry. The name of the entry's key is a prefix of it, so that one
/// listing shows both.
std::string acceptance_of_entry(std::string entry_key);
/// The number that this key stands for, or nothing if it is not the key of a number.
std::optional<std::uint32_t> number_in(std::string_view key, std::string_view entries);

/// The state of the keys below a prefix at one index. It may also contain later changes of some of them.
struct snapshot {
  std::uint64_t index = 0;
  std::uint64_t lock_index = 0;  ///< the lock key's ModifyIndex; 0: there is no lock key, or none was seen
  std::uint64_t lock_flags = semaphore_flags;
  lock_record record;          ///< as of `lock_index`, with those holders added whose entries show a later grant
  contender_queue contenders;  ///< live contenders
  /// Entries whose sessions have released their slots (`given_back_flag`). Emptied when a record that somebody else has
  /// written becomes known, because these sessions may have queued again by then. Our own guarded write keeps them
  /// (`transaction::patch`).
  std::vector<contender> given_back{};
  std::vector<slot_number> numbers{};  ///< the numbers that have a key, because a session has or had them
  std::uint64_t complete_to = 0;       ///< `contenders` includes all that wait and have joined up to this index
  std::size_t unseen = 0;              ///< the approximate number of contenders that are not in `contenders`

  const contender* find(std::string_view session) const { return contenders.find(session); }
  contender* find(std::string_view session) { return contenders.find(session); }
  bool has_given_back(std::string_view session) const;
  bool holds(std::string_view session) const { return record.names(session) && find(session); }
  /// The comparison of all contenders with all holders of the record. It takes linear time. `named` tells for each
  /// place in the queue whether the record names the contender. `present` tells for each holder, in the record's order,
  /// whether it is a contender.
  struct matches {
    std::vector<bool> named, present;
  };
  matches match() const;
  /// The number that this session has, or null.
  const slot_number* number_of(std::string_view session) const;
  /// Takes over the state of a number, unless a newer one is known.
  void take_number(slot_number seen);
  /// Replaces the record with `whole`, which is the record as of `index`. Holders that were granted later stay in it.
  void take_record(lock_record whole, std::uint64_t flags, std::uint64_t index);
  /// The approximate number of all contenders.
  std::size_t crowd() const { return contenders.size() + unseen; }
  /// Takes over the record, the contenders and the numbers of `other` that were written after this snapshot was taken.
  void keep_newer(const snapshot& other);
  bool operator==(const snapshot&) const = default;
};

/// Makes a snapshot of a listing. `entries` is the part of the contenders' keys before their sessions. `form` tells
/// whether the lock key is that of a semaphore or of a mutex. Fails with error::not_a_semaphore or error::not_a_mutex
/// if the lock key's flags are those of another application. Fails with error::corrupt_record if the record cannot be
/// parsed. Other keys are ignored.
boost::system::result<snapshot> make_snapshot(std::string_view entries, std::string_view lock_key,
                                              std::vector<kv_entry> listing, std::uint64_t index,
                                              record_form form = record_form::map);

/// The operations that make `next` the record. Consul refuses the first one with a conflict if the lock key has changed
/// since `now`. The other two parameters matter for a mutex only. `description` is the value for a holder without an
/// entry. `left` is the value that a leaving holder puts into the key. Without it, the holder leaves its description.
std::vector<kv_operation> rewrite(std::string_view lock_key, const snapshot& now, const lock_record& next,
                                  const std::string& description, const std::optional<std::string>& left = {});

}  // namespace holdfast::protocol
