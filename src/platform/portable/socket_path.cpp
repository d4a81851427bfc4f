// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/socket_path.hpp"

namespace holdfast::platform {

std::size_t socket_path_size_max() noexcept { return 103; }

}  // namespace holdfast::platform
