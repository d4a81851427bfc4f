// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <functional>
#include <holdfast/holdfast.hpp>
#include <map>
#include <string>
#include <vector>

#include "cli/status.hpp"

namespace holdfast::cli {

/// Tells in sentences why contenders wait: who holds, who stands before whom, whose process is gone, and what is not
/// known. `session` selects one contender of the queue; if it is empty, the whole queue is explained. All holders are
/// explained in both cases. `sessions` are those of the holders, as far as they could be read from Consul: their names
/// have the host and the process.
std::vector<std::string> explanation(const std::string& prefix, const lock_status& now, const std::string& session,
                                     const std::map<std::string, consul::session_info>& sessions,
                                     const std::function<maker_state(const std::string&)>& maker);

}  // namespace holdfast::cli
