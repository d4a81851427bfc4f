// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <mutex>
#include <string>

#include "lifetime/tally.hpp"

namespace holdfast::rabbitmq::detail {

/// The values of `client::statistics`. The client's strand writes them, and any thread reads them.
struct counters {
  lifetime::tally requests_ok, requests_refused, requests_failed;
  lifetime::tally connections_opened, connections_failed, connections_open, alarms;
  mutable std::mutex mutex;  ///< guards `address`
  std::string address;
};

}  // namespace holdfast::rabbitmq::detail
