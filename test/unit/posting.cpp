// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Executors that throw when a completion is posted to them, and exhausted allocators of handlers. The handler of that
// completion is destroyed without being called, and all other users of the lock can use it as before. (If the executor
// of an Asio strand throws, the strand runs no more functions. The requests of a lock then end by their deadlines.)

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <holdfast/local_store.hpp>
#include <holdfast/semaphore.hpp>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <utility>

#include "support/async.hpp"

BOOST_AUTO_TEST_SUITE(posting)

namespace {

using namespace holdfast;
namespace asio = boost::asio;
using namespace std::chrono_literals;

/// An executor of an io_context that throws as many times as `failures` says.
class fragile_executor {
public:
  fragile_executor(asio::any_io_executor usual, long& failures)
      : usual_(asio::require(std::move(usual), asio::execution::blocking.never)), failures_(&failures) {}

  asio::execution_context& query(asio::execution::context_t) const noexcept {
    return asio::query(usual_, asio::execution::context);
  }
  template <class Work>
    requires std::convertible_to<Work, asio::execution::outstanding_work_t>
  fragile_executor require(Work work) const {
    return {asio::prefer(usual_, work), *failures_};
  }
  static constexpr asio::execution::blocking_t query(asio::execution::blocking_t) noexcept {
    return asio::execution::blocking.never;
  }
  template <class Function>
  void execute(Function&& function) const {
    if (*failures_ > 0) {
      --*failures_;
      throw std::bad_alloc();
    }
    usual_.execute(std::forward<Function>(function));
  }
  bool operator==(const fragile_executor&) const noexcept = default;

private:
  asio::any_io_executor usual_;
  long* failures_;
};

/// Fails while `is_exhausted`.
template <class T>
struct limited_allocator {
  using value_type = T;

  explicit limited_allocator(const bool& is_exhausted) : exhausted(&is_exhausted) {}
  template <class Other>
  limited_allocator(const limited_allocator<Other>& other) noexcept : exhausted(other.exhausted) {}
  T* allocate(std::size_t count) {
    if (*exhausted) throw std::bad_alloc();
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* memory, std::size_t count) noexcept { std::allocator<T>().deallocate(memory, count); }
  template <class Other>
  bool operator==(const limited_allocator<Other>& other) const noexcept {
    return exhausted == other.exhausted;
  }

  const bool* exhausted;
};

semaphore_options options() {
  semaphore_options its;
  its.prefix = "s";
  its.limit = 1;
  its.session_ttl = 24h;  // nothing is renewed while a test starts many operations, and a sanitizer makes that slow
  return its;
}

struct fixture {
  long failures = 0;
  bool is_exhausted = false;
  asio::io_context io{1};
  local_store store{asio::any_io_executor(fragile_executor(io.get_executor(), failures))};
  std::optional<semaphore> sem{std::in_place, store, options()};

  void run_until(const std::function<bool()>& done) {
    io.restart();
    while (!done()) BOOST_REQUIRE(io.run_one_for(test::scaled(60s)) == 1u);
  }
  slot take() {
    slot got;
    sem->acquire([&](error_code, slot its) { got = std::move(its); });
    run_until([&] { return got.held(); });
    return got;
  }
  /// Calls the function while nothing can be posted.
  template <class Function>
  void broken(Function function) {
    failures = std::numeric_limits<long>::max();
    function();
    failures = 0;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_grant_that_cannot_be_posted_goes_to_the_next, fixture) {
  slot held = take();
  const auto first = std::make_shared<int>();
  sem->acquire([first](error_code, const slot&) { BOOST_ERROR("it is called"); });
  BOOST_TEST(sem->statistics().waiting == 1u);
  failures = 1;
  held = {};
  BOOST_TEST(failures == 0);
  BOOST_TEST(first.use_count() == 1);
  BOOST_TEST(sem->statistics().waiting == 0u);
  BOOST_TEST(take().held());
}

BOOST_FIXTURE_TEST_CASE(nor_can_those_of_many_others, fixture) {
  constexpr long count = 50'000;  // nested calls of their destructors would overflow the stack
  slot held = take();
  const auto all = std::make_shared<int>();
  for (long i = 0; i < count; ++i) sem->acquire([all](error_code, const slot&) { BOOST_ERROR("it is called"); });
  BOOST_TEST(all.use_count() == count + 1);
  broken([&] { held = {}; });
  BOOST_TEST(all.use_count() == 1);
  BOOST_TEST(sem->statistics().waiting == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_handler_that_is_dropped_may_use_the_semaphore, fixture) {
  slot held = take();
  std::shared_ptr<void> uses_it(nullptr, [this](void*) {
    BOOST_TEST(sem->statistics().held == 0u);
    sem->close([](error_code) {});
  });
  held.wait_lost([uses_it = std::move(uses_it)](error_code, loss_reason) { BOOST_ERROR("it is called"); });
  broken([&] { held = {}; });
  error_code ended;
  sem->acquire([&](error_code ec, const slot&) { ended = ec; });
  run_until([&] { return ended == error::closed; });
}

BOOST_FIXTURE_TEST_CASE(a_loss_and_a_close_that_cannot_be_posted, fixture) {
  slot held = take();
  const auto owned = std::make_shared<int>();
  const std::stop_callback stops(held.stop_token(), [] { BOOST_ERROR("it is called"); });
  held.wait_lost([owned](error_code, loss_reason) { BOOST_ERROR("it is called"); });
  int closed = 0;
  broken([&] {
    sem->close([&closed](error_code) { ++closed; });
    io.restart();
    io.poll();
  });
  BOOST_TEST(!held.held());
  BOOST_TEST(owned.use_count() == 1);
  sem->close([&closed](error_code) { ++closed; });
  run_until([&] { return closed == 2; });  // both wait until the session has ended
}

BOOST_FIXTURE_TEST_CASE(an_allocator_that_is_exhausted_after_the_acquire_began, fixture) {
  const local_store usual{io};  // it posts to the io_context itself
  sem.emplace(usual, options());
  slot held = take();
  bool granted = false;
  sem->acquire(asio::bind_allocator(limited_allocator<void>(is_exhausted), [&](error_code ec, slot got) {
    BOOST_TEST(!ec);
    granted = got.held();
  }));
  is_exhausted = true;
  held = {};
  run_until([&] { return granted; });
}

BOOST_FIXTURE_TEST_CASE(an_allocator_that_is_exhausted_before, fixture) {
  is_exhausted = true;
  const auto owned = std::make_shared<int>();
  const auto acquire = [&] {
    sem->acquire(asio::bind_allocator(limited_allocator<void>(is_exhausted),
                                      [owned](error_code, const slot&) { BOOST_ERROR("it is called"); }));
  };
  BOOST_CHECK_THROW(acquire(), std::bad_alloc);
  BOOST_TEST(owned.use_count() == 1);
  BOOST_TEST(take().held());
}

BOOST_AUTO_TEST_SUITE_END()
