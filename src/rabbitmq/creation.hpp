// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "rabbitmq/client_impl.hpp"
#include "rabbitmq/queues.hpp"

namespace holdfast::rabbitmq::detail {

/// Makes the queues of a semaphore, on one connection. That connection has the administration mutex, so no request
/// outlives the mutex. Each answer is waited for before the next step.
class creation {
public:
  creation(std::shared_ptr<client_impl> client, std::shared_ptr<connection> link, const queues& its)
      : client_(std::move(client)), link_(std::move(link)), queues_(its) {}

  /// Errors: in_use (another administrator had the mutex until the timeout), limit_conflict, lease_conflict, and those
  /// of requests.
  awaitable<failure> run(std::uint32_t count);

private:
  awaitable<reply> ask(steps what);
  awaitable<failure> lock();
  awaitable<failure> create_slot(std::uint32_t slot);
  awaitable<failure> create_tokens(std::uint32_t slot);

  const std::shared_ptr<client_impl> client_;
  const std::shared_ptr<connection> link_;
  const queues& queues_;
};

}  // namespace holdfast::rabbitmq::detail
