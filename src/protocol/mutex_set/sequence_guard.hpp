// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/mutex_set/lock_names.hpp"

namespace holdfast::protocol {

/// The flags of the two keys that only the set itself uses. The high half is this magic number. In the flags of the
/// sequence guard, the low half is the number of the transaction that wrote it last.
inline constexpr std::uint64_t set_magic = std::uint64_t{0x68736574} << 32;

/// The number of refused transactions that a set remembers. If a copy of an earlier one is applied, the set loses all
/// of its locks.
inline constexpr std::size_t set_refused_max = 1024;

/// The sequence guard of one session: its index, and the refused batches of which the network may still deliver a copy.
class sequence_guard {
public:
  using effects = std::vector<lock_names::effect>;

  /// True if the session has its two keys.
  bool is_open() const { return is_open_; }
  std::uint64_t index() const { return index_; }
  /// The guard has been written, and has this index now. No copy of an earlier transaction can be applied any more.
  void is_at(std::uint64_t index) {
    is_open_ = true;
    index_ = index;
    refused_.clear();
    copies_due_ = false;
  }

  /// A batch was refused. It would have given the guard these flags.
  void remember(std::uint64_t flags, effects would_be) {
    effects& all = refused_[flags];
    all.insert(all.end(), std::make_move_iterator(would_be.begin()), std::make_move_iterator(would_be.end()));
    if (refused_.size() > set_refused_max) refused_.erase(refused_.begin());
  }
  /// The guard has these flags. If a copy of a refused batch has set them, returns the effects of that batch.
  std::optional<effects> take_copy(std::uint64_t flags) {
    auto copy = refused_.extract(flags);
    if (!copy) return std::nullopt;
    return std::move(copy.mapped());
  }
  /// The names that copies of refused batches may lock yet.
  std::set<std::string, std::less<>> names_of_copies() const {
    std::set<std::string, std::less<>> names;
    for (const auto& [flags, would_be] : refused_)
      for (const lock_names::effect& each : would_be)
        if (each.locks) names.insert(each.name);
    return names;
  }

  /// The session was renewed, so this is the time for an empty batch, if any batch was refused.
  void session_is_renewed() { copies_due_ = !refused_.empty(); }
  /// Returns true once if an empty batch is to be sent.
  bool take_copies_due() { return std::exchange(copies_due_, false); }

private:
  bool is_open_ = false;
  std::uint64_t index_ = 0;
  /// The effects of the batches that were refused since the guard was last written, or of the last `set_refused_max` of
  /// them. The key of the map is the flags that the batch would have given the guard. A copy of at most one of these
  /// batches may still be applied.
  std::map<std::uint64_t, effects> refused_;
  /// An empty batch is to be sent. It keeps late copies from being applied, or shows that one was applied.
  bool copies_due_ = false;
};

}  // namespace holdfast::protocol
