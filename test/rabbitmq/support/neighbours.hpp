// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <unistd.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

// For tests of semaphores on a broker that other tests and other programs use, too.
namespace holdfast::test {

namespace asio = boost::asio;

/// A name that no other semaphore on the broker has. No name is a part of another.
inline std::string unique_name(const std::string& begin) {
  static int count = 100;
  return begin + '_' + std::to_string(::getpid()) + '.' + std::to_string(++count);
}

inline asio::awaitable<void> a_moment(std::chrono::milliseconds time = std::chrono::milliseconds(10)) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::use_awaitable);
}

/// Waits until `condition()` is true. The deadline of the test bounds it.
template <class Condition>
asio::awaitable<void> until(Condition condition) {
  while (!condition()) co_await a_moment();
}

/// Runs a command in a shell, and returns what it prints.
inline std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  for (int c = 0; pipe && (c = std::fgetc(pipe.get())) != EOF;) text += static_cast<char>(c);
  return text;
}

}  // namespace holdfast::test
