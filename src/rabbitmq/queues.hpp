// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstdint>
#include <string>

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

  /// Asks whether the queue is there and not exclusive to another connection.
  static step passive(std::string queue);
  /// Declares B, on the connection that is to have it.
  step take(std::uint32_t slot) const;
  /// Declares F. The broker refuses it if there is one with another lease.
  step declare_tokens(std::uint32_t slot) const;
  step declare_existence(std::uint32_t slot) const;
  step declare_hints() const;
  step get_token(std::uint32_t slot) const;
  step purge_tokens(std::uint32_t slot) const;
  step publish_token(std::uint32_t slot) const;
  step publish_hint(std::uint32_t slot) const;
  step erase_holder(std::uint32_t slot) const;
  /// A message that the queue drops at once, and that the broker returns if there is no such queue.
  static step probe(std::string queue);

private:
  queue_names names_;
  std::chrono::milliseconds lease_;
};

/// Returns the number in a hint, or 0 if it has none.
std::uint32_t number_in_hint(const std::string& body) noexcept;

}  // namespace holdfast::rabbitmq::detail
