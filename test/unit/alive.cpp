// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// An application that hangs loses its locks (tuning::alive).

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <holdfast/local_store.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/async.hpp"
#include "support/participant.hpp"

BOOST_AUTO_TEST_SUITE(alive)

namespace {

using namespace holdfast;
using namespace std::chrono_literals;

alive_check check_on(asio::io_context& application) { return {.executor = application.get_executor(), .within = 50ms}; }

}  // namespace

ASYNC_TEST_CASE(a_hung_application_loses_its_slot_and_comes_back, 30s) {
  const local_store store(ex);
  asio::io_context application;
  semaphore_options options{.prefix = "s", .limit = 1, .session_ttl = 2s};
  std::vector<log_kind> log;
  semaphore other(store, options);
  options.tuning.alive = check_on(application);
  options.log = [&](const log_event& event) { log.push_back(event.kind); };
  semaphore sem(store, options);
  slot held = co_await sem.acquire();
  slot next = co_await other.acquire();  // the application never runs
  BOOST_TEST(held.lost_because() == loss_reason::application_silent);
  BOOST_TEST(held.loss_details().to_string().find("has not answered for 50 ms") != std::string::npos);
  BOOST_TEST(sem.statistics().lost[loss_reason::application_silent] == 1u);
  std::string kinds;
  for (const log_kind each : log) kinds.append(to_string(each)) += ' ';
  BOOST_TEST(kinds == "application_silent slot_lost ");
  held = slot();
  std::optional<error_code> ended;
  slot again;
  sem.acquire([&](error_code ec, slot got) {
    ended = ec;
    again = std::move(got);
  });
  co_await next.release();
  while (!ended) {
    application.restart();
    application.poll();
    co_await test::pause(5ms);
  }
  BOOST_TEST(!*ended);
  BOOST_TEST(again.held());
}

ASYNC_TEST_CASE(its_function_says_no_or_throws, 30s) {
  const local_store store(ex);
  asio::io_context application;
  int asked = 0;
  mutex_options options{.key = "m", .session_ttl = 2s};
  options.tuning.alive = check_on(application);
  options.tuning.alive->ask = [&] {
    if (++asked % 2 != 0) return false;
    throw std::runtime_error("not well");
  };
  mutex alone(store, options);
  held_mutex lock = co_await alone.lock();
  int thrown = 0;
  while (lock.held()) {
    application.restart();
    try {
      application.poll();
    } catch (const std::runtime_error&) {
      ++thrown;
    }
    co_await test::pause(1ms);
  }
  co_await test::until("its loss is known", [&] { return lock.lost_because() != loss_reason::none; });
  BOOST_TEST(asked >= 3);
  BOOST_TEST(thrown >= 1);
}

BOOST_AUTO_TEST_CASE(wrong_options) {
  asio::io_context io;
  const local_store store(io.get_executor());
  semaphore_options options{.prefix = "s", .limit = 1};
  options.tuning.alive = alive_check{};
  BOOST_CHECK_THROW(semaphore(store, options), system_error);
  options.tuning.alive = alive_check{.executor = io.get_executor(), .within = 1ms};
  BOOST_CHECK_THROW(semaphore(store, options), system_error);
}

BOOST_AUTO_TEST_SUITE_END()
