// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/connections/limiter.hpp"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <iterator>

namespace holdfast::consul::detail {

limiter::waiter::waiter(limiter& owner, time_point deadline) : owner(owner), deadline(deadline), timer(owner.strand_) {
  auto at = owner.waiters_.end();
  if (owner.order_ == order::deadline) {
    while (at != owner.waiters_.begin() && std::prev(at)->deadline > deadline) --at;
  }
  owner.waiters_.insert(at, *this);
}

// An admitted waiter may be destroyed before it takes its permit, by a cancellation or with the execution context. Then
// its place is free again, and the next waiter may get it.
limiter::waiter::~waiter() {
  if (is_linked()) owner.waiters_.erase(owner.waiters_.iterator_to(*this));
  if (!admitted) return;
  --owner.admitted_;
  owner.leave();
}

limiter::permit limiter::try_enter(std::size_t spare) noexcept {
  if (!is_open() || (inside_ != 0 && spare <= admitted_)) return permit();
  ++inside_;
  return permit(*this);
}

awaitable<limiter::permit> limiter::enter(time_point deadline, std::size_t spare) {
  if (auto at_once = try_enter(spare)) co_return at_once;
  const time_point now = clock::now();
  waiter self(*this, deadline);
  self.timer.expires_at(is_open() ? now + std::min(moment_, (deadline - now) / 4) : deadline);
  for (;;) {
    co_await self.timer.async_wait(as_result);
    // If it was cancelled just after its admission, it must not take a connection only to close it.
    const asio::cancellation_state cancellation = co_await asio::this_coro::cancellation_state;
    if (cancellation.cancelled() != asio::cancellation_type::none) co_return permit();
    if (self.admitted) {
      self.admitted = false;
      --admitted_;
      co_return permit(*this);
    }
    if (self.timer.expiry() >= deadline) co_return permit();
    const time_point at = clock::now();
    if (is_open() && at >= grown_ + moment_) {
      grown_ = at;
      admit_next();
    }
    if (self.admitted) continue;
    self.timer.expires_at(is_open() ? std::min(grown_ + moment_, deadline) : deadline);
  }
}

void limiter::leave() noexcept {
  --inside_;
  if (!waiters_.empty() && is_open()) admit_next();
}

void limiter::set_limit(std::size_t limit) noexcept {
  limit_ = limit;
  while (!waiters_.empty() && is_open()) admit_next();
}

// The waiter gets its place here and not when it runs, so that no caller in between can take the place.
void limiter::admit_next() noexcept {
  waiter& next = waiters_.front();
  waiters_.pop_front();
  ++inside_;
  next.admitted = true;
  ++admitted_;
  next.timer.cancel();
}

}  // namespace holdfast::consul::detail
