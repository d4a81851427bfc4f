// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <holdfast/consul/config.hpp>
#include <string_view>
#include <vector>

#include "consul/encoding/url.hpp"

namespace holdfast::consul::detail {

/// The largest timeout, wait of a blocking query, or pause between retries that an option may set.
inline constexpr std::chrono::milliseconds time_max = std::chrono::minutes(10);

/// Returns true if the text can be sent as the value of a header: printable ASCII without spaces.
bool is_header_text(std::string_view text) noexcept;

/// Returns the addresses of the agents, at least one. If a field breaks a rule, throws `system_error`, which names the
/// rule or the wrong address. Does not read files: `token_source` and `make_tls_client` check them.
std::vector<agent_address> check(const config& c);

}  // namespace holdfast::consul::detail
