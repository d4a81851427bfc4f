// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Each allocation of the life of a lock fails once. An initiating function either throws and forgets its handler, or
// the handler is called once. Nothing waits for ever.

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <holdfast/local_store.hpp>
#include <holdfast/log_event.hpp>
#include <holdfast/semaphore.hpp>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "support/async.hpp"
#include "support/every_operation.hpp"

namespace {

constexpr long never = -1;
thread_local long allocations_left = never;  ///< until one fails

void* allocate(std::size_t size) {
  const bool fails = allocations_left == 0;
  if (allocations_left >= 0) --allocations_left;  // `never` comes after 0
  void* const memory = fails ? nullptr : std::malloc(size);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return allocate(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

BOOST_AUTO_TEST_SUITE(exhausted_memory)

namespace {

using namespace holdfast;
namespace every = test::every;
namespace data = boost::unit_test::data;
namespace asio = boost::asio;
using namespace std::chrono_literals;

semaphore_options options() {
  semaphore_options its;
  its.prefix = "s";
  its.limit = 1;
  return its;
}

/// An operation, and what has become of its handler.
struct fate {
  bool has_thrown = false;
  int calls = 0;
  std::shared_ptr<int> handler = std::make_shared<int>();
  bool is_over() const { return has_thrown || calls > 0; }
};

class life {
public:
  explicit life(long allocations) {
    fates_.reserve(20);
    for (int i = 0; i < 20; ++i) fates_.emplace_back();
    allocations_left = allocations;
    lead();
    has_failed_ = allocations_left == never;
    allocations_left = never;
    sem_.reset();
    for (const fate& each : fates_) BOOST_TEST(each.calls <= (each.has_thrown ? 0 : 1));
    io_.restart();
    io_.poll();
  }
  ~life() {
    for (const fate& each : fates_) BOOST_TEST(each.handler.use_count() == 1);
  }
  life(const life&) = delete;
  life& operator=(const life&) = delete;

  bool has_failed() const { return has_failed_; }

private:
  void lead() {
    slot held, next;
    fate& first = acquire(held);
    fate& second = acquire(next);
    wait_for(first);
    fate& loss = begin([&](auto handler) { held.wait_lost(std::move(handler)); });
    fate& released = begin([&](auto handler) { held.release(std::move(handler)); });
    wait_for(released);
    wait_for(loss);
    wait_for(second);
    std::stop_token stop;
    try {
      stop = next.stop_token();
      // NOLINTNEXTLINE(bugprone-empty-catch): it is the allocation that was to fail
    } catch (const std::bad_alloc&) {
    }
    fate& lost = begin([&](auto handler) { next.wait_lost(std::move(handler)); });
    const long left = std::exchange(allocations_left, never);
    store_.end_sessions();  // the server's memory does not run out
    allocations_left = left;
    fate& waits = acquire(held);
    wait_for(waits);
    held = {};
    next = {};
    wait_for(lost);
    fate& closed = begin([&](auto handler) { sem_->close(std::move(handler)); });
    wait_for(closed);
  }
  fate& acquire(slot& into) {
    return begin([&](auto handler) {
      sem_->acquire([handler, &into](error_code ec, slot got) mutable {
        into = std::move(got);
        handler(ec);
      });
    });
  }
  template <class Begin>
  fate& begin(Begin how) {
    fate& its = fates_.at(begun_++);
    try {
      auto handler = [&its, kept = its.handler](auto&&...) { ++its.calls; };
      how(asio::bind_executor(io_.get_executor(), std::move(handler)));
    } catch (const std::bad_alloc&) {
      its.has_thrown = true;
    }
    return its;
  }
  void wait_for(const fate& its) {
    while (!its.is_over()) {
      try {
        io_.restart();
        BOOST_REQUIRE(io_.run_one_for(test::scaled(60s)) == 1u);
        // NOLINTNEXTLINE(bugprone-empty-catch): it is the allocation that was to fail
      } catch (const std::bad_alloc&) {
      }
    }
  }

  std::vector<fate> fates_{};
  std::size_t begun_ = 0;
  bool has_failed_ = false;
  asio::io_context io_{1};
  local_store store_{io_};
  std::optional<semaphore> sem_{std::in_place, store_, options()};
};

}  // namespace

/// How an operation has ended.
enum class end { thrown, called, dropped, nothing_failed };

/// Runs the operation to its end. Its allocation after `allocations` others fails.
end with_a_failed_allocation(const every::scene& of, bool elsewhere, long allocations) {
  every::world w(of.on_consul, 100ms);
  if (!elsewhere) w.app.reset();
  (w.*of.what.needs)();
  bool has_thrown = false;
  allocations_left = allocations;
  try {
    of.what.begin(w);
  } catch (const std::bad_alloc&) {
    has_thrown = true;
  }
  if (has_thrown) BOOST_TEST(w.handler.use_count() == 1);
  const auto is_over = [&] { return w.called != 0 || w.handler.use_count() == 1; };
  bool is_cancelled = false;
  const auto cancel = [&] {
    is_cancelled = true;
    try {
      w.stop.emit(asio::cancellation_type::terminal);
    } catch (const std::bad_alloc&) {
      w.stop.emit(asio::cancellation_type::terminal);
    }
  };
  if (of.what.waits) cancel();
  while (!is_over()) {
    try {
      w.own->restart();
      bool has_run = w.own->run_one_for(is_cancelled ? test::scaled(60s) : 100ms) == 1u;
      if (w.app) w.app->restart();
      if (w.app && w.app->poll() > 0) has_run = true;
      // After a request with an unknown outcome, a contender may wait until a session has ended by its TTL.
      if (!has_run && !std::exchange(is_cancelled, true)) {
        cancel();
      } else {
        BOOST_REQUIRE(has_run);
      }
      // NOLINTNEXTLINE(bugprone-empty-catch): it is the allocation that was to fail
    } catch (const std::bad_alloc&) {
    }
  }
  const bool nothing_failed = allocations_left != never;
  allocations_left = never;
  BOOST_TEST(w.called <= (has_thrown ? 0 : 1));
  w.own.reset();
  w.app.reset();
  BOOST_TEST(w.called <= (has_thrown ? 0 : 1));
  BOOST_TEST(w.handler.use_count() == 1);
  return nothing_failed ? end::nothing_failed : has_thrown ? end::thrown : w.called ? end::called : end::dropped;
}

/// Every other handler runs on another context than the client's. With $HOLDFAST_ALL_ALLOCATIONS each does both.
BOOST_DATA_TEST_CASE(each_allocation_of_each_operation_fails_once, data::make(every::scenes(true)), of) {
  const bool all = std::getenv("HOLDFAST_ALL_ALLOCATIONS") != nullptr;
  const long step = all || !test::is_slow_build() ? 1 : 3;
  int thrown = 0;
  int called = 0;
  for (const bool first : {false, true}) {
    if (first && !all) break;
    for (long at = 0;; at += step) {
      const end how = with_a_failed_allocation(of, (at % 2 != 0) != first, at);
      if (how == end::nothing_failed) break;
      ++(how == end::thrown ? thrown : called);
      BOOST_TEST((how != end::dropped), "allocation " << at << ": the handler was destroyed without being called");
    }
  }
  BOOST_TEST(thrown + called > 0);
  BOOST_TEST_MESSAGE(of << ": " << thrown << " have thrown, " << called << " were called");
}

BOOST_AUTO_TEST_CASE(each_allocation_fails_once) {
  long count = 0;
  while (life(count).has_failed()) ++count;
  BOOST_TEST(count > 100);
  BOOST_TEST_MESSAGE(count << " allocations");
}

BOOST_AUTO_TEST_SUITE_END()
