#pragma once

#include <chrono>
#include <holdfast/consul/config.hpp>
#include <string_view>
#include <vector>

#include "url.hpp"

namespace holdfast::consul::detail {

/// The longest time that an option may have.
inline constexpr std::chrono::milliseconds time_max = std::chrono::minutes(10);

/// Whether it can be a header's value: printable ASCII without spaces.
bool is_header_text(std::string_view text) noexcept;

/// The agents' addresses, at least one, if every field is in its documented range; else throws `system_error` and names
/// the rule.
std::vector<agent_address> check(const config& c);

}  // namespace holdfast::consul::detail
