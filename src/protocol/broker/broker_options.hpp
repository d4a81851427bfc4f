// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "protocol/base/time.hpp"

namespace holdfast::protocol {

/// The options of a semaphore on RabbitMQ, as the core needs them.
struct broker_options {
  std::string name{};             ///< the semaphore's name, for the texts of errors
  std::uint32_t create_with = 0;  ///< how many slots to create if there is no semaphore; 0: an administrator creates it
  duration lease = std::chrono::seconds(10);
  /// A slot without a token is kept for this time longer than the lease before it is used. A cluster may need it.
  duration lease_extra{};
  /// How long a holder stops believing before its lease is over, for clocks that do not run equally fast.
  duration lease_margin = lease / 10;
  duration give_up_after = std::chrono::seconds(5);
  std::size_t waiters_max = 1'000'000;
  /// For this time after the broker has given us a slot, it passes from user to user here. After that it goes back.
  duration local_handoff_time = std::chrono::milliseconds(100);
  /// This process does not try a slot again for this time after it has released it while users here waited.
  duration yield_time = std::chrono::milliseconds(20);
  /// While users wait, the broker is asked for free slots after each such time, +-50 %.
  duration poll_interval = std::chrono::seconds(1);
  duration alive_within{};  ///< the application must answer within this time; 0: it is not asked
};

}  // namespace holdfast::protocol
