// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Shows that the runner of asynchronous tests can fail. Each case of victims/async_runner.cpp must be reported in its
// own way.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <set>
#include <stdexcept>
#include <thread>

#include "support/async.hpp"
#include "support/process.hpp"

namespace asio = boost::asio;
using holdfast::test::run;
using holdfast::test::sibling_program;
using namespace std::chrono_literals;

namespace {

struct victim {
  int code;
  std::string output;
};

victim run_victim(const std::string& name) {
  const auto result =
      run({sibling_program("victims"), "--run_test=async_runner/" + name, "--color_output=no", "--log_level=error"},
          holdfast::test::scaled(20s));
  BOOST_REQUIRE_MESSAGE(result.status && result.status->signal == 0, "no end, or a crash: " << result.output);
  return {result.status->code, result.output};
}

void check_reported(const std::string& name, const std::string& message) {
  const auto v = run_victim(name);
  BOOST_TEST(v.code == 201, "exit status of " << name << " is " << v.code << ", output: " << v.output);
  BOOST_TEST(v.output.find(message) != std::string::npos, "\"" << message << "\" is not in: " << v.output);
}

asio::awaitable<void> sleep(std::chrono::milliseconds duration) {
  const auto ex = co_await asio::this_coro::executor;
  asio::steady_timer timer(ex, duration);
  co_await timer.async_wait(asio::use_awaitable);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(async_runner)

ASYNC_TEST_CASE(body_runs_on_the_given_executor, 2s) {
  const auto own = co_await asio::this_coro::executor;
  BOOST_TEST((own == ex));
  co_await sleep(2ms);
}

ASYNC_TEST_CASE(body_of_a_threaded_test_is_on_a_strand, 5s, 4) {
  // Spawned on the same strand: no two of them ever overlap, though they do run on several threads.
  int inside = 0, overlaps = 0, done = 0;
  std::set<std::thread::id> threads;
  for (int i = 0; i < 40; ++i)
    asio::co_spawn(
        ex,
        [&]() -> asio::awaitable<void> {
          for (int round = 0; round < 20; ++round) {
            overlaps += inside++ != 0;
            threads.insert(std::this_thread::get_id());
            --inside;
            co_await sleep(0ms);
          }
          ++done;
        },
        [](std::exception_ptr e) {
          if (e) std::rethrow_exception(e);
        });
  while (done < 40) {
    co_await sleep(1ms);
  }
  BOOST_TEST(overlaps == 0);
  BOOST_TEST(threads.size() <= 4u);
}

BOOST_AUTO_TEST_CASE(the_bodys_exception_reaches_the_caller) {
  for (const int threads : {1, 3}) {
    BOOST_CHECK_EXCEPTION(holdfast::test::run_async(
                              [](asio::any_io_executor) -> asio::awaitable<void> {
                                co_await sleep(1ms);
                                throw std::runtime_error("from the body");
                              },
                              std::chrono::seconds(5), threads),
                          std::runtime_error, [](const auto& e) { return std::string(e.what()) == "from the body"; });
  }
}

BOOST_AUTO_TEST_CASE(work_left_behind_is_destroyed_not_run) {
  bool ran = false;
  holdfast::test::run_async([&ran](asio::any_io_executor ex) -> asio::awaitable<void> {
    auto timer = std::make_shared<asio::steady_timer>(ex, std::chrono::hours(1));
    timer->async_wait([timer, &ran](boost::system::error_code) { ran = true; });
    co_return;
  });
  BOOST_TEST(!ran);
}

BOOST_AUTO_TEST_CASE(a_hang_is_cancelled_and_reported) {
  check_reported("hang", "not complete after");
  check_reported("hang", "cancelled cleanly");
  check_reported("hang_threaded", "cancelled cleanly");
}

BOOST_AUTO_TEST_CASE(a_swallowed_cancellation_is_reported) {
  check_reported("swallow", "ignored cancellation");
  check_reported("swallow_threaded", "ignored cancellation");
}

BOOST_AUTO_TEST_CASE(an_exception_is_reported) {
  check_reported("exception", "thrown on purpose");
  check_reported("exception_threaded", "thrown on purpose");
  check_reported("exception_of_a_handler", "thrown by a handler");
}

BOOST_AUTO_TEST_CASE(a_failed_check_is_reported) {
  check_reported("check", "1 == 2");
  check_reported("require", "3 == 4");
  check_reported("require_threaded", "5 == 6");
}

BOOST_AUTO_TEST_CASE(a_suite_with_nothing_to_run_fails) {
  const auto v = run_victim("no_such_case");
  BOOST_TEST(v.code != 0);
}

BOOST_AUTO_TEST_SUITE_END()
