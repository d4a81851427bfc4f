// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <holdfast/statistics.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lifetime/event_log.hpp"
#include "lifetime/process_mark.hpp"
#include "protocol/core/core_trust.hpp"
#include "runtime/tallies.hpp"

namespace holdfast::runtime {

/// The statistics of one lock: of its shell, or for an election of all its candidates.
/// The members may be called from any thread. In a child of fork() the statistics are empty.
class lock_account {
public:
  /// Asks a shell for its place in the cluster's queue. Empty if there is none, or if the shell is destroyed.
  using place_function = std::function<std::optional<std::uint64_t>()>;

  /// `kind` is a word for metrics: "semaphore".
  lock_account(std::string name, std::string_view kind) : name_(std::move(name)), kind_(kind) {}

  const std::string& name() const noexcept { return name_; }
  std::string_view kind() const noexcept { return kind_; }

  /// Another shell counts here. When only the account has the tallies, the shell is destroyed.
  void add(std::shared_ptr<const tallies> its, place_function place);
  lock_statistics read();
  /// The log of all shells of the lock. Null if the function is empty.
  std::shared_ptr<lifetime::event_log> log(const boost::asio::any_io_executor& strand, const log_function& function);
  /// True at the first call.
  bool is_first_without_a_file() noexcept { return !is_without_a_file_.exchange(true); }
  /// `core_status::trust` of the last core that has changed it. The next campaign of an election goes on from there.
  void note(const protocol::core_trust& its) {
    const std::lock_guard lock(trust_mutex_);
    trust_ = its;
  }
  protocol::core_trust trust() {
    const std::lock_guard lock(trust_mutex_);
    return trust_;
  }

private:
  struct shell_account {
    std::shared_ptr<const tallies> counts;
    place_function place;
  };
  void retire();

  const std::string name_;
  const std::string_view kind_;
  const lifetime::process_mark process_;
  std::mutex mutex_;
  lock_statistics retired_;  ///< of the shells that were destroyed
  std::vector<shell_account> shells_;
  std::shared_ptr<lifetime::event_log> log_{};
  std::atomic<bool> is_without_a_file_{false};
  std::mutex trust_mutex_;
  protocol::core_trust trust_{};
};

}  // namespace holdfast::runtime
