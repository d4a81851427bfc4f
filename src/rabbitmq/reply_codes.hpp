// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>

namespace holdfast::rabbitmq::detail {

/// The codes with which a broker refuses methods.
inline constexpr std::uint16_t access_refused = 403;
inline constexpr std::uint16_t not_found = 404;
inline constexpr std::uint16_t resource_locked = 405;
inline constexpr std::uint16_t precondition_failed = 406;
inline constexpr std::uint16_t not_allowed = 530;

}  // namespace holdfast::rabbitmq::detail
