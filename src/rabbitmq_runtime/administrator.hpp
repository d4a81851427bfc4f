// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/rabbitmq/semaphore_administration.hpp>
#include <memory>
#include <tuple>

#include "protocol/broker/broker_command.hpp"
#include "rabbitmq/broker_link.hpp"
#include "rabbitmq/client_impl.hpp"
#include "runtime/outcome.hpp"

namespace holdfast::rabbitmq::detail {

/// The shell of `semaphore_administration`. Each command has its own state and its own connection; the administrator
/// has none.
class administrator final {
public:
  administrator(const client& broker, administration_options options);

  const client_impl& owner() const noexcept { return *client_; }

  // The caller keeps the administrator alive until the coroutine has completed.
  awaitable<std::tuple<runtime::outcome>> give(administration_command command) const;
  awaitable<std::tuple<runtime::outcome, std::uint32_t>> resize(administration_command command) const;
  awaitable<std::tuple<runtime::outcome, destroy_result>> destroy(administration_command command) const;
  awaitable<std::tuple<runtime::outcome, semaphore_status>> inspect(administration_command command) const;

private:
  protocol::broker_command_run run_of(const administration_command& given) const;
  awaitable<runtime::outcome> carry_out(protocol::broker_command_run& run, diagnostics* diag) const;

  const std::shared_ptr<client_impl> client_;
  link_terms terms_;
  const std::chrono::milliseconds timeout_;
};

}  // namespace holdfast::rabbitmq::detail
