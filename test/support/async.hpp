// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>

namespace holdfast::test {

namespace asio = boost::asio;
using namespace std::chrono_literals;

/// `auto [ec, slot] = co_await sem.acquire(as_result);`
inline constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

using async_body = std::function<asio::awaitable<void>(asio::any_io_executor)>;

/// Runs a coroutine as (a part of) a test, on an `io_context` of its own, until it is complete.
///
/// A body that is not complete after `deadline` is cancelled and fails the test; the message says whether it ended
/// within 200 ms of that ("cancelled cleanly") or not ("ignored cancellation"). An exception of the body,
/// or of another handler, is thrown here. Work that the body left behind is destroyed with the `io_context` and does
/// not run.
///
/// If `threads` is more than 1, that many threads run the context, and the body is on a strand of it. Boost.Test's
/// macros are not thread-safe: use them in the body only, never in coroutines that it spawns off the strand.
///
/// Deadlines are multiplied by `$HOLDFAST_TEST_DEADLINE_SCALE`, which the sanitizer builds set. A body that blocks its
/// thread cannot be cancelled; CTest's time limit for the suite ends it.
void run_async(const async_body& body, std::chrono::milliseconds deadline = 5s, int threads = 1);

/// A processor that other programs keep busy may delay a test by many seconds.
inline constexpr std::chrono::milliseconds least_deadline_of_a_case = 60s;

/// The same as `run_async`, but the deadline is at least `least_deadline_of_a_case`.
void run_case(const async_body& body, std::chrono::milliseconds deadline = least_deadline_of_a_case, int threads = 1);

/// `deadline`, multiplied as in `run_async`. For tests that have deadlines of their own.
std::chrono::milliseconds scaled(std::chrono::milliseconds deadline);

/// True if deadlines are multiplied (by more than 1), as for the build of a sanitizer. It runs many times slower, so
/// large tests use smaller sizes there.
bool is_slow_build();

}  // namespace holdfast::test

/// ASYNC_TEST_CASE(name[, deadline[, threads]]) { coroutine body; `ex` is its executor }
///
/// The deadline of a case only ends a test that hangs. It is no check of the time that the body takes: `run_case`
/// raises it to `least_deadline_of_a_case`. A case that tests how long something takes must compare that time itself.
#define ASYNC_TEST_CASE(name, ...)                                                      \
  static ::boost::asio::awaitable<void> name##_body(::boost::asio::any_io_executor ex); \
  BOOST_AUTO_TEST_CASE(name) {                                                          \
    using namespace ::std::chrono_literals;                                             \
    ::holdfast::test::run_case(&name##_body __VA_OPT__(, ) __VA_ARGS__);                \
  }                                                                                     \
  static ::boost::asio::awaitable<void> name##_body([[maybe_unused]] ::boost::asio::any_io_executor ex)
