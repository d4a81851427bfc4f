// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>

namespace holdfast::platform {

/// The greatest length of a UNIX socket's path, in bytes.
/// Portable version: 103, the smallest of the systems for which Asio has UNIX sockets.
std::size_t socket_path_size_max() noexcept;

}  // namespace holdfast::platform
