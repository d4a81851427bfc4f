// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Shows when io_context::run() returns and how long close() takes, as README and semaphore.hpp say.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <holdfast/testing/server.hpp>
#include <string>
#include <utility>

#include "support/async.hpp"

BOOST_AUTO_TEST_SUITE(run_returns)

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using clock = std::chrono::steady_clock;

semaphore_options of_one_slot() {
  semaphore_options options;
  options.prefix = "s";
  options.limit = 1;
  return options;
}

/// Longer than any delay by a busy machine. An operation that must not wait for one of these times takes less than half
/// of it.
constexpr auto long_time = 60s;

semaphore_options of_one_slot_with_long_times() {
  semaphore_options options = of_one_slot();
  options.tuning.session_idle_timeout = long_time;
  options.tuning.give_up_after = long_time;
  options.tuning.request_timeout = long_time;
  options.session_ttl = 3 * long_time;  // a session is renewed each third of it
  return options;
}

consul::config config_with_long_times(const testing::server& consul) {
  consul::config settings = consul.client_config();
  settings.request_timeout = long_time;
  settings.connect_timeout = long_time;
  return settings;
}

asio::awaitable<void> use_once(semaphore& sem) {
  slot held = co_await sem.acquire(asio::use_awaitable);
  co_await held.release(asio::use_awaitable);
}

/// Returns how long `run` takes for `work`, which gets a client and the options of a semaphore.
template <class Work>
clock::duration time_of_run(testing::server& consul, Work work) {
  asio::io_context io;
  const auto began = clock::now();
  asio::co_spawn(io, work(consul::client(io, config_with_long_times(consul))), asio::detached);
  io.run();
  return clock::now() - began;
}

std::size_t sessions_of(testing::server& consul) {
  return consul.with([](testing::store& model, auto) { return model.sessions().value.size(); });
}

BOOST_AUTO_TEST_CASE(at_once_after_close) {
  testing::server consul;
  semaphore kept;  // it lasts beyond the run
  const auto took = time_of_run(consul, [&kept](consul::client client) -> asio::awaitable<void> {
    kept = semaphore(client, of_one_slot_with_long_times());
    co_await use_once(kept);
    co_await kept.close(asio::use_awaitable);
  });
  BOOST_TEST((took < long_time / 2));
  BOOST_TEST(sessions_of(consul) == 0u);
}

BOOST_AUTO_TEST_CASE(at_once_when_the_semaphore_is_destroyed) {
  testing::server consul;
  const auto took = time_of_run(consul, [](consul::client client) -> asio::awaitable<void> {
    semaphore sem(client, of_one_slot_with_long_times());
    co_await use_once(sem);
  });
  BOOST_TEST((took < long_time / 2));
  BOOST_TEST(sessions_of(consul) == 0u);
}

BOOST_AUTO_TEST_CASE(when_the_session_has_been_idle_for_its_time) {
  testing::server consul;
  semaphore kept;
  const auto took = time_of_run(consul, [&kept](consul::client client) -> asio::awaitable<void> {
    semaphore_options options = of_one_slot();
    options.tuning.session_idle_timeout = 400ms;
    kept = semaphore(client, options);
    co_await use_once(kept);
  });
  BOOST_TEST((took >= 400ms));
  BOOST_TEST((took < 10s));  // the default of the idle time
  BOOST_TEST(sessions_of(consul) == 0u);
}

ASYNC_TEST_CASE(close_waits_for_a_slot_in_the_callers_own_hands, 10s) {
  testing::server consul;
  consul::client client(ex, consul.client_config());
  semaphore_options options = of_one_slot();
  options.tuning.give_up_after = 300ms;
  semaphore sem(client, options);
  slot held = co_await sem.acquire(asio::use_awaitable);
  const auto began = clock::now();
  co_await sem.close(asio::use_awaitable);
  BOOST_TEST((clock::now() - began >= 300ms));
  BOOST_TEST(!held.held());
  BOOST_TEST(sessions_of(consul) == 0u);
}

ASYNC_TEST_CASE(close_of_a_set_waits_for_a_lock_in_the_callers_own_hands, 10s) {
  testing::server consul;
  consul::client client(ex, consul.client_config());
  mutex_set_options options{"set"};
  options.tuning.give_up_after = 300ms;
  mutex_set set(client, options);
  held_mutex held = co_await set.try_lock("task", asio::use_awaitable);
  const auto began = clock::now();
  co_await set.close(asio::use_awaitable);
  BOOST_TEST((clock::now() - began >= 300ms));
  BOOST_TEST(!held.held());
  BOOST_TEST(sessions_of(consul) == 0u);
}

ASYNC_TEST_CASE(close_is_quick_when_the_slot_is_released_first, 10s) {
  testing::server consul;
  consul::client client(ex, config_with_long_times(consul));
  semaphore sem(client, of_one_slot_with_long_times());
  slot held = co_await sem.acquire(asio::use_awaitable);
  co_await held.release(asio::use_awaitable);
  const auto began = clock::now();
  co_await sem.close(asio::use_awaitable);
  BOOST_TEST((clock::now() - began < long_time / 2));
}

ASYNC_TEST_CASE(with_slot_gives_the_lock_of_a_set_as_a_held_mutex, 10s) {
  testing::server consul;
  consul::client client(ex, consul.client_config());
  mutex_set set(client, mutex_set_options{"set"});
  held_mutex lock = co_await set.try_lock("task", asio::use_awaitable);
  std::string key;
  auto body = [&key](held_mutex& held) -> asio::awaitable<void> {
    const sequencer its = co_await sequencer_of(held, asio::use_awaitable);
    key = its.key;
  };
  co_await with_slot(std::move(lock), body);
  BOOST_TEST(key == "set/task");
  held_mutex again = co_await set.try_lock("task", asio::use_awaitable);
  BOOST_TEST(again.held());
  auto of_slots = [](slot& held) -> asio::awaitable<void> {
    BOOST_TEST(held.held());
    co_return;
  };
  co_await with_slot(std::move(again), of_slots);
  co_await set.close(asio::use_awaitable);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
