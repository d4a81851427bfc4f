// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace holdfast::test {

struct process_options {
  std::vector<std::string> command = {};  ///< program (searched in PATH) and its arguments
  std::vector<std::pair<std::string, std::string>> environment =
      {};                                  ///< added to this process's variables; replaces them
  std::filesystem::path output_file = {};  ///< if set, stdout and stderr are appended to it
  std::function<void(std::string_view)> on_line =
      {};                                        ///< called for each line, on another thread; without `output_file`
  std::filesystem::path working_directory = {};  ///< empty: this process's
};

struct exit_status {
  int code = 0;    ///< the code that it returned, if `signal` is 0
  int signal = 0;  ///< the signal that killed it, or 0
  bool success() const { return code == 0 && signal == 0; }
  std::string to_string() const;
  bool operator==(const exit_status&) const = default;
};

/// A child process. It outlives neither this object nor this process: it is killed when the first of the two ends.
/// It inherits no file descriptors, and its stdin is empty.
///
/// Without `output_file` its stdout and stderr, mixed, are read here, line by line.
class process {
public:
  /// Throws std::system_error if the program cannot be started.
  explicit process(process_options options);
  process(const process&) = delete;
  process& operator=(const process&) = delete;
  ~process();

  pid_t pid() const { return pid_; }
  bool running();

  /// Returns its exit status, or nothing if it is still running after `limit`.
  std::optional<exit_status> wait(std::chrono::milliseconds limit);

  void signal(int number);
  /// SIGKILL, which also ends a frozen process. Waits for the end.
  void kill();
  /// SIGCONT and SIGTERM, then SIGKILL if it still runs after `limit`.
  exit_status terminate(std::chrono::milliseconds limit = std::chrono::seconds(5));
  /// SIGSTOP. Returns when the process has stopped or ended.
  void freeze();
  /// SIGCONT.
  void thaw();

  /// The lines of its output so far; empty with `output_file`. After `wait` has returned a status, this is all of the
  /// output, unless a grandchild has kept the pipe open, or reading the rest takes longer than 200 ms.
  std::string output() const;
  std::vector<std::string> lines() const;
  /// True as soon as a line contains `text`; false after `limit` or if the output ended without it.
  bool wait_for_line(std::string_view text, std::chrono::milliseconds limit);

private:
  void read_output(int fd);
  void finish_reading();
  bool reap(int options);

  process_options options_;
  pid_t pid_ = -1;
  std::optional<exit_status> status_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  bool output_ended_ = false;
  int cancel_fd_ = -1;
  std::thread reader_;
};

/// Starts `command`, waits for it, and kills it after `limit`. For programs that are expected to end by themselves.
struct finished_process {
  std::optional<exit_status> status;  ///< empty if it had to be killed
  std::string output;
};
finished_process run(std::vector<std::string> command, std::chrono::milliseconds limit,
                     std::vector<std::pair<std::string, std::string>> environment = {});

/// The path of a program that was built into this one's folder.
std::string sibling_program(std::string_view name);

/// The path of an executable file, searched as a shell does.
std::optional<std::filesystem::path> find_program(std::string_view name);

}  // namespace holdfast::test
