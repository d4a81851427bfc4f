// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <chrono>
#include <cstdint>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/log_event.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace holdfast::cli {

struct operator_command;

/// A semaphore on RabbitMQ instead of one in Consul.
struct rabbitmq_options {
  std::string url{};  ///< of the broker; empty: Consul is used
  std::string password_file{};
  std::chrono::milliseconds lease{10'000};
  bool letter_first = false;

  bool is_used() const noexcept { return !url.empty(); }
};

/// The part of a semaphore on RabbitMQ that `holdfast run` uses.
class rabbitmq_lock {
public:
  /// A held slot, or the reason why there is none. Both are empty if no slot was free in time.
  struct result {
    error_code error{};
    diagnostics why{};
    std::unique_ptr<hold> held{};
    std::uint32_t number = 0;
  };

  virtual ~rabbitmq_lock() = default;
  /// Waits for at most `within`, or without a limit. `stop` ends the wait.
  virtual boost::asio::awaitable<result> acquire(std::optional<std::chrono::nanoseconds> within,
                                                 boost::asio::cancellation_slot stop) = 0;
  virtual boost::asio::awaitable<void> close() = 0;
};

// with_rabbitmq.cpp has these functions. In a build without the library holdfast::rabbitmq, without_rabbitmq.cpp has
// them, and they throw.

/// Makes a semaphore that is created with so many slots if there is none.
std::unique_ptr<rabbitmq_lock> make_rabbitmq_lock(const boost::asio::any_io_executor& executor,
                                                  const rabbitmq_options& options, const std::string& name,
                                                  std::uint32_t create_with, log_function log);
/// Carries out a command of an operator. Prints the result on stdout. Returns the exit status.
int operate_on_rabbitmq(const operator_command& command);

}  // namespace holdfast::cli
