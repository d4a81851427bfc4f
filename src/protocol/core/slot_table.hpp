// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "protocol/core/events.hpp"

namespace holdfast::protocol {

/// Slots by their ids. An id is never used twice, and its index is small.
template <class Slot>
class slot_table {
public:
  /// Opens a place for one more slot. The place still has the contents of its last slot.
  std::pair<slot_id, Slot*> open() {
    if (free_.empty()) {
      free_.push_back(places_.size());
      places_.emplace_back();
    }
    const std::size_t index = free_.back();
    free_.pop_back();
    place& at = places_[index];
    ++at.generation;  // the first is 1, so that no id is 0
    return {make_slot_id(at.generation, index), &at.slot};
  }
  /// Null if the place of this slot has been opened anew, or if there never was such a slot. A closed slot is still
  /// found until its place is opened anew.
  Slot* find(slot_id id) {
    const std::size_t index = index_of(id);
    if (index >= places_.size() || places_[index].generation != generation_of(id)) return nullptr;
    return &places_[index].slot;
  }
  /// Its place may be opened anew.
  void close(slot_id id) { free_.push_back(index_of(id)); }

  /// Calls `visit(slot_id, Slot&)` for each place, open or not.
  template <class Visit>
  void for_each(Visit visit) {
    for (std::size_t i = 0; i < places_.size(); ++i) visit(make_slot_id(places_[i].generation, i), places_[i].slot);
  }

private:
  struct place {
    std::uint64_t generation = 0;
    Slot slot{};
  };
  std::vector<place> places_;
  std::vector<std::size_t> free_;
};

}  // namespace holdfast::protocol
