// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <holdfast/administration.hpp>
#include <holdfast/lock_store.hpp>
#include <memory>
#include <string>
#include <tuple>

#include "protocol/administration/command_run.hpp"
#include "runtime/outcome.hpp"
#include "runtime/store.hpp"

namespace holdfast::detail {

/// The I/O shell of `semaphore_administration`. It performs the steps of a `command_run` and reports their results to
/// it. Each command has its own state; the administrator has none.
class administrator final : public std::enable_shared_from_this<administrator> {
public:
  administrator(const lock_store& where, administration_options options);

  asio::any_io_executor get_executor() const noexcept { return store_->executor(); }
  asio::any_io_executor strand() const { return store_->strand(); }
  /// Called by `answer_of`.
  void ask(runtime::store_request question) { store_->make(std::move(question), nullptr); }

  // The caller keeps the administrator alive until the coroutine has completed.
  asio::awaitable<std::tuple<outcome>> give(administration_command command);
  asio::awaitable<std::tuple<outcome, swept>> sweep(administration_command command);
  asio::awaitable<std::tuple<outcome, semaphore_status>> inspect(administration_command command);

private:
  protocol::command command_of(const administration_command& given) const;
  asio::awaitable<outcome> carry_out(protocol::command_run& run, diagnostics* diag);
  asio::awaitable<protocol::next_step> take(protocol::command_run& run, protocol::next_step step);

  const std::unique_ptr<runtime::store> store_;
  administration_options options_;
  std::string prefix_;    ///< with its trailing slash
  std::string lock_key_;  ///< the whole key, with the prefix
};

}  // namespace holdfast::detail
