// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/fencing_token.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

/// The kind of client that wrote a contender's entry. The flags of the entry tell it.
enum class contender_kind {
  holdfast,
  go_client,  ///< HashiCorp's Go client, also in `consul lock`
  guide,      ///< a client that follows Consul's semaphore guide
};

constexpr std::string_view to_string(contender_kind kind) noexcept {
  switch (kind) {
    case contender_kind::holdfast:
      return "holdfast";
    case contender_kind::go_client:
      return "go_client";
    case contender_kind::guide:
      return "guide";
  }
  return "unknown";
}

/// One holder, or one contender that waits. It is a session, not a coroutine. A process that holds several slots has
/// one session for each. Coroutines also queue inside their process, so a process may have fewer waiting sessions than
/// waiting coroutines.
struct contender_status {
  std::string session;
  std::string description;  ///< `description` of its process, or the entry's value of another client; untrusted
  contender_kind kind = contender_kind::holdfast;
  std::size_t place = 0;  ///< the place in the queue, from 1; 0 for a holder
  /// The fencing token that the holder got with the cluster's grant. Empty for waiters and for holders of other
  /// clients.
  holdfast::fencing_token token{};
  bool revoked = false;  ///< an operator has asked it to release its slot
  /// The time since it joined the queue. The start is from its clock, the end from the clock of this process. Empty for
  /// other clients, and for entries of older versions.
  std::optional<std::chrono::seconds> age{};
  std::optional<std::uint32_t> number{};  ///< the number, if the slot has one
  /// True if another process has granted the slot and the holder has not accepted the grant yet. A living holder
  /// accepts about 0.1 s after the grant, unless it releases the slot before. If the holder is dead, a process that
  /// waits takes the slot back, or the process that granted it. If there is neither, the slot is free when the session
  /// ends.
  bool provisional = false;
  bool operator==(const contender_status&) const = default;
};

/// The state of a semaphore in Consul at one instant.
struct semaphore_status {
  bool exists = false;  ///< true if there is a lock record; otherwise the limit is unknown
  std::uint32_t limit = 0;
  bool closed = false;                    ///< closed by `semaphore_administration::close`
  std::vector<contender_status> holders;  ///< living holders, in the order in which they joined
  /// The waiters, in the order in which they joined. Usually the first is granted next. Exceptions are contenders that
  /// are probably dead, and slots that a process takes back for its own contender.
  std::vector<contender_status> queue;
  std::size_t dead_holders = 0;  ///< in the record, but without a live entry; their slots become free later
  std::size_t given_back = 0;    ///< in the record, but released; their slots are free
  std::size_t dead_entries = 0;  ///< entries whose session has ended
  std::uint64_t index = 0;       ///< the record's ModifyIndex
  bool operator==(const semaphore_status&) const = default;
};

}  // namespace holdfast
