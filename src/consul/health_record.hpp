// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/consul/client.hpp>
#include <mutex>
#include <string>
#include <utility>

namespace holdfast::consul::detail {

/// The value of client::health(). Written on the strand, read from any thread.
class health_record {
public:
  explicit health_record(std::string address) { of_.address = std::move(address); }

  void moved_to(std::string address) {
    const std::lock_guard lock(mutex_);
    of_.address = std::move(address);
    of_.since = std::chrono::system_clock::now();
  }
  void failed(std::string message) {
    const std::lock_guard lock(mutex_);
    of_.last_failure = std::move(message);
    of_.last_failure_at = std::chrono::system_clock::now();
  }
  client_health read() const {
    const std::lock_guard lock(mutex_);
    return of_;
  }

private:
  mutable std::mutex mutex_;
  client_health of_;
};

}  // namespace holdfast::consul::detail
