// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/hold_impl.hpp"

namespace holdfast::rabbitmq::detail {

/// The state of one held slot on RabbitMQ.
class slot_impl final : public holdfast::detail::hold_impl {
public:
  slot_impl(std::shared_ptr<holdfast::detail::shell> owner, lifetime::process_mark process, protocol::slot_id id,
            protocol::time_point deadline, std::uint32_t number)
      : hold_impl(std::move(owner), process, id, deadline), number(number) {}

  const std::uint32_t number;
};

}  // namespace holdfast::rabbitmq::detail
