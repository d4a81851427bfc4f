// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <sys/types.h>

#include <chrono>

namespace holdfast::test {

/// Returns when that process has handled all of its input. First its kernel must have all bytes that were sent by
/// `socket`, a connection on loopback. After that all of its threads must sleep at one instant, without this thread if
/// it belongs to the process. By then each thread that the input wakes has handled it, or waits again. This holds on a
/// busy machine, too. The call does not wait for work that a timer of the process starts later.
///
/// Throws std::runtime_error if that does not come before `end`.
void wait_until_idle(pid_t process, int socket, std::chrono::steady_clock::time_point end);

}  // namespace holdfast::test
