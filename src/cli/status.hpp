// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <string>

namespace holdfast::cli {

namespace asio = boost::asio;

/// Reads the state of a semaphore, or of the mutex PREFIX/.lock. This takes one or two requests with this timeout. 0:
/// the client's timeouts.
asio::awaitable<semaphore_status> read_status(consul::client& consul, std::string prefix,
                                              std::chrono::milliseconds timeout = {});

/// A time for people, for example "95s" or "3h".
std::string shown(std::chrono::seconds age);

boost::json::object to_json(const std::string& prefix, const semaphore_status& now);
/// Prints the holders and the queue as a table.
void print(const std::string& prefix, const semaphore_status& now);
/// Prints one line: how many hold, and how many wait.
void print_line(const std::string& prefix, const semaphore_status& now);

}  // namespace holdfast::cli
