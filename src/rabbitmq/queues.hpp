// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "rabbitmq/dialogue.hpp"
#include "rabbitmq/names.hpp"

namespace holdfast::rabbitmq::detail {

/// The steps of requests about the queues of one semaphore.
class queues {
public:
  queues(queue_names names, std::chrono::milliseconds lease) : names_(std::move(names)), lease_(lease) {}

  const queue_names& names() const noexcept { return names_; }
  std::string existence(std::uint32_t slot) const { return names_.of_slot(slot, slot_queue::existence); }
  std::string holder(std::uint32_t slot) const { return names_.of_slot(slot, slot_queue::holder); }
  std::string tokens(std::uint32_t slot) const { return names_.of_slot(slot, slot_queue::token); }
  /// The queue that says that a `create` has begun.
  std::string mark() const { return names_.mark(); }

  /// Asks whether the queue is there and not exclusive to another connection.
  static step passive(std::string queue);
  /// Declares B, on the connection that is to have it.
  step take(std::uint32_t slot) const;
  /// Declares F. The broker refuses it if there is one with another lease.
  step declare_tokens(std::uint32_t slot) const;
  step declare_existence(std::uint32_t slot) const;
  step declare_hints() const;
  /// Declares the mutex of administrators.
  step lock() const;
  /// Declares the mark. The broker refuses it if there is one with another number of slots, or with another lease.
  step declare_mark(std::uint32_t count) const;
  step get_token(std::uint32_t slot) const;
  step purge_tokens(std::uint32_t slot) const;
  step publish_token(std::uint32_t slot) const;
  step publish_hint(std::uint32_t slot) const;
  step erase_holder(std::uint32_t slot) const { return erase(holder(slot)); }
  /// Deletes the queue. If there is none, that is no failure.
  static step erase(std::string queue) { return {queue_delete{std::move(queue), false, false}, {}, {}}; }
  /// A message that the queue drops at once, and that the broker returns if there is no such queue.
  static step probe(std::string queue);

private:
  queue_names names_;
  std::chrono::milliseconds lease_;
};

/// Returns the heartbeat of connections, in seconds: half of the lease, at least 1 s and at most 60 s.
std::uint16_t heartbeat_for(std::chrono::milliseconds lease) noexcept;

/// Returns the number in a hint, or 0 if it has none.
std::uint32_t number_in_hint(const std::string& body) noexcept;

}  // namespace holdfast::rabbitmq::detail
