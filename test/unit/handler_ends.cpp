// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Handlers that are destroyed without being called. Their destructors may wait for other threads, which may use the
// same lock or the same context. So no lock of the library may be held meanwhile.

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <holdfast/local_store.hpp>
#include <holdfast/mutex.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "support/async.hpp"

BOOST_AUTO_TEST_SUITE(handler_ends)

namespace {

using namespace holdfast;
namespace asio = boost::asio;
using namespace std::chrono_literals;

/// Does something on another thread when the last copy of its handler is destroyed, and waits for it.
class waits_when_destroyed {
public:
  explicit waits_when_destroyed(std::function<void()> what) : what_(std::move(what)) {}
  /// Must be called before the objects are destroyed that `what` uses.
  bool has_waited_long_enough() {
    const bool done = done_within_time_;
    if (other_.valid()) other_.wait();
    return done;
  }
  /// An object for the handler to own.
  std::shared_ptr<void> mark() {
    return {nullptr, [this](void*) {
              other_ = std::async(std::launch::async, what_);
              done_within_time_ = other_.wait_for(test::scaled(5s)) == std::future_status::ready;
            }};
  }

private:
  const std::function<void()> what_;
  std::future<void> other_;
  bool done_within_time_ = false;
};

held_mutex lock(asio::io_context& io, mutex& m) {
  held_mutex got;
  m.lock([&](error_code, held_mutex its) { got = std::move(its); });
  while (!got.held()) BOOST_REQUIRE(io.run_one_for(test::scaled(10s)) == 1u);
  return got;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_release_that_waits_when_its_context_is_destroyed) {
  auto io = std::make_unique<asio::io_context>(1);
  const local_store store(*io);
  mutex m(store, {.key = "m"});
  std::optional<mutex> other(std::in_place, store, mutex_options{.key = "other"});
  held_mutex held = lock(*io, m);
  waits_when_destroyed end([&] { other.reset(); });
  held.release([mark = end.mark()](error_code) {});
  io.reset();
  BOOST_TEST(end.has_waited_long_enough());
}

BOOST_AUTO_TEST_SUITE_END()
