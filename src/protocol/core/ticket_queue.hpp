// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>

#include "protocol/base/invariant.hpp"
#include "protocol/core/events.hpp"

namespace holdfast::protocol {

/// Entries in the order in which they came, which is the order of their `ticket`s. An entry is found by a binary
/// search. An entry that is removed from the middle leaves a hole (`is_hole()` is true for good after `leave_hole()`).
/// The hole is removed when it reaches the front, or when there are many holes and most places are holes.
template <class Entry>
class ticket_queue {
public:
  std::size_t size() const { return live_; }
  bool empty() const { return live_ == 0; }
  std::size_t room() const { return entries_.size(); }  ///< the number of places, including the holes
  Entry& front() { return entries_.front(); }
  const Entry& front() const { return entries_.front(); }

  /// Appends an entry, which is constructed from the arguments. The reference is valid until an entry is erased.
  template <class... Arguments>
  Entry& push(Arguments&&... arguments) {
    Entry& added = entries_.emplace_back(std::forward<Arguments>(arguments)...);
    check_invariant("tickets grow",
                    [&] { return entries_.size() == 1 || entries_[entries_.size() - 2].ticket < added.ticket; });
    ++live_;
    return added;
  }
  /// Null if there is no such entry (any more).
  Entry* find(ticket t) {
    if (!entries_.empty() && front().ticket == t) return &front();  // the usual case
    const auto at = std::lower_bound(entries_.begin(), entries_.end(), t,
                                     [](const Entry& e, ticket wanted) { return e.ticket < wanted; });
    return at == entries_.end() || at->ticket != t || at->is_hole() ? nullptr : &*at;
  }
  /// Removes one of its entries. Other entries may move.
  void erase(Entry& e) {
    e.leave_hole();
    --live_;
    while (!entries_.empty() && entries_.front().is_hole()) entries_.pop_front();
    if (entries_.size() > 2 * live_ + holes_max) close_holes();
  }
  /// Calls `visit(Entry&)` in order until it returns false.
  template <class Visit>
  void for_each(Visit visit) {
    for (Entry& e : entries_)
      if (!e.is_hole() && !visit(e)) return;
  }

private:
  [[gnu::cold]] void close_holes() {
    std::erase_if(entries_, [](const Entry& each) { return each.is_hole(); });
  }

  static constexpr std::size_t holes_max = 64;

  std::deque<Entry> entries_;
  std::size_t live_ = 0;
};

}  // namespace holdfast::protocol
