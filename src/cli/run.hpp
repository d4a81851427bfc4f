// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/consul/config.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/rabbitmq.hpp"

namespace holdfast::cli {

/// The exit statuses of `holdfast run`, besides those of the command. If signal n ends the program before the command
/// starts, the status is 128 + n.
inline constexpr int status_ok = 0;
inline constexpr int status_failed = 1;        ///< the command did not run
inline constexpr int status_child_failed = 2;  ///< with -child-exit-code
/// The slot was lost, its lease was not renewed in time, or the guard died. If the command still ran, it was ended.
/// Also the status if the slot was lost before the command began.
inline constexpr int status_lost = 124;
inline constexpr int status_failed_itself = 125;  ///< as status_failed, with --exit-status
// The following statuses come with --exit-status or --once-per. Without these flags they are status_failed.
inline constexpr int status_done_already = 120;  ///< --once-per: a success is recorded that is recent enough
inline constexpr int status_held = 121;          ///< others held all slots for as long as the program was to wait
inline constexpr int status_unavailable = 122;   ///< Consul or the broker could not be reached, or did not answer
inline constexpr int status_not_recorded = 123;  ///< --once-per: the command has succeeded, and this is not recorded

struct run_options {
  consul::config consul{};
  rabbitmq_options rabbitmq{};
  std::string prefix{};                  ///< with RabbitMQ, the name
  std::vector<std::string> arguments{};  ///< what is executed
  std::string name{};                    ///< for operators
  std::uint32_t limit = 1;
  bool elects = false;  ///< the slot is the leadership of the election with the key `prefix`
  std::string value{};  ///< the value of the key while this process leads
  std::optional<std::chrono::nanoseconds> timeout{};
  std::optional<std::chrono::nanoseconds> once_per{};  ///< the command succeeds once in this time
  std::chrono::milliseconds grace{5000};
  std::chrono::milliseconds ttl{15'000};
  std::optional<std::string> session_node{};
  bool no_wait = false;
  bool numbered = false;
  bool pass_stdin = false;
  bool child_exit_code = false;
  bool exit_status = false;  ///< set if `once_per` is
  bool verbose = false;
};

/// "HOST:PID" of this process, for operators.
std::string host_and_pid();

/// Takes a slot, runs the command, and releases the slot when no process of the command is left. Returns the exit
/// status. Must be called before the process has a second thread.
int run(const run_options& options);

}  // namespace holdfast::cli
