// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq_runtime/broker_driver.hpp"

#include <exception>
#include <variant>

#include "rabbitmq_runtime/slot_impl.hpp"
#include "runtime/boot_clock.hpp"

namespace holdfast::rabbitmq::detail {

broker_driver::broker_driver(std::unique_ptr<broker_link> link, holdfast::detail::shell_options options,
                             protocol::broker_options core, std::uint64_t seed)
    : shell(link->executor(), std::move(options), core.create_with),
      link_(std::move(link)),
      core_(std::move(core), seed) {}

broker_driver::~broker_driver() { unhook(); }

void broker_driver::deliver(protocol::broker_event&& e) {
  const locked lock(*this);
  if (lock) feed(std::move(e), runtime::now());
}

// ---- under the lock

void broker_driver::step(protocol::user_event&& e, protocol::time_point now) {
  std::visit([&](auto& concrete) { feed(std::move(concrete), now); }, e);
}

void broker_driver::feed(protocol::broker_event&& e, protocol::time_point now) noexcept {
  if (has_given_up()) return;
  guarded([&] {
    core_.step(std::move(e), now, actions_);
    stepped(core_.now(), core_.measured());
    for (protocol::broker_action& a : actions_) std::visit([this](auto& concrete) { perform(concrete); }, a);
    actions_.clear();
    const protocol::broker_pool::status status = core_.status_now();
    settle(status.waiting, status.seats, status.count, core_.wake());
  });
}

std::shared_ptr<holdfast::detail::hold_impl> broker_driver::make_hold(protocol::action::grant& a, std::uint32_t) {
  return std::make_shared<slot_impl>(self(), process(), a.slot, a.deadline, a.numbers.front());
}

held_slot broker_driver::describe(const holdfast::detail::hold_impl& held) const {
  return {.number = static_cast<const slot_impl&>(held).number};
}

void broker_driver::make_requests(std::unique_lock<std::mutex>& lock) {
  auto requests = std::exchange(to_make_, {});
  const std::shared_ptr<broker_sink> sink = self();
  lock.unlock();
  std::exception_ptr failed;
  try {
    for (link_request& each : requests) link_->make(std::move(each), sink);
  } catch (...) {
    failed = std::current_exception();
  }
  lock.lock();
  if (failed) give_up(failed);
}

std::shared_ptr<void> broker_driver::take_requests() noexcept {
  left_->swap(to_make_);
  return std::move(left_);
}

}  // namespace holdfast::rabbitmq::detail
