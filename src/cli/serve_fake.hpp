// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>

namespace holdfast::cli {

/// Runs the model of Consul as a server on 127.0.0.1 until SIGINT or SIGTERM. Port 0: any that is free.
int serve_fake(std::uint16_t port);

}  // namespace holdfast::cli
