// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/broker/broker_pool.hpp"
#include "rabbitmq/broker_link.hpp"
#include "runtime/shell.hpp"

namespace holdfast::rabbitmq::detail {

/// The shell of a semaphore on RabbitMQ. The driver feeds the events of the link to the core, and queues the core's
/// actions for the link. It decides nothing, and works with every kind of link.
class broker_driver final : public holdfast::detail::shell, public broker_sink {
public:
  broker_driver(std::unique_ptr<broker_link> link, holdfast::detail::shell_options options,
                protocol::broker_options core, std::uint64_t seed);
  ~broker_driver();

  void deliver(protocol::broker_event&& e) override;

private:
  std::shared_ptr<broker_driver> self() { return std::static_pointer_cast<broker_driver>(shared_from_this()); }
  void feed(protocol::broker_event&& e, protocol::time_point now) noexcept;

  using shell::perform;
  /// An action for the link is queued here, and made when `locked` has unlocked the mutex.
  template <class Action>
    requires protocol::is_alternative<Action, protocol::link_action>
  void perform(Action& a) {
    to_make_.emplace_back(std::move(a));
  }

  void step(protocol::user_event&& e, protocol::time_point now) override;
  std::optional<protocol::failure> why_unavailable() const override { return core_.why_unavailable(); }
  std::shared_ptr<holdfast::detail::hold_impl> make_hold(protocol::action::grant& a, std::uint32_t count) override;
  /// RabbitMQ has no sessions.
  std::string session_of(protocol::slot_id) const override { return {}; }
  held_slot describe(const holdfast::detail::hold_impl& held) const override;
  bool has_requests() const noexcept override { return !to_make_.empty(); }
  void make_requests(std::unique_lock<std::mutex>& lock) override;
  void closed() override { to_make_.emplace_back(end_link{}); }
  asio::any_io_executor strand() const override { return link_->strand(); }
  std::shared_ptr<void> take_requests() noexcept override;
  /// The client releases the connections itself.
  void leave_context() noexcept override {}

  const std::unique_ptr<broker_link> link_;
  protocol::broker_pool core_;
  protocol::broker_actions actions_;
  std::vector<link_request> to_make_;  ///< made by one thread at a time, without the mutex
  /// For those that are left when the context is destroyed.
  std::shared_ptr<std::vector<link_request>> left_ = std::make_shared<std::vector<link_request>>();
};

}  // namespace holdfast::rabbitmq::detail
