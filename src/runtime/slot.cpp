#include <algorithm>
#include <boost/asio/append.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "runtime/boot_clock.hpp"
#include "runtime/driver.hpp"
#include "runtime/slot_impl.hpp"

namespace holdfast {

namespace detail {

slot_state slot_impl::state() const noexcept {
  const slot_state state = state_.load(std::memory_order_acquire);
  const bool over = (state == slot_state::held || state == slot_state::suspect) &&
                    runtime::now() >= deadline_.load(std::memory_order_acquire);
  return over ? slot_state::lost : state;
}

std::chrono::nanoseconds slot_impl::valid_for() const noexcept {
  const slot_state state = state_.load(std::memory_order_acquire);
  if (state != slot_state::held && state != slot_state::suspect) return {};
  const auto left = deadline_.load(std::memory_order_acquire) - runtime::now();
  return std::max(left, std::chrono::nanoseconds::zero());
}

std::stop_token slot_impl::stop_token() {
  const std::lock_guard lock(stop_mutex_);
  if (!stop_.stop_possible()) {
    stop_ = std::stop_source();
    if (state_.load() == slot_state::lost) stop_.request_stop();  // nobody can have registered a callback yet
  }
  return stop_.get_token();
}

std::optional<protocol::time_point> slot_impl::end_hold() noexcept {
  slot_state state = state_.load();
  if (state != slot_state::held && state != slot_state::suspect) return {};
  const auto now = runtime::now();
  if (now >= deadline_.load(std::memory_order_acquire)) return {};  // lost, and about to be told so
  while (state == slot_state::held || state == slot_state::suspect)
    if (state_.compare_exchange_weak(state, slot_state::released)) return now;
  return {};
}

void slot_impl::update(protocol::time_point deadline, bool suspect) noexcept {
  deadline_.store(deadline, std::memory_order_release);
  slot_state from = suspect ? slot_state::held : slot_state::suspect;
  state_.compare_exchange_strong(from, suspect ? slot_state::suspect : slot_state::held);
}

std::stop_source slot_impl::lose(loss_reason reason) noexcept {
  slot_state state = state_.load();
  reason_.store(reason, std::memory_order_release);
  while (state == slot_state::held || state == slot_state::suspect)
    if (state_.compare_exchange_weak(state, slot_state::lost)) {
      const std::lock_guard lock(stop_mutex_);
      return stop_;
    }
  reason_.store(loss_reason::none, std::memory_order_release);  // it was released at this very moment
  return std::stop_source(std::nostopstate);
}

const asio::any_io_executor& executor_of(const slot_impl& impl) noexcept { return impl.owner->get_executor(); }

namespace {

/// Completes without a driver's help, outside of the initiating function.
void complete(const slot_impl& impl, pending<error_code>&& waiting, error_code result) {
  const asio::any_io_executor& executor = executor_of(impl);
  if (!executor) return;  // the context is gone: no handler can run
  asio::post(executor, asio::append(std::move(waiting.handler), result));
}

}  // namespace

void start_release(const std::shared_ptr<slot_impl>& impl, pending<error_code>&& handler) {
  const auto now = impl->end_hold();
  if (!now) {
    const bool lost = impl->state() == slot_state::lost;
    return complete(*impl, std::move(handler), make_error_code(lost ? error::slot_lost : error::not_held));
  }
  impl->owner->release(*impl, *now, std::move(handler));
}

const std::shared_ptr<slot_impl>& impl_of(const slot& handle) noexcept { return handle.impl_; }

void start_sequencer(const std::shared_ptr<slot_impl>& impl, pending<error_code, sequencer>&& handler) {
  impl->owner->sequencer(*impl, std::move(handler));
}

void start_wait_lost(const std::shared_ptr<slot_impl>& impl, pending<error_code, loss_reason>&& handler) {
  impl->owner->wait_lost(*impl, std::move(handler));
}

void start_wait_revoked(const std::shared_ptr<slot_impl>& impl, pending<error_code>&& handler) {
  impl->owner->wait_revoked(*impl, std::move(handler));
}

}  // namespace detail

slot& slot::operator=(slot&& other) noexcept {
  slot old(std::move(*this));  // gives it back, if it is still held
  impl_ = std::move(other.impl_);
  return *this;
}

void slot::give_back() noexcept {
  if (const auto now = impl_->end_hold()) impl_->owner->release(*impl_, *now);
}

slot_state slot::state() const noexcept { return impl_ ? impl_->state() : slot_state::empty; }
std::chrono::nanoseconds slot::valid_for() const noexcept {
  return impl_ ? impl_->valid_for() : std::chrono::nanoseconds(0);
}
loss_reason slot::lost_because() const noexcept { return impl_ ? impl_->reason() : loss_reason::none; }
bool slot::revoked() const noexcept { return impl_ && impl_->revoked(); }
fencing_token slot::fencing_token() const noexcept { return impl_ ? impl_->token : holdfast::fencing_token(); }
std::uint32_t slot::count() const noexcept { return impl_ ? impl_->count : 0; }
std::vector<std::uint32_t> slot::numbers() const { return impl_ ? impl_->numbers : std::vector<std::uint32_t>(); }
std::vector<consul::txn_operation> slot::guard() const {
  auto checks = held() ? impl_->owner->guard(*impl_) : std::vector<consul::txn_operation>();
  if (checks.empty()) throw system_error(state() == slot_state::lost ? error::slot_lost : error::not_held);
  return checks;
}
std::stop_token slot::stop_token() const { return impl_ ? impl_->stop_token() : std::stop_token(); }

}  // namespace holdfast
