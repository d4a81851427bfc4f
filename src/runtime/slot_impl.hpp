// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/slot.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/hold_impl.hpp"

namespace holdfast::detail {

class driver;

/// The state of one slot of a driver.
class slot_impl final : public hold_impl {
public:
  slot_impl(std::shared_ptr<driver> of, lifetime::process_mark process, protocol::slot_id id, fencing_token token,
            std::uint32_t count, std::vector<std::uint32_t> numbers, protocol::time_point deadline);

  std::shared_ptr<driver> its_driver() const noexcept;

  const fencing_token token;
  const std::uint32_t count;
  const std::vector<std::uint32_t> numbers;
};

}  // namespace holdfast::detail
