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

#include "protocol/lock_record.hpp"
#include "protocol/operation.hpp"

namespace holdfast::protocol {

/// Our contenders' flags: a magic number in the high half ("may be granted by others"), a counter of grants in the low
/// half. Each grant changes the counter, because a write that changes nothing moves no index and wakes nobody.
inline constexpr std::uint64_t contender_magic = std::uint64_t{0x686f6c64} << 32;

constexpr bool is_grantable(std::uint64_t flags) noexcept {
  return (flags & ~std::uint64_t{0xffffffff}) == contender_magic;
}
/// Of an entry whose slot is to be numbered: whoever grants it hands it a number, if there is one to give away.
inline constexpr std::uint64_t numbered_flag = std::uint64_t{1} << 31;
constexpr bool is_numbered(std::uint64_t flags) noexcept { return is_grantable(flags) && (flags & numbered_flag) != 0; }
/// Of an entry whose session has given its slot back without writing the record, which still names it. Such an entry
/// neither holds nor waits. Whoever writes the record next takes the session out of it and removes the entry.
inline constexpr std::uint64_t given_back_flag = std::uint64_t{1} << 30;
constexpr bool is_given_back(std::uint64_t flags) noexcept {
  return is_grantable(flags) && (flags & given_back_flag) != 0;
}
/// The flag of an entry with a provisional grant: another process has granted it, and its own process accepts grants
/// (acceptance.hpp).
inline constexpr std::uint64_t provisional_flag = std::uint64_t{1} << 29;
constexpr bool is_provisional(std::uint64_t flags) noexcept {
  return is_grantable(flags) && (flags & provisional_flag) != 0;
}
/// Their lowest bits count the grants.
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

  /// Whether it looks for itself in the record, so that others may grant it. Go and guide contenders do not.
  bool grantable() const noexcept { return is_grantable(flags); }
  bool operator==(const contender&) const = default;
};

/// Contenders in queue order: by CreateIndex, then by session. Each session stands in it once at most, and is found by
/// its name in logarithmic time.
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
  /// Its session and its CreateIndex must stay as they are.
  contender* find(std::string_view session);
  void insert(contender entry);
  void erase(std::string_view session);
  template <class Predicate>
  void erase_if(Predicate which) {
    std::erase_if(list_, which);
    sort();
  }
  /// The places of all of them, in the order of their sessions' names.
  const std::vector<std::uint32_t>& by_session() const { return by_session_; }
  bool operator==(const contender_queue& other) const { return list_ == other.list_; }

private:
  std::vector<std::uint32_t>::const_iterator place_of(std::string_view session) const;
  void sort();

  std::vector<contender> list_;
  std::vector<std::uint32_t> by_session_;  ///< places in the list
};

/// A number of a numbered slot: the key `<prefix>/.slot/<number>`, as it stands. Whoever has the number has locked it.
struct slot_number {
  std::uint32_t number = 0;
  std::string session;  ///< empty: nobody has it
  std::uint64_t modify_index = 0;
  bool operator==(const slot_number&) const = default;
};
/// What such keys begin with. `entries` is what the contenders' keys begin with.
std::string numbers_of(std::string_view entries);
/// The key by which a session accepts a grant of its entry. The name of the entry's key is a prefix of it, so that one
/// watch shows both.
std::string acceptance_of_entry(std::string entry_key);
/// The number that such a key is of; none if it is another key.
std::optional<std::uint32_t> number_in(std::string_view key, std::string_view entries);

/// What stands below a prefix at one index.
struct snapshot {
  std::uint64_t index = 0;
  std::uint64_t lock_index = 0;  ///< the lock key's ModifyIndex; 0: there is none
  std::uint64_t lock_flags = semaphore_flags;
  lock_record record;          ///< as of `lock_index`, and those whose entries tell that they were granted since
  contender_queue contenders;  ///< live ones
  /// Entries of those that have given their slots back (`given_back_flag`). None once a newer record is known: their
  /// sessions may have come anew by then.
  std::vector<contender> given_back{};
  std::vector<slot_number> numbers{};  ///< those that anybody ever had
  std::uint64_t complete_to = 0;       ///< whoever waits, and came up to this index, is among them
  std::size_t unseen = 0;              ///< about how many more there are

  const contender* find(std::string_view session) const { return contenders.find(session); }
  contender* find(std::string_view session) { return contenders.find(session); }
  bool has_given_back(std::string_view session) const;
  bool holds(std::string_view session) const { return record.names(session) && find(session); }
  /// Of all at once, in linear time: which contenders the record names, by their places, and which of its holders are
  /// contenders, in its order.
  struct matches {
    std::vector<bool> named, present;
  };
  matches match() const;
  /// Null if it has none.
  const slot_number* number_of(std::string_view session) const;
  /// Unless a newer one is known.
  void take_number(slot_number seen);
  /// The whole record, as it was at `index`. Who was granted later stays in it.
  void take_record(lock_record whole, std::uint64_t flags, std::uint64_t index);
  /// How many there are in all, about.
  std::size_t crowd() const { return contenders.size() + unseen; }
  /// Whatever `other` knows that has changed since this was taken.
  void keep_newer(const snapshot& other);
  bool operator==(const snapshot&) const = default;
};

/// The snapshot in a listing. `entries` is what the contenders' keys begin with, before their sessions; `form` how the
/// lock key is to be read: as a semaphore's, or a mutex's. error::not_a_semaphore, or not_a_mutex, if the lock key's
/// flags are another application's, error::corrupt_record if its value cannot be read. Other keys are passed over.
boost::system::result<snapshot> make_snapshot(std::string_view entries, std::string_view lock_key,
                                              std::vector<kv_entry> listing, std::uint64_t index,
                                              record_form form = record_form::map);

/// The operations that make the lock key say `next`. The first is refused with a conflict if it is not as in `now` any
/// more. `description` is that of a holder without an entry; `left`, if any, what whoever leaves a mutex's key puts in
/// it in the place of its own.
std::vector<kv_operation> rewrite(std::string_view lock_key, const snapshot& now, const lock_record& next,
                                  const std::string& description, const std::optional<std::string>& left = {});

}  // namespace holdfast::protocol
