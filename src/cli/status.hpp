// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::cli {

namespace asio = boost::asio;

enum class lock_kind {
  semaphore,
  mutex,      ///< or an election, whose keys look the same
  mutex_set,  ///< its names are its holders
};
constexpr std::string_view to_string(lock_kind kind) noexcept {
  switch (kind) {
    case lock_kind::semaphore:
      return "semaphore";
    case lock_kind::mutex:
      return "mutex";
    case lock_kind::mutex_set:
      return "mutex_set";
  }
  return {};
}

/// The state of a lock of any kind. In a mutex set, the description of a holder is the name that it has locked, and the
/// description of its process.
struct lock_status : semaphore_status {
  lock_kind kind = lock_kind::semaphore;
};

/// Reads the state of what is at this place: a semaphore, the mutex PREFIX/.lock of `holdfast run`, a mutex or an
/// election with this key, or a mutex set with this prefix. This takes one to three requests with this timeout. 0: the
/// client's timeouts.
asio::awaitable<lock_status> read_status(consul::client& consul, std::string prefix,
                                         std::chrono::milliseconds timeout = {});

/// The places of all locks whose keys are among these, in order. `keys` is sorted. A mutex that only another kind of
/// client uses is not among them, unless its key ends with ".lock": its name does not show what it is.
std::vector<std::string> places_of_locks(const std::vector<std::string>& keys);

/// A time for people, for example "95s" or "3h".
std::string shown(std::chrono::seconds age);

boost::json::object to_json(const std::string& prefix, const lock_status& now);
/// Prints the holders and the queue as a table.
void print(const std::string& prefix, const lock_status& now);
/// Prints one line: how many hold, and how many wait.
void print_line(const std::string& prefix, const lock_status& now);

}  // namespace holdfast::cli
