// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/number_allocator.hpp"

namespace holdfast::protocol {

std::vector<std::uint32_t> number_allocator::choose(context& ctx, std::vector<bool> taken, std::size_t count) {
  leaves_out_a_free_one_ = false;
  for (const auto& [number, delay] : delays_)
    if (number < taken.size() && !taken[number] && !ctx.due_or_wake(delay.retry_at()))
      taken[number] = leaves_out_a_free_one_ = true;
  const std::size_t limit = taken.size();
  const auto most = duration(static_cast<duration::rep>(limit) - 1);
  const auto first = static_cast<std::size_t>(ctx.random().between(duration(0), most).count());
  std::vector<std::uint32_t> chosen;
  for (std::size_t i = 0; i != limit && chosen.size() < count; ++i)
    if (const std::size_t number = (first + i) % limit; !taken[number])
      chosen.push_back(static_cast<std::uint32_t>(number));
  return chosen;
}

void number_allocator::found_none(context& ctx) {
  sought_ = ctx.last_request();
  none_free_.failed({}, ctx.now(), ctx.random());
  ctx.wake_at(none_free_.retry_at());
}

}  // namespace holdfast::protocol
