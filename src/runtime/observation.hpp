// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <holdfast/election.hpp>
#include <holdfast/lock_store.hpp>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "protocol/election/election.hpp"
#include "runtime/outcome.hpp"
#include "runtime/store.hpp"

namespace holdfast::detail {

/// A watch of an election's key. Only the pending `next` uses its state, from the call until the handler runs.
class observation : public std::enable_shared_from_this<observation> {
public:
  /// `timeout` applies to each request. 0: the store's default.
  observation(const lock_store& where, std::string key, std::chrono::milliseconds timeout);

  asio::any_io_executor get_executor() const noexcept { return store_->executor(); }
  /// Keeps the object alive until the operation completes.
  void start_next(diagnostics* diag, pending<std::optional<leader>>&& waiting);
  /// Called by `answer_of` for `next`.
  void ask(runtime::store_request question) { store_->make(std::move(question), nullptr); }

private:
  struct leave {
    void operator()(observation* self) const { self->busy_ = false; }
  };
  using turn = std::unique_ptr<observation, leave>;

  static asio::awaitable<std::tuple<outcome, std::optional<leader>>> next(std::shared_ptr<observation> self,
                                                                          diagnostics* diag);
  std::optional<leader> named(std::optional<protocol::leading> seen) const;

  const std::unique_ptr<runtime::store> store_;
  const std::string key_;
  std::atomic<bool> busy_{false};  ///< a `next` is pending
  protocol::observer watch_;
};

}  // namespace holdfast::detail
