// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <holdfast/detail/export.hpp>
#include <holdfast/log_event.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lifetime/context_hook.hpp"

namespace holdfast::lifetime {

/// Calls a user's log function on a strand. It posts each call, so that an exception from the function fails no
/// operation. It limits storms of equal events: see `log_event::left_out`. All functions may be called on any thread,
/// with locks held.
class HOLDFAST_INTERNAL event_log final : public std::enable_shared_from_this<event_log>, private context_hook {
public:
  using duration = std::chrono::steady_clock::duration;

  /// Null if the function is empty. At most 10 equal events are told in each `window`.
  static std::shared_ptr<event_log> make(const boost::asio::any_io_executor& strand, log_function function,
                                         duration window = std::chrono::seconds(10));
  event_log(const boost::asio::any_io_executor& strand, log_function function, duration window);
  ~event_log();
  using context_hook::process;

  void add(log_event&& event);
  /// Reports what was left out, without waiting for the end of the window.
  void flush();

private:
  using clock = std::chrono::steady_clock;

  /// Equal events, since the first of them was told.
  struct storm {
    log_event last{};
    clock::time_point end{};
    unsigned told = 0;
    std::uint64_t left_out = 0;
  };

  std::shared_ptr<void> on_context_shutdown() noexcept override;
  storm& storm_of(const log_event& event, clock::time_point now);
  void tell(log_event&& event);
  void tell_rest(storm& of);
  void end_storms(clock::time_point now);
  void sleep();
  void wake();

  const std::shared_ptr<const log_function> function_;
  const duration window_;
  std::mutex mutex_;                     ///< guards all that follows
  boost::asio::any_io_executor strand_;  ///< empty once the context has been destroyed
  std::optional<boost::asio::steady_timer> timer_;
  clock::time_point sleeps_until_ = clock::time_point::max();
  std::vector<storm> storms_;
};

}  // namespace holdfast::lifetime
