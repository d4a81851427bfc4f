// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Acquires that complete within their initiating function. Only Boost 1.82 and later have immediate executors.

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/test/unit_test.hpp>
#include <boost/version.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <holdfast/local_store.hpp>
#include <holdfast/mutex_set.hpp>
#include <holdfast/semaphore.hpp>
#include <memory>
#include <optional>
#include <utility>

#if BOOST_VERSION >= 108200
#include <boost/asio/bind_immediate_executor.hpp>
#endif

#include "support/async.hpp"

BOOST_AUTO_TEST_SUITE(immediate_completion)

namespace {

using namespace holdfast;
namespace asio = boost::asio;
using namespace std::chrono_literals;

semaphore_options options(std::uint32_t limit) {
  semaphore_options its;
  its.prefix = "s";
  its.limit = limit;
  its.tuning.slot_idle_timeout = 1h;
  return its;
}

/// A semaphore that has a free slot in this process.
struct fixture {
  std::unique_ptr<asio::io_context> io = std::make_unique<asio::io_context>(1);
  const local_store store{*io};
  std::optional<semaphore> sem{std::in_place, store, options(1)};

  fixture() {
    take().release([](error_code) {});
    io->poll();
  }
  slot take() {
    slot got;
    sem->acquire([&](error_code, slot s) { got = std::move(s); });
    run_until([&] { return got.held(); });
    return got;
  }
  void run_until(const std::function<bool()>& done) const {
    io->restart();
    while (!done()) BOOST_REQUIRE(io->run_one_for(test::scaled(60s)) == 1u);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_handler_without_an_immediate_executor_is_posted, fixture) {
  bool called = false;
  sem->acquire([&](error_code, const slot&) { called = true; });
  BOOST_TEST(!called);
  BOOST_TEST(sem->statistics().held == 1u);  // the slot was free
  run_until([&] { return called; });
}

#if BOOST_VERSION >= 108200

namespace {

/// The system's executor calls a function at once, on any thread.
template <class Handler>
auto at_once(Handler handler) {
  return asio::bind_immediate_executor(asio::system_executor(), std::move(handler));
}

/// Whether another thread can use the semaphore while the calling thread waits. `other` must outlive the handler that
/// calls this, because its destructor waits for that thread.
bool is_usable_elsewhere(semaphore& sem, std::future<void>& other) {
  other = std::async(std::launch::async, [&] { sem.try_acquire([](error_code, const slot&) {}); });
  return other.wait_for(test::scaled(60s)) == std::future_status::ready;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_free_slot_completes_within_the_initiating_function, fixture) {
  slot got;
  sem->acquire(at_once([&](error_code ec, slot s) {
    BOOST_TEST(!ec);
    got = std::move(s);
  }));
  BOOST_TEST(got.held());
}

BOOST_FIXTURE_TEST_CASE(an_acquire_that_waits_is_posted, fixture) {
  slot held = take();
  bool called = false;
  sem->acquire(at_once([&](error_code, const slot&) { called = true; }));
  BOOST_TEST(!called);
  held.release([](error_code) {});
  BOOST_TEST(!called);  // a release calls nobody else's handler
  run_until([&] { return called; });
}

BOOST_FIXTURE_TEST_CASE(a_refusal_completes_within_the_initiating_function, fixture) {
  error_code refused;
  sem->close([](error_code) {});
  sem->acquire(at_once([&](error_code ec, const slot&) { refused = ec; }));
  BOOST_TEST(refused == error::closed);
  mutex_set set(store, {.prefix = "m"});
  error_code not_a_name;
  set.try_lock("", at_once([&](error_code ec, const held_mutex&) { not_a_name = ec; }));
  BOOST_TEST(static_cast<bool>(not_a_name));
}

BOOST_FIXTURE_TEST_CASE(a_handler_runs_on_its_own_executor, fixture) {
  asio::io_context other(1);
  bool called = false;
  sem->acquire(asio::bind_executor(other, at_once([&](error_code, const slot&) { called = true; })));
  io->poll();
  BOOST_TEST(!called);
  other.run();
  BOOST_TEST(called);
}

BOOST_FIXTURE_TEST_CASE(also_if_that_is_the_stores, fixture) {
  bool called = false;
  sem->acquire(asio::bind_executor(*io, at_once([&](error_code, const slot&) { called = true; })));
  BOOST_TEST(!called);  // this thread does not run the context
  run_until([&] { return called; });
}

BOOST_FIXTURE_TEST_CASE(an_immediate_executor_may_be_a_context, fixture) {
  asio::io_context other(1);
  bool called = false;
  sem->acquire(asio::bind_immediate_executor(other.get_executor(), [&](error_code, const slot&) { called = true; }));
  io->poll();
  BOOST_TEST(!called);
  other.run();
  BOOST_TEST(called);
}

BOOST_FIXTURE_TEST_CASE(no_lock_is_held_in_the_handler, fixture) {
  std::optional<bool> usable;
  std::future<void> other;
  sem->acquire(at_once([&](error_code, const slot&) { usable = is_usable_elsewhere(*sem, other); }));
  BOOST_TEST(usable.value_or(false));
}

BOOST_FIXTURE_TEST_CASE(no_lock_is_held_in_the_handler_of_a_refusal, fixture) {
  std::optional<bool> usable;
  std::future<void> other;
  sem->close([](error_code) {});
  sem->acquire(at_once([&](error_code, const slot&) { usable = is_usable_elsewhere(*sem, other); }));
  BOOST_TEST(usable.value_or(false));
}

BOOST_FIXTURE_TEST_CASE(the_handler_may_release_and_acquire_again, fixture) {
  int turns = 0;
  std::function<void()> next = [&] {
    sem->acquire(at_once([&](error_code ec, slot got) {
      BOOST_TEST(!ec);
      BOOST_TEST(got.held());
      got.release([](error_code) {});
      if (++turns < 10) next();
    }));
  };
  next();
  BOOST_TEST(turns == 10);
}

BOOST_FIXTURE_TEST_CASE(the_handler_may_destroy_the_semaphore_and_the_slot, fixture) {
  bool called = false;
  sem->acquire(at_once([&](error_code, slot got) {
    sem.reset();
    got = {};
    called = true;
  }));
  BOOST_TEST(called);
  io->run_for(test::scaled(10s));
  BOOST_TEST(io->stopped());  // nothing is pending
}

BOOST_FIXTURE_TEST_CASE(a_type_erased_handler_keeps_its_immediate_executor, fixture) {
  using erased = asio::any_completion_handler<void(error_code, slot)>;
  slot got;
  sem->acquire(erased(at_once([&](error_code, slot s) { got = std::move(s); })));
  BOOST_TEST(got.held());
  got.release([](error_code) {});
  bool called = false;
  sem->acquire(erased([&](error_code, const slot&) { called = true; }));
  BOOST_TEST(!called);
  run_until([&] { return called; });
}

BOOST_FIXTURE_TEST_CASE(after_the_context_every_handler_is_dropped, fixture) {
  const auto owned = std::make_shared<int>();
  const auto handler = [owned](error_code, const slot&) { BOOST_ERROR("it is called"); };
  io.reset();
  sem->acquire(at_once(handler));
  sem->acquire(asio::any_completion_handler<void(error_code, slot)>(handler));
  BOOST_TEST(owned.use_count() == 2);  // `owned` and `handler`
}

ASYNC_TEST_CASE(a_coroutine_goes_on_within_the_initiating_function, 20s) {
  const local_store store(ex);
  semaphore sem(store, options(1));
  slot first = co_await sem.acquire();
  co_await first.release();
  bool posted = false;
  asio::post(ex, [&] { posted = true; });
  for (int i = 0; i < 100; ++i) {
    auto [ec, got] = co_await sem.acquire(asio::bind_immediate_executor(ex, asio::as_tuple(asio::deferred)));
    BOOST_TEST(!ec);
    got.release([](error_code) {});
  }
  BOOST_TEST(!posted);
}

#endif

BOOST_AUTO_TEST_SUITE_END()
