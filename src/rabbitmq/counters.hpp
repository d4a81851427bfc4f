// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/tracer.hpp>
#include <memory>
#include <mutex>
#include <string>

#include "lifetime/tally.hpp"

namespace holdfast::rabbitmq::detail {

/// The values of `client::statistics`, and the tracer of the requests. All connections of a client share them.
/// The client's strand writes the values, and any thread reads them.
struct counters {
  lifetime::tally requests_ok, requests_refused, requests_failed;
  lifetime::tally connections_opened, connections_failed, connections_open, alarms;
  mutable std::mutex mutex;  ///< guards `address`
  std::string address;
  std::shared_ptr<holdfast::tracer> tracer{};  ///< set before the first connection is made; may be null
};

}  // namespace holdfast::rabbitmq::detail
