// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <ostream>
#include <utility>

#include "lifetime/completion.hpp"
#include "runtime/boot_clock.hpp"
#include "runtime/hold_impl.hpp"
#include "runtime/shell.hpp"

namespace holdfast {

std::ostream& operator<<(std::ostream& out, loss_reason reason) { return out << to_string(reason); }
std::ostream& operator<<(std::ostream& out, slot_state state) { return out << to_string(state); }

namespace detail {

hold_impl::standing hold_impl::current() const noexcept {
  const standing seen = standing_.load(std::memory_order_acquire);
  return seen.is_ours() ? current_at(runtime::now()) : seen;
}

/// If the lease has expired, this call marks the slot as lost for good, even if the shell has not noticed yet.
hold_impl::standing hold_impl::current_at(protocol::time_point now) const noexcept {
  const standing seen = standing_.load(std::memory_order_acquire);
  if (seen.is_ours() && process.is_foreign()) return {slot_state::released, loss_reason::none};
  if (!seen.is_ours() || now < deadline_.load(std::memory_order_acquire)) return seen;
  end({slot_state::lost, loss_reason::lease_expired});
  return standing_.load(std::memory_order_acquire);
}

bool hold_impl::go_to(standing& now, standing next) const noexcept {
  const slot_state from = now.state;
  if (!standing_.compare_exchange_strong(now, next)) return false;
  protocol::check_invariant("a slot changes as its table allows",
                            [&] { return protocol::allows(slot_transitions, from, next.state); });
  return true;
}

bool hold_impl::end(standing with) const noexcept {
  standing now = standing_.load(std::memory_order_acquire);
  while (now.is_ours())
    if (go_to(now, with)) return true;
  return false;
}

std::chrono::nanoseconds hold_impl::valid_for() const noexcept {
  if (!standing_.load(std::memory_order_acquire).is_ours() || process.is_foreign()) return {};
  const auto left = deadline_.load(std::memory_order_acquire) - runtime::now();
  return std::max(left, std::chrono::nanoseconds::zero());
}

std::stop_token hold_impl::stop_token() {
  if (process.is_foreign()) {  // without the mutex: another thread may have held it at fork()
    std::stop_source stopped;
    stopped.request_stop();
    return stopped.get_token();
  }
  const std::lock_guard lock(stop_mutex_);
  if (!stop_.stop_possible()) {
    std::stop_source made;
    auto request = [made]() mutable { made.request_stop(); };
    requests_stop_ = posted_function<decltype(request)>::make(std::move(request));
    stop_ = std::move(made);
    if (standing_.load().state == slot_state::lost) stop_.request_stop();  // no callback can be registered yet
  }
  return stop_.get_token();
}

std::optional<protocol::time_point> hold_impl::end_hold() noexcept {
  if (!standing_.load(std::memory_order_acquire).is_ours()) return {};  // e.g. the destructor after a release
  const auto now = runtime::now();
  if (!current_at(now).is_ours()) return {};
  return end({slot_state::released, loss_reason::none}) ? std::optional(now) : std::nullopt;
}

bool hold_impl::let_go() noexcept { return current().state == slot_state::lost && !let_go_.exchange(true); }

bool hold_impl::update(protocol::time_point deadline, bool suspect) noexcept {
  deadline_.store(deadline, std::memory_order_release);
  standing from{suspect ? slot_state::held : slot_state::suspect, loss_reason::none};
  go_to(from, {suspect ? slot_state::suspect : slot_state::held, loss_reason::none});
  return standing_.load(std::memory_order_acquire).state != slot_state::lost;
}

operation_ptr hold_impl::lose(loss_reason reason, std::unique_ptr<const diagnostics> why) noexcept {
  {
    const std::lock_guard lock(stop_mutex_);
    loss_details_ = std::move(why);  // before a thread can see the `lost` of this call
  }
  if (!end({slot_state::lost, reason}) && standing_.load().state != slot_state::lost)
    return nullptr;  // it was released meanwhile
  const std::lock_guard lock(stop_mutex_);
  return std::move(requests_stop_);
}

diagnostics hold_impl::loss_details() const {
  if (current().state != slot_state::lost || process.is_foreign()) return {};
  const std::lock_guard lock(stop_mutex_);
  return loss_details_ ? *loss_details_ : diagnostics();
}

const asio::any_io_executor& executor_of(const hold_impl& impl) noexcept { return impl.owner->get_executor(); }

namespace {

/// Posts the completion without the shell.
void complete(const hold_impl& impl, pending<>&& waiting, error_code result) {
  const asio::any_io_executor& executor = executor_of(impl);
  // Once the context has been destroyed, no handler can run. In a child of fork() no handler may run.
  if (!executor || impl.process.is_foreign()) return;
  post_completion(executor, std::move(waiting), result);
}

}  // namespace

void start_release(const std::shared_ptr<hold_impl>& impl, pending<>&& handler) {
  const auto now = impl->end_hold();
  if (!now) {
    const bool lost = impl->state() == slot_state::lost;
    if (impl->let_go()) impl->owner->let_go(*impl);
    return complete(*impl, std::move(handler), make_error_code(lost ? error::slot_lost : error::not_held));
  }
  impl->owner->release(*impl, *now, std::move(handler));
}

const std::shared_ptr<hold_impl>& impl_of(const hold& handle) noexcept { return handle.impl_; }

void start_wait_lost(const std::shared_ptr<hold_impl>& impl, pending<loss_reason>&& handler) {
  impl->owner->wait_lost(*impl, std::move(handler));
}

void start_wait_revoked(const std::shared_ptr<hold_impl>& impl, pending<>&& handler) {
  impl->owner->wait_revoked(*impl, std::move(handler));
}

}  // namespace detail

hold& hold::operator=(hold&& other) noexcept {
  hold old(std::move(*this));  // its destructor releases the slot if it is still held
  impl_ = std::move(other.impl_);
  return *this;
}

void hold::give_back() noexcept {
  if (const auto now = impl_->end_hold())
    impl_->owner->release(*impl_, *now, {});
  else if (impl_->let_go())
    impl_->owner->let_go(*impl_);
}

slot_state hold::state() const noexcept { return impl_ ? impl_->state() : slot_state::empty; }
std::chrono::nanoseconds hold::valid_for() const noexcept {
  return impl_ ? impl_->valid_for() : std::chrono::nanoseconds(0);
}
loss_reason hold::lost_because() const noexcept { return impl_ ? impl_->reason() : loss_reason::none; }
diagnostics hold::loss_details() const { return impl_ ? impl_->loss_details() : diagnostics(); }
bool hold::revoked() const noexcept { return impl_ && impl_->revoked(); }
std::stop_token hold::stop_token() const { return impl_ ? impl_->stop_token() : std::stop_token(); }

}  // namespace holdfast
