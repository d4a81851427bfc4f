// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <string>

namespace holdfast::test {

// Questions to the system about this process and its sockets, for tests of src/platform.

std::string id_of_process();

/// The options of a TCP socket by which the kernel notices a dead peer.
struct probe_times {
  int idle = 0, interval = 0, count = 0;  ///< of keepalive probes: seconds, seconds, number
  int unacknowledged_ms = 0;
  bool operator==(const probe_times&) const = default;
};
probe_times probe_times_of(int socket);

/// Whether programs that this process starts have the descriptor, too.
bool is_inherited(int descriptor);

/// Whether a mark of this process is foreign in a child of fork().
bool notices_a_fork();

}  // namespace holdfast::test
