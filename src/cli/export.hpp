// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/consul/config.hpp>
#include <string>
#include <vector>

namespace holdfast::cli {

struct export_options {
  consul::config consul{};
  std::vector<std::string> prefixes{};
  std::string listen = "127.0.0.1:9753";  ///< an IP address and a port; port 0: any that is free
};

/// Serves the state of the semaphores to Prometheus, until SIGINT or SIGTERM. Returns the exit status.
int serve_metrics(export_options options);

}  // namespace holdfast::cli
