// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The uses of a handler's own allocator: to keep the handler while it waits, and to deliver its result.

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <holdfast/mutex.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/testing/server.hpp>
#include <memory>
#include <utility>

#include "support/async.hpp"

using namespace holdfast;

BOOST_AUTO_TEST_SUITE(allocator)

namespace {

struct memory {
  std::size_t taken = 0, given_back = 0;
};

template <class T = void>
struct counting {
  using value_type = T;
  explicit counting(memory& of) noexcept : of_(&of) {}
  template <class Other>
  counting(const counting<Other>& other) noexcept : of_(other.of_) {}
  T* allocate(std::size_t n) {
    ++of_->taken;
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* at, std::size_t n) noexcept {
    ++of_->given_back;
    std::allocator<T>().deallocate(at, n);
  }
  template <class Other>
  bool operator==(const counting<Other>& other) const noexcept {
    return of_ == other.of_;
  }
  memory* of_;
};

/// A semaphore's client on a context that this thread runs, and a fake Consul on another.
struct fixture {
  testing::server fake;
  asio::io_context io;
  consul::client client{io, fake.client_config()};
  memory used;

  template <class Handler>
  auto with_memory(Handler handler) {
    return asio::bind_allocator(counting<>(used), std::move(handler));
  }
  void run_until(const bool& done) {
    while (!done) BOOST_REQUIRE(io.run_one_for(test::scaled(std::chrono::seconds(10))) == 1u);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(keeps_a_handler_and_brings_it_its_slot, fixture) {
  semaphore sem(client, {.prefix = "allocator", .limit = 1});
  bool done = false;
  slot got;
  sem.acquire(with_memory([&](error_code ec, slot s) {
    BOOST_TEST(used.given_back == used.taken);  // before it is called, so that it can be used again
    done = !ec;
    got = std::move(s);
  }));
  BOOST_TEST(used.taken == 1u);  // the handler waits
  run_until(done);
  BOOST_TEST(got.held());
  BOOST_TEST(used.taken == 1u);
  BOOST_TEST(used.given_back == 1u);
}

BOOST_FIXTURE_TEST_CASE(brings_what_a_mutex_completes_with, fixture) {
  mutex m(client, {.key = "allocator"});
  bool done = false;
  held_mutex got;
  m.lock(with_memory([&](error_code ec, held_mutex held) {
    done = !ec;
    got = std::move(held);
  }));
  run_until(done);
  BOOST_TEST(used.taken == 1u);

  bool released = false;
  got.release(with_memory([&](error_code ec) { released = !ec; }));
  run_until(released);
  BOOST_TEST(used.taken == 2u);
  BOOST_TEST(used.given_back == 2u);
}

BOOST_FIXTURE_TEST_CASE(brings_the_answer_of_a_request, fixture) {
  bool done = false;
  client.put("allocator", "1", with_memory([&](error_code ec, bool) {
               BOOST_TEST(used.given_back == used.taken);
               done = !ec;
             }));
  BOOST_TEST(used.taken == 1u);
  run_until(done);
  BOOST_TEST(used.taken == 1u);
}

BOOST_AUTO_TEST_CASE(gets_it_back_from_a_context_that_goes) {
  memory used;
  {
    fixture f;
    semaphore sem(f.client, {.prefix = "allocator", .limit = 1});
    sem.close(asio::bind_allocator(counting<>(used), [](error_code) {}));  // posted, and never called
    sem.acquire(asio::bind_allocator(counting<>(used), [](error_code, slot) {}));
    BOOST_TEST(used.taken == 2u);
  }
  BOOST_TEST(used.given_back == used.taken);
}

BOOST_AUTO_TEST_SUITE_END()
