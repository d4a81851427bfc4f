#include "gate.hpp"

#include <boost/asio/this_coro.hpp>

namespace holdfast::consul::detail {

gate::waiter::waiter(gate& owner, time_point deadline) : owner(owner), timer(owner.strand_, deadline) {
  owner.waiters_.push_back(*this);
}

// A waiter may end admitted and yet not go in: it was cancelled, or the context went away. Then the place is the next
// one's.
gate::waiter::~waiter() {
  if (is_linked()) owner.waiters_.erase(owner.waiters_.iterator_to(*this));
  if (admitted) owner.leave();
}

gate::pass gate::try_enter() noexcept {
  if (!is_open()) return pass();
  ++inside_;
  return pass(*this);
}

awaitable<gate::pass> gate::enter(time_point deadline) {
  if (is_open()) co_return try_enter();
  waiter self(*this, deadline);
  co_await self.timer.async_wait(as_result);
  // Cancelled in the moment of its admission: then it must not take a connection only to close it.
  const asio::cancellation_state cancellation = co_await asio::this_coro::cancellation_state;
  if (!self.admitted || cancellation.cancelled() != asio::cancellation_type::none) co_return pass();
  self.admitted = false;
  co_return pass(*this);
}

void gate::leave() noexcept {
  --inside_;
  if (waiters_.empty()) return;
  // The place is handed over here, not when the waiter runs: nobody who comes in between can take it.
  waiter& next = waiters_.front();
  waiters_.pop_front();
  ++inside_;
  next.admitted = true;
  next.timer.cancel();
}

}  // namespace holdfast::consul::detail
