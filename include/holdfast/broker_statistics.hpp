// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <string>

namespace holdfast {

/// Statistics of a `rabbitmq::client`. The counters count since its construction.
struct broker_statistics {
  std::uint64_t requests_ok = 0;       ///< requests that the broker has carried out; several methods may be one request
  std::uint64_t requests_refused = 0;  ///< the broker has refused a method, as when a slot is taken
  std::uint64_t requests_failed = 0;   ///< there was no answer, because the connection has ended
  std::uint64_t connections_opened = 0;
  std::uint64_t connections_failed = 0;  ///< attempts to open a connection that failed
  std::uint64_t connections_open = 0;    ///< connections that are open or being opened now
  bool has_alarm = false;                ///< the broker has an alarm now, and takes no messages
  std::string address{};                 ///< the address at which the last connection was opened; empty before that
};

}  // namespace holdfast
