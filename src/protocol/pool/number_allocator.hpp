// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "protocol/core/context.hpp"
#include "protocol/core/outage.hpp"

namespace holdfast::protocol {

/// Chooses the numbers that our sessions try to lock. If a session ends while it has a number, Consul keeps the number
/// from everybody for the lock delay of that session, and does not notify anybody when the delay ends.
class number_allocator {
public:
  /// Chooses up to `count` numbers that are not taken, and that Consul has not refused lately. The search starts at a
  /// random number, so that two processes that choose at the same time seldom choose the same numbers.
  std::vector<std::uint32_t> choose(context& ctx, std::vector<bool> taken, std::size_t count);
  /// The end of the pause after no number was free.
  time_point due_at() const { return none_free_.retry_at(); }
  void nobody_needs_one() { none_free_.over(); }
  /// True if the last choice left out a free number because Consul refused it lately. We are woken at the end of the
  /// pause for that number, and a read of Consul before that would show nothing new.
  bool leaves_out_a_free_one() const { return leaves_out_a_free_one_; }
  /// The last request that had been made when no number was free. Only the answer to a later request may show a free
  /// number.
  request_id sought() const { return sought_; }
  void found_none(context& ctx);

  void locked(std::uint32_t number) {
    delays_.erase(number);
    none_free_.over();
  }
  void refused(context& ctx, std::uint32_t number) { delays_[number].failed({}, ctx.now(), ctx.random()); }

private:
  std::map<std::uint32_t, outage> delays_;
  outage none_free_;
  request_id sought_ = 0;
  bool leaves_out_a_free_one_ = false;
};

}  // namespace holdfast::protocol
