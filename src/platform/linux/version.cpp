// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/version.hpp"

namespace holdfast::platform {

version linked_version() noexcept { return version::linux_calls; }

}  // namespace holdfast::platform
