// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/socket_path.hpp"

#include <sys/un.h>

namespace holdfast::platform {

std::size_t socket_path_size_max() noexcept { return sizeof(sockaddr_un::sun_path) - 1; }

}  // namespace holdfast::platform
