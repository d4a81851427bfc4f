// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <functional>
#include <holdfast/detail/build.hpp>

namespace holdfast {

/// Lets a lock go if the application hangs. Without such a check, a process whose work hangs keeps its slots as long as
/// the client's thread renews the leases.
///
/// While the lock has a session or a waiting acquire, the library asks on `executor` whether the application is alive,
/// about four times in the time `within`. The question is posted there, so it is answered only if a thread runs that
/// executor. It should be the executor on which the work itself runs, and not the client's. If there has been no yes
/// for `within`, the library stops renewing the leases and logs `application_silent`. The slots are lost when their
/// leases expire, with loss_reason::application_silent. With the next yes, everything goes on. Until then:
///
/// - An acquire waits in the process, without a place in the cluster's queue. Its deadline applies.
/// - `try_acquire` and `try_lock` get nothing.
/// - Slots that nobody uses are released.
struct alive_check {
  /// Where the question is asked. Its execution context must outlive the lock.
  boost::asio::any_io_executor executor{};
  /// Returns whether the application is alive. It runs on `executor`, never at the same time twice, and must not block.
  /// An exception counts as a no, and leaves the function that runs the executor. Empty: it is alive if it runs at all.
  std::function<bool()> ask{};
  /// The time after the last yes, 10 ms to 24 h. Choose several times the longest time for which the executor may be
  /// busy.
  std::chrono::milliseconds within{30'000};
};

}  // namespace holdfast
