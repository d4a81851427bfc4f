// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::cli {

struct request;

/// How to run a command.
struct command {
  std::vector<std::string> arguments;  ///< the program and its arguments; the program is looked up in PATH
  bool pass_stdin = false;             ///< otherwise its stdin is /dev/null
  std::chrono::milliseconds grace{5000};
};

/// A report of the guard.
struct guard_event {
  enum class kind : std::uint32_t {
    started,      ///< the command runs; `value` is its process id and the id of its process group
    not_started,  ///< `value` is errno
    lease_ends,   ///< the guard has sent SIGTERM, because the lease was not renewed in time
    stopped,      ///< the command was stopped by the signal `value`
    exited,       ///< the command has ended; `value` is its status, as wait(2) returns it
    ended,        ///< neither the command nor any process that it started is left
    guard_gone,   ///< the guard process has ended. Unless `ended` came before, call `end_group` until it returns true
  };
  kind what;
  std::int64_t value = 0;
};

/// Runs a command in a process group of its own, beside a guard process that ends the group before the lease of the
/// slot is over. The guard does so by its own clock, also if this process has died or is stopped.
///
/// - If this process dies, the guard ends the group: SIGTERM at once, SIGKILL after `command::grace`, or earlier if the
///   lease ends earlier.
/// - If the guard dies, the kernel kills the command (PR_SET_PDEATHSIG), and this process kills the rest of the group.
/// - If both are killed at once, the kernel kills the command. Its children may survive.
/// - If the guard is stopped, this process continues it. If both are stopped, nothing ends the command until one of
///   them goes on.
/// - When the command has ended, the processes that it has left behind are ended, too.
/// - A process that leaves the group (setsid) is found as a descendant, because the guard is a subreaper. The guard
///   does not find a process that the command asks somebody else to start (a service manager, a container engine, at,
///   cron).
/// - A command that runs with more rights (a set-user-ID program) loses the parent-death signal, and can be killed only
///   if this process has the rights for it.
///
/// Construct it before the process has a second thread: the constructor forks. Not thread-safe.
class guarded_command {
public:
  /// Starts the guard. The command starts with `start`. Throws std::system_error.
  explicit guarded_command(const command& what);
  guarded_command(const guarded_command&) = delete;
  guarded_command& operator=(const guarded_command&) = delete;
  /// Closes the connection: the guard then ends the group.
  ~guarded_command();

  /// A descriptor that is readable when `receive` has something to return.
  int descriptor() const noexcept { return socket_; }
  pid_t guard() const noexcept { return guard_; }
  /// The next event, if there is one. Does not block.
  std::optional<guard_event> receive();

  /// Starts the command with these additional variables, "NAME=value". The lease ends at `lease_end` on CLOCK_BOOTTIME.
  /// The guard and the command inherit the first 16 descriptors of `files`.
  /// If this process group is in the foreground of the terminal, the command gets the terminal.
  /// Throws std::length_error if the variables are longer than a message.
  void start(const std::vector<std::string>& variables, std::chrono::nanoseconds lease_end,
             const std::vector<int>& files = {});
  void set_lease_end(std::chrono::nanoseconds lease_end);
  /// Sends the signal to the group while the command runs.
  void forward(int signal);
  /// SIGTERM at once, SIGKILL after the grace, or earlier if the lease ends earlier.
  void stop();
  /// SIGKILL at once.
  void kill();
  /// Continues a stopped group. If this process group is in the foreground of the terminal, the group gets the
  /// terminal.
  void resume();

  /// After guard_gone: kills the group and every other descendant of this process. Takes back the terminal if the group
  /// has it. Returns true if this process has no children left.
  bool end_group();

private:
  void send(const request& head, const std::string& rest = {}, const std::vector<int>& files = {});

  int socket_ = -1, terminal_ = -1;
  pid_t guard_ = -1, group_ = -1;
};

/// The time on CLOCK_BOOTTIME.
std::chrono::nanoseconds boot_time();

}  // namespace holdfast::cli
