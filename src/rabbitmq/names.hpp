// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <holdfast/error.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::rabbitmq::detail {

constexpr std::size_t name_bytes_max = 240;  ///< so that the names of all queues have at most 255 bytes

/// The queues of a slot, by the letters in their names.
enum class slot_queue : char {
  existence = 'A',  ///< it exists while the slot does
  holder = 'B',     ///< it is exclusive to the connection that holds the slot
  token = 'F',      ///< it has a message if the last holder has released the slot
};

/// The names of the queues of one semaphore.
class queue_names {
public:
  /// `semaphore` must be a name that `check_name` accepts. With `letter_first`, the letter of a slot's queue stands
  /// before its number, as in the queues of amqp-locks-python.
  explicit queue_names(std::string semaphore, bool letter_first = false)
      : semaphore_(std::move(semaphore)), letter_first_(letter_first) {}

  /// Returns `N-k-A`, or `N-A-k`. Slots are counted from 1.
  std::string of_slot(std::uint32_t slot, slot_queue queue) const;

  /// Returns `N-F`, the queue of the hints.
  std::string hints() const;

  /// Returns `N-0-F`, or `N-F-0`: the queue that says that a `create` has begun. There is no slot 0.
  std::string mark() const { return of_slot(0, slot_queue::token); }

  /// Returns `N`, the queue that is the mutex of administrators.
  const std::string& administration() const noexcept { return semaphore_; }

private:
  std::string semaphore_;
  bool letter_first_;
};

/// Checks the name of a semaphore. It must have 1 to 240 bytes of UTF-8 without control characters. It must not begin
/// with `amq.`, which RabbitMQ reserves. It must not have the form of another semaphore's queue: of a slot, in either
/// order, or of the hints. The mark has the form of a queue of slot 0. Otherwise fails with error::invalid_name, and
/// `cause` is the broken rule.
error_code check_name(std::string_view name, std::string_view& cause);

}  // namespace holdfast::rabbitmq::detail
