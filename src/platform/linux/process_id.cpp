// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/process_id.hpp"

#include <unistd.h>

namespace holdfast::platform {

std::string process_id() { return std::to_string(::getpid()); }

}  // namespace holdfast::platform
