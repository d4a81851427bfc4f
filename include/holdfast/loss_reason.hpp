// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/detail/enumeration.hpp>
#include <holdfast/detail/export.hpp>
#include <iosfwd>
#include <string_view>

namespace holdfast {

// No check finds these places of a new reason:
// - The comments of slot.hpp, local_store.hpp and rabbitmq/slot.hpp name the reasons.
// - In a pool, the place that detects the loss calls `slot_ledger::lose`, or `session_care::drop` if the session must
//   end at once. A mutex set calls `drop_session`, and a `broker_pool` calls `lose`.
// - In the simulator, `world_users.cpp` says which faults excuse the loss, and `check_cause` in `broker_world.cpp` does
//   so for RabbitMQ.

/// Why a slot was lost.
enum class loss_reason {
  none,  ///< it was not lost
  /// An operator edited or deleted the record, mutex key, number or queue of the slot, or a client broke the rules.
  removed,
  session_invalidated,  ///< its entry is gone: the session ended, or somebody deleted it; or its connection ended
  lease_expired,        ///< the lease was not renewed in time; others may get the slot from now on
  watch_failed,         ///< the watch failed for longer than `tuning::outage_grace`
  closed,               ///< the semaphore or the client was closed, or the execution context was destroyed
  /// Another process has granted the slot, and this process could not confirm its acceptance in time. Another process
  /// may take the slot back from now on, or has done so already. This reason is also reported if the entry vanishes,
  /// the lease expires or the watch fails before the acceptance.
  not_accepted,
  /// The application has not answered for `alive_check::within`, so the lease was not renewed (`tuning::alive`). Others
  /// may get the slot from now on.
  application_silent,
};

constexpr std::string_view to_string(loss_reason reason) noexcept {
  switch (reason) {
    case loss_reason::none:
      return "none";
    case loss_reason::removed:
      return "removed";
    case loss_reason::session_invalidated:
      return "session_invalidated";
    case loss_reason::lease_expired:
      return "lease_expired";
    case loss_reason::watch_failed:
      return "watch_failed";
    case loss_reason::not_accepted:
      return "not_accepted";
    case loss_reason::closed:
      return "closed";
    case loss_reason::application_silent:
      return "application_silent";
  }
  return "unknown";
}
/// All enumerators.
inline constexpr auto loss_reasons = detail::enumerators<loss_reason>();
HOLDFAST_EXPORT std::ostream& operator<<(std::ostream& out, loss_reason reason);

}  // namespace holdfast
