#pragma once

#include <sys/types.h>

#include <chrono>

namespace holdfast::test {

/// Returns when that process has done all that was asked of it: its kernel has all bytes that were sent by `socket`, a
/// connection on loopback, and later, at one instant, all of its threads slept (but for this one, if it is the process
/// itself). Whoever it had to wake has looked and answered by then, or waits again: however busy the machine is. What
/// the process does later because a timer of its own fires is not awaited.
///
/// Throws std::runtime_error if that does not come before `end`.
void wait_until_idle(pid_t process, int socket, std::chrono::steady_clock::time_point end);

}  // namespace holdfast::test
