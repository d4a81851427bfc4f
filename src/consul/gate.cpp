#include "gate.hpp"

#include <algorithm>
#include <boost/asio/this_coro.hpp>

namespace holdfast::consul::detail {
gate::waiter::waiter(gate& owner, time_point deadline) : owner(owner), timer(owner.strand_, deadline) {
  owner.waiters_.push_back(*this);
}

// A waiter may end admitted and yet not go in: it was cancelled, or the context went away. Then the place is the next
// one's.
gate::waiter::~waiter() {
  if (is_linked()) owner.waiters_.erase(owner.waiters_.iterator_to(*this));
  if (!admitted) return;
  --owner.admitted_;
  owner.leave();
}

gate::pass gate::try_enter(std::size_t spare) noexcept {
  if (!is_open() || (inside_ != 0 && spare <= admitted_)) return pass();
  ++inside_;
  return pass(*this);
}

awaitable<gate::pass> gate::enter(time_point deadline, std::size_t spare) {
  if (auto at_once = try_enter(spare)) co_return at_once;
  const time_point now = clock::now();
  waiter self(*this, is_open() ? now + std::min(moment_, (deadline - now) / 4) : deadline);
  for (;;) {
    co_await self.timer.async_wait(as_result);
    // Cancelled in the moment of its admission: then it must not take a connection only to close it.
    const asio::cancellation_state cancellation = co_await asio::this_coro::cancellation_state;
    if (cancellation.cancelled() != asio::cancellation_type::none) co_return pass();
    if (self.admitted) {
      self.admitted = false;
      --admitted_;
      co_return pass(*this);
    }
    if (is_open()) {
      waiters_.erase(waiters_.iterator_to(self));
      ++inside_;
      co_return pass(*this);
    }
    if (self.timer.expiry() >= deadline) co_return pass();
    self.timer.expires_at(deadline);
  }
}

void gate::leave() noexcept {
  --inside_;
  if (waiters_.empty()) return;
  // The place is handed over here, not when the waiter runs: nobody who comes in between can take it.
  waiter& next = waiters_.front();
  waiters_.pop_front();
  ++inside_;
  next.admitted = true;
  ++admitted_;
  next.timer.cancel();
}

}  // namespace holdfast::consul::detail
